"""Settings under Kafka's names: what there is, what it may be, and where a value comes from."""
