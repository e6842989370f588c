"""`chronik verify`: the delivery check."""
