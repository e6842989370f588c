"""An image as the records that build it: what a snapshot of the metadata log holds.

Kafka's own kinds of record, so its tools read a snapshot as they read the log. The version of the image is the offset
the snapshot ends at. A setting that this version does not know is not in the image, and so in no snapshot of it.
"""

from __future__ import annotations

from collections.abc import Iterator

from chronik.core.machines.metadata.features import supported_features
from chronik.core.machines.metadata.image import Broker, MetadataImage, Partition
from chronik.core.machines.metadata.records import (
    CLIENTS_END_POINT,
    NODES_END_POINT,
    BrokerEndpoint,
    ConfigRecord,
    FeatureLevelRecord,
    MetadataRecord,
    PartitionRecord,
    ProducerIdsRecord,
    RegisterBrokerRecord,
    RemoveTopicRecord,
    TopicRecord,
    UnregisterBrokerRecord,
    quota_record,
)

PLAINTEXT = 0
NO_NODE = -1


def records_of(image: MetadataImage) -> Iterator[MetadataRecord]:
    """Applied in this order to an empty image, they give this one again."""
    for name, level in image.features.items():
        yield FeatureLevelRecord(name, level)
    for broker in image.brokers.values():
        yield _registration(broker)
    for topic in image.topics.values():
        yield TopicRecord(topic.name, topic.id)
        for number, partition in enumerate(topic.partitions):
            yield _partition(topic.id, number, partition)
    for kind, resource, values in image.overrides():
        for key, value in values.items():
            yield ConfigRecord(kind, resource, key, value)
    yield from image.access.records()
    for entity, limits in image.quotas.items():
        for key, limit in limits.items():
            yield quota_record(entity, key, limit)
    if image.next_producer_id:
        yield ProducerIdsRecord(NO_NODE, NO_NODE, image.next_producer_id)


def gone_since(old: MetadataImage, new: MetadataImage) -> Iterator[MetadataRecord]:
    """The records that take away what `old` has and `new` has not: with those of `new`, all that changed in between."""
    for topic in old.topics.values():
        if new.topic_by_id(topic.id) is None:
            yield RemoveTopicRecord(topic.id)
    for broker in old.brokers.values():
        if broker.id not in new.brokers:
            yield UnregisterBrokerRecord(broker.id, broker.epoch)
    yield from old.access.gone_in(new.access)
    for entity, values in old.quotas.items():
        for key in values:
            if key not in new.quotas.of(entity):
                yield quota_record(entity, key, None)


def _registration(broker: Broker) -> RegisterBrokerRecord:
    return RegisterBrokerRecord(
        broker_id=broker.id,
        incarnation_id=broker.incarnation_id,
        broker_epoch=broker.epoch,
        end_points=(
            *(broker.end_points or (BrokerEndpoint(CLIENTS_END_POINT, broker.host, broker.port, PLAINTEXT),)),
            BrokerEndpoint(NODES_END_POINT, broker.internal_host, broker.internal_port, PLAINTEXT),
        ),
        features=supported_features(),
        rack=broker.rack,
        fenced=broker.is_fenced,
        in_controlled_shutdown=broker.is_shutting_down,
        principal=broker.principal,
    )


def _partition(topic_id: bytes, number: int, partition: Partition) -> PartitionRecord:
    return PartitionRecord(
        partition_id=number,
        topic_id=topic_id,
        replicas=partition.replicas,
        isr=partition.in_sync,
        removing_replicas=partition.removing,
        adding_replicas=partition.adding,
        leader=partition.leader,
        leader_epoch=partition.leader_epoch,
        partition_epoch=partition.partition_epoch,
        leader_recovery_state=int(partition.is_recovering),
        eligible_leader_replicas=partition.eligible,
        lost_replicas=partition.lost,
    )
