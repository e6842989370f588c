"""Produce (0), versions 3-13; 0-2 are advertised for old clients' sake and refused with UNSUPPORTED_VERSION.

Each partition's batch is appended at once and in the order of the request; the answer waits until all of them are as
safe as `acks` asks: 1, synced here; all, on every in-sync replica; 0, no answer at all. One partition's refusal is
its own.

A batch for a partition that another node leads is sent on to that node (node/routing/forwarding), and its answer put in
its place. A batch that is refused because the leader changed gets the new leader with the answer, from version 10 on
(KIP-951).

A compacted topic wants a key in every record, and one with `message.timestamp.before.max.ms` a time that is not older,
so their batches are looked through first; others only when their header has a time that is not allowed. The answer
names the records at fault, and librdkafka and the Java client then know the others for good (KIP-467, from version 8).
Where the topic names a codec, a batch that has another is compressed anew (core/log/recompression). Where either takes
long, others are served meanwhile, and only the requests of the same connection wait.

Of an idempotent producer that a log does not know, nothing is taken that came behind a refused batch on the same
connection (core/replica/batch_order).

The first batch of a transaction in a partition is appended when the coordinator has confirmed that the partition is in
that transaction (KIP-890): up to version 11 the producer has added it by itself, from 12 on this is how it is added.
The requests behind it on the same connection wait meanwhile. A guard that the question leaves in the log is gone when
the transaction has ended before the batch is appended. What a coordinator answers that only time can mend is
NOT_ENOUGH_REPLICAS: every producer sends the batch again for that.

A producer id that was never given out is refused (NOT_ENOUGH_REPLICAS, which makes a producer come again): each would
take memory in every partition. Kafka takes any. Those that writers make from what they write are taken, and the
number of producers that a partition remembers bounds them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import Enum
from functools import partial
from typing import TypeAlias

from chronik.api import authorization, throttling
from chronik.api.call import Call
from chronik.api.context import NULL_RECORDS, HeldUp, PartitionBatch, RequestContext
from chronik.api.leaders import LEADER_CHANGED, current_leader, endpoints_of
from chronik.api.refusals import trace_refusal
from chronik.api.topic_ids import topic_name
from chronik.api.transactional import IMPLICIT_FROM, unverified, verification
from chronik.core.access.operations import AclOperation, AclResourceType
from chronik.core.errors import Code, InvalidRecords, Refused
from chronik.core.log.admission import RECORD_ERRORS_MAX
from chronik.core.log.producers import VerificationGuard
from chronik.core.log.recompression import ready_to_append
from chronik.core.machines.metadata.names import is_internal
from chronik.core.machines.transactions.commands import ProducerIdentity
from chronik.core.records.batch import (
    ATTRIBUTES_AT,
    NEGATIVE_FROM,
    PRODUCER_ID_AT,
    TRANSACTIONAL_BIT,
    accept,
    read_header,
    read_producer_id,
)
from chronik.core.records.steps import Unfinished, begin
from chronik.core.replica.batch_order import DOUBTFUL, BatchOrder
from chronik.core.replica.replica import ACKS_ALL, Replica
from chronik.core.types import NAMED_PRODUCER_IDS_FROM, TopicPartition
from chronik.wire import produce as wire
from chronik.wire.leaders import CurrentLeader, NodeEndpoint
from chronik.wire.produce import PartitionAnswer, ProduceRequest
from chronik.wire.versions import PRODUCE

Topics: TypeAlias = list[tuple[str | bytes, list[PartitionAnswer]]]

_ACKS = (0, 1, ACKS_ALL)
# Not for this node, or not known here yet: metadata that others have may be on its way.
_LED_ELSEWHERE = (
    Code.NOT_LEADER_OR_FOLLOWER,
    Code.LEADER_NOT_AVAILABLE,
    Code.UNKNOWN_TOPIC_OR_PARTITION,
    Code.UNKNOWN_TOPIC_ID,
)
# Ids whose block may have been allocated while the metadata here is a moment behind.
IDS_ON_THEIR_WAY = 100_000
_BEHIND = "a batch of the same producer that came before it on this connection was not taken"
_UNANSWERED = PartitionAnswer(-1, Code.UNKNOWN_SERVER_ERROR, -1, -1, -1)


class _Look(Enum):
    """When a batch's records are looked at."""

    WHERE_WANTED = 0  # where the topic's settings ask for it
    NOW = 1  # its header has been refused for its times


def start(call: Call, context: RequestContext) -> Callable[[], None] | HeldUp | None:
    """Append what the frame holds; the response follows when it is due. Returns what to call if the client is gone
    before that."""
    header = call.header
    if header.version < wire.SUPPORTED_FROM:
        context.metrics.refused(PRODUCE, Code.UNSUPPORTED_VERSION)
        refusal = wire.refuse_old(call.frame, header.body, header.version, header.correlation_id)
        call.answer(None if refusal is None else (refusal,))
        return None
    request = wire.parse(call.frame, header.body, header.version)
    pending = _Pending(call, request, context)
    gate = authorization.gate_of(context, call.caller, "produce")
    for topic, partitions in request.topics:
        refusal_code = Code.NONE if gate is None else _objection(gate, request, topic, context)
        answers = [_UNANSWERED] * len(partitions)
        pending.topics.append((topic, answers))
        for index, (partition, records) in enumerate(partitions):
            pending.outstanding += 1
            own = NULL_RECORDS if records is None else records
            if refusal_code:
                refused = PartitionAnswer(partition, refusal_code, -1, -1, -1)
                pending.refused(PartitionBatch(topic, partition, own, answers, index), refused)
                continue
            _append(pending, PartitionBatch(topic, partition, own, answers, index))
    if pending.elsewhere:
        pending.send_on()
    if pending.unverified:
        pending.verify()
    pending.one_done()  # the one that `_Pending` starts with: now every partition has been looked at
    on_abandoned = pending.abandoned if pending.outstanding and pending.observer.is_observing else None
    return HeldUp(on_abandoned) if pending.is_held_up else on_abandoned


def _objection(gate: authorization.Gate, request: ProduceRequest, topic: str | bytes, context: RequestContext) -> Code:
    """Why this client may not write there, or NONE."""
    transactional_id = request.transactional_id
    if transactional_id is not None and not gate.may(
        AclOperation.WRITE, AclResourceType.TRANSACTIONAL_ID, transactional_id
    ):
        return Code.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    known = context.metadata.image.topic_by_name_or_id(topic)
    if known is None and isinstance(topic, bytes):
        return Code.NONE  # that there is no topic of this id is said further on
    name = known.name if known is not None else str(topic)
    is_allowed = gate.may(AclOperation.WRITE, AclResourceType.TOPIC, name)
    return Code.NONE if is_allowed else Code.TOPIC_AUTHORIZATION_FAILED


def _append(
    pending: _Pending,
    batch: PartitionBatch,
    look: _Look = _Look.WHERE_WANTED,
    ready: memoryview | bytearray | None = None,
) -> None:
    """Append one partition's batch and notify `pending` when it is safe; a refusal is its answer at once. `ready` is
    what to keep of it, when that took long to make."""
    request, context, records = pending.request, pending.context, batch.records
    try:
        replica = _replica(request, batch.topic, batch.partition, context)
        if records is NULL_RECORDS:
            raise Refused(Code.INVALID_RECORD, "no records")
        order = pending.call.caller.order
        if order and not _is_in_order(batch, replica, order, context):
            pending.refused(batch, PartitionAnswer(batch.partition, Code.NOT_LEADER_OR_FOLLOWER, -1, -1, -1, _BEHIND))
            return
        # One byte says of most that they have no id: every batch of every producer comes by here.
        may_have_id = len(records) > PRODUCER_ID_AT and records[PRODUCER_ID_AT] < NEGATIVE_FROM
        if may_have_id and read_producer_id(records) >= context.metadata.image.next_producer_id:
            _put_off_unknown(replica, records, context.metadata.image.next_producer_id)
        if len(records) > ATTRIBUTES_AT and records[ATTRIBUTES_AT] & TRANSACTIONAL_BIT and batch.guard is None:
            guard = _begin_verification(pending, batch, replica)
            if guard is not None:
                pending.unverified.append((batch, guard))
                return
        kept: memoryview | bytearray | None = ready or records
        if ready is None and (look is _Look.NOW or not replica.log.config.takes_batches_as_they_come):
            kept = _ready(pending, batch, replica, look)
        if kept is None:
            return
        observer, began_ns, watermark_before = pending.observer, 0, 0
        is_observed = observer.wants(replica.topic)
        if is_observed:
            began_ns, watermark_before = observer.now_ns(), replica.high_watermark
        appended = context.replicas.append(replica, kept, request.acks, batch.guard)
    except Refused as refusal:
        may_look = look is _Look.WHERE_WANTED and ready is None
        if refusal.code == Code.INVALID_TIMESTAMP and may_look and _is_by_header(refusal):
            _append(pending, batch, _Look.NOW)
            return
        may_go_on = refusal.code in _LED_ELSEWHERE and pending.may_go_on
        if may_go_on and records is not NULL_RECORDS and not _is_overtaking(batch, context):
            batch.guard = None  # of this node's log: the leader asks for itself
            pending.elsewhere.append(batch)
            return
        pending.refused(batch, _refusal(batch.partition, refusal))
        return
    batch.answers[batch.index] = PartitionAnswer(
        batch.partition, 0, appended.base_offset, appended.log_append_time_ms, replica.log.start_offset
    )
    if is_observed:
        observer.appended(replica, request.acks, pending.call.caller, began_ns, watermark_before, appended, kept)
    if request.acks == 0:
        pending.one_done()
        return
    timeout_ms = max(request.timeout_ms, 0) if request.acks == ACKS_ALL else -1
    done = partial(pending.partition_done, batch, replica)
    context.waiting.when_safe(replica, appended.last_offset + 1, request.acks, timeout_ms, done)


def _ready(pending: _Pending, batch: PartitionBatch, replica: Replica, look: _Look) -> memoryview | bytearray | None:
    """What the log is to keep of it. None where that takes long to make, and it is appended then."""
    records, config = batch.records, replica.log.config
    checks_records = look is _Look.NOW or config.checks_each_record
    now_ms = pending.context.clock.now_ms()
    making = begin(ready_to_append(records, accept(records), config, now_ms, checks_records=checks_records))
    if not isinstance(making, Unfinished):
        return making.value
    pending.make_ready(making, batch, may_refuse=checks_records)
    return None


def _begin_verification(pending: _Pending, batch: PartitionBatch, replica: Replica) -> VerificationGuard | None:
    """The guard to append it with when its coordinator has confirmed it. None where the transaction is known here."""
    if not pending.request.transactional_id:
        raise Refused(Code.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, "a transactional batch without a transactional id")
    header = accept(batch.records)
    if header.producer_id < 0:
        raise Refused(Code.INVALID_RECORD, "a transactional batch without a producer id")
    producer = header.producer_id, header.producer_epoch
    if pending.producer not in (None, producer):
        raise Refused(Code.INVALID_PRODUCER_ID_MAPPING, "transactional batches of more than one producer")
    pending.producer = producer
    is_epoch_new = pending.call.header.version >= IMPLICIT_FROM
    return replica.log.producers.begin_verification(header, is_epoch_new=is_epoch_new)


def _is_by_header(refusal: Refused) -> bool:
    return not isinstance(refusal, InvalidRecords)


def _refusal(partition: int, refusal: Refused) -> PartitionAnswer:
    record_errors = refusal.record_errors if isinstance(refusal, InvalidRecords) else ()
    return PartitionAnswer(partition, refusal.code, -1, -1, -1, refusal.message, None, record_errors)


def _replica(request: ProduceRequest, topic: str | bytes, partition: int, context: RequestContext) -> Replica:
    if request.acks not in _ACKS:
        raise Refused(Code.INVALID_REQUIRED_ACKS)
    topic = topic_name(context.metadata.image, topic)
    if is_internal(topic):  # a client that wrote there could make groups of its own invention
        raise Refused(Code.INVALID_TOPIC_EXCEPTION, f"{topic} is written by the brokers themselves")
    return context.replicas.leader(topic, partition)


def _partition_name(batch: PartitionBatch, context: RequestContext) -> TopicPartition:
    return TopicPartition(topic_name(context.metadata.image, batch.topic), batch.partition)


def _is_overtaking(batch: PartitionBatch, context: RequestContext) -> bool:
    """Whether one before it was put off here, when this node led: the leader of now knows nothing of that one, and
    would take this for the producer's first. With NOT_LEADER_OR_FOLLOWER the producer sends both, in order."""
    known = context.metadata.image.topic_by_name_or_id(batch.topic)
    if known is None or read_producer_id(batch.records) < 0:
        return False
    try:
        producers = context.replicas.readable(known.name, batch.partition).log.producers
        producers.check_not_overtaking(accept(batch.records))
    except Refused as refusal:
        return refusal.code == Code.OUT_OF_ORDER_SEQUENCE_NUMBER
    return False


def _is_in_order(batch: PartitionBatch, replica: Replica, order: BatchOrder, context: RequestContext) -> bool:
    """Whether nothing of its producer that came before it on its connection is missing here. A log that knows the
    producer sees that by itself. With NOT_LEADER_OR_FOLLOWER the producer sends all of it again, in order."""
    producer_id = read_producer_id(batch.records)
    if producer_id < 0:
        return True
    leadership = (context.node_id, replica.leader_epoch)
    is_due = order.comes(batch.topic, batch.partition, read_header(batch.records), leadership)
    return is_due or replica.log.producers.get(producer_id) is not None


def _put_off_unknown(replica: Replica, records: memoryview, next_producer_id: int) -> None:
    """Refuse a producer id that no node has been given, as far as this one knows.

    The metadata may tell of it in a moment: so the producer is to come again, and in order. Kafka takes any id.
    """
    header = accept(records)
    if header.producer_id >= NAMED_PRODUCER_IDS_FROM:
        return
    if header.producer_id < next_producer_id + IDS_ON_THEIR_WAY:
        replica.log.producers.put_off(header)
    raise Refused(Code.NOT_ENOUGH_REPLICAS, f"producer id {header.producer_id} is not known to be given out")


class _Pending:
    """A request whose partitions are not all safe yet."""

    __slots__ = (
        "call",
        "context",
        "elsewhere",
        "failed",
        "is_held_up",
        "observer",
        "outstanding",
        "producer",
        "record_errors_left",
        "request",
        "route",
        "topics",
        "unverified",
    )

    def __init__(self, call: Call, request: ProduceRequest, context: RequestContext) -> None:
        self.call = call
        self.request = request
        self.context = context
        self.route: object | None = None
        self.topics: Topics = []
        self.outstanding = 1
        self.failed = False
        self.is_held_up = False  # by a batch that takes long to look through or to compress, or a coordinator
        self.producer: tuple[int, int] | None = None  # id and epoch, of its transactional batches
        self.unverified: list[tuple[PartitionBatch, VerificationGuard]] = []
        self.elsewhere: list[PartitionBatch] = []
        self.record_errors_left = RECORD_ERRORS_MAX
        self.observer = context.observation.observer  # the same for all of it, also when the trace is switched

    @property
    def may_go_on(self) -> bool:
        """What a node has sent on is not sent on again: it might go round in circles."""
        return self.context.forwarding is not None and not self.call.caller.is_node

    def send_on(self) -> None:
        parts, self.elsewhere = self.elsewhere, []
        assert self.context.forwarding is not None  # or nothing would be meant for elsewhere
        self.context.forwarding.produce(self, parts)

    def settle(self, batch: PartitionBatch, answer: PartitionAnswer) -> None:
        """What another node made of it."""
        if answer.error_code:
            self.refused(batch, answer)
        else:
            self._keep_order(batch, Code.NONE)
            batch.answers[batch.index] = answer
            self.one_done()

    def _keep_order(self, batch: PartitionBatch, code: Code, leader_epoch: int | None = None) -> None:
        """Have what comes behind it on this connection know what became of it; with a leader epoch: of this node's."""
        order = self.call.caller.order
        if order is None or self.request.acks == 0 or batch.records is NULL_RECORDS:
            return
        if read_producer_id(batch.records) < 0:
            return
        header = read_header(batch.records)
        if code in DOUBTFUL and leader_epoch is not None:
            order.goes(batch.topic, batch.partition, header, (self.context.node_id, leader_epoch))
        else:
            order.settled(batch.topic, batch.partition, header, code)

    def verify(self) -> None:
        """Append what begins a transaction when its coordinator has confirmed that."""
        self.is_held_up = True
        parts, self.unverified = self.unverified, []
        names = [_partition_name(batch, self.context) for batch, _ in parts]
        self.context.start(self._wait_for_verification(parts, names))

    async def _wait_for_verification(
        self, parts: list[tuple[PartitionBatch, VerificationGuard]], names: list[TopicPartition]
    ) -> None:
        request, version = self.request, self.call.header.version
        assert request.transactional_id is not None  # or nothing would be to be verified
        assert self.producer is not None
        try:
            desk = verification(self.context)
            codes = await desk.confirm(
                request.transactional_id, ProducerIdentity(*self.producer), names, adds=version >= IMPLICIT_FROM
            )
        except Refused as refusal:
            codes = dict.fromkeys(names, refusal.code)
        except Exception:
            self.call.answer(None)
            raise
        for (batch, guard), name in zip(parts, names, strict=True):
            if codes[name]:
                told = unverified(codes[name], version)
                self.refused(batch, _refusal(batch.partition, told))
            else:
                batch.guard = guard
                self.again(batch)

    def again(self, batch: PartitionBatch, ready: memoryview | bytearray | None = None) -> None:
        """It has another leader, perhaps this node; or what to keep of it is `ready`."""
        try:
            _append(self, batch, ready=ready)
        except Exception:
            self.abandoned()
            self.call.answer(None)  # parts of it may have been appended: only hanging up is true
            raise
        if self.elsewhere:
            self.send_on()
        if self.unverified:
            self.verify()

    def make_ready(
        self, making: Unfinished[memoryview | bytearray], batch: PartitionBatch, *, may_refuse: bool
    ) -> None:
        """Append the batch when what to keep of it is made."""
        self.is_held_up = True
        self.context.start(self._wait_until_ready(making, batch, may_refuse))

    async def _wait_until_ready(
        self, making: Unfinished[memoryview | bytearray], batch: PartitionBatch, may_refuse: bool
    ) -> None:
        try:
            ready = await self.context.replicas.long_work.wait_for_rest(making, may_refuse=may_refuse)
        except Refused as refusal:
            self.refused(batch, _refusal(batch.partition, refusal))
        except Exception:
            self.call.answer(None)
            raise
        else:
            self.again(batch, ready)

    def refused(self, batch: PartitionBatch, answer: PartitionAnswer, leader_epoch: int | None = None) -> None:
        code = Code(answer.error_code)
        self.context.metrics.refused(PRODUCE, code)
        self._keep_order(batch, code, leader_epoch)
        if self.observer.is_observing:
            caller = self.call.caller
            trace_refusal(self.context, "produce", caller, code, answer.message, batch.topic, answer.partition)
        batch.answers[batch.index] = self._within_limit(answer)
        self.failed = True
        self.one_done()

    def _within_limit(self, told: PartitionAnswer) -> PartitionAnswer:
        """Name no more bad records than one answer may, but at least one: without any, a producer takes all for bad."""
        if not told.record_errors:
            return told
        named = told.record_errors[: max(self.record_errors_left, 1)]
        self.record_errors_left -= len(named)
        return told._replace(record_errors=named)

    def partition_done(self, batch: PartitionBatch, replica: Replica, code: Code) -> None:
        if code:
            appended = batch.answers[batch.index]
            self.observer.batch_refused(replica, self.call.caller, appended.base_offset)
            answer = appended._replace(error_code=code, base_offset=-1, append_time_ms=-1)
            self.refused(batch, answer, replica.leader_epoch)
        else:
            self.one_done()

    def abandoned(self) -> None:
        """What it brought stays, and its producer will not hear of it."""
        self.observer.hung_up(self.call.caller.connection_id)

    def one_done(self) -> None:
        self.outstanding -= 1
        if self.outstanding:
            return
        throttle_ms = 0
        if self.context.quotas.limits.is_in_use:
            throttle_ms = throttling.after_produce(self.call, self.context)
        if self.request.acks == 0:
            # Nothing reads an answer to acks=0; hanging up is the only way to say that something went wrong.
            self.call.answer(None if self.failed else ())
            return
        version = self.call.header.version
        endpoints = self._name_leaders() if self.failed and version >= wire.LEADERS_FROM else ()
        self.call.answer((wire.encode(version, self.call.header.correlation_id, self.topics, endpoints, throttle_ms),))

    def _name_leaders(self) -> Sequence[NodeEndpoint]:
        """Put the leader into each answer that says it has changed. Returns where those leaders are."""
        image = self.context.metadata.image
        leaders: list[CurrentLeader] = []
        for topic, answers in self.topics:
            for index, answer in enumerate(answers):
                if answer.error_code not in LEADER_CHANGED:
                    continue
                leader = current_leader(image, topic, answer.partition)
                if leader is None:
                    continue
                if answer.leader is not None and answer.leader.leader_epoch > leader.leader_epoch:
                    leader = answer.leader  # the node that was asked knows of a later one
                answers[index] = answer._replace(leader=leader)
                leaders.append(leader)
        return endpoints_of(image, leaders, self.call.caller.listener)
