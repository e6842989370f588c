"""Data at rest and in bulk, on Spark: a source and a sink for topics. See docs/pipeline.md.

Nothing here is imported by the rest of the house: it needs the `spark` extra.
"""
