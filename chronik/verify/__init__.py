"""The delivery check: real clients produce and consume, and every message is accounted for."""
