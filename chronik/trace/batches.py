"""Batches from their append to their answer, as they are recorded in the trace.

Most steps that a node takes are these two, so they are made to cost little. A batch is noted when it is appended; when
that turn of the loop ends, all that were noted are brought into the form in which they are written down. Nothing notes
when a batch is answered: what is safe is answered in the order of offsets, many at a time, so it is noted how far a
partition was safe and when (`released`), and how many batches each of these moments answered is worked out when the
recorder writes down what there is. What is safe as soon as it is appended is answered when its turn ends, with all
others of that turn. Only a batch that is refused after all is noted by itself, and the retry of what was safe long ago.
Batches of a connection to a partition are recorded together: a *run* is one event.
"""

from __future__ import annotations

import struct
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Callable, Sequence
from operator import itemgetter
from typing import Any, NamedTuple, TypeAlias, cast

from chronik.core.log.appended import Appended
from chronik.core.replica.replica import ACKS_ALL, Replica
from chronik.core.types import Buffer
from chronik.trace.events import ProduceAnswered
from chronik.trace.lines import Answered, BatchRun, Taken, Written, took_us
from chronik.trace.observer import ObservedClient

_PRODUCER = struct.Struct(">qhi")  # its id and epoch, and the first sequence number
_read_producer = _PRODUCER.unpack_from
_PRODUCER_AT = 43  # bytes from the beginning of a batch
_HEAD_BYTES = _PRODUCER_AT + _PRODUCER.size
_KEPT_BYTES = 16 * 1024  # of a larger one only the head is kept: the memory of its request is soon used for the next


Note: TypeAlias = tuple[Any, ...]
"""A batch as it was appended: the fields of lines.Taken, bare."""
_APPENDED_NS = Taken._fields.index("appended_ns")
_BASE_OFFSET = Taken._fields.index("base_offset")
_LAST_OFFSET = Taken._fields.index("last_offset")
_last_offset = itemgetter(_LAST_OFFSET)

Noted: TypeAlias = tuple[Replica, int, ObservedClient, int, int, int, int, Appended, Buffer]
"""What `PendingBatches.appended` gets, the leader's epoch then, and of a large batch its beginning only. Notes are made
of it at the end of the turn: many at a time cost half of what one does in the middle of its request (decision 0019)."""

Answer: TypeAlias = tuple[int, int, int, tuple[int, ...]]
"""The fields of lines.Answered, bare."""


class Release(NamedTuple):
    """A partition was safe further than before, and the batches that waited for that were answered."""

    at_ns: int
    watermark: int
    in_sync: tuple[int, ...]
    durable_end_offset: int


class Run:
    """Batches that one connection sent to one partition in one leader epoch, since a run was last reported."""

    __slots__ = ("acks", "answers", "batches", "client", "leader_epoch", "replica", "waiting")

    def __init__(self, replica: Replica, acks: int, client: ObservedClient, leader_epoch: int) -> None:
        self.replica = replica
        self.acks = acks
        self.client = client
        self.leader_epoch = leader_epoch
        self.batches: list[Note] = []  # retries of what was safe already
        self.answers: list[Answer] = []  # one for each of those
        self.waiting: list[Note] = []  # for their answer

    def event(self, at_us: int, node_id: int) -> BatchRun:
        client, replica = self.client, self.replica
        who = replica.topic, replica.partition, client.client_id, client.client_host, client.connection_id
        batches, answers = cast("list[Taken]", self.batches), cast("list[Answered]", self.answers)
        return BatchRun(at_us, node_id, *who, self.acks, self.leader_epoch, batches, answers, str(client.principal))

    def answer(self, releases: Sequence[Release]) -> list[Note]:
        """Take up those that these answered, and give back the others."""
        waiting, self.waiting = self.waiting, []
        ends = list(map(_last_offset, waiting))
        if sorted(ends) != ends:  # the retry of one that waits comes after later ones, and is answered with the first
            waiting.sort(key=_last_offset)
            ends.sort()
        done = 0
        answers: list[Answer] = []
        for release, reached in zip(releases, _reached(self.acks, releases), strict=True):
            until = bisect_left(ends, reached, done)
            if until > done:
                answers.append((until - done, *release[:3]))
                done = until
        self.batches = waiting[:done] + self.batches  # a retry that was answered at once stands behind the first one
        self.answers = answers + self.answers
        return waiting[done:]


class PendingBatches:
    """Those that were appended and not written down yet."""

    def __init__(
        self,
        node_id: int,
        now_ns: Callable[[], int],
        put: Callable[[Written], None],
        soon: Callable[[Callable[[], None]], object],
    ) -> None:
        self.now_ns = now_ns
        self._soon = soon
        self._node_id = node_id
        self._put = put
        self._runs: dict[tuple[Replica, int, ObservedClient, int], Run] = {}
        self._left = 0  # batches that waited for an answer when the others were recorded
        self._told: list[tuple[Run, Note]] = []  # as appended, since their answers were long in coming
        self._refused: Counter[tuple[Replica, ObservedClient, int]] = Counter()  # and the offset where the batch begins
        self._hung_up_ns: dict[int, int] = {}  # connections that ended while a response was due there, and when
        self._releases: dict[Replica, list[Release]] = {}
        self.awaited: dict[Replica, None] = {}  # partitions with responses due: their releases are events
        self._noted: list[Noted] = []  # in this turn of the loop

    @property
    def count(self) -> int:
        """Those that came before this turn, and since the others were recorded, or left to wait."""
        return sum(len(run.batches) + len(run.waiting) for run in self._runs.values()) - self._left

    def appended(
        self,
        replica: Replica,
        acks: int,
        client: ObservedClient,
        began_ns: int,
        watermark_before: int,
        appended: Appended,
        records: Buffer,
    ) -> None:
        """A batch is in the log, or was already. Time and watermark are those before: both may have gone on."""
        noted, size = self._noted, len(records)
        head = records if size <= _KEPT_BYTES else bytes(records[:_HEAD_BYTES])
        noted.append((replica, acks, client, replica.leader_epoch, began_ns, watermark_before, size, appended, head))
        if len(noted) == 1:
            self._soon(self._turn_ends)

    def _turn_ends(self) -> None:
        """The answers of this turn of the loop leave now; other pending batches follow later."""
        noted, self._noted = self._noted, []
        at_once: dict[Replica, None] = {}
        run, reached = None, 0  # mostly the next batch is of the same run, and nothing becomes safe in here
        for replica, acks, client, leader_epoch, began_ns, watermark_before, size, appended, head in noted:
            if (
                run is None
                or run.replica is not replica
                or run.client is not client
                or run.acks != acks
                or run.leader_epoch != leader_epoch
            ):
                run = self._run_of(replica, acks, client, leader_epoch)
                reached = replica.high_watermark if acks == ACKS_ALL else replica.durable_end_offset
            # Put together this way it takes 0.16 µs, with stars 0.2.
            note = (began_ns, watermark_before, size) + _read_producer(head, _PRODUCER_AT) + appended  # noqa: RUF005
            if appended.last_offset >= reached:
                if acks:
                    self.awaited[replica] = None
            elif appended.is_new:
                at_once[replica] = None
            elif acks:
                run.batches.append(note)
                run.answers.append((1, self.now_ns(), replica.high_watermark, _in_sync(replica)))
                continue
            run.waiting.append(note)
        for replica in at_once:
            self.released(replica)

    def _run_of(self, replica: Replica, acks: int, client: ObservedClient, leader_epoch: int) -> Run:
        which = replica, acks, client, leader_epoch
        run = self._runs.get(which)
        if run is None:
            run = self._runs[which] = Run(*which)
        return run

    def released(self, replica: Replica) -> None:
        """It is safe further than before. Who waited for that is about to be answered."""
        releases = self._releases.setdefault(replica, [])
        durable_end_offset, watermark = replica.durable_end_offset, replica.high_watermark
        if not releases or releases[-1].durable_end_offset < durable_end_offset or releases[-1].watermark < watermark:
            releases.append(Release(self.now_ns(), watermark, _in_sync(replica), durable_end_offset))

    def refused(self, replica: Replica, client: ObservedClient, base_offset: int) -> None:
        """Its producer gets another response: that the batch was appended is true all the same."""
        self._refused[replica, client, base_offset] += 1

    def hung_up(self, connection_id: int) -> None:
        """The connection closed: its pending batches may still commit but get no response."""
        self._hung_up_ns.setdefault(connection_id, self.now_ns())

    def tell(self, unanswered_us: int = 0) -> None:
        """Tell of those that were answered; and without an answer, which will then be reported separately, of those
        that have waited for one for so long."""
        self._turn_ends()
        now_ns = self.now_ns()
        runs, self._runs = self._runs, {}
        releases, self._releases, self.awaited = self._releases, {}, {}
        self._tell_late_answers(releases)
        self._left = 0
        for run in runs.values():
            refused = self._take_refused(run) if self._refused else []
            if run.acks == 0:  # there is no response
                unanswered, run.waiting = run.waiting, []
            else:
                is_gone = run.client.connection_id in self._hung_up_ns
                until_ns = now_ns if is_gone else now_ns - unanswered_us * 1000
                unanswered = self._leave(run, run.answer(self._heard(releases, run)), until_ns)
            run.batches += refused + unanswered  # behind those that `answers` count
            if run.batches:
                self._put(run.event(now_ns // 1000, self._node_id))
        if self._hung_up_ns:
            self._told = [told for told in self._told if told[0].client.connection_id not in self._hung_up_ns]
            self._hung_up_ns.clear()
        self._refused.clear()

    def _heard(self, releases: dict[Replica, list[Release]], run: Run) -> list[Release]:
        """Those of a partition while the client was there."""
        here = releases.get(run.replica, [])
        gone_ns = self._hung_up_ns.get(run.client.connection_id)
        return here if gone_ns is None else [release for release in here if release.at_ns < gone_ns]

    def _leave(self, run: Run, unanswered: list[Note], until_ns: int) -> list[Note]:
        """They are not answered yet: those that have waited since `until_ns` are recorded now, the rest later."""
        late: list[Note] = []
        for note in unanswered:
            self.awaited[run.replica] = None
            if note[_APPENDED_NS] > until_ns:
                self._run_of(run.replica, run.acks, run.client, run.leader_epoch).waiting.append(note)
                self._left += 1
            else:
                late.append(note)
                self._told.append((run, note))
        return late

    def _tell_late_answers(self, releases: dict[Replica, list[Release]]) -> None:
        told, self._told = self._told, []
        for run, note in told:
            if self._was_refused(run, note):
                continue
            heard = self._heard(releases, run)
            place = bisect_right(_reached(run.acks, heard), note[_LAST_OFFSET])
            if place < len(heard):
                self._tell_answered(run, note, heard[place])
            else:
                self._told.append((run, note))
                self.awaited[run.replica] = None

    def _take_refused(self, run: Run) -> list[Note]:
        """Out of the run: a refused batch is not answered."""
        waiting, batches, answers = run.waiting, run.batches, run.answers
        refused: list[Note] = []
        run.waiting, run.batches, run.answers = [], [], []
        for note in waiting:  # older than a retry of the same batch that was safe by then
            (refused if self._was_refused(run, note) else run.waiting).append(note)
        for note, answer in zip(batches, answers, strict=True):
            if self._was_refused(run, note):
                refused.append(note)
            else:
                run.batches.append(note)
                run.answers.append(answer)
        return refused

    def _was_refused(self, run: Run, note: Note) -> bool:
        """Asked of the older ones first: a producer that is refused sends the same batch again, and may be answered."""
        which = run.replica, run.client, note[_BASE_OFFSET]
        if not self._refused[which]:
            return False
        self._refused[which] -= 1
        return True

    def _tell_answered(self, run: Run, note: Note, release: Release) -> None:
        batch, client = Taken(*note), run.client
        took = took_us(batch.appended_ns, release.at_ns)
        where = run.replica.topic, run.replica.partition, client.client_id, client.client_host, client.connection_id
        offsets = batch.base_offset, batch.last_offset + 1, batch.watermark_before, release.watermark
        at_us = batch.appended_ns // 1000 + took
        self._put(ProduceAnswered(at_us, self._node_id, *where, run.acks, *offsets, release.in_sync, took))


def _in_sync(replica: Replica) -> tuple[int, ...]:
    return () if replica.in_sync is None else replica.in_sync.in_sync


def _reached(acks: int, releases: Sequence[Release]) -> list[int]:
    """How far a partition was safe at each release, as `acks` asks."""
    if acks == ACKS_ALL:
        return [release.watermark for release in releases]
    return [release.durable_end_offset for release in releases]
