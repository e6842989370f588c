"""`chronik trace`: the trace switched, followed and shown."""
