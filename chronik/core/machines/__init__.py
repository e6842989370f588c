"""State machines over logs: decide reads, apply writes. They do not know each other."""
