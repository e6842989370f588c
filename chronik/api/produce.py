"""Produce (0), versions 3-13; 0-2 are advertised for old clients' sake and refused with UNSUPPORTED_VERSION.

Each partition's batch is appended at once and in the order of the request; the answer waits until all of them are as
safe as `acks` asks: 1, synced here; all, on every in-sync replica; 0, no answer at all. One partition's refusal is
its own.

A partition that another node leads is sent on to that one (node/forwarding), and its answer put in its place. Whoever
is refused because a leader has changed is told who it is, from version 10 on (KIP-951).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeAlias

from chronik.api.desk import Caller, Desk, Elsewhere
from chronik.api.refusals import trace_refusal
from chronik.core.errors import Code, Refused
from chronik.core.machines.metadata.names import is_internal
from chronik.core.ports import Outgoing
from chronik.core.replica.replica import ACKS_ALL, Replica
from chronik.wire import produce as wire
from chronik.wire.framing import RequestHeader
from chronik.wire.leaders import Leader, NodeEndpoint
from chronik.wire.produce import PartitionAnswer, ProduceRequest
from chronik.wire.versions import PRODUCE

Answer: TypeAlias = Callable[[Sequence[Outgoing] | None], None]
Topics: TypeAlias = list[tuple[str | bytes, list[PartitionAnswer]]]

_ACKS = (0, 1, ACKS_ALL)
# Not for this node, or not known here yet: metadata that others have may be on its way.
_LED_ELSEWHERE = (
    Code.NOT_LEADER_OR_FOLLOWER,
    Code.LEADER_NOT_AVAILABLE,
    Code.UNKNOWN_TOPIC_OR_PARTITION,
    Code.UNKNOWN_TOPIC_ID,
)
_LEADER_CHANGED = (Code.NOT_LEADER_OR_FOLLOWER, Code.FENCED_LEADER_EPOCH)
_UNANSWERED = PartitionAnswer(-1, Code.UNKNOWN_SERVER_ERROR, -1, -1, -1)


def start(
    frame: memoryview, header: RequestHeader, caller: Caller, desk: Desk, answer: Answer
) -> Callable[[], None] | None:
    """Append what the frame holds; `answer` is called with the response when it is due, or None to hang up. Returns
    whom to call if nobody waits for that any more."""
    if header.version < wire.SUPPORTED_FROM:
        desk.metrics.refused(PRODUCE, Code.UNSUPPORTED_VERSION)
        refusal = wire.refuse_old(frame, header.body, header.version, header.correlation_id)
        answer(None if refusal is None else (refusal,))
        return None
    request = wire.parse(frame, header.body, header.version)
    pending = _Pending(header, caller, request, desk, answer)
    for topic, partitions in request.topics:
        answers = [_UNANSWERED] * len(partitions)
        pending.topics.append((topic, answers))
        for index, (partition, records) in enumerate(partitions):
            pending.outstanding += 1
            _append(request, topic, partition, records, answers, index, pending, desk)
    if pending.elsewhere:
        pending.send_on()
    pending.one_done()  # the one that `_Pending` starts with: now every partition has been looked at
    return pending.abandoned if pending.outstanding and pending.steps is not None else None


def _append(
    request: ProduceRequest,
    topic: str | bytes,
    partition: int,
    records: memoryview | None,
    answers: list[PartitionAnswer],
    index: int,
    pending: _Pending,
    desk: Desk,
) -> None:
    """Append one partition's batch and have `pending` told when it is safe; a refusal is its answer at once."""
    try:
        replica = _replica(request, topic, partition, desk)
        if records is None:
            raise Refused(Code.INVALID_RECORD, "no records")
        steps, batches = pending.steps, None
        began_ns = watermark_before = 0
        if steps is not None and steps.wanted[replica.topic]:
            batches = steps.batches
            began_ns, watermark_before = batches.now_ns(), replica.high_watermark
        appended = desk.replicas.append(replica, records, request.acks)
    except Refused as refusal:
        if refusal.code in _LED_ELSEWHERE and records is not None and pending.may_go_on:
            pending.elsewhere.append(Elsewhere(topic, partition, records, answers, index))
            return
        pending.refused(answers, index, PartitionAnswer(partition, refusal.code, -1, -1, -1, refusal.message))
        return
    answers[index] = PartitionAnswer(
        partition, 0, appended.base_offset, appended.log_append_time_ms, replica.log.start_offset
    )
    if batches is not None:
        batches.appended(replica, request.acks, pending.caller, began_ns, watermark_before, appended, records)
    done = partial(pending.partition_done, answers, index, replica)
    if request.acks == 0:
        pending.one_done()
        return
    timeout_ms = max(request.timeout_ms, 0) if request.acks == ACKS_ALL else -1
    desk.waiting.when_safe(replica, appended.last_offset + 1, request.acks, timeout_ms, done)


def _replica(request: ProduceRequest, topic: str | bytes, partition: int, desk: Desk) -> Replica:
    if request.acks not in _ACKS:
        raise Refused(Code.INVALID_REQUIRED_ACKS)
    if isinstance(topic, bytes):
        known = desk.metadata.image.topic_by_id(topic)
        if known is None:
            raise Refused(Code.UNKNOWN_TOPIC_ID)
        topic = known.name
    if is_internal(topic):  # a client that wrote there could make groups of its own invention
        raise Refused(Code.INVALID_TOPIC_EXCEPTION, f"{topic} is written by the brokers themselves")
    replica = desk.replicas.leader(topic, partition)
    if request.transactional_id is not None:
        raise Refused(Code.INVALID_TXN_STATE, "transactions are not supported yet")
    return replica


class _Pending:
    """A request whose partitions are not all safe yet."""

    __slots__ = (
        "answer",
        "caller",
        "desk",
        "elsewhere",
        "failed",
        "header",
        "outstanding",
        "request",
        "steps",
        "topics",
    )

    def __init__(
        self, header: RequestHeader, caller: Caller, request: ProduceRequest, desk: Desk, answer: Answer
    ) -> None:
        self.header = header
        self.caller = caller
        self.request = request
        self.desk = desk
        self.answer = answer
        self.topics: Topics = []
        self.outstanding = 1
        self.failed = False
        self.elsewhere: list[Elsewhere] = []
        self.steps = None if desk.trace is None else desk.trace.steps

    @property
    def may_go_on(self) -> bool:
        """What a node has sent on is not sent on again: it might go round in circles."""
        return self.desk.forwarding is not None and not self.caller.is_node

    def send_on(self) -> None:
        parts, self.elsewhere = self.elsewhere, []
        assert self.desk.forwarding is not None  # or nothing would be meant for elsewhere
        self.desk.forwarding.produce(self, parts)

    def settle(self, part: Elsewhere, told: PartitionAnswer) -> None:
        """What another node made of it."""
        if told.error_code:
            self.refused(part.answers, part.index, told)
        else:
            part.answers[part.index] = told
            self.one_done()

    def again(self, part: Elsewhere) -> None:
        """It has another leader, perhaps this node."""
        try:
            _append(self.request, part.topic, part.partition, part.records, part.answers, part.index, self, self.desk)
        except Exception:
            self.abandoned()
            self.answer(None)  # parts of it may have been appended: only hanging up is true
            raise
        if self.elsewhere:
            self.elsewhere[-1].until = part.until
            self.send_on()

    def refused(self, answers: list[PartitionAnswer], index: int, told: PartitionAnswer) -> None:
        self.desk.metrics.refused(PRODUCE, Code(told.error_code))
        if self.steps is not None:
            topic = next(topic for topic, its_answers in self.topics if its_answers is answers)
            trace_refusal(self.desk, "produce", self.caller, told.error_code, told.message, topic, told.partition)
        answers[index] = told
        self.failed = True
        self.one_done()

    def partition_done(self, answers: list[PartitionAnswer], index: int, replica: Replica, code: Code) -> None:
        if code:
            if self.steps is not None:
                self.steps.batches.refused(replica, self.caller, answers[index].base_offset)
            told = answers[index]._replace(error_code=code, base_offset=-1, append_time_ms=-1)
            self.refused(answers, index, told)
        else:
            self.one_done()

    def abandoned(self) -> None:
        """What it brought stays, and its producer will not hear of it."""
        if self.steps is not None:
            self.steps.batches.hung_up(self.caller.connection_id)

    def one_done(self) -> None:
        self.outstanding -= 1
        if self.outstanding:
            return
        if self.request.acks == 0:
            # Nobody reads an answer to acks=0; hanging up is the only way to say that something went wrong.
            self.answer(None if self.failed else ())
            return
        version = self.header.version
        endpoints = self._name_leaders() if self.failed and version >= wire.LEADERS_FROM else ()
        self.answer((wire.encode(version, self.header.correlation_id, self.topics, endpoints),))

    def _name_leaders(self) -> Sequence[NodeEndpoint]:
        """Put the leader into each answer that says it has changed. Returns where those leaders are."""
        image = self.desk.metadata.image
        endpoints: dict[int, NodeEndpoint] = {}
        for topic, answers in self.topics:
            known = image.topic_by_id(topic) if isinstance(topic, bytes) else image.topic(topic)
            for index, told in enumerate(answers):
                if known is None or told.error_code not in _LEADER_CHANGED or told.partition >= len(known.partitions):
                    continue
                placed = known.partitions[told.partition]
                leader = Leader(placed.leader, placed.leader_epoch)
                if told.leader is not None and told.leader.leader_epoch > leader.leader_epoch:
                    leader = told.leader  # the node that was asked knows of a later one
                answers[index] = told._replace(leader=leader)
                broker = image.brokers.get(leader.leader_id)
                if broker is not None:
                    endpoints[broker.id] = NodeEndpoint(broker.id, broker.host, broker.port, broker.rack)
        return list(endpoints.values())
