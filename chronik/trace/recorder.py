"""Where a node's events go: a ring in memory for live views, and on to the store.

Off, what is reported goes to an observer that does nothing. On, an event is a small value put on a
list. A few hundred of them make a *chunk*: they are written down as lines of JSON, once, for the ring and for what
stores them. So a ring full of events is a few large blocks that nothing touches, and not a million small values that
push everything else out of the processor's cache. What does not fit any more is let go, oldest first, and a reader
of the ring sees how many.
"""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Callable
from operator import attrgetter
from typing import TYPE_CHECKING, NamedTuple

from chronik.core.ports import Clock
from chronik.trace.observer import UNOBSERVED, Observer

if TYPE_CHECKING:
    from chronik.trace.events import AnyEvent
    from chronik.trace.lines import Written
    from chronik.trace.steps import Steps

RING_EVENTS = 50_000
TOPICS_MAX = 10_000  # whose answer is kept: clients may ask for any name, and again for another
EVENTS_A_CHUNK = 400  # mostly: written in a tenth of a millisecond
UNANSWERED_US = 100_000  # how long a batch may wait for its answer before it is reported without
_at_us = attrgetter("at_us")


def _at_once(action: Callable[[], None]) -> None:
    action()


class Read(NamedTuple):
    """Events from a ring. `lost` were let go before they could be read; `cursor` is where to go on."""

    events: list[AnyEvent]
    cursor: int
    lost: int


class Chunk(NamedTuple):
    """So many events as lines, and the number of the first since the process started."""

    first: int
    events: int
    lines: bytes


class TracedTopics(dict[str, bool]):
    """Whether a topic is traced, looked up once each."""

    def __init__(self, recorder: Recorder) -> None:
        super().__init__()
        self._recorder = recorder

    def __missing__(self, topic: str) -> bool:
        if len(self) >= TOPICS_MAX:
            self.clear()
        is_wanted = self[topic] = self._recorder.wants(topic)
        return is_wanted


class Recorder:
    """One a node."""

    def __init__(
        self,
        node_id: int,
        clock: Clock,
        ring_events: int = RING_EVENTS,
        *,
        later: Callable[[int, Callable[[], None]], object] | None = None,
        soon: Callable[[Callable[[], None]], object] = _at_once,
    ) -> None:
        self.node_id = node_id
        self.clock = clock
        self.began_us = clock.now_us()  # a cursor from before means nothing
        self._ring_events = ring_events
        self._chunk_events = max(1, min(EVENTS_A_CHUNK, ring_events // 2))
        self._chunks: deque[Chunk] = deque()
        self._open: list[Written] = []  # what will be the next chunk
        self.put: Callable[[Written], None] = self._open.append  # and it stays that list
        self._sealed = 0  # events in chunks, those let go included
        self._oldest = 0  # of those, the first that is still there
        self.is_all = False
        self.exceptions: frozenset[str] = frozenset()
        self.wanted = TracedTopics(self)
        self.steps: Steps | None = None  # None while nothing at all is traced
        self.observer: Observer = UNOBSERVED  # or those
        self._store: Callable[[Chunk], None] | None = None  # takes each chunk, while they are to be stored
        self.later = later  # has something done in so many ms
        self.soon = soon  # has something done when this turn of the loop ends

    def switch(self, *, is_all: bool, exceptions: frozenset[str]) -> None:
        """Trace every topic of users but these; or, if not all, none but these. What was traced stays in the ring."""
        self.is_all, self.exceptions = is_all, exceptions
        self.wanted.clear()
        if not is_all and not exceptions:
            self.seal(unanswered_us=0)
            self.steps, self.observer = None, UNOBSERVED
        elif self.steps is None:
            from chronik.trace.events import TraceBegan  # loads msgspec: a node that traces nothing starts without it
            from chronik.trace.steps import Steps

            self.steps = self.observer = Steps(self)
            self.add(TraceBegan(self.clock.now_us(), self.node_id))

    def wants(self, topic: str) -> bool:
        """Whether this topic is traced. Our own never are: the trace would trace itself."""
        return (topic in self.exceptions) != self.is_all and not topic.startswith("__")

    @property
    def added(self) -> int:
        """Events since the process started."""
        return self._sealed + self._open_count()

    @property
    def kept(self) -> int:
        """Events that are still there."""
        return self.added - self._oldest

    def _open_count(self) -> int:
        if self.steps is not None:
            self.steps.batches.tell(UNANSWERED_US)
        if not self._open:
            return 0
        from chronik.trace.lines import count_of  # loaded by what recorded something

        return count_of(self._open)

    def add(self, event: Written) -> None:
        open_chunk = self._open
        open_chunk.append(event)
        if len(open_chunk) >= self._chunk_events:
            self.seal()

    def seal_if_due(self) -> None:
        """Batches are not counted one by one: now and then it is checked whether there are enough for a chunk."""
        if self.steps is not None and len(self._open) + self.steps.batches.count >= self._chunk_events:
            self.seal()

    def seal(self, unanswered_us: int = UNANSWERED_US) -> None:
        """Write down what has come since the last time; also batches that have waited for their answer for so long."""
        if self.steps is not None:
            self.steps.batches.tell(unanswered_us)
        if not self._open:
            return
        from chronik.trace.lines import count_of, to_lines  # loaded by what recorded something

        chunk = Chunk(self._sealed, count_of(self._open), to_lines(self._open))
        self._open.clear()
        self._chunks.append(chunk)
        self._sealed += chunk.events
        while self._sealed - self._oldest - self._chunks[0].events >= self._ring_events:
            self._oldest += self._chunks.popleft().events
        if self._store is not None:
            self._store(chunk)

    def store_with(self, store: Callable[[Chunk], None]) -> None:
        """From now on each chunk is given to `store`."""
        self._store = store

    def stop_storing(self) -> None:
        self._store = None

    @property
    def is_stored(self) -> bool:
        return self._store is not None

    def read(self, cursor: int = 0, enough: int = sys.maxsize) -> Read:
        """What was added since `cursor`; without one, all that is still there. Of many events not all at once: those
        of whole chunks, until there are `enough`."""
        self.seal(unanswered_us=0)
        begin = min(max(cursor, self._oldest), self._sealed)
        events: list[AnyEvent] = []
        if begin < self._sealed:
            from chronik.trace.lines import from_lines  # loaded by what recorded something

            for chunk in self._chunks:
                if chunk.first + chunk.events > begin and len(events) < enough:
                    told = sorted(from_lines(chunk.lines), key=_at_us)
                    events += told[max(begin - chunk.first, 0) :]
        return Read(events, begin + len(events), begin - cursor if cursor < begin and cursor else 0)
