"""What ends a run before it has begun: bad input, or a cluster that cannot be used. The message says what to do."""

from __future__ import annotations


class CannotRun(Exception):
    """Nothing was verified. The command line prints it and exits with 2."""

    def __init__(self, message: str, hint: str | None = None) -> None:
        super().__init__(message if hint is None else f"{message}; {hint}")
        self.message = message
        self.hint = hint
