"""Where a node's events go: a ring in memory for those who look now, and on to whoever stores them.

Off, it costs whoever has something to tell one attribute (`steps` is None). On, an event is a small value put into a
ring: nothing waits, nothing is written here. What does not fit any more is let go, oldest first, and who reads the
ring is told how many.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from chronik.core.ports import Clock

if TYPE_CHECKING:
    from chronik.trace.events import AnyEvent
    from chronik.trace.steps import Steps

RING_EVENTS = 50_000


class Read(NamedTuple):
    """Events from a ring. `lost` were let go before they could be read; `cursor` is where to go on."""

    events: list[AnyEvent]
    cursor: int
    lost: int


class Recorder:
    """One a node."""

    def __init__(self, node_id: int, clock: Clock, ring_events: int = RING_EVENTS) -> None:
        self.node_id = node_id
        self.clock = clock
        self._ring: deque[AnyEvent] = deque(maxlen=ring_events)
        self.is_all = False
        self.exceptions: frozenset[str] = frozenset()
        self.steps: Steps | None = None  # None while nothing at all is traced
        self.added = 0  # since the process started
        self.on_added: Callable[[AnyEvent], None] | None = None  # who stores them, if they are to be stored

    def switch(self, *, is_all: bool, exceptions: frozenset[str]) -> None:
        """Trace every topic of users but these; or, if not all, none but these. What was traced stays in the ring."""
        self.is_all, self.exceptions = is_all, exceptions
        if not is_all and not exceptions:
            self.steps = None
        elif self.steps is None:
            from chronik.trace.events import TraceBegan  # loads msgspec: a node that traces nothing starts without it
            from chronik.trace.steps import Steps

            self.steps = Steps(self)
            self.add(TraceBegan(self.clock.now_us(), self.node_id))

    def wants(self, topic: str) -> bool:
        """Whether this topic is traced. Our own never are: the trace would trace itself."""
        return (topic in self.exceptions) != self.is_all and not topic.startswith("__")

    @property
    def kept(self) -> int:
        """Events that are still there."""
        return len(self._ring)

    def add(self, event: AnyEvent) -> None:
        self._ring.append(event)
        self.added += 1
        if self.on_added is not None:
            self.on_added(event)

    def read(self, cursor: int = 0) -> Read:
        """What was added since `cursor`; without one, all that is still there."""
        oldest = self.added - len(self._ring)
        begin = min(max(cursor, oldest), self.added)
        events = list(self._ring)[begin - oldest :]
        return Read(events, self.added, begin - cursor if cursor < begin and cursor else 0)
