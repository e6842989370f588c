"""Looks at a run from a thread beside it: how far it is, and what the nodes say when nothing comes any more."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

from chronik.client.request import NoAnswer
from chronik.inspect.trace_history import TraceHistory
from chronik.trace.events import AnyEvent
from chronik.trace.stalls import find
from chronik.trace.verdicts import Verdict
from chronik.verify.ledger import Seconds
from chronik.verify.pulse import STALL_S, Pulse

TICK_S = 0.1
LOOK_S = 5.0

OnProgress = Callable[[str, int, int], None]
"""It is given the phase, how many are done, and of how many."""


class ClusterObserver:
    """`gathering` is None where there is no node to ask: another Kafka than ours."""

    def __init__(
        self, gathering: TraceHistory | None, topic: str, group: str | None, seconds: Seconds, on_progress: OnProgress
    ) -> None:
        self.events: Sequence[AnyEvent] | None = None
        """What was traced, as of the last look; None: nothing was, or not all of it has come."""
        self._verdicts: dict[tuple[str, int], Verdict] = {}
        self._gathering = gathering
        self._topic = topic
        self._group = group
        self._seconds = seconds
        self._on_progress = on_progress
        self._looking = threading.Lock()
        self._watched: tuple[Pulse, Callable[[], int], int] | None = None
        self._looked_s = 0.0
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="verify-observer", daemon=True)

    @property
    def verdicts(self) -> list[Verdict]:
        """What stalled, in the order in which it was first seen."""
        return list(self._verdicts.values())

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._ended.set()
        self._thread.join()

    def watch(self, pulse: Pulse, done: Callable[[], int], total: int) -> None:
        """From now on this is what matters."""
        self._watched = (pulse, done, total)

    def rest(self) -> None:
        """Nothing is expected to come just now."""
        if self._watched is not None:
            pulse, done, total = self._watched
            self._on_progress(pulse.phase, done(), total)
        self._watched = None

    def look(self) -> None:
        """What the nodes say now. That none answers is no finding: they may be what is wrong."""
        if self._gathering is None:
            return
        with self._looking:
            self._looked_s = self._seconds()
            try:
                events, now_us = self._gathering.look(LOOK_S)
            except NoAnswer:
                return
            # What a node that did not answer gave to the consumer is not among the events.
            is_all_told = not self._gathering.unheard and self._topic not in self._gathering.untraced
            self.events = events if is_all_told else None
            for verdict in find(events, now_us):
                if self._is_ours(verdict):
                    self._verdicts[verdict.cause, verdict.partition] = verdict

    def _is_ours(self, verdict: Verdict) -> bool:
        return verdict.topic == self._topic or (verdict.group is not None and verdict.group == self._group)

    def _run(self) -> None:
        while not self._ended.wait(TICK_S):
            watched = self._watched
            if watched is None:
                continue
            pulse, done, total = watched
            count = done()
            self._on_progress(pulse.phase, count, total)
            if count < total and min(pulse.quiet_s(self._seconds()), self._seconds() - self._looked_s) >= STALL_S:
                self.look()
