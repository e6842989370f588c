"""What ends a run before its end: bad input, a cluster that cannot be used, or a user who ends it."""

from __future__ import annotations


class RunCannotStart(Exception):
    """Nothing was verified. The command line prints it and exits with 2."""

    def __init__(self, message: str, hint: str | None = None) -> None:
        super().__init__(message if hint is None else f"{message}; {hint}")
        self.message = message
        self.hint = hint


class Stopped(Exception):
    """The user does not want to wait for the end of the run."""
