"""One search: reads on a thread of its own while it is looked at, stops and goes on where it was.

It holds a bounded number of records, whatever it finds, and reads no more bytes a second than it may.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, cast

from chronik.client.admin import ClusterAdmin
from chronik.client.connecting import client_settings, parse_addresses, plain_errors
from chronik.client.errors import ChronikError
from chronik.console.search.coverage import (
    OffsetSpan,
    PartitionCoverage,
    SpanReading,
    append_span,
    newest_windows,
    oldest_first,
    words,
)
from chronik.console.search.query import NEWEST, OFFSET, TIME, SearchQuery, matcher
from chronik.console.words import ShownContent, content
from chronik.inspect.find_record import reached_ends, to_read
from chronik.inspect.record_format import ShownRecord

log = logging.getLogger(__name__)

READING, STOPPED, ENOUGH, FINISHED, FAILED = "reading", "stopped", "enough", "finished", "failed"
KEPT_MAX = 500
PREVIEW_BYTES = 400
CHUNK_BYTES = 4 * 1024 * 1024
CHUNK_RECORDS_MAX = 2_000
POLL_S = 0.25
QUIET_S = 10.0
UNWATCHED_S = 15.0
BYTES_PER_S = 20 * 1000 * 1000


@dataclass(frozen=True)
class FoundRow:
    """A record in a list: as much of it as a row shows."""

    partition: int
    offset: int
    timestamp_ms: int | None
    key: ShownContent
    value: ShownContent
    headers: int


@dataclass(frozen=True)
class SearchProgress:
    """How a search stands, for a page."""

    status: str
    reason: str | None
    rows: tuple[FoundRow, ...]
    found: int
    records: int
    bytes_read: int
    coverage: str
    parts: tuple[PartitionCoverage, ...]
    is_whole: bool
    """Every offset that it was to read is read, or was deleted before it could be."""


class TopicReader(Protocol):
    """What is needed of confluent_kafka's Consumer."""

    def assign(self, partitions: list[Any]) -> None: ...
    def incremental_unassign(self, partitions: list[Any]) -> None: ...
    def consume(self, num_messages: int, timeout: float) -> list[Any]: ...
    def close(self) -> None: ...


class SearchRun:
    """A search of one topic."""

    def __init__(
        self,
        query: SearchQuery,
        admin: Callable[[], ClusterAdmin],
        open_consumer: Callable[[], TopicReader],
        legs: threading.Semaphore,
        bytes_per_s: int = BYTES_PER_S,
        reached: Callable[[int], int | str] | None = None,
    ) -> None:
        """`reached` says of a partition up to where it must be read, as far as nodes know; they are asked otherwise."""
        self.query = query
        self._reached = reached
        self._admin = admin
        self._open_consumer = open_consumer
        self._legs = legs
        self._bytes_per_s = bytes_per_s
        self._matches = matcher(query)
        self._changed = threading.Condition()
        self._status = STOPPED
        self._reason: str | None = None
        self._parts: dict[int, PartitionCoverage] = {}
        self._rounds: Iterator[list[SpanReading]] | None = None
        self._round: list[SpanReading] = []
        self._kept: list[FoundRow] = []
        self._found = self._records = self._bytes = 0
        self._goal = query.limit
        self._watched_s = time.monotonic()

    # --- from a page

    def go_on(self) -> None:
        with self._changed:
            self._watched_s = time.monotonic()
            if self._status in (READING, FINISHED):
                return
            if self._status == ENOUGH:
                self._goal = self._found + self.query.limit
            self._status, self._reason = READING, None
        threading.Thread(target=self._leg, name="console-search", daemon=True).start()

    def stop(self, reason: str = "it was stopped") -> None:
        with self._changed:
            if self._status == READING:
                self._status, self._reason = STOPPED, reason
            self._changed.notify_all()

    def progress(self) -> SearchProgress:
        with self._changed:
            self._watched_s = time.monotonic()
            parts = tuple(part for _, part in sorted(self._parts.items()))
            return SearchProgress(
                self._status, self._reason, tuple(self._kept), self._found, self._records, self._bytes,
                words(parts, self._found, self._records), parts, all(part.is_whole for part in parts),
            )  # fmt: skip

    def wait_until_resting(self, timeout_s: float) -> SearchProgress:
        """How it stands when it stops reading, or when the time is over."""
        with self._changed:
            self._changed.wait_for(lambda: self._status != READING, timeout_s)
        return self.progress()

    # --- reading

    def _leg(self) -> None:
        try:
            with self._legs:  # so many searches read at a time
                if self._rounds is None:
                    self._rounds = self._planned()
                while self._is_reading() and self._next_round(self._rounds):
                    self._read_round()
        except ChronikError as problem:
            self._rest(FAILED, str(problem))
        except Exception as fault:  # the page says it
            log.exception("a search of %s failed", self.query.topic)
            self._rest(FAILED, f"a fault of the console: {fault!r}")

    def _is_reading(self) -> bool:
        with self._changed:
            return self._status == READING

    def _rest(self, status: str, reason: str | None = None) -> None:
        with self._changed:
            if self._status == READING or status == FAILED:
                self._status, self._reason = status, reason
            self._changed.notify_all()

    def _planned(self) -> Iterator[list[SpanReading]]:
        """Where each partition is read from and to. Raises ChronikError."""
        query, admin = self.query, self._admin()
        topic = admin.topic(query.topic)
        known = [part.partition for part in topic.partitions]
        chosen = known if query.partitions is None else list(query.partitions)
        if unknown := [number for number in chosen if number not in known]:
            raise ChronikError(f"topic {query.topic} has no partition {unknown[0]}", f"it has 0 to {len(known) - 1}")
        begin, end, unread = to_read(admin, topic, chosen)
        reached = self._reached or reached_ends(parse_addresses(admin.bootstrap), query.topic)
        at_time = {}
        if query.begin == TIME and query.time_ms is not None:
            at_time = admin.offsets([(query.topic, number) for number in begin], query.time_ms)
        parts = {number: PartitionCoverage(number, 0, 0, problem=why) for number, why in unread.items()}
        for number, start in begin.items():
            last = end[number]
            if isinstance(surely := reached(number), str):
                parts[number] = PartitionCoverage(number, start, last, problem=surely)
                continue
            last = max(last, surely)
            first = start
            if query.begin == OFFSET:
                first = min(max(query.offset or 0, start), last)
            elif query.begin == TIME:
                found = at_time.get((query.topic, number))
                first = start if found is None else last if found < 0 else found
            parts[number] = PartitionCoverage(number, first, last)
        with self._changed:
            self._parts = parts
        readable = [part for _, part in sorted(parts.items()) if part.problem is None]
        if query.begin != NEWEST:
            return oldest_first(readable)
        return newest_windows(readable, None if query.is_filtered else query.limit)

    def _next_round(self, rounds: Iterator[list[SpanReading]]) -> bool:
        self._round = [span for span in self._round if not span.is_done]
        if not self._round:
            following = next(rounds, None)
            if following is None:
                self._rest(FINISHED)
                return False
            self._round = following
        return True

    def _read_round(self) -> None:
        from confluent_kafka import TopicPartition

        topic = self.query.topic
        left = {span.partition: span for span in self._round}
        consumer = self._open_consumer()
        try:
            consumer.assign([TopicPartition(topic, span.partition, span.position) for span in self._round])
            heard_s = time.monotonic()
            size = 50
            while left and self._is_reading():
                began_s = time.monotonic()
                with plain_errors(self._admin().bootstrap):
                    messages = consumer.consume(size, POLL_S)
                taken = self._take(messages, left)
                if taken:
                    heard_s = time.monotonic()
                    mean = sum(map(_size, messages)) / len(messages)
                    size = round(min(max(CHUNK_BYTES / max(mean, 1), 1), CHUNK_RECORDS_MAX))
                done = [number for number, span in left.items() if span.is_done]
                if done:
                    consumer.incremental_unassign([TopicPartition(topic, number) for number in done])
                for number in done:
                    del left[number]
                if left and time.monotonic() - heard_s > QUIET_S:
                    self._give_up(left)
                self._check_bounds(sum(map(_size, messages)), began_s, is_round_over=not left)
        finally:
            consumer.close()

    def _take(self, messages: Sequence[Any], left: dict[int, SpanReading]) -> bool:
        """Whether anything of what is read came. Raises ChronikError."""
        from confluent_kafka import KafkaError

        is_taken = False
        rows: list[FoundRow] = []
        read: dict[int, list[OffsetSpan]] = {}
        count = 0
        for message in messages:
            error = message.error()
            span = left.get(message.partition())
            if error is not None:
                if error.code() == KafkaError._PARTITION_EOF:
                    if span is not None:
                        span.take_end(message.offset())
                elif error.code() in (KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_PARTITION):
                    raise ChronikError(f"topic {self.query.topic} is not there any more", "it was deleted meanwhile")
                continue  # other errors are reported again, or the library tries again by itself
            taken = None if span is None else span.take_record(message.offset())
            if taken is None:
                continue
            is_taken = True
            count += 1
            append_span(read.setdefault(message.partition(), []), taken)
            record = _record(message)
            if self._matches(record):
                rows.append(_row(record))
        settled = self._settled(left)
        with self._changed:
            for number, spans in read.items():
                for each in spans:
                    self._parts[number].read.add(each.begin, each.end)
            for number, empty, gone in settled:
                for each in empty:
                    self._parts[number].read.add(each.begin, each.end)
                for each in gone:
                    self._parts[number].gone.add(each.begin, each.end)
            self._records += count
            self._bytes += sum(map(_size, messages))
            self._found += len(rows)
            self._keep(rows)
        return is_taken or bool(settled)

    def _settled(self, left: dict[int, SpanReading]) -> list[tuple[int, list[OffsetSpan], list[OffsetSpan]]]:
        """What was passed over: whether it was deleted, as the logs begin now, after what came behind it was read."""
        passed = [number for number, span in left.items() if span.passed]
        if not passed:
            return []
        starts = self._admin().start_offsets([(self.query.topic, number) for number in passed])
        return [(number, *left[number].settle(starts.get((self.query.topic, number)))) for number in passed]

    def _keep(self, rows: list[FoundRow]) -> None:
        """In the order of the page: the newest first, or as they were written."""
        is_newest = self.query.begin == NEWEST
        self._kept = sorted(
            [*self._kept, *rows], key=lambda row: (row.timestamp_ms or 0, row.offset, row.partition), reverse=is_newest
        )
        if len(self._kept) > KEPT_MAX:
            self._kept = self._kept[:KEPT_MAX]

    def _give_up(self, left: dict[int, SpanReading]) -> None:
        with self._changed:
            for number, span in left.items():
                self._parts[number].problem = f"it gives nothing from offset {span.position:,} on"
                span.position = span.end  # the rest is neither read nor gone
        left.clear()

    def _check_bounds(self, size_bytes: int, began_s: float, is_round_over: bool) -> None:
        """Rests when enough is found or no page looks; else waits as long as the rate asks for."""
        with self._changed:
            if time.monotonic() - self._watched_s > UNWATCHED_S and self._status == READING:
                self._status, self._reason = STOPPED, "no page was open that shows it"
            # Going back in time a round has to be whole: the newest may be in the partition that answers last.
            is_order_sure = is_round_over or self.query.begin != NEWEST
            if self._found >= self._goal and is_order_sure and self._status == READING:
                self._status = ENOUGH
            pause_s = size_bytes / self._bytes_per_s - (time.monotonic() - began_s)
            if pause_s > 0:
                self._changed.wait_for(lambda: self._status != READING, pause_s)
            self._changed.notify_all()


def _size(message: Any) -> int:
    return len(message.value() or b"") + len(message.key() or b"")


def _record(message: Any) -> ShownRecord:
    kind, timestamp_ms = message.timestamp()
    headers = cast("list[tuple[str, bytes | None]]", message.headers() or [])
    return ShownRecord(
        message.topic(), message.partition(), message.offset(), timestamp_ms if kind else None, message.key(),
        message.value(), headers,
    )  # fmt: skip


def _row(record: ShownRecord) -> FoundRow:
    return FoundRow(
        record.partition, record.offset, record.timestamp_ms, content(record.key, PREVIEW_BYTES),
        content(record.value, PREVIEW_BYTES), len(record.headers),
    )  # fmt: skip


def open_consumer(bootstrap: str) -> TopicReader:
    """With little of the log in memory ahead of what is read. Raises ChronikError."""
    from confluent_kafka import Consumer

    settings = client_settings(bootstrap) | {
        "client.id": "chronik-console",
        "group.id": "chronik-console",  # the library wants one; nothing is committed or joined
        "enable.auto.commit": False,
        "enable.partition.eof": True,
        "auto.offset.reset": "earliest",  # where what was to be read next is deleted by now
        "fetch.wait.max.ms": 100,
        "queued.max.messages.kbytes": 16 * 1024,
        "fetch.max.bytes": 8 * 1024 * 1024,
        "isolation.level": "read_uncommitted",
    }
    with plain_errors(bootstrap):
        return cast(TopicReader, Consumer(settings))
