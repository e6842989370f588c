"""Whether messages keep coming: each time that none came for five seconds is a stall."""

from __future__ import annotations

from dataclasses import dataclass

STALL_S = 5.0


@dataclass(frozen=True)
class Stall:
    """No acknowledgement while producing, or no message while consuming."""

    phase: str
    at_s: float
    """When it began, in seconds since the run did."""
    seconds: float
    after: int
    """How many there had been until then."""


class Pulse:
    """It is called each time that something came. It has no clock of its own."""

    def __init__(self, phase: str, began_s: float) -> None:
        self.phase = phase
        self.last_s = began_s
        self.first_s: float | None = None
        self.count = 0
        self.stalls: list[Stall] = []

    def beat(self, now_s: float, count: int = 1) -> None:
        if now_s - self.last_s >= STALL_S:
            self._stalled(now_s)
        if self.first_s is None:
            self.first_s = now_s
        self.last_s = now_s
        self.count += count

    def end(self, now_s: float) -> None:
        """It is over, and something was still to come."""
        if now_s - self.last_s >= STALL_S:
            self._stalled(now_s)

    def quiet_s(self, now_s: float) -> float:
        return max(now_s - self.last_s, 0.0)

    def _stalled(self, now_s: float) -> None:
        self.stalls.append(Stall(self.phase, self.last_s, now_s - self.last_s, self.count))
