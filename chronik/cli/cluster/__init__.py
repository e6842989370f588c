"""`chronik cluster`: nodes on this machine."""
