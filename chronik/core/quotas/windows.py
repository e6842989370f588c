"""How a rate is measured: over the last few windows, as Kafka's `Rate` does, or with a bucket of tokens (KIP-599)."""

from __future__ import annotations

from collections import deque

_NOTHING = 1e-9  # what adding up fractions may be off by


class RateWindows:
    """What was taken in the last `count` windows of `window_ms`. A window begins with what falls into it first.

    The rate is that over all windows but one, at least: who has taken nothing for a while may take that much at once.
    """

    __slots__ = ("_count", "_total", "_window_ms", "_windows", "used_at_ms")

    def __init__(self, count: int, window_ms: int) -> None:
        self._count = count
        self._window_ms = window_ms
        self._windows: deque[list[float]] = deque()  # of each: when it began, when something was last taken, how much
        self._total = 0.0
        self.used_at_ms = 0

    @property
    def kept_ms(self) -> int:
        return self._count * self._window_ms

    def record(self, amount: float, now_ms: int) -> None:
        self.used_at_ms = now_ms
        self._forget(now_ms)
        windows = self._windows
        if windows and now_ms - windows[-1][0] < self._window_ms:
            windows[-1][1] = now_ms
            windows[-1][2] += amount
        else:
            windows.append([now_ms, now_ms, amount])
        self._total += amount

    def take_back(self, amount: float) -> None:
        """It was recorded just now, and does not go after all."""
        self._windows[-1][2] -= amount
        self._total -= amount

    def is_empty(self, now_ms: int) -> bool:
        self._forget(now_ms)
        return self._total <= 0

    def wait_ms(self, limit: float, now_ms: int) -> int:
        """How long until the rate is not above the limit; 0: it is not."""
        self._forget(now_ms)
        if limit <= 0:
            return self.kept_ms
        measured_ms = self._measured_ms(now_ms)
        over = self._total * 1000 / measured_ms - limit
        return max(0, round(over / limit * measured_ms)) if over > 0 else 0

    def _measured_ms(self, now_ms: int) -> float:
        # Kafka adds whole windows that are missing to what has elapsed, so what it measures jumps down by a window
        # whenever one is full, and with few windows its clients get well below what they may take.
        elapsed_ms = now_ms - self._windows[0][0] if self._windows else 0
        return max(1, elapsed_ms, (self._count - 1) * self._window_ms)

    def _forget(self, now_ms: int) -> None:
        windows = self._windows
        while windows and now_ms - windows[0][1] >= self._count * self._window_ms:
            self._total -= windows.popleft()[2]
        if not windows:
            self._total = 0.0  # what floating point numbers leave over


class TokenBucket:
    """Fills at a rate, up to what comes in all windows. One may take more than is in it, and then waits till it is not
    below zero."""

    __slots__ = ("_filled_at_ms", "_span_s", "_tokens", "used_at_ms")

    def __init__(self, count: int, window_ms: int) -> None:
        self._span_s = count * window_ms / 1000
        self._tokens: float | None = None  # full
        self._filled_at_ms = 0
        self.used_at_ms = 0

    @property
    def kept_ms(self) -> int:
        return int(self._span_s * 1000)

    def wait_ms(self, limit: float, now_ms: int) -> int:
        tokens = self._fill(limit, now_ms)
        return max(1, round(-tokens / limit * 1000)) if tokens < -_NOTHING else 0

    def take(self, amount: float, limit: float, now_ms: int) -> None:
        self._tokens = self._fill(limit, now_ms) - amount
        self.used_at_ms = now_ms

    def _fill(self, limit: float, now_ms: int) -> float:
        most = limit * self._span_s
        if self._tokens is None:
            self._tokens = most
        else:
            self._tokens = min(most, self._tokens + (now_ms - self._filled_at_ms) / 1000 * limit)
        self._filled_at_ms = now_ms
        return self._tokens
