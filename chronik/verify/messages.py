"""A run's messages: each has its number in it, and the run's mark, so that those of others are not counted."""

from __future__ import annotations

DIGITS = 10
FOREIGN = -1


class Messages:
    """Readable, so that a topic can be looked at with any consumer: `verify 3f9a1c2e number 0000004711 ....`."""

    def __init__(self, mark: str, value_bytes: int) -> None:
        self._prefix = f"verify {mark} number ".encode()
        self._begin = len(self._prefix)
        self._end = self._begin + DIGITS
        self._padding = b" " + b"." * (value_bytes - self._end - 1) if value_bytes > self._end + 1 else b""

    def value(self, number: int) -> bytes:
        return b"%b%010d%b" % (self._prefix, number, self._padding)

    def number(self, value: bytes | None) -> int:
        """FOREIGN for what is not of this run."""
        if value is None or not value.startswith(self._prefix):
            return FOREIGN
        digits = value[self._begin : self._end]
        return int(digits) if len(digits) == DIGITS and digits.isdigit() else FOREIGN
