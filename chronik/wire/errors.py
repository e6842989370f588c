"""What can be wrong with the bytes of a request."""

from __future__ import annotations


class Malformed(Exception):
    """Bytes that are not a request: the connection is closed, because where the next one begins is not known."""


class ImpossibleSize(Malformed):
    """What follows `frames`, the requests that came whole before it, has a size that no request has."""

    def __init__(self, message: str, frames: list[memoryview]) -> None:
        super().__init__(message)
        self.frames = frames
