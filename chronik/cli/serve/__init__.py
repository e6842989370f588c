"""`chronik serve`: one node in this process."""
