"""Small traces of one fault each, told by a made-up cluster, and what the live stall finder says of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from msgspec.structs import replace

from chronik.pipeline.judging import EVERY_US, Key, key_of
from chronik.pipeline.transforms.stalls import SPAN_US
from chronik.trace.events import AnyEvent, ProduceAnswered, ProduceAppended
from chronik.trace.lines import Answered, BatchLine, BatchRun, Produced, ProducedBatches, Taken, Written
from chronik.trace.stalls import find
from tests.unit.trace.stalls.world import START_US, World, world

SECOND_US = 1_000_000
# Each begins shortly before a span of the job ends, so that its stall lies in two of them.
BEFORE_BORDER_US = 18 * SECOND_US


class Told(NamedTuple):
    """One fault's events, moved to a time of its own, and the stalls that a live watcher names in them."""

    name: str
    events: list[AnyEvent]
    live: set[Key]


def _healthy(lived: World) -> None:
    lived.run(30)


def _follower_stops(lived: World) -> None:
    lived.at(10, lambda: lived.frozen_followers.add(3))
    lived.run(30)


def _fetch_hangs(lived: World) -> None:
    lived.at(10, lambda: setattr(lived, "hangs", True))
    lived.run(30)


def _starved(lived: World) -> None:
    lived.at(10, lambda: lived.starved.add(1))
    lived.run(30)


def _refused(lived: World) -> None:
    lived.at(10, lambda: lived.refuses_writer_for.add(0))
    lived.run(30)


def _stops(lived: World) -> None:
    lived.at(10, lambda: setattr(lived.consumers[0], "stops", True))
    lived.run(90)


def _rebalances(lived: World) -> None:
    lived.every(10, 70, 5, lived.rebalance)
    lived.run(75)


FAULTS: dict[str, Callable[[World], None]] = {
    "healthy": _healthy,
    "follower stops": _follower_stops,
    "fetch hangs": _fetch_hangs,
    "partition starved": _starved,
    "writer refused": _refused,
    "consumer stops": _stops,
    "group rebalances": _rebalances,
}


def told() -> list[Told]:
    """Every fault, one after the other, with so much time between them that none sees the other."""
    return [_told(name, number) for number, name in enumerate(FAULTS, 1)]


def _told(name: str, number: int) -> Told:
    lived = world()
    FAULTS[name](lived)
    begin_us = (START_US // SPAN_US + 2 * number) * SPAN_US - BEFORE_BORDER_US
    events = [replace(event, at_us=event.at_us - START_US + begin_us) for event in lived.events]
    return Told(name, events, _live(events))


def _live(events: list[AnyEvent]) -> set[Key]:
    """Looked at every second, as `chronik stalls` and the lab do."""
    found: set[Key] = set()
    now_us = events[0].at_us // EVERY_US * EVERY_US
    while now_us <= events[-1].at_us + EVERY_US:
        found |= {key_of(verdict) for verdict in find([each for each in events if each.at_us < now_us], now_us)}
        now_us += EVERY_US
    return found


def as_written(events: list[AnyEvent]) -> list[Written]:
    """As nodes write it down: a batch that was appended and is answered at once stands in one line, by turns of each
    version that there was."""
    written: list[Written] = []
    for event in events:
        before = written[-1] if written else None
        if isinstance(event, ProduceAnswered) and isinstance(before, ProduceAppended):
            written[-1] = (_produced, _batches, _run)[len(written) % 3](before, event)
        else:
            written.append(event)
    return written


def _run(before: ProduceAppended, event: ProduceAnswered) -> BatchRun:
    batch = Taken(
        before.at_us * 1000,
        before.watermark,
        before.size_bytes,
        before.producer_id,
        before.producer_epoch,
        before.base_sequence,
        before.base_offset,
        before.to_offset - 1,
        -1,
        not before.is_duplicate,
    )
    who = event.topic, event.partition, event.client_id, event.host, event.connection, event.acks
    answer = Answered(1, event.at_us * 1000, event.watermark, event.in_sync)
    return BatchRun(event.at_us + 1, event.node, *who, before.leader_epoch, [batch], [answer])


def _batches(before: ProduceAppended, event: ProduceAnswered) -> ProducedBatches:
    batch = BatchLine(
        before.at_us,
        event.at_us - before.at_us,
        before.producer_id,
        before.producer_epoch,
        before.base_sequence,
        event.base_offset,
        event.to_offset,
        before.size_bytes,
        before.is_duplicate,
        event.watermark_before,
        event.watermark,
        event.in_sync,
    )
    who = event.topic, event.partition, event.client_id, event.host, event.connection, event.acks
    return ProducedBatches(event.at_us + 1, event.node, *who, before.leader_epoch, [batch])


def _produced(before: ProduceAppended, event: ProduceAnswered) -> Produced:
    return Produced(
        event.at_us,
        event.node,
        event.topic,
        event.partition,
        event.client_id,
        event.host,
        event.connection,
        event.acks,
        before.producer_id,
        before.producer_epoch,
        before.base_sequence,
        event.base_offset,
        event.to_offset,
        before.size_bytes,
        before.is_duplicate,
        before.leader_epoch,
        event.watermark_before,
        event.watermark,
        event.in_sync,
        event.at_us - before.at_us,
    )
