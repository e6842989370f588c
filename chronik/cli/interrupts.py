"""Ctrl-C and SIGTERM as a wish to end, heard between two messages, so that none is half counted or half committed."""

from __future__ import annotations

import signal
from types import FrameType
from typing import BinaryIO


class Interrupts:
    """After `listen`, the first signal sets `is_ending`; a second one ends the program at once."""

    def __init__(self) -> None:
        self.is_ending = False
        self._is_reading = False

    def listen(self) -> None:
        signal.signal(signal.SIGINT, self._heard)
        signal.signal(signal.SIGTERM, self._heard)

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
