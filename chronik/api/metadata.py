"""Metadata (3), versions 0-13. What a client asks first and again whenever it is lost.

In version 0 an empty list means all topics; from 1 null does, and an empty list means none. Up to 3 a missing topic
may always be created, from 4 the client says so. From 12 topics can be asked for by id. Versions 8-10 can ask what the
client may do to the cluster. A topic created on the way is in the answer at once; Kafka lets the client ask again.
An unknown leader is LEADER_NOT_AVAILABLE, never a guess.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from kio.schema.metadata.v13.response import MetadataResponseBroker, MetadataResponsePartition, MetadataResponseTopic

from chronik.api import topic_ids
from chronik.api.authorization import Gate, gate_of, operations_of
from chronik.api.context import Caller, RequestContext
from chronik.api.permissions import ALL_ON_CLUSTER, ALL_ON_TOPIC, NOT_ASKED
from chronik.api.refusals import trace_refusal
from chronik.core.access.acls import CLUSTER_NAME
from chronik.core.access.operations import AclOperation, AclResourceType
from chronik.core.errors import Code, Refused
from chronik.core.machines.metadata.commands import CreateInternalTopic, CreateTopics, NewTopic
from chronik.core.machines.metadata.image import MetadataImage, Partition, Topic
from chronik.core.machines.metadata.names import OFFSETS_TOPIC, TRANSACTIONS_TOPIC, is_internal, problem_with
from chronik.wire.unions.metadata import AnyMetadataRequest, AnyMetadataResponse

REQUEST = AnyMetadataRequest
RESPONSE = AnyMetadataResponse

TOPIC_IDS_FROM = 12
_DESCRIBE = (AclOperation.DESCRIBE, AclResourceType.TOPIC)
LISTENER_NOT_FOUND_FROM = 6  # before, the response says that there is no leader


class MetadataView(NamedTuple):
    """What every topic of one answer is seen with."""

    live: dict[int, None]
    reached: frozenset[int]  # those of them that have the listener by which the client came
    operations: int
    version: int
    gate: Gate | None = None

    def operations_on(self, topic: str) -> int:
        if self.gate is None or self.operations == NOT_ASKED:
            return self.operations
        return self.gate.operations(AclResourceType.TOPIC, topic, self.operations)


async def handle(request: Any, caller: Caller, context: RequestContext) -> Any:
    image = context.metadata.image
    gate = gate_of(context, caller, "metadata")
    if request.topics is None or (caller.version == 0 and not request.topics):
        view = _view(image, request, caller, gate)
        known = (topic for _, topic in sorted(image.topics.items()))
        topics = tuple(_known(topic, view) for topic in known if gate is None or gate.sees(*_DESCRIBE, topic.name))
    else:
        _check(request.topics, caller)
        hidden = {} if gate is None else _hidden(gate, request.topics, image)
        problems = await _create_missing(request, context, gate, hidden)
        view = _view(image, request, caller, gate)
        topics = tuple(
            hidden.get((one.name, one.topic_id)) or _asked_for(one, image, problems, view)
            for one in _without_repeats(request.topics)
        )
    if context.observation.observer.is_observing:
        _report(topics, view, caller, context)
    return AnyMetadataResponse(
        brokers=_brokers(image, caller.listener),
        cluster_id=context.cluster_id,
        controller_id=controller_of(context),
        topics=topics,
        cluster_authorized_operations=operations_of(
            context, caller, "metadata", AclResourceType.CLUSTER, CLUSTER_NAME, ALL_ON_CLUSTER
        )
        if request.include_cluster_authorized_operations
        else NOT_ASKED,
    )


def _hidden(gate: Gate, topics: Iterable[Any], image: MetadataImage) -> dict[tuple[str | None, Any], Any]:
    """What is answered for those that the client may not see, whether or not they are there."""
    hidden: dict[tuple[str | None, Any], Any] = {}
    for one in topics:
        if one.topic_id is not None:
            topic = image.topic_by_id(one.topic_id.bytes)
            if topic is not None and not gate.may(*_DESCRIBE, topic.name):
                hidden[one.name, one.topic_id] = _missing(Code.UNKNOWN_TOPIC_ID, None, one.topic_id)
        elif not gate.may(*_DESCRIBE, one.name):
            hidden[one.name, one.topic_id] = _missing(Code.TOPIC_AUTHORIZATION_FAILED, one.name, None)
    return hidden


def _report(topics: Iterable[Any], view: MetadataView, caller: Caller, context: RequestContext) -> None:
    """What the response says of each topic that is observed."""
    observer = context.observation.observer
    for topic in topics:
        if topic.error_code:
            trace_refusal(context, "metadata", caller, topic.error_code, None, topic.name)
        elif observer.wants(topic.name):
            leaders = (partition.leader_id for partition in topic.partitions)
            observer.metadata_told(topic.name, caller, view.live, controller_of(context), leaders)


def controller_of(context: RequestContext) -> int:
    """Where admin requests go best. Any node passes them on, and Kafka's brokers name one at random for that reason;
    the true one saves a hop, and while no node knows it, this node waits for the next."""
    controller_id = context.metadata.controller_id
    is_known = controller_id is not None and any(
        one.id == controller_id for one in context.metadata.image.live_brokers()
    )
    return controller_id if controller_id is not None and is_known else context.node_id


def _view(image: MetadataImage, request: Any, caller: Caller, gate: Gate | None = None) -> MetadataView:
    operations = ALL_ON_TOPIC if request.include_topic_authorized_operations else NOT_ASKED
    live = list(image.live_brokers())
    reached = frozenset(broker.id for broker in live if broker.reached_by(caller.listener) is not None)
    return MetadataView({broker.id: None for broker in live}, reached, operations, caller.version, gate)


def _check(topics: Iterable[Any], caller: Caller) -> None:
    for topic in topics:
        if caller.version < TOPIC_IDS_FROM and (topic.name is None or topic.topic_id is not None):
            raise Refused(Code.INVALID_REQUEST, "Topic IDs are not supported in this version.")
        if topic.name is None and topic.topic_id is None:
            raise Refused(Code.INVALID_REQUEST, "Neither topic name nor id were specified.")


def _without_repeats(topics: Iterable[Any]) -> list[Any]:
    return list({(topic.name, topic.topic_id): topic for topic in topics}.values())


async def _create_missing(
    request: Any, context: RequestContext, gate: Gate | None, hidden: Mapping[tuple[str | None, Any], Any]
) -> dict[str, Code]:
    """Create the topics that are asked for by name and not there. Returns why some could not be."""
    image = context.metadata.image
    if not (request.allow_auto_topic_creation and image.node_config.topics.auto_create_topics_enable):
        return {}
    by_name = [topic.name for topic in request.topics if topic.topic_id is None and (topic.name, None) not in hidden]
    missing = [name for name in dict.fromkeys(by_name) if image.topic(name) is None and problem_with(name) is None]
    problems: dict[str, Code] = {}
    if gate is not None and not gate.sees(AclOperation.CREATE, AclResourceType.CLUSTER, CLUSTER_NAME):
        not_his = [name for name in missing if not gate.may(AclOperation.CREATE, AclResourceType.TOPIC, name)]
        problems = dict.fromkeys(not_his, Code.TOPIC_AUTHORIZATION_FAILED)
        missing = [name for name in missing if name not in problems]
    wanted = tuple(NewTopic(name, context.chance.uuid()) for name in missing if not is_internal(name))
    try:
        if wanted:
            for created in await context.metadata.ask(CreateTopics(wanted)):
                if created.outcome.code not in (Code.NONE, Code.TOPIC_ALREADY_EXISTS):
                    problems[created.name] = created.outcome.code
        for name in (OFFSETS_TOPIC, TRANSACTIONS_TOPIC):  # as in Kafka; no other of our own
            if name in missing:
                await context.metadata.ask(CreateInternalTopic(name, context.chance.uuid()))
    except Refused as refused:
        # Without a controller nothing is created: all clients ask again when a leader is missing, and few otherwise.
        is_controller_missing = refused.code == Code.NOT_CONTROLLER
        problems |= dict.fromkeys(missing, Code.LEADER_NOT_AVAILABLE if is_controller_missing else refused.code)
    return problems


def _asked_for(asked: Any, image: MetadataImage, problems: dict[str, Code], view: MetadataView) -> Any:
    if asked.topic_id is not None:
        topic = image.topic_by_id(asked.topic_id.bytes)
        if topic is None:
            return _missing(Code.UNKNOWN_TOPIC_ID, None, asked.topic_id)
    else:
        topic = image.topic(asked.name)
        if topic is None and problem_with(asked.name) is not None:
            return _missing(Code.INVALID_TOPIC_EXCEPTION, asked.name, None)
        if topic is None:
            return _missing(problems.get(asked.name, Code.UNKNOWN_TOPIC_OR_PARTITION), asked.name, None)
    return _known(topic, view)


def _missing(code: Code, name: str | None, topic_id: Any) -> Any:
    internal = name is not None and is_internal(name)
    return MetadataResponseTopic(error_code=code, name=name, topic_id=topic_id, is_internal=internal, partitions=())


def _known(topic: Topic, view: MetadataView) -> Any:
    return MetadataResponseTopic(
        error_code=Code.NONE,
        name=topic.name,
        topic_id=topic_ids.to_wire(topic.id),
        is_internal=topic.is_internal,
        partitions=tuple(_partition(number, partition, view) for number, partition in enumerate(topic.partitions)),
        topic_authorized_operations=view.operations_on(topic.name),
    )


def _partition(number: int, partition: Partition, view: MetadataView) -> Any:
    offline = tuple(broker_id for broker_id in partition.replicas if broker_id not in view.live)
    has_leader = partition.leader in view.reached
    code = Code.NONE
    if not has_leader and partition.leader in view.live and view.version >= LISTENER_NOT_FOUND_FROM:
        code = Code.LISTENER_NOT_FOUND
    elif not has_leader:
        code = Code.LEADER_NOT_AVAILABLE
    elif offline and view.version == 0:
        code = Code.REPLICA_NOT_AVAILABLE  # only version 0 calls this an error
    return MetadataResponsePartition(
        error_code=code,
        partition_index=number,
        leader_id=partition.leader if has_leader else -1,
        leader_epoch=partition.leader_epoch,
        replica_nodes=partition.replicas,
        isr_nodes=partition.in_sync,
        offline_replicas=offline,
    )


def _brokers(image: MetadataImage, listener: str) -> tuple[Any, ...]:
    found = ((broker, broker.reached_by(listener)) for broker in image.live_brokers())
    return tuple(
        MetadataResponseBroker(node_id=broker.id, host=address[0], port=address[1], rack=broker.rack)
        for broker, address in found
        if address is not None
    )


def refuse(request: Any, code: Code, message: str | None) -> Any:
    # Below 13 there is no error for the whole. An answer without brokers is one that clients do not believe.
    topics = tuple(_missing(code, topic.name, topic.topic_id) for topic in request.topics or ())
    return AnyMetadataResponse(topics=topics, error_code=code)
