"""DataFrames to DataFrames: nothing here reads, writes, collects, caches or sets anything."""
