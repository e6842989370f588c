"""What can be wrong with the bytes of a request."""

from __future__ import annotations


class Malformed(Exception):
    """Bytes that are not a request: the connection is closed, because where the next one begins is not known."""
