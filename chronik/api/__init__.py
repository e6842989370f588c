"""One module per Kafka request; the listing is what the node speaks."""
