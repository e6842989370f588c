"""How long work tells its progress to whatever shows it: a terminal, a page, or nothing."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Protocol


class Reporter(Protocol):
    def progress(self, description: str, total: int | None, unit: str) -> AbstractContextManager[Callable[[int], None]]:
        """A bar that the caller moves by calling what it is given with a number of steps."""

    def note(self, text: str) -> None:
        """A remark for a person."""


class SilentReporter:
    """Shows nothing."""

    def progress(self, description: str, total: int | None, unit: str) -> AbstractContextManager[Callable[[int], None]]:
        return nullcontext(lambda step: None)

    def note(self, text: str) -> None:
        pass
