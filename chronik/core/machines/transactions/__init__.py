"""The transactions of one partition of `__transaction_state`: decided, applied, kept in Kafka's records."""
