"""AlterPartition."""

from __future__ import annotations

import uuid
from typing import Any

from kio.schema.alter_partition.v3.request import AlterPartitionRequest, BrokerState, PartitionData, TopicData

from chronik.api import alter_partition
from chronik.api.context import RequestContext
from chronik.core.errors import Code
from chronik.core.machines.metadata.commands import CreateTopics, NewTopic
from tests.unit.api.fake_context import ask, fake_context, metadata_of

TOPIC = uuid.UUID(int=99)
NO_TOPIC = uuid.UUID(int=98)


def replicated() -> RequestContext:
    context = fake_context(brokers=(1, 2, 3))
    assignments = ((0, (1, 2, 3)), (1, (1, 2, 3)))
    metadata_of(context).tell(CreateTopics((NewTopic("t", TOPIC.bytes, assignments=assignments),)))
    return context


def partition(number: int, *members: int, partition_epoch: int = 0, recovering: int = 0) -> Any:
    return PartitionData(
        partition_index=number,
        leader_epoch=0,
        new_isr_with_epochs=tuple(BrokerState(broker_id=member) for member in members),
        leader_recovery_state=recovering,
        partition_epoch=partition_epoch,
    )


def request(context: RequestContext, topics: dict[uuid.UUID | None, tuple[Any, ...]], epoch: int | None = None) -> Any:
    return AlterPartitionRequest(
        broker_id=1,
        broker_epoch=context.metadata.image.brokers[1].epoch if epoch is None else epoch,
        topics=tuple(TopicData(topic_id=topic, partitions=partitions) for topic, partitions in topics.items()),
    )


def test_each_partition_has_its_own_outcome() -> None:
    context = replicated()
    asked: dict[uuid.UUID | None, tuple[Any, ...]] = {
        NO_TOPIC: (partition(0, 1),),
        TOPIC: (partition(1, 1, 3), partition(0), partition(5, 1)),
        None: (partition(0, 1),),
    }

    response = ask(alter_partition, request(context, asked), context, version=3, node_id=1)

    assert response.error_code == Code.NONE
    assert [topic.topic_id for topic in response.topics] == [NO_TOPIC, TOPIC, None]
    codes = [[one.error_code for one in topic.partitions] for topic in response.topics]
    assert codes == [
        [Code.UNKNOWN_TOPIC_ID],
        [Code.NONE, Code.INVALID_REQUEST, Code.UNKNOWN_TOPIC_OR_PARTITION],
        [Code.UNKNOWN_TOPIC_ID],
    ]
    [done, *_] = response.topics[1].partitions
    assert (done.partition_index, done.leader_id, done.leader_epoch, done.isr) == (1, 1, 0, (1, 3))
    assert (done.partition_epoch, done.leader_recovery_state) == (1, 0)
    assert context.metadata.image.topics["t"].partitions[1].in_sync == (1, 3)


def test_a_leader_that_is_not_recovering_cannot_begin_to() -> None:
    context = replicated()

    response = ask(
        alter_partition, request(context, {TOPIC: (partition(0, 1, recovering=1),)}), context, version=3, node_id=1
    )

    assert response.topics[0].partitions[0].error_code == Code.INVALID_REQUEST


def test_a_node_that_was_replaced_is_refused_as_a_whole() -> None:
    context = replicated()

    response = ask(
        alter_partition, request(context, {TOPIC: (partition(0, 1),)}, epoch=77), context, version=3, node_id=1
    )

    assert (response.error_code, response.topics) == (Code.STALE_BROKER_EPOCH, ())


def test_another_node_is_the_controller() -> None:
    context = replicated()
    metadata_of(context).controller_id = 3

    response = ask(alter_partition, request(context, {TOPIC: (partition(0, 1),)}), context, version=3, node_id=1)

    assert response.error_code == Code.NOT_CONTROLLER


def test_a_leader_asks_in_its_own_name_only() -> None:
    """F64"""
    context = replicated()

    asked = request(context, {TOPIC: (partition(0, 1),)})
    for other in (-1, 2):
        assert ask(alter_partition, asked, context, version=3, node_id=other).error_code == (
            Code.CLUSTER_AUTHORIZATION_FAILED
        )
