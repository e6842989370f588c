"""Runs a machine over its log: decide, append, apply, with no wait between; then the answers, when that is durable.

It owns a machine's clock (one deadline) and the commands that wait for their answer. The metadata's controller has
one host; the coordinator runtime has one for each partition of an internal topic. Nothing else calls a machine's
decide, expire or apply.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from itertools import islice
from typing import Generic, NamedTuple, TypeVar

from chronik.core.errors import Code, Corrupt, Refused
from chronik.core.log.appended import Appended
from chronik.core.log.log import Log
from chronik.core.log.producers import VerificationGuard
from chronik.core.machines.machine import Decision, FactT, LogMarker, LogRecord, Machine, Reply
from chronik.core.records.batch import TRANSACTIONAL_BIT, read_header, read_size
from chronik.core.records.control import Marker, read_marker
from chronik.core.records.payload import KeyValue, build, walk
from chronik.core.replica.replica import ACKS_ALL, Replica
from chronik.core.types import NO_PRODUCER_ID
from chronik.node.replication.purgatory import Purgatory
from chronik.node.replication.replicas import Replicas
from chronik.node.runtime.deadlines import Deadline
from chronik.node.runtime.steady_time import SteadyTime

READ_BYTES = 1024 * 1024
RETRY_MS = 1000
FOR_EVER = -1
TRANSACTIONAL_SEQUENCE = 0  # of every batch that is written in a producer's name: it does not number these
_RECORD_BYTES = 32  # at most, around key and value
CommandT = TypeVar("CommandT")


class Transactional(NamedTuple):
    """In the name of which producer a command's records are written, as part of its transaction."""

    producer_id: int
    producer_epoch: int
    guard: VerificationGuard | None  # that its coordinator was asked with, where this is the first batch of it here


class MachineHost(Generic[CommandT, FactT]):
    """One machine, the replica that holds its log, and the futures of its answers."""

    def __init__(
        self,
        machine: Machine[CommandT, FactT],
        replica: Replica,
        replicas: Replicas,
        waiting: Purgatory,
        time: SteadyTime,
        applied: Callable[[list[FactT]], None] | None = None,
        codes: Mapping[Code, Code] | None = None,
        safe_within_ms: int = FOR_EVER,
    ) -> None:
        self.machine = machine
        self.replica = replica
        self._replicas = replicas
        self._waiting = waiting
        self._time = time
        self._applied = applied
        self._codes = codes or {}  # what a refusal of the log is called by those that ask this machine
        self._safe_within_ms = safe_within_ms  # else the answer is REQUEST_TIMED_OUT
        self._asked: dict[int, asyncio.Future[object]] = {}
        self._next_ticket = 0
        self._deadline: Deadline | None = None
        self._deadline_ms: int | None = None
        self._not_before_ms = 0  # the log took nothing: it is not asked again at once
        self._unread: Iterator[LogRecord | LogMarker] | None = None
        self._is_closed = False

    def replay(self) -> int:
        """Bring the machine to where its log ends. Returns how many records that took."""
        count = self.replay_part(sys.maxsize)
        self.begin()
        return count

    def replay_part(self, count_max: int) -> int:
        """Bring the machine further along its log. Returns how many records that took: fewer than asked at its end."""
        if self._unread is None:
            self._unread = entries_of(self.replica.log)
        count = 0
        for entry in islice(self._unread, count_max):
            if isinstance(entry, LogMarker):
                for fact in self.machine.decided(entry):
                    self.machine.apply(fact)
            else:
                self.machine.replay(entry)
            count += 1
        return count

    def begin(self) -> None:
        """It has been replayed: from now on time counts."""
        self._unread = None
        self._set_deadline()

    def ask(self, command: CommandT, within: Transactional | None = None) -> asyncio.Future[object]:
        """What follows from the command has happened when this returns; the future has the answer when it is durable.
        What type that is, the command says (core.machines.machine.Command). Its records are part of the transaction
        `within`, if there is one.
        """
        ticket = self._next_ticket
        self._next_ticket += 1
        decision = self.machine.decide(ticket, command, self._time.now_ms(), self._time.wall_ms())
        future = asyncio.get_running_loop().create_future()
        self._asked[ticket] = future
        try:
            self._carry_out(decision, within)
        except Refused as refusal:
            self._asked.pop(ticket, None)
            if future.done():  # the log was lost and took the machine with it: reported here, not there
                future.exception()
            raise self._error_for_clients(refusal) from refusal
        return future

    def _error_for_clients(self, refusal: Refused) -> Refused:
        return Refused(self._codes.get(refusal.code, refusal.code), refusal.message)

    def append_marker(
        self, marker: Marker, producer_id: int, producer_epoch: int, transaction_version: int
    ) -> Appended:
        """Write that a producer's transaction has ended; what follows from it has happened when this returns. It is
        durable when the high watermark passes it. Raises Refused."""
        who = producer_id, producer_epoch
        appended = self._replicas.append_marker(self.replica, marker, *who, transaction_version)
        if appended.is_new:
            self._apply(self.machine.decided(LogMarker(producer_id, marker.is_commit)))
        return appended

    def _carry_out(self, decision: Decision[FactT], within: Transactional | None = None) -> None:
        is_written = False
        for facts, records in self._parts(decision):
            if records:
                self._append(records, within)
                is_written = True
            self._apply(facts)
        if decision.replies:
            # Even a mere reading waits for what it may have read to be safe.
            end_offset = self.replica.log.end_offset
            released = partial(self._release, decision.replies, is_written)
            self._waiting.when_safe(self.replica, end_offset, ACKS_ALL, self._safe_within_ms, released)
        self._set_deadline()

    def _append(self, records: list[KeyValue], within: Transactional | None) -> None:
        if within is None:
            self._replicas.append(self.replica, build(records, self._time.wall_ms()), ACKS_ALL)
            return
        batch = build(
            records,
            self._time.wall_ms(),
            producer_id=within.producer_id,
            producer_epoch=within.producer_epoch,
            base_sequence=TRANSACTIONAL_SEQUENCE,
            attributes=TRANSACTIONAL_BIT,
        )
        self._replicas.append_of_coordinator(self.replica, batch, within.guard)

    def _apply(self, facts: list[FactT]) -> None:
        for fact in facts:
            self.machine.apply(fact)
        if self._applied is not None:
            self._applied(facts)

    def _parts(self, decision: Decision[FactT]) -> Iterator[tuple[list[FactT], list[KeyValue]]]:
        """The facts, and those that go to the log as its records; several times if they need not be one batch."""
        facts: list[FactT] = []
        records: list[KeyValue] = []
        room_bytes = self.replica.log.config.max_message_bytes // 2
        for fact in decision.facts:
            facts.append(fact)
            if fact.durable:
                encoded = self.machine.encode(fact)
                record = KeyValue(encoded.key, encoded.value)
                records.append(record)
                room_bytes -= len(record.key or b"") + len(record.value or b"") + _RECORD_BYTES
            if room_bytes < 0 and not decision.is_atomic:
                yield facts, records
                facts, records = [], []
                room_bytes = self.replica.log.config.max_message_bytes // 2
        if facts:
            yield facts, records

    def _release(self, replies: list[Reply], is_written: bool, code: Code) -> None:
        if code is Code.NOT_ENOUGH_REPLICAS_AFTER_APPEND and not is_written:
            code = Code.NONE  # what was read is on all that are in sync; too few of them hold up writing only
        for ticket, answer in replies:
            future = self._asked.pop(ticket, None)
            if future is None or future.done():
                continue
            if code:
                future.set_exception(self._error_for_clients(Refused(code)))
            elif isinstance(answer, Refused):
                future.set_exception(answer)
            else:
                future.set_result(answer)

    def _set_deadline(self) -> None:
        due_ms = self.machine.next_deadline_ms()
        if due_ms is not None:
            due_ms = max(due_ms, self._not_before_ms)
        if due_ms == self._deadline_ms:
            return
        if self._deadline is not None:
            self._waiting.cancel(self._deadline)
            self._deadline = None
        self._deadline_ms = due_ms
        if due_ms is not None:
            self._deadline = self._waiting.after_ms(due_ms - self._time.now_ms(), self._expire)

    def _expire(self) -> None:
        self._deadline = self._deadline_ms = None
        decision = self.machine.expire(self._time.now_ms(), self._time.wall_ms())
        try:
            self._carry_out(decision)
        except Refused as refusal:  # the disk does not take it: nothing was applied, and it is due again later
            for ticket, _ in decision.replies:
                future = self._asked.pop(ticket, None)
                if future is not None and not future.done():
                    future.set_exception(self._error_for_clients(refusal))
            if not self._is_closed:  # by the very failure
                self._not_before_ms = self._time.now_ms() + RETRY_MS
                self._set_deadline()

    def close(self, code: Code = Code.NOT_COORDINATOR) -> None:
        """Stop: waiting commands are answered that this is no longer the place to ask."""
        self._is_closed = True
        if self._deadline is not None:
            self._waiting.cancel(self._deadline)
        for future in self._asked.values():
            if not future.done():
                future.set_exception(Refused(code))
        self._asked.clear()


def entries_of(log: Log) -> Iterator[LogRecord | LogMarker]:
    """All that a machine's log says from its start to its end: records, and which transactions ended where. Raises
    Corrupt."""
    offset = log.start_offset
    while offset < log.end_offset:
        plan = log.read(offset, log.end_offset, READ_BYTES, at_least_one=True)
        if plan is None:
            raise Corrupt(log.directory, f"nothing at offset {offset}, though the log ends at {log.end_offset}")
        content = memoryview(plan.file.read(plan.position, plan.length))
        log.check_slice(plan, content)
        position = 0
        while position < len(content):
            _, size = read_size(content, position)
            yield from _entries_of(content[position : position + size])
            position += size
        offset = plan.next_offset


def _entries_of(batch: memoryview) -> Iterator[LogRecord | LogMarker]:
    header = read_header(batch)
    if header.is_control:
        marker = read_marker(batch)
        if marker is not None:  # else of a kind that is not for machines, or compacted away
            yield LogMarker(header.producer_id, marker.is_commit)
        return
    producer_id = header.producer_id if header.is_transactional else NO_PRODUCER_ID
    for record in walk(batch):
        yield LogRecord(record.key, record.value, producer_id)


def records_of(log: Log) -> Iterator[LogRecord]:
    """The records of a log from its start to its end, without markers. Raises Corrupt."""
    return (entry for entry in entries_of(log) if isinstance(entry, LogRecord))
