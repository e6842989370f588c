"""What the bytes of records say: raw, JSON, CSV or Avro, and which rows are bad."""
