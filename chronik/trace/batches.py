"""Batches from their append to their answer, as they are told to the trace.

Most steps that a node takes are these two, so they are made to cost little. A batch is one row of numbers, noted when
it is appended. Nobody notes when it is answered: what is safe is answered in the order of offsets, many at a time, so
it is noted how far a partition was safe and when (`released`), and the answers follow from that when the recorder
writes down what there is. Only who is refused after all is noted by himself. Batches of a connection to a partition
are told together: a *run* is one event.
"""

from __future__ import annotations

import struct
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Callable, Sequence
from operator import itemgetter
from typing import NamedTuple, Protocol, TypeAlias, cast

from chronik.core.log.log import Appended
from chronik.core.replica.replica import ACKS_ALL, Replica
from chronik.core.types import Buffer
from chronik.trace.events import Batch, ProduceAnswered, ProduceAppended, ProducedBatches, Written

_read_producer = struct.Struct(">qhi").unpack_from  # producer id, epoch and first sequence number
_PRODUCER_AT = 43  # bytes from the beginning of a batch
UNANSWERED = -1  # as the time an answer took
_appended_us, _to_offset = itemgetter(0), itemgetter(6)


class Client(Protocol):
    """Who asked (api.desk.Caller)."""

    @property
    def client_id(self) -> str: ...

    @property
    def client_host(self) -> str: ...

    @property
    def connection_id(self) -> int: ...


Run: TypeAlias = tuple[Replica, int, Client, int]
"""What its batches have in common: replica, acks, client and leader epoch."""

Row: TypeAlias = tuple[int, int, int, int, int, int, int, int, bool, int, int, tuple[int, ...]]
"""A batch as it is written (events.Batch): appended_us, took_us, producer id, epoch and sequence, offsets from and to,
bytes, whether it is a duplicate, watermark before and when it was answered, and the set in sync then."""


class Release(NamedTuple):
    """A partition was safe further than before, and whoever waited for that was answered."""

    at_us: int
    safe_end: int
    watermark: int
    in_sync: tuple[int, ...]


class Batches:
    """Those that were appended and not written down yet."""

    def __init__(self, node_id: int, now_us: Callable[[], int], put: Callable[[Written], None]) -> None:
        self.now_us = now_us
        self._node_id = node_id
        self._put = put
        self._answered: dict[Run, list[Row]] = {}
        self._waiting: dict[Run, list[Row]] = {}
        self._told: list[tuple[Run, Row]] = []  # as appended, since their answers were long in coming
        self._refused: Counter[tuple[Replica, Client, int]] = Counter()  # and the offset where the batch begins
        self.releases: dict[Replica, list[Release]] = {}  # of partitions that somebody waits for

    @property
    def count(self) -> int:
        return sum(len(rows) for runs in (self._answered, self._waiting) for rows in runs.values())

    def appended(
        self,
        replica: Replica,
        acks: int,
        client: Client,
        began_us: int,
        watermark_before: int,
        appended: Appended,
        records: Buffer,
    ) -> None:
        """A batch is in the log, or was already. Time and watermark are those before: both may have gone on."""
        base_offset, last_offset, _, is_new = appended
        producer_id, epoch, sequence = _read_producer(records, _PRODUCER_AT)
        watermark = replica.high_watermark
        if last_offset < (watermark if acks == ACKS_ALL else replica.safe_end):
            took_us, runs = self.now_us() - began_us, self._answered
            if took_us < 0:  # clocks may be set back
                took_us = 0
        else:
            took_us, runs = UNANSWERED, self._waiting
            if replica not in self.releases:
                self.releases[replica] = []
        in_sync = replica.in_sync
        row = (
            began_us,
            took_us,
            producer_id,
            epoch,
            sequence,
            base_offset,
            last_offset + 1,
            len(records),
            not is_new,
            watermark_before,
            watermark,
            () if in_sync is None else in_sync.in_sync,
        )
        run = (replica, acks, client, replica.leader_epoch)
        rows = runs.get(run)
        if rows is not None:
            rows.append(row)
        elif acks == 0:
            self._tell_appended(run, row)
        else:
            runs[run] = [row]

    def released(self, replica: Replica) -> None:
        """It is safe further than before; for one of `releases`. Who waited for that is about to be answered."""
        in_sync, releases = replica.in_sync, self.releases[replica]
        safe_end, watermark = replica.safe_end, replica.high_watermark
        if not releases or releases[-1].safe_end < safe_end or releases[-1].watermark < watermark:
            members = () if in_sync is None else in_sync.in_sync
            releases.append(Release(self.now_us(), safe_end, watermark, members))

    def refused(self, replica: Replica, client: Client, base_offset: int) -> None:
        """Its producer is told something else: that the batch was appended is true all the same."""
        self._refused[replica, client, base_offset] += 1

    def tell(self, unanswered_us: int = 0) -> None:
        """Tell of those that were answered; and without an answer, which will then be told apart, of those that have
        waited for one for so long."""
        now_us = self.now_us()
        answered, self._answered = self._answered, {}
        waiting, self._waiting = self._waiting, {}
        releases, self.releases = self.releases, {}
        self._tell_late_answers(releases)
        if self._refused:
            waiting = {run: self._without_refused(run, rows) for run, rows in waiting.items()}
            self._refused.clear()
        for run, rows in waiting.items():
            now_answered = self._now_answered(run, rows, releases[run[0]], now_us - unanswered_us)
            at_once = answered.get(run, ())
            answered[run] = sorted((*now_answered, *at_once), key=_appended_us) if at_once else now_answered
        for run, rows in answered.items():
            if rows:
                replica, acks, client, leader_epoch = run
                where = replica.topic, replica.partition, client.client_id, client.client_host, client.connection_id
                self._put(ProducedBatches(now_us, self._node_id, *where, acks, leader_epoch, cast("list[Batch]", rows)))

    def _without_refused(self, run: Run, rows: list[Row]) -> list[Row]:
        left: list[Row] = []
        for row in rows:
            if self._was_refused(run, row):
                self._tell_appended(run, row)
            else:
                left.append(row)
        return left

    def _was_refused(self, run: Run, row: Row) -> bool:
        """Asked of the older ones first: a producer that is refused sends the same batch again, and may be answered."""
        which = run[0], run[2], row[5]
        if not self._refused[which]:
            return False
        self._refused[which] -= 1
        return True

    def _now_answered(self, run: Run, rows: list[Row], releases: list[Release], until_us: int) -> list[Row]:
        """Those of a run that were answered since. Of the others, those that have waited since `until_us` are told now,
        and the rest wait for the next time."""
        rows.sort(key=_to_offset)  # a retry may wait for what is further down
        answered: list[Row] = []
        begin = 0
        for release, reached in zip(releases, _reached(run[1], releases), strict=True):
            end = bisect_right(rows, reached, begin, key=_to_offset)
            answered += [_with_answer(row, release) for row in rows[begin:end]]
            begin = end
        left = [row for row in rows[begin:] if row[0] > until_us]
        if begin < len(rows):
            self.releases[run[0]] = []
            for row in rows[begin:]:
                if row[0] <= until_us:
                    self._tell_appended(run, row)
                    self._told.append((run, row))
        if left:
            self._waiting[run] = left
        return answered

    def _tell_late_answers(self, releases: dict[Replica, list[Release]]) -> None:
        told, self._told = self._told, []
        for run, row in told:
            replica, acks = run[:2]
            if self._was_refused(run, row):
                continue
            releases_here = releases.get(replica, ())
            place = bisect_left(_reached(acks, releases_here), row[6])
            if place < len(releases_here):
                self._tell_answered(run, _with_answer(row, releases_here[place]))
            else:
                self._told.append((run, row))
                self.releases[replica] = []

    def _tell_appended(self, run: Run, row: Row) -> None:
        replica, acks, client, leader_epoch = run
        where = replica.topic, replica.partition, client.client_id, client.client_host, client.connection_id
        producer, (base_offset, to_offset, size_bytes, is_duplicate, watermark) = row[2:5], row[5:10]
        written = base_offset, to_offset, size_bytes
        self._put(
            ProduceAppended(
                row[0], self._node_id, *where, acks, *producer, *written, is_duplicate, leader_epoch, watermark
            )
        )

    def _tell_answered(self, run: Run, row: Row) -> None:
        replica, acks, client, _ = run
        where = replica.topic, replica.partition, client.client_id, client.client_host, client.connection_id
        at_us, took_us, _, _, _, base_offset, to_offset, _, _, before, watermark, in_sync = row
        offsets = base_offset, to_offset, before, watermark
        self._put(ProduceAnswered(at_us + took_us, self._node_id, *where, acks, *offsets, in_sync, took_us))


def _reached(acks: int, releases: Sequence[Release]) -> list[int]:
    """How far a partition was safe at each release, as `acks` asks."""
    if acks == ACKS_ALL:
        return [release.watermark for release in releases]
    return [release.safe_end for release in releases]


def _with_answer(row: Row, release: Release) -> Row:
    began_us, at_us = row[0], release.at_us
    took_us = at_us - began_us if at_us > began_us else 0  # clocks may be set back
    return (began_us, took_us, *row[2:10], release.watermark, release.in_sync)
