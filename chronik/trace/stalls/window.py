"""What the rules are given of more events than they can take: by what matters and by time, not by number alone.

A busy cluster tells most often that all is well. What a later event of the same kind, client and partition says again
goes first; only then the oldest do, and where they were there is a hole (EventsLost) that the rules know of. How things
stood is kept longest: by it alone a watermark that stands still is found. Pure; live looks and the Spark jobs do the
same.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from operator import attrgetter

from chronik.trace.events import (
    AnyEvent,
    EventsLost,
    GroupSeen,
    PartitionSeen,
    ProduceAnswered,
    ProduceAppended,
    RefusedEvent,
    Replicated,
    TransactionSeen,
    WatermarkMoved,
)

MOVES_US = 100_000  # of the moves of a leader's watermark within this time the last is enough
STATES = (PartitionSeen, GroupSeen, TransactionSeen)
_at_us = attrgetter("at_us")


def fit(events: Sequence[AnyEvent], events_max: int) -> list[AnyEvent]:
    """Of events sorted by time, no more than so many; and a hole for each node of which something had to go that the
    rules would have wanted."""
    if len(events) <= events_max:
        return list(events)
    thinned = thin(events)
    return thinned if len(thinned) <= events_max else _cut(thinned, events_max)


def thin(events: Sequence[AnyEvent]) -> list[AnyEvent]:
    """Without what a later event says again, for all that the rules read from it. A refusal in between is remembered:
    a client that was served ends a row of them."""
    kept: list[AnyEvent] = []
    later: set[tuple[object, ...]] = set()
    refusals: Counter[tuple[str | None, int]] = Counter()
    for event in reversed(events):
        key: tuple[object, ...] | None = None
        match event:
            case ProduceAppended() | ProduceAnswered():
                place = (event.topic, event.partition)
                key = (type(event), event.node, event.client_id, event.host, event.acks, *place, refusals[place])
                if isinstance(event, ProduceAppended):
                    key = (*key, event.producer_id)  # a transaction that is written to does not hang
            case WatermarkMoved(is_leader=True):
                key = (WatermarkMoved, event.node, event.topic, event.partition, event.at_us // MOVES_US)
            case WatermarkMoved() | Replicated():
                key = (Replicated, event.node)  # no rule reads it; that the node reported something may matter
            case RefusedEvent():
                refusals[event.topic, event.partition] += 1
        if key is None:
            kept.append(event)
        elif key not in later:
            later.add(key)
            kept.append(event)
    return kept[::-1]


def _cut(events: list[AnyEvent], events_max: int) -> list[AnyEvent]:
    states = [event for event in events if isinstance(event, STATES)][-(events_max // 2) :]
    others = [event for event in events if not isinstance(event, STATES)]
    begin = max(len(others) - (events_max - len(states)), 0)
    gone = Counter(event.node for event in others[:begin])
    holes = [EventsLost(others[begin].at_us, node, count) for node, count in sorted(gone.items())]
    return sorted([*holes, *others[begin:], *states], key=_at_us)


def known_since_us(events: Iterable[AnyEvent]) -> int | None:
    """Since when all is known that clients did, where something of it was let go; None where nothing was."""
    return max((event.at_us for event in events if isinstance(event, EventsLost)), default=None)
