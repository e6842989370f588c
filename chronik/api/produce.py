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
Where the look takes long, others are served meanwhile, and only the requests of the same connection wait.

Of an idempotent producer that a log does not know, nothing is taken that came behind a refused batch on the same
connection (core/replica/batch_order).

A producer id that was never given out is refused (NOT_ENOUGH_REPLICAS, which makes a producer come again): each would
take memory in every partition. Kafka takes any. Those that writers make from what they write are taken, and the
number of producers that a partition remembers bounds them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import Enum
from functools import partial
from typing import TypeAlias

from chronik.api.call import Call
from chronik.api.context import HeldUp, RemotePartition, RequestContext
from chronik.api.refusals import trace_refusal
from chronik.core.errors import Code, InvalidRecords, Refused
from chronik.core.log.admission import RECORD_ERRORS_MAX, check_records
from chronik.core.machines.metadata.names import is_internal
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
from chronik.core.types import NAMED_PRODUCER_IDS_FROM
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
_LEADER_CHANGED = (Code.NOT_LEADER_OR_FOLLOWER, Code.FENCED_LEADER_EPOCH)
_BEHIND = "a batch of the same producer that came before it on this connection was not taken"
_UNANSWERED = PartitionAnswer(-1, Code.UNKNOWN_SERVER_ERROR, -1, -1, -1)


class _Look(Enum):
    """When a batch's records are looked at."""

    WHERE_WANTED = 0  # where the topic's settings ask for it
    NOW = 1  # its header has been refused for its times
    DONE = 2


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
    for topic, partitions in request.topics:
        answers = [_UNANSWERED] * len(partitions)
        pending.topics.append((topic, answers))
        for index, (partition, records) in enumerate(partitions):
            pending.outstanding += 1
            _append(request, topic, partition, records, answers, index, pending, context)
    if pending.elsewhere:
        pending.send_on()
    pending.one_done()  # the one that `_Pending` starts with: now every partition has been looked at
    on_abandoned = pending.abandoned if pending.outstanding and pending.steps is not None else None
    return HeldUp(on_abandoned) if pending.is_held_up else on_abandoned


def _append(
    request: ProduceRequest,
    topic: str | bytes,
    partition: int,
    records: memoryview | None,
    answers: list[PartitionAnswer],
    index: int,
    pending: _Pending,
    context: RequestContext,
    look: _Look = _Look.WHERE_WANTED,
) -> None:
    """Append one partition's batch and have `pending` told when it is safe; a refusal is its answer at once."""
    try:
        replica = _replica(request, topic, partition, context)
        records = _without_transaction(records)
        order = pending.call.caller.order
        if order and not _is_in_order(topic, partition, records, replica, order, context):
            pending.refused(
                answers, index, PartitionAnswer(partition, Code.NOT_LEADER_OR_FOLLOWER, -1, -1, -1, _BEHIND)
            )
            return
        # One byte says of most that they have no id: every batch of every producer comes by here.
        may_have_id = len(records) > PRODUCER_ID_AT and records[PRODUCER_ID_AT] < NEGATIVE_FROM
        if may_have_id and read_producer_id(records) >= context.metadata.image.next_producer_id:
            _put_off_unknown(replica, records, context.metadata.image.next_producer_id)
        config = replica.log.config
        if look is _Look.NOW or (look is _Look.WHERE_WANTED and config.checks_each_record):
            looking = begin(check_records(records, accept(records), config, context.clock.now_ms()))
            if isinstance(looking, Unfinished):
                pending.look_through(looking, RemotePartition(topic, partition, records, answers, index))
                return
        steps, batches = pending.steps, None
        began_ns = watermark_before = 0
        if steps is not None and steps.wanted[replica.topic]:
            batches = steps.batches
            began_ns, watermark_before = batches.now_ns(), replica.high_watermark
        appended = context.replicas.append(replica, records, request.acks)
    except Refused as refusal:
        if refusal.code == Code.INVALID_TIMESTAMP and look is _Look.WHERE_WANTED and _is_by_header(refusal):
            _append(request, topic, partition, records, answers, index, pending, context, _Look.NOW)
            return
        may_go_on = refusal.code in _LED_ELSEWHERE and pending.may_go_on
        if may_go_on and records is not None and not _is_overtaking(topic, partition, records, context):
            pending.elsewhere.append(RemotePartition(topic, partition, records, answers, index))
            return
        pending.refused(answers, index, _refusal(partition, refusal))
        return
    answers[index] = PartitionAnswer(
        partition, 0, appended.base_offset, appended.log_append_time_ms, replica.log.start_offset
    )
    if batches is not None:
        batches.appended(replica, request.acks, pending.call.caller, began_ns, watermark_before, appended, records)
    done = partial(pending.partition_done, answers, index, replica)
    if request.acks == 0:
        pending.one_done()
        return
    timeout_ms = max(request.timeout_ms, 0) if request.acks == ACKS_ALL else -1
    context.waiting.when_safe(replica, appended.last_offset + 1, request.acks, timeout_ms, done)


def _without_transaction(records: memoryview | None) -> memoryview:
    if records is None:
        raise Refused(Code.INVALID_RECORD, "no records")
    if len(records) > ATTRIBUTES_AT and records[ATTRIBUTES_AT] & TRANSACTIONAL_BIT:
        raise Refused(Code.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, "transactions are not supported yet")
    return records


def _is_by_header(refusal: Refused) -> bool:
    return not isinstance(refusal, InvalidRecords)


def _refusal(partition: int, refusal: Refused) -> PartitionAnswer:
    record_errors = refusal.record_errors if isinstance(refusal, InvalidRecords) else ()
    return PartitionAnswer(partition, refusal.code, -1, -1, -1, refusal.message, None, record_errors)


def _replica(request: ProduceRequest, topic: str | bytes, partition: int, context: RequestContext) -> Replica:
    if request.acks not in _ACKS:
        raise Refused(Code.INVALID_REQUIRED_ACKS)
    if isinstance(topic, bytes):
        known = context.metadata.image.topic_by_id(topic)
        if known is None:
            raise Refused(Code.UNKNOWN_TOPIC_ID)
        topic = known.name
    if is_internal(topic):  # a client that wrote there could make groups of its own invention
        raise Refused(Code.INVALID_TOPIC_EXCEPTION, f"{topic} is written by the brokers themselves")
    replica = context.replicas.leader(topic, partition)
    if request.transactional_id is not None:
        raise Refused(Code.INVALID_TXN_STATE, "transactions are not supported yet")
    return replica


def _is_overtaking(topic: str | bytes, partition: int, records: memoryview, context: RequestContext) -> bool:
    """Whether one before it was put off here, when this node led: the leader of now knows nothing of that one, and
    would take this for the producer's first. Told to look for the leader, the producer sends both, in order."""
    known = (
        context.metadata.image.topic_by_id(topic) if isinstance(topic, bytes) else context.metadata.image.topic(topic)
    )
    if known is None or read_producer_id(records) < 0:
        return False
    try:
        producers = context.replicas.readable(known.name, partition).log.producers
        producers.check_not_overtaking(accept(records))
    except Refused as refusal:
        return refusal.code == Code.OUT_OF_ORDER_SEQUENCE_NUMBER
    return False


def _is_in_order(
    topic: str | bytes,
    partition: int,
    records: memoryview,
    replica: Replica,
    order: BatchOrder,
    context: RequestContext,
) -> bool:
    """Whether nothing of its producer that came before it on its connection is missing here. A log that knows the
    producer sees that by itself. Told to look for the leader, the producer sends all of it again, in order."""
    producer_id = read_producer_id(records)
    if producer_id < 0:
        return True
    is_due = order.comes(topic, partition, read_header(records), (context.node_id, replica.leader_epoch))
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
        "outstanding",
        "record_errors_left",
        "request",
        "steps",
        "topics",
    )

    def __init__(self, call: Call, request: ProduceRequest, context: RequestContext) -> None:
        self.call = call
        self.request = request
        self.context = context
        self.topics: Topics = []
        self.outstanding = 1
        self.failed = False
        self.is_held_up = False  # by a batch that takes long to look through
        self.elsewhere: list[RemotePartition] = []
        self.record_errors_left = RECORD_ERRORS_MAX
        self.steps = None if context.trace is None else context.trace.steps

    @property
    def may_go_on(self) -> bool:
        """What a node has sent on is not sent on again: it might go round in circles."""
        return self.context.forwarding is not None and not self.call.caller.is_node

    def send_on(self) -> None:
        parts, self.elsewhere = self.elsewhere, []
        assert self.context.forwarding is not None  # or nothing would be meant for elsewhere
        self.context.forwarding.produce(self, parts)

    def settle(self, part: RemotePartition, told: PartitionAnswer) -> None:
        """What another node made of it."""
        if told.error_code:
            self.refused(part.answers, part.index, told)
        else:
            self._keep_order(part.answers, part.index, Code.NONE)
            part.answers[part.index] = told
            self.one_done()

    def _keep_order(
        self, answers: list[PartitionAnswer], index: int, code: Code, leader_epoch: int | None = None
    ) -> None:
        """Have what comes behind it on this connection know what became of it; with a leader epoch: of this node's."""
        order = self.call.caller.order
        if order is None or self.request.acks == 0:
            return
        place = next(place for place, (_, its_answers) in enumerate(self.topics) if its_answers is answers)
        topic, partitions = self.request.topics[place]
        partition, records = partitions[index]
        if records is None or read_producer_id(records) < 0:
            return
        header = read_header(records)
        if code in DOUBTFUL and leader_epoch is not None:
            order.goes(topic, partition, header, (self.context.node_id, leader_epoch))
        else:
            order.settled(topic, partition, header, code)

    def again(self, part: RemotePartition, look: _Look = _Look.WHERE_WANTED) -> None:
        """It has another leader, perhaps this node."""
        request, context = self.request, self.context
        try:
            _append(
                *(request, part.topic, part.partition, part.records, part.answers, part.index),
                *(self, context, look),
            )
        except Exception:
            self.abandoned()
            self.call.answer(None)  # parts of it may have been appended: only hanging up is true
            raise
        if self.elsewhere:
            self.elsewhere[-1].until = part.until
            self.send_on()

    def look_through(self, looking: Unfinished[None], part: RemotePartition) -> None:
        """Append the batch when it has been looked through."""
        self.is_held_up = True
        self.context.start(self._wait_for_look(looking, part))

    async def _wait_for_look(self, looking: Unfinished[None], part: RemotePartition) -> None:
        try:
            await self.context.replicas.long_work.wait_for_rest(looking)
        except Refused as refusal:
            self.refused(part.answers, part.index, _refusal(part.partition, refusal))
        except Exception:
            self.call.answer(None)
            raise
        else:
            self.again(part, _Look.DONE)

    def refused(
        self, answers: list[PartitionAnswer], index: int, told: PartitionAnswer, leader_epoch: int | None = None
    ) -> None:
        self.context.metrics.refused(PRODUCE, Code(told.error_code))
        self._keep_order(answers, index, Code(told.error_code), leader_epoch)
        if self.steps is not None:
            topic = next(topic for topic, its_answers in self.topics if its_answers is answers)
            trace_refusal(
                self.context, "produce", self.call.caller, told.error_code, told.message, topic, told.partition
            )
        answers[index] = self._within_limit(told)
        self.failed = True
        self.one_done()

    def _within_limit(self, told: PartitionAnswer) -> PartitionAnswer:
        """Name no more bad records than one answer may, but at least one: without any, a producer takes all for bad."""
        if not told.record_errors:
            return told
        named = told.record_errors[: max(self.record_errors_left, 1)]
        self.record_errors_left -= len(named)
        return told._replace(record_errors=named)

    def partition_done(self, answers: list[PartitionAnswer], index: int, replica: Replica, code: Code) -> None:
        if code:
            if self.steps is not None:
                self.steps.batches.refused(replica, self.call.caller, answers[index].base_offset)
            told = answers[index]._replace(error_code=code, base_offset=-1, append_time_ms=-1)
            self.refused(answers, index, told, replica.leader_epoch)
        else:
            self.one_done()

    def abandoned(self) -> None:
        """What it brought stays, and its producer will not hear of it."""
        if self.steps is not None:
            self.steps.batches.hung_up(self.call.caller.connection_id)

    def one_done(self) -> None:
        self.outstanding -= 1
        if self.outstanding:
            return
        if self.request.acks == 0:
            # Nobody reads an answer to acks=0; hanging up is the only way to say that something went wrong.
            self.call.answer(None if self.failed else ())
            return
        version = self.call.header.version
        endpoints = self._name_leaders() if self.failed and version >= wire.LEADERS_FROM else ()
        self.call.answer((wire.encode(version, self.call.header.correlation_id, self.topics, endpoints),))

    def _name_leaders(self) -> Sequence[NodeEndpoint]:
        """Put the leader into each answer that says it has changed. Returns where those leaders are."""
        image = self.context.metadata.image
        endpoints: dict[int, NodeEndpoint] = {}
        for topic, answers in self.topics:
            known = image.topic_by_id(topic) if isinstance(topic, bytes) else image.topic(topic)
            for index, told in enumerate(answers):
                if known is None or told.error_code not in _LEADER_CHANGED or told.partition >= len(known.partitions):
                    continue
                placed = known.partitions[told.partition]
                leader = CurrentLeader(placed.leader, placed.leader_epoch)
                if told.leader is not None and told.leader.leader_epoch > leader.leader_epoch:
                    leader = told.leader  # the node that was asked knows of a later one
                answers[index] = told._replace(leader=leader)
                broker = image.brokers.get(leader.leader_id)
                if broker is not None:
                    endpoints[broker.id] = NodeEndpoint(broker.id, broker.host, broker.port, broker.rack)
        return list(endpoints.values())
