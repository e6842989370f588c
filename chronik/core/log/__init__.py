"""A partition's log on disk, in Kafka's format: store in index in segment in log."""
