"""Bytes to messages and back. Versions vanish here."""
