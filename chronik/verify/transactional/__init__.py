"""`chronik verify --transactional`: messages in transactions, some aborted; and a copy that must equal its input."""
