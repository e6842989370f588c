"""Events that nodes have let go of, read back from the trace topic with a Kafka client."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

import msgspec

from chronik.client.connecting import ANSWER_TIMEOUT_S, client_settings, plain_errors
from chronik.client.errors import ChronikError
from chronik.core.machines.metadata.names import TRACE_TOPIC
from chronik.trace.events import AnyEvent
from chronik.trace.lines import from_lines

if TYPE_CHECKING:
    from confluent_kafka import Consumer

POLL_S = 0.5
QUIET_S = 5.0
BATCH_MAX = 500


def stored_events(
    bootstrap: str,
    partitions: int,
    since_ms: int,
    words: Sequence[bytes],
    on_read: Callable[[int], None] = lambda count: None,
) -> Iterator[AnyEvent]:
    """Events since a time, from records with one of these words. What this version does not know is left out. Raises
    ChronikError where not all of it could be read: what is not among the events may then be there."""
    from confluent_kafka import OFFSET_END, Consumer, TopicPartition

    settings = client_settings(bootstrap) | {"group.id": "chronik-cli", "enable.auto.commit": False}
    with plain_errors(bootstrap):
        consumer = Consumer(settings | {"fetch.wait.max.ms": 100, "auto.offset.reset": "earliest"})
    try:
        with plain_errors(bootstrap):
            asked = [TopicPartition(TRACE_TOPIC, number, since_ms) for number in range(partitions)]
            starts = consumer.offsets_for_times(asked, timeout=ANSWER_TIMEOUT_S)
            ends = {number: _end(consumer, number) for number in range(partitions)}
        if unknown := [start.partition for start in starts if start.error is not None or start.offset < OFFSET_END]:
            raise _unread(unknown)
        wanted = [start for start in starts if 0 <= start.offset < ends[start.partition]]
        if wanted:
            consumer.assign(wanted)
            yield from read_to_ends(
                consumer, bootstrap, {each.partition: ends[each.partition] for each in wanted}, words, on_read
            )
    finally:
        consumer.close()


def read_to_ends(
    consumer: Consumer,
    bootstrap: str,
    ends: dict[int, int],
    words: Sequence[bytes],
    on_read: Callable[[int], None],
    quiet_s: float = QUIET_S,
) -> Iterator[AnyEvent]:
    """Up to these ends. Raises ChronikError where partitions give nothing more for long before theirs."""
    heard_at = time.monotonic()
    while ends and time.monotonic() - heard_at < quiet_s:
        with plain_errors(bootstrap):
            messages = consumer.consume(BATCH_MAX, POLL_S)
        for message in messages:
            if message.error() is not None:
                continue
            number, offset = message.partition() or 0, message.offset() or 0
            if number in ends:  # of the others more may come for as long as anything is traced
                heard_at = time.monotonic()
                if offset + 1 >= ends[number]:
                    del ends[number]
            yield from _events(message.value() or b"", words)
        on_read(len(messages))
    if ends:
        raise _unread(ends)


def _end(consumer: Consumer, number: int) -> int:
    """Raises ChronikError."""
    from confluent_kafka import TopicPartition

    # None when nothing answers in time, whatever its type says.
    told: tuple[int, int] | None = consumer.get_watermark_offsets(
        TopicPartition(TRACE_TOPIC, number), timeout=ANSWER_TIMEOUT_S
    )
    if told is None or told[1] < 0:
        raise _unread([number])
    return int(told[1])


def _unread(partitions: Iterable[int]) -> ChronikError:
    named = ", ".join(map(str, sorted(partitions)))
    return ChronikError(f"partition {named} of {TRACE_TOPIC} cannot be read to its end now", "try again")


def _events(lines: bytes, words: Sequence[bytes]) -> Iterator[AnyEvent]:
    if not any(word in lines for word in words):
        return
    try:
        yield from from_lines(lines)
    except msgspec.DecodeError:  # of a later version: those that are known are still good
        for line in lines.splitlines():
            if any(word in line for word in words):
                yield from _known(line)


def _known(line: bytes) -> list[AnyEvent]:
    try:
        return from_lines(line)
    except msgspec.DecodeError:
        return []
