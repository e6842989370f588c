"""Events as they are written down: one JSON object a line, and the batches of a connection to a partition in one line.

Who reads is given single events, whatever the version of the schema that wrote them (`from_lines`). The kinds of line
that stand for several events are only here; docs/trace.md has them for other readers of the topic.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import repeat
from typing import NamedTuple, TypeAlias

import msgspec

from chronik.trace.events import AnyEvent, Event, ProduceAnswered, ProduceAppended

SCHEMA_VERSION = 5


class Produced(Event, frozen=True, gc=False, tag="produced"):
    """A batch that was appended `took_us` ago and is answered now: ProduceAppended and ProduceAnswered in one. Written
    in version 2 of the schema only."""

    topic: str
    partition: int
    client_id: str
    host: str
    connection: int
    acks: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    base_offset: int
    to_offset: int
    size_bytes: int
    is_duplicate: bool
    leader_epoch: int
    watermark_before: int
    watermark: int
    in_sync: tuple[int, ...]
    took_us: int


class BatchLine(NamedTuple):
    """A batch of ProducedBatches, written as an array."""

    appended_us: int
    took_us: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    base_offset: int
    to_offset: int
    size_bytes: int
    is_duplicate: bool
    watermark_before: int
    watermark: int
    in_sync: tuple[int, ...]


class ProducedBatches(Event, frozen=True, gc=False, tag="produced_batches"):
    """Batches of one connection to one partition, each appended and answered before `at_us`. Written in version 3 of
    the schema only."""

    topic: str
    partition: int
    client_id: str
    host: str
    connection: int
    acks: int
    leader_epoch: int
    batches: list[BatchLine]


class Taken(NamedTuple):
    """A batch of a BatchRun as it was appended, written as an array: what the log says of it is its end."""

    appended_ns: int
    watermark_before: int
    size_bytes: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    base_offset: int
    last_offset: int
    append_time_ms: int
    is_new: bool


class Answered(NamedTuple):
    """So many batches of a BatchRun, the next ones in order, were answered at this time; written as an array."""

    batches: int
    answered_ns: int
    watermark: int
    in_sync: tuple[int, ...]


class BatchRun(Event, frozen=True, gc=False, tag="batch_run"):
    """Batches of one connection to one partition, each appended before `at_us`: a ProduceAppended for each, and a
    ProduceAnswered for as many of them, from the first, as `answers` count. The node that writes it has bare tuples."""

    topic: str
    partition: int
    client_id: str
    host: str
    connection: int
    acks: int
    leader_epoch: int
    batches: list[Taken]
    answers: list[Answered]
    principal: str = ""


Written: TypeAlias = AnyEvent | Produced | ProducedBatches | BatchRun
"""What stands in a line."""

_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(Written)


def to_lines(events: Sequence[Written]) -> bytes:
    """One JSON object a line."""
    return _encoder.encode_lines(events)


def from_lines(lines: bytes) -> list[AnyEvent]:
    """Raises msgspec.DecodeError for what is no event of this schema."""
    return apart(_decoder.decode_lines(lines))


def apart(written: Iterable[Written]) -> list[AnyEvent]:
    """The events that were written, one for each step."""
    events: list[AnyEvent] = []
    for one in written:
        match one:
            case BatchRun():
                events += _steps_of_run(one)
            case ProducedBatches():
                events += _steps(one)
            case Produced():
                events += _steps(_run_of(one))
            case _:
                events.append(one)
    return events


def count_of(written: Sequence[Written]) -> int:
    """How many events `apart` makes of these."""
    count = len(written)
    for one in written:
        if isinstance(one, BatchRun):
            count += len(one.batches) + sum(answer[0] for answer in one.answers) - 1
        elif isinstance(one, ProducedBatches):
            count += 2 * len(one.batches) - 1
        elif isinstance(one, Produced):
            count += 1
    return count


def took_us(appended_ns: int, answered_ns: int) -> int:
    """Clocks may be set back."""
    return answered_ns // 1000 - appended_ns // 1000 if answered_ns > appended_ns else 0


def _steps_of_run(run: BatchRun) -> Iterator[AnyEvent]:
    who = run.node, run.topic, run.partition, run.client_id, run.host, run.connection, run.acks
    answers = (answer for group in run.answers for answer in repeat(group, group.batches))
    for one in run.batches:
        appended_us, offsets = one.appended_ns // 1000, (one.base_offset, one.last_offset + 1)
        sent = one.producer_id, one.producer_epoch, one.base_sequence, *offsets, one.size_bytes
        seen = not one.is_new, run.leader_epoch, one.watermark_before, run.principal
        yield ProduceAppended(appended_us, *who, *sent, *seen)
        if (answer := next(answers, None)) is not None:
            took = took_us(one.appended_ns, answer.answered_ns)
            moved = one.watermark_before, answer.watermark
            yield ProduceAnswered(appended_us + took, *who, *offsets, *moved, answer.in_sync, took)


def _run_of(one: Produced) -> ProducedBatches:
    sent = one.producer_id, one.producer_epoch, one.base_sequence, one.base_offset, one.to_offset, one.size_bytes
    seen = one.is_duplicate, one.watermark_before, one.watermark
    who = one.topic, one.partition, one.client_id, one.host, one.connection, one.acks
    batch = BatchLine(one.at_us - one.took_us, one.took_us, *sent, *seen, one.in_sync)
    return ProducedBatches(one.at_us, one.node, *who, one.leader_epoch, [batch])


def _steps(run: ProducedBatches) -> Iterator[AnyEvent]:
    who = run.node, run.topic, run.partition, run.client_id, run.host, run.connection, run.acks
    for one in run.batches:
        appended_us, took_us, *producer, base_offset, to_offset, size, is_duplicate, before, watermark, in_sync = one
        producer_id, epoch, sequence = producer
        offsets = base_offset, to_offset
        sent = producer_id, epoch, sequence, *offsets, size
        yield ProduceAppended(appended_us, *who, *sent, is_duplicate, run.leader_epoch, before)
        yield ProduceAnswered(appended_us + took_us, *who, *offsets, before, watermark, in_sync, took_us)
