"""Produce (0), versions 3-13; 0-2 are advertised for old clients' sake and refused with UNSUPPORTED_VERSION.

Each partition's batch is appended at once and in the order of the request; the answer waits until all of them are as
safe as `acks` asks: 1, synced here; all, on every in-sync replica; 0, no answer at all. One partition's refusal is
its own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeAlias

from chronik.api.desk import Caller, Desk
from chronik.core.errors import Code, Refused
from chronik.core.machines.metadata.names import is_internal
from chronik.core.ports import Outgoing
from chronik.core.replica.replica import ACKS_ALL, Replica
from chronik.trace.metrics import Metrics
from chronik.wire import produce as wire
from chronik.wire.framing import RequestHeader
from chronik.wire.produce import PartitionAnswer, ProduceRequest
from chronik.wire.versions import PRODUCE

Answer: TypeAlias = Callable[[Sequence[Outgoing] | None], None]
Topics: TypeAlias = list[tuple[str | bytes, list[PartitionAnswer]]]

_ACKS = (0, 1, ACKS_ALL)


def start(frame: memoryview, header: RequestHeader, caller: Caller, desk: Desk, answer: Answer) -> None:
    """Append what the frame holds; `answer` is called with the response when it is due, or None to hang up."""
    if header.version < wire.SUPPORTED_FROM:
        desk.metrics.refused(PRODUCE, Code.UNSUPPORTED_VERSION)
        refusal = wire.refuse_old(frame, header.body, header.version, header.correlation_id)
        answer(None if refusal is None else (refusal,))
        return
    request = wire.parse(frame, header.body, header.version)
    pending = _Pending(header, request.acks, answer, desk.metrics)
    for topic, partitions in request.topics:
        answers: list[PartitionAnswer] = []
        pending.topics.append((topic, answers))
        for partition, records in partitions:
            pending.outstanding += 1
            _append(request, topic, partition, records, answers, pending, desk)
    pending.one_done()  # the one that `_Pending` starts with: now every partition has been looked at


def _append(
    request: ProduceRequest,
    topic: str | bytes,
    partition: int,
    records: memoryview | None,
    answers: list[PartitionAnswer],
    pending: _Pending,
    desk: Desk,
) -> None:
    """Append one partition's batch and have `pending` told when it is safe; a refusal is its answer at once."""
    index = len(answers)
    try:
        replica = _replica(request, topic, partition, desk)
        if records is None:
            raise Refused(Code.INVALID_RECORD, "no records")
        appended = desk.replicas.append(replica, records, request.acks)
    except Refused as refusal:
        desk.metrics.refused(PRODUCE, refusal.code)
        answers.append(PartitionAnswer(partition, refusal.code, -1, -1, -1, refusal.message))
        pending.failed = True
        pending.one_done()
        return
    answers.append(
        PartitionAnswer(partition, 0, appended.base_offset, appended.log_append_time_ms, replica.log.start_offset)
    )
    if request.acks == 0:
        pending.one_done()
        return
    done = partial(pending.partition_done, answers, index)
    timeout_ms = request.timeout_ms if request.acks == ACKS_ALL else -1
    desk.waiting.when_safe(replica, appended.last_offset + 1, request.acks, timeout_ms, done)


def _replica(request: ProduceRequest, topic: str | bytes, partition: int, desk: Desk) -> Replica:
    if request.acks not in _ACKS:
        raise Refused(Code.INVALID_REQUIRED_ACKS)
    if request.transactional_id is not None:
        raise Refused(Code.INVALID_TXN_STATE, "transactions are not supported yet")
    if isinstance(topic, bytes):
        known = desk.metadata.image.topic_by_id(topic)
        if known is None:
            raise Refused(Code.UNKNOWN_TOPIC_ID)
        topic = known.name
    if is_internal(topic):  # a client that wrote there could make groups of its own invention
        raise Refused(Code.INVALID_TOPIC_EXCEPTION, f"{topic} is written by the brokers themselves")
    return desk.replicas.leader(topic, partition)


class _Pending:
    """A request whose partitions are not all safe yet."""

    __slots__ = ("acks", "answer", "failed", "header", "metrics", "outstanding", "topics")

    def __init__(self, header: RequestHeader, acks: int, answer: Answer, metrics: Metrics) -> None:
        self.header = header
        self.acks = acks
        self.answer = answer
        self.metrics = metrics
        self.topics: Topics = []
        self.outstanding = 1
        self.failed = False

    def partition_done(self, answers: list[PartitionAnswer], index: int, code: Code) -> None:
        if code:
            self.metrics.refused(PRODUCE, code)
            answers[index] = answers[index]._replace(error_code=code, base_offset=-1, append_time_ms=-1)
        self.one_done()

    def one_done(self) -> None:
        self.outstanding -= 1
        if self.outstanding:
            return
        if self.acks == 0:
            # Nobody reads an answer to acks=0; hanging up is the only way to say that something went wrong.
            self.answer(None if self.failed else ())
            return
        self.answer((wire.encode(self.header.version, self.header.correlation_id, self.topics),))
