"""Asks the nodes again and again, on a thread of its own: a node that hangs must not hang the terminal."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, replace

from chronik.client.request import NoAnswer
from chronik.inspect.live_model import ClusterSnapshot, LiveView, RateHistory

Look = Callable[[], ClusterSnapshot]
PAUSE_S_MIN = 0.05


@dataclass(frozen=True)
class Away:
    """Nothing answers; it goes on being tried."""

    problem: NoAnswer
    since_s: float


@dataclass(frozen=True)
class Broken:
    """A fault of ours: watching is over."""

    error: Exception


Seen = LiveView | Away | Broken


class Eye:
    """Looks once an interval and tells what it saw, until it is closed."""

    def __init__(self, look: Look, interval_s: float, history: RateHistory | None = None) -> None:
        self._look = look
        self._interval_s = interval_s
        self._history = history or RateHistory()
        self._closing = threading.Event()
        self._away_since_s: float | None = None

    def open(self, tell: Callable[[Seen], object]) -> None:
        # A daemon: who quits while a node hangs does not wait for its answer.
        threading.Thread(target=self._watch, args=(tell,), name="chronik-watch", daemon=True).start()

    def close(self) -> None:
        self._closing.set()

    def pause(self) -> None:
        """As long as between two looks."""
        self._closing.wait(self._interval_s)

    def _watch(self, tell: Callable[[Seen], object]) -> None:
        while not self._closing.is_set():
            begun_s = time.monotonic()
            seen = self.see()
            tell(seen)
            if isinstance(seen, Broken):
                return
            self._closing.wait(max(self._interval_s - (time.monotonic() - begun_s), PAUSE_S_MIN))

    def see(self) -> Seen:
        """One look."""
        begun_s = time.monotonic()
        try:
            snapshot = self._look()
            self._away_since_s = None
            return replace(self._history.take(snapshot), took_s=time.monotonic() - begun_s)
        except NoAnswer as problem:
            now_s = time.monotonic()
            if self._away_since_s is None:
                self._away_since_s = now_s
            return Away(problem, now_s - self._away_since_s)
        except Exception as fault:  # reported, and raised where the terminal is whole again
            return Broken(fault)
