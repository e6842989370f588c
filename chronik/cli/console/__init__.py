"""`chronik console`: the web console."""
