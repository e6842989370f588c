"""Tables that are filled batch by batch, each batch once: Delta, Iceberg and plain Parquet."""
