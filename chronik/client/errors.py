"""The one error of the command line: what is wrong, and what to do about it. `main` prints it and exits with 2."""

from __future__ import annotations


class ChronikError(Exception):
    """Shown to the user in one line: `message; hint`."""

    def __init__(self, message: str, hint: str | None = None) -> None:
        super().__init__(message if hint is None else f"{message}; {hint}")
        self.message = message
        self.hint = hint


class RefusedByNode(ChronikError):
    """A node's answer to a request was an error; `code` is Kafka's number for it."""

    def __init__(self, code: int, message: str, hint: str | None = None) -> None:
        super().__init__(message, hint)
        self.code = code
