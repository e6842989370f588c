"""AlterPartitionReassignments."""

from __future__ import annotations

from typing import Any

from kio.schema.alter_partition_reassignments.v1.request import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)

from chronik.api import alter_partition_reassignments
from chronik.api.context import RequestContext
from chronik.core.errors import Code
from tests.unit.api.fake_context import ask, fake_context, metadata_of

Wanted = dict[str, dict[int, tuple[int, ...] | None]]


def alter(context: RequestContext, wanted: Wanted, *, may_change_factor: bool = True) -> Any:
    request = AlterPartitionReassignmentsRequest(
        allow_replication_factor_change=may_change_factor,
        topics=tuple(
            ReassignableTopic(
                name=topic,
                partitions=tuple(
                    ReassignablePartition(partition_index=number, replicas=replicas)
                    for number, replicas in partitions.items()
                ),
            )
            for topic, partitions in wanted.items()
        ),
    )
    return ask(alter_partition_reassignments, request, context, version=1)


def codes(response: Any) -> list[tuple[str, int, int]]:
    return [
        (topic.name, one.partition_index, one.error_code) for topic in response.responses for one in topic.partitions
    ]


def test_each_partition_has_its_own_outcome() -> None:
    context = fake_context(topics={"a": 2}, brokers=(1, 2))

    response = alter(context, {"a": {0: (2,), 1: (9,), 5: (1,)}, "b": {0: (1,)}})

    assert response.error_code == Code.NONE
    assert codes(response) == [
        ("a", 0, Code.NONE),
        ("a", 1, Code.INVALID_REPLICA_ASSIGNMENT),
        ("a", 5, Code.UNKNOWN_TOPIC_OR_PARTITION),
        ("b", 0, Code.UNKNOWN_TOPIC_OR_PARTITION),
    ]
    assert context.metadata.image.topics["a"].partitions[0].adding == (2,)


def test_a_move_is_taken_back_once() -> None:
    context = fake_context(topics={"a": 1}, brokers=(1, 2))
    alter(context, {"a": {0: (2,)}})

    assert codes(alter(context, {"a": {0: None}})) == [("a", 0, Code.NONE)]
    assert codes(alter(context, {"a": {0: None}})) == [("a", 0, Code.NO_REASSIGNMENT_IN_PROGRESS)]


def test_the_number_of_replicas_stays_if_that_is_wanted() -> None:
    context = fake_context(topics={"a": 2}, brokers=(1, 2))

    refused = alter(context, {"a": {0: (1, 2), 1: (1,)}}, may_change_factor=False)
    allowed = alter(context, {"a": {0: (1, 2)}})

    assert codes(refused) == [("a", 0, Code.INVALID_REPLICATION_FACTOR), ("a", 1, Code.NONE)]
    assert not refused.allow_replication_factor_change
    assert codes(allowed) == [("a", 0, Code.NONE)]


def test_another_node_is_the_controller() -> None:
    context = fake_context(topics={"a": 1}, brokers=(1, 2))
    metadata_of(context).controller_id = 2

    response = alter(context, {"a": {0: (2,)}})

    assert response.error_code == Code.NOT_CONTROLLER
    assert codes(response) == [("a", 0, Code.NOT_CONTROLLER)]
