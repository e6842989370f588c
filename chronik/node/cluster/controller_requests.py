"""What a node asks the controller of its cluster, in Kafka's own requests: each command as a request, and its answer.

The requests' modules in `api/` are the other side: what is written here is read there.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import Any, NamedTuple

from kio.schema.allocate_producer_ids.v0.request import AllocateProducerIdsRequest
from kio.schema.alter_partition.v3.request import AlterPartitionRequest, BrokerState, PartitionData, TopicData
from kio.schema.broker_heartbeat.v2.request import BrokerHeartbeatRequest
from kio.schema.broker_registration.v4.request import BrokerRegistrationRequest, Feature, Listener
from kio.schema.create_topics.v7.request import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from kio.static.primitive import i8, i32

from chronik.api.applied import APPLIED_MS_MAX
from chronik.api.durations import duration
from chronik.core.errors import Code, Refused
from chronik.core.machines.metadata.access_changes import AlterUserScramCredentials
from chronik.core.machines.metadata.commands import (
    USE_DEFAULT,
    AllocateProducerIds,
    ChangeOutcome,
    CreatedTopic,
    CreateInternalTopic,
    CreateTopics,
    NewTopic,
    ProducerIdBlock,
    RegisterBroker,
)
from chronik.core.machines.metadata.controller_commands import (
    AlteredPartition,
    AlterPartitions,
    BrokerHeartbeat,
    HeartbeatAnswer,
    InSyncChange,
)
from chronik.core.machines.metadata.features import SUPPORTED
from chronik.core.machines.metadata.records import CLIENTS_END_POINT, NODES_END_POINT, BrokerEndpoint

PLAINTEXT = 0
KNOWN_DISK, NEW_DISK = 0, -1  # the previous broker epoch of a registration where it is not known, or there is none
SHORTENED_DISK = -2  # less the previous epoch, of one whose last records may be missing (api/broker_registration)


class ControllerRequest(NamedTuple):
    """How a command is asked over a link: the request's number, the request, and what to make of its response."""

    api_key: int
    request: Any
    answer: Callable[[Any], Any]  # raises Refused


def asking(command: Any, cluster_id: str) -> ControllerRequest:
    """How to ask this."""
    match command:
        case RegisterBroker():
            return ControllerRequest(
                62, _registration(command, cluster_id), lambda response: _checked(response).broker_epoch
            )
        case BrokerHeartbeat():
            return ControllerRequest(63, _heartbeat(command), _beaten)
        case AlterPartitions():
            return ControllerRequest(
                56, _alter_partition(command), lambda response: _altered(command, _checked(response))
            )
        case AllocateProducerIds():
            request = AllocateProducerIdsRequest(broker_id=command.broker_id, broker_epoch=command.broker_epoch)
            return ControllerRequest(67, request, _allocated)
        case CreateTopics():
            return ControllerRequest(19, _create(command.topics, command.validate_only), _created)
        case CreateInternalTopic():
            own = NewTopic(command.name, command.topic_id)
            return ControllerRequest(19, _create((own,), False), lambda response: _made(_created(response)[0]))
        case AlterUserScramCredentials():
            return ControllerRequest(51, _first_users(command), _users_made)
    raise TypeError(f"no request of a node: {command!r}")


def _first_users(command: AlterUserScramCredentials) -> Any:
    from kio.schema.alter_user_scram_credentials.v0.request import (
        AlterUserScramCredentialsRequest,
        ScramCredentialUpsertion,
    )

    return AlterUserScramCredentialsRequest(
        deletions=(),
        upsertions=tuple(
            ScramCredentialUpsertion(
                name=one.user,
                mechanism=i8(one.mechanism),
                iterations=i32(one.iterations),
                salt=one.salt,
                salted_password=one.salted_password,
            )
            for one in command.upsertions
        ),
    )


def _users_made(response: Any) -> dict[str, ChangeOutcome]:
    return {one.user: ChangeOutcome(Code(one.error_code), one.error_message) for one in response.results}


def _checked(response: Any) -> Any:
    if response.error_code != Code.NONE:
        raise Refused(Code(response.error_code))
    return response


def _registration(command: RegisterBroker, cluster_id: str) -> Any:
    clients = command.end_points or (BrokerEndpoint(CLIENTS_END_POINT, command.host, command.port, PLAINTEXT),)
    nodes = command.internal_host or command.host, command.internal_port or command.port
    addresses = (*clients, BrokerEndpoint(NODES_END_POINT, *nodes, PLAINTEXT))
    return BrokerRegistrationRequest(
        broker_id=command.broker_id,
        cluster_id=cluster_id,
        incarnation_id=uuid.UUID(bytes=command.incarnation_id),
        listeners=tuple(
            Listener(name=each.name, host=each.host, port=each.port, security_protocol=each.security_protocol)
            for each in addresses
        ),
        features=tuple(
            Feature(name=name, min_supported_version=levels.lowest, max_supported_version=levels.highest)
            for name, levels in SUPPORTED.items()
        ),
        rack=command.rack,
        previous_broker_epoch=_previous_epoch(command),
    )


def _previous_epoch(command: RegisterBroker) -> int:
    if command.has_lost_its_log:
        return NEW_DISK
    known = max(command.previous_epoch, KNOWN_DISK)
    return SHORTENED_DISK - known if command.has_lost_its_tail else known


def _heartbeat(command: BrokerHeartbeat) -> Any:
    return BrokerHeartbeatRequest(
        broker_id=command.broker_id,
        broker_epoch=command.broker_epoch,
        current_metadata_offset=command.seen_version,
        want_fence=command.wants_fence,
        want_shut_down=command.wants_shut_down,
    )


def _beaten(response: Any) -> HeartbeatAnswer:
    _checked(response)
    return HeartbeatAnswer(response.is_caught_up, response.is_fenced, response.should_shut_down)


def _alter_partition(command: AlterPartitions) -> Any:
    topics: dict[bytes, list[Any]] = {}
    for change in command.changes:
        topics.setdefault(change.topic_id, []).append(_partition(change))
    return AlterPartitionRequest(
        broker_id=command.broker_id,
        broker_epoch=command.broker_epoch,
        topics=tuple(
            TopicData(topic_id=uuid.UUID(bytes=topic_id), partitions=tuple(partitions))
            for topic_id, partitions in topics.items()
        ),
    )


def _partition(change: InSyncChange) -> Any:
    return PartitionData(
        partition_index=change.partition,
        leader_epoch=change.leader_epoch,
        new_isr_with_epochs=tuple(BrokerState(broker_id=one, broker_epoch=epoch) for one, epoch in change.in_sync),
        leader_recovery_state=int(change.is_recovering),
        partition_epoch=change.partition_epoch,
    )


def _altered(command: AlterPartitions, response: Any) -> tuple[AlteredPartition, ...]:
    """In the order of the command, which a request by topics does not keep."""
    found = {
        (topic.topic_id.bytes, one.partition_index): AlteredPartition(
            outcome=ChangeOutcome(Code(one.error_code)),
            leader=one.leader_id,
            leader_epoch=one.leader_epoch,
            in_sync=tuple(one.isr),
            is_recovering=bool(one.leader_recovery_state),
            partition_epoch=one.partition_epoch,
        )
        for topic in response.topics
        for one in topic.partitions
    }
    return tuple(found[change.topic_id, change.partition] for change in command.changes)


def _allocated(response: Any) -> ProducerIdBlock:
    _checked(response)
    return ProducerIdBlock(response.producer_id_start, response.producer_id_start + response.producer_id_len)


def _create(topics: tuple[NewTopic, ...], validate_only: bool) -> Any:
    return CreateTopicsRequest(
        topics=tuple(
            CreatableTopic(
                name=topic.name,
                num_partitions=topic.partition_count,
                replication_factor=topic.replication_factor,
                assignments=tuple(
                    CreatableReplicaAssignment(partition_index=number, broker_ids=replicas)
                    for number, replicas in topic.assignments
                ),
                configs=tuple(CreatableTopicConfig(name=key, value=value) for key, value in topic.configs),
            )
            for topic in topics
        ),
        timeout=duration(APPLIED_MS_MAX),
        validate_only=validate_only,
    )


def _created(response: Any) -> tuple[CreatedTopic, ...]:
    codes = [Code(topic.error_code) for topic in response.topics]
    if Code.NOT_CONTROLLER in codes:  # CreateTopics has no error for the whole
        raise Refused(Code.NOT_CONTROLLER)
    return tuple(
        CreatedTopic(
            name=topic.name,
            outcome=ChangeOutcome(code, topic.error_message),
            topic_id=bytes(16) if topic.topic_id is None else topic.topic_id.bytes,
            partition_count=USE_DEFAULT if topic.num_partitions is None else topic.num_partitions,
            replication_factor=USE_DEFAULT if topic.replication_factor is None else topic.replication_factor,
        )
        for topic, code in zip(response.topics, codes, strict=True)
    )


def _made(created: CreatedTopic) -> CreatedTopic:
    if created.outcome.code != Code.NONE:
        raise Refused(created.outcome.code, created.outcome.message)
    return created
