"""Batches from their append to their answer, as they are told to the trace.

Most steps that a node takes are these two, so they are made to cost little. A batch is noted when it is appended, with
what is at hand. Nobody notes when it is answered: what is safe is answered in the order of offsets, many at a time, so
it is noted how far a partition was safe and when (`released`), and the answers follow from that when the recorder
writes down what there is. Only who is refused after all is noted by himself. Batches of a connection to a partition
are told together: a *run* is one event, with a row of numbers for each batch.
"""

from __future__ import annotations

import struct
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol, TypeAlias, cast

from chronik.core.log.log import Appended
from chronik.core.replica.replica import ACKS_ALL, Replica
from chronik.core.types import Buffer
from chronik.trace.events import Batch, ProduceAnswered, ProduceAppended, ProducedBatches, Written

_read_producer = struct.Struct(">qhi").unpack_from  # producer id, epoch and first sequence number
_PRODUCER_AT = 43  # bytes from the beginning of a batch
UNANSWERED = -1  # as the time of an answer


class Client(Protocol):
    """Who asked (api.desk.Caller)."""

    @property
    def client_id(self) -> str: ...

    @property
    def client_host(self) -> str: ...

    @property
    def connection_id(self) -> int: ...


Note: TypeAlias = tuple[
    Replica, int, Client, int, int, int, Appended, tuple[int, int, int], int, int, int, tuple[int, ...]
]
"""A batch as it was appended. First what makes it one of a run: replica, acks, client and leader epoch. Then when that
began and the watermark at that time, where it is, producer id, epoch and sequence, bytes; and where it was safe at
once, the time then, the watermark and the set in sync."""

Run: TypeAlias = tuple[Replica, int, Client, int]
"""What its batches have in common: the beginning of a Note."""

Row: TypeAlias = tuple[int, int, int, int, int, int, int, int, bool, int, int, tuple[int, ...]]
"""A batch as it is written: the fields of events.Batch."""


class Release(NamedTuple):
    """A partition was safe further than before, and whoever waited for that was answered."""

    at_ns: int
    watermark: int
    in_sync: tuple[int, ...]
    safe_end: int


class Batches:
    """Those that were appended and not written down yet."""

    def __init__(self, node_id: int, now_ns: Callable[[], int], put: Callable[[Written], None]) -> None:
        self.now_ns = now_ns
        self._node_id = node_id
        self._put = put
        self._notes: list[Note] = []
        self._left = 0  # of those, how many waited for an answer when the others were told of
        self._told: list[Note] = []  # as appended, since their answers were long in coming
        self._refused: Counter[tuple[Replica, Client, int]] = Counter()  # and the offset where the batch begins
        self._hung_up_ns: dict[int, int] = {}  # connections that ended while somebody waited there, and when
        self.releases: dict[Replica, list[Release]] = {}  # of partitions that somebody waits for

    @property
    def count(self) -> int:
        """Those that came since the others were told of, or left to wait."""
        return len(self._notes) - self._left

    def appended(
        self,
        replica: Replica,
        acks: int,
        client: Client,
        began_ns: int,
        watermark_before: int,
        appended: Appended,
        records: Buffer,
    ) -> None:
        """A batch is in the log, or was already. Time and watermark are those before: both may have gone on."""
        watermark = replica.high_watermark
        if appended.last_offset < (watermark if acks == ACKS_ALL else replica.safe_end):
            answered_ns = self.now_ns()
            in_sync = _in_sync(replica)
        else:
            answered_ns, in_sync = UNANSWERED, ()
            if acks and replica not in self.releases:
                self.releases[replica] = []
        self._notes.append(
            (
                replica,
                acks,
                client,
                replica.leader_epoch,
                began_ns,
                watermark_before,
                appended,
                _read_producer(records, _PRODUCER_AT),
                len(records),
                answered_ns,
                watermark,
                in_sync,
            )
        )

    def released(self, replica: Replica) -> None:
        """It is safe further than before; for one of `releases`. Who waited for that is about to be answered."""
        releases = self.releases[replica]
        safe_end, watermark = replica.safe_end, replica.high_watermark
        if not releases or releases[-1].safe_end < safe_end or releases[-1].watermark < watermark:
            releases.append(Release(self.now_ns(), watermark, _in_sync(replica), safe_end))

    def refused(self, replica: Replica, client: Client, base_offset: int) -> None:
        """Its producer is told something else: that the batch was appended is true all the same."""
        self._refused[replica, client, base_offset] += 1

    def hung_up(self, connection_id: int) -> None:
        """Who waits there is not answered, though his batches may become safe."""
        self._hung_up_ns.setdefault(connection_id, self.now_ns())

    def tell(self, unanswered_us: int = 0) -> None:
        """Tell of those that were answered; and without an answer, which will then be told apart, of those that have
        waited for one for so long."""
        now_us = self.now_ns() // 1000
        notes, self._notes = self._notes, []
        releases, self.releases = self.releases, {}
        self._tell_late_answers(releases)
        runs: dict[Run, list[Note]] = {}
        for note in notes:
            run = note[:4]
            noted = runs.get(run)
            if noted is None:
                runs[run] = [note]
            else:
                noted.append(note)
        for run, noted in runs.items():
            if run[1] == 0:  # nobody is answered
                for note in noted:
                    self._tell_appended(note)
                continue
            is_gone = run[2].connection_id in self._hung_up_ns
            until_us = now_us if is_gone else now_us - unanswered_us
            if rows := self._answered(noted, run[1], self._heard(releases, run), until_us):
                batches = cast("list[Batch]", rows)
                self._put(ProducedBatches(now_us, self._node_id, *_where(run), run[1], run[3], batches))
        if self._hung_up_ns:
            self._told = [note for note in self._told if note[2].connection_id not in self._hung_up_ns]
            self._hung_up_ns.clear()
        self._refused.clear()
        self._left = len(self._notes)

    def _heard(self, releases: dict[Replica, list[Release]], run: Run | Note) -> list[Release]:
        """Those of a partition while the client was there."""
        here = releases.get(run[0], [])
        gone_ns = self._hung_up_ns.get(run[2].connection_id)
        return here if gone_ns is None else [release for release in here if release.at_ns < gone_ns]

    def _answered(self, notes: list[Note], acks: int, releases: list[Release], until_us: int) -> list[Row]:
        """Those of a run that were answered. Of the others, those that have waited since `until_us` are told now, and
        the rest wait for the next time."""
        reached, is_any_refused = _reached(acks, releases), bool(self._refused)
        rows: list[Row] = []
        for note in notes:
            _, _, _, _, began_ns, before, appended, producer, size_bytes, at_ns, watermark, in_sync = note
            base_offset, last_offset, _, is_new = appended
            if is_any_refused and self._was_refused(note):
                self._tell_appended(note)
                continue
            if at_ns == UNANSWERED:
                place = bisect_right(reached, last_offset)
                if place == len(reached):
                    self._leave(note, until_us)
                    continue
                at_ns, watermark, in_sync, _ = releases[place]
            began_us = began_ns // 1000
            took_us = at_ns // 1000 - began_us if at_ns > began_ns else 0  # clocks may be set back
            id_, epoch, sequence = producer
            rows.append(
                (
                    began_us,
                    took_us,
                    id_,
                    epoch,
                    sequence,
                    base_offset,
                    last_offset + 1,
                    size_bytes,
                    not is_new,
                    before,
                    watermark,
                    in_sync,
                )
            )
        return rows

    def _leave(self, note: Note, until_us: int) -> None:
        """It is not answered yet."""
        self.releases.setdefault(note[0], [])
        if note[4] // 1000 > until_us:
            self._notes.append(note)
        else:
            self._tell_appended(note)
            self._told.append(note)

    def _tell_late_answers(self, releases: dict[Replica, list[Release]]) -> None:
        told, self._told = self._told, []
        for note in told:
            if self._was_refused(note):
                continue
            heard = self._heard(releases, note)
            place = bisect_right(_reached(note[1], heard), note[6].last_offset)
            if place < len(heard):
                self._tell_answered(note, heard[place])
            else:
                self._told.append(note)
                self.releases[note[0]] = []

    def _was_refused(self, note: Note) -> bool:
        """Asked of the older ones first: a producer that is refused sends the same batch again, and may be answered."""
        which = note[0], note[2], note[6].base_offset
        if not self._refused[which]:
            return False
        self._refused[which] -= 1
        return True

    def _tell_appended(self, note: Note) -> None:
        _, acks, _, leader_epoch, began_ns, watermark, appended, producer, size_bytes = note[:9]
        written = appended.base_offset, appended.last_offset + 1, size_bytes
        about = *_where(note), acks, *producer, *written
        self._put(
            ProduceAppended(began_ns // 1000, self._node_id, *about, not appended.is_new, leader_epoch, watermark)
        )

    def _tell_answered(self, note: Note, release: Release) -> None:
        _, acks, _, _, began_ns, before, appended = note[:7]
        began_us = began_ns // 1000
        at_us = max(release.at_ns // 1000, began_us)  # clocks may be set back
        offsets = appended.base_offset, appended.last_offset + 1, before, release.watermark
        where = _where(note)
        self._put(ProduceAnswered(at_us, self._node_id, *where, acks, *offsets, release.in_sync, at_us - began_us))


def _where(run: Run | Note) -> tuple[str, int, str, str, int]:
    replica, client = run[0], run[2]
    return replica.topic, replica.partition, client.client_id, client.client_host, client.connection_id


def _in_sync(replica: Replica) -> tuple[int, ...]:
    return () if replica.in_sync is None else replica.in_sync.in_sync


def _reached(acks: int, releases: Sequence[Release]) -> list[int]:
    """How far a partition was safe at each release, as `acks` asks."""
    if acks == ACKS_ALL:
        return [release.watermark for release in releases]
    return [release.safe_end for release in releases]
