"""Ctrl-C, SIGTERM and a closed terminal as a wish to end, heard between two messages, so that none is half counted or
half committed."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Iterator
from types import FrameType
from typing import BinaryIO, Self

ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Interrupts:
    """After `listen`, the first signal sets `is_ending`; a second one ends the program at once."""

    def __init__(self) -> None:
        self.is_ending = False
        self._is_reading = False

    def listen(self) -> None:
        for number in ENDING:
            is_nohup = number == signal.SIGHUP and signal.getsignal(number) is signal.SIG_IGN
            if not is_nohup:  # with `nohup` it is to outlive the terminal
                signal.signal(number, self._heard)

    @contextlib.contextmanager
    def listening(self) -> Iterator[Self]:
        """For a while only: afterwards signals do what they did before."""
        before = {number: signal.getsignal(number) for number in ENDING}
        self.listen()
        try:
            yield self
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def read_line(self, lines: BinaryIO) -> bytes:
        """The next line, empty at the end or when it is time to end: only this wait is broken off."""
        if self.is_ending:
            return b""
        try:
            self._is_reading = True
            return lines.readline()
        except KeyboardInterrupt:
            return b""
        finally:
            self._is_reading = False

    def _heard(self, number: int, frame: FrameType | None) -> None:
        self.is_ending = True
        signal.signal(number, signal.default_int_handler)
        if self._is_reading:
            raise KeyboardInterrupt
