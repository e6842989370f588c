"""How far back what was traced reaches, node by node: what is not among the events may just not be traced.

Pure. A node's memory reaches back to when it began to trace, or to the oldest event that it has not let go. Before that
there is the trace topic; it has a hole where a node began to trace anew (it was restarted, or the trace was off for a
while: nothing tells which), and where it says that events were lost.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from chronik.trace.events import AnyEvent, EventsLost, ProduceAppended, TraceBegan, WatermarkMoved
from chronik.trace.inspections import EventsView

Mark: TypeAlias = TraceBegan | EventsLost
"""What the node did before this may be missing."""

NEVER = sys.maxsize


@dataclass
class Remembered:
    """What nodes have in memory of one topic, put together look by look."""

    topic: str
    events: list[AnyEvent] = field(default_factory=list)
    marks: list[Mark] = field(default_factory=list)
    silent: dict[int, str] = field(default_factory=dict)
    cursors: dict[int, int] = field(default_factory=dict)
    reaches_us: dict[int, int] = field(default_factory=dict)  # by node: it has all that it did since then
    wrapped: set[int] = field(default_factory=set)  # nodes that have let go of events before the first look
    _began_us: dict[int, int] = field(default_factory=dict)  # by node: when its process did

    def take(self, looks: Mapping[int, EventsView], silent: Mapping[int, str]) -> bool:
        """What nodes answered to a look, or to the one that goes on from there. Whether there is more."""
        self.silent |= silent
        for node, look in looks.items():
            if node not in self.cursors and look.traces.kept < look.traces.added:
                self.wrapped.add(node)
            self.cursors[node] = look.cursor
            began = [event for event in look.events if isinstance(event, TraceBegan)]
            self.marks += began
            self.events += (event for event in look.events if not isinstance(event, TraceBegan))
            reach_us = max((mark.at_us for mark in began), default=0)
            if look.lost or self._began_us.setdefault(node, look.began_us) != look.began_us:
                reach_us = look.now_us  # it was let go while we read
            if look.traces.is_all == (self.topic in look.traces.exceptions):
                reach_us = look.now_us  # not traced: as if it began now
                self.marks.append(TraceBegan(reach_us, node))
            self.reaches_us[node] = max(reach_us, self.reaches_us.get(node, 0))
        return any(look.is_more for look in looks.values())

    def end(self, oldest: Mapping[int, EventsView]) -> None:
        """`oldest` are looks at no more than the oldest event of each that has wrapped, of whatever topic. They are to
        be made after the others: what was let go in between does not count as known then."""
        self.events.sort(key=lambda event: event.at_us)
        for node in self.wrapped:
            look = oldest.get(node)
            oldest_us = NEVER if look is None or not look.events else look.events[0].at_us
            self.reaches_us[node] = max(oldest_us, self.reaches_us[node])

    def has_all_of(self, partition: int, offset: int) -> bool:
        """Whether all nodes still have all that they did since a record was written."""
        written_us = written(self.events, partition, offset)
        return (
            written_us is not None
            and not self.silent
            and all(reach_us <= written_us for reach_us in self.reaches_us.values())
        )


def written(events: Iterable[AnyEvent], partition: int, offset: int) -> int | None:
    """When a batch with this offset was first put there, and not found to be there already."""
    return min(
        (
            event.at_us
            for event in events
            if isinstance(event, ProduceAppended)
            and event.partition == partition
            and event.base_offset <= offset < event.to_offset
            and not event.is_duplicate
        ),
        default=None,
    )


def blind_until(
    remembered: Remembered, stored: Sequence[AnyEvent | Mark] | None, partition: int, offset: int
) -> dict[int, int]:
    """By node: until when something that it did since the record was written may not be known. Without `stored`, the
    trace topic was not read, or could not be."""
    known = [*remembered.events, *(stored or ())]
    written_us = written(known, partition, offset)
    if written_us is None:
        return {}  # the story says itself that the trace does not reach back so far
    marks: dict[int, int] = {}
    for event in [*remembered.marks, *(stored or ())]:
        if isinstance(event, TraceBegan | EventsLost) and event.at_us > written_us:
            marks[event.node] = max(event.at_us, marks.get(event.node, 0))
    watched = {event.node for event in known if _is_watched(event, partition, offset, written_us)}
    blind: dict[int, int] = {}
    for node in remembered.reaches_us.keys() | remembered.silent.keys() | marks.keys():
        reach_us = NEVER if node in remembered.silent else remembered.reaches_us.get(node, NEVER)
        if reach_us <= written_us:
            continue
        if stored is None or node not in watched:
            blind[node] = reach_us
        elif node in marks:
            blind[node] = marks[node]
    return blind


def _is_watched(event: AnyEvent | Mark, partition: int, offset: int, written_us: int) -> bool:
    """Whether it shows that its node was traced before it could serve the record: no node serves what is not below its
    watermark."""
    if isinstance(event, WatermarkMoved) and event.partition == partition and event.before <= offset < event.watermark:
        return True
    return event.at_us <= written_us
