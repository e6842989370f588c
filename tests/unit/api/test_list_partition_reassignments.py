"""ListPartitionReassignments."""

from __future__ import annotations

from typing import Any

from kio.schema.list_partition_reassignments.v0.request import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsTopics,
)

from chronik.api import list_partition_reassignments
from chronik.api.context import RequestContext
from chronik.core.errors import Code
from chronik.core.machines.metadata.controller_commands import AlterReassignments, Reassignment
from tests.unit.api.fake_context import ask, fake_context, metadata_of


def moving() -> RequestContext:
    context = fake_context(topics={"a": 2, "b": 1, "c": 1}, brokers=(1, 2))
    wanted = tuple(Reassignment(topic, 0, (2, 1)) for topic in ("a", "b"))
    for one in wanted:
        leader = context.metadata.image.topics[one.topic].partitions[0].leader
        target = (3 - leader,)
        metadata_of(context).tell(AlterReassignments((Reassignment(one.topic, 0, target),)))
    return context


def listed(context: RequestContext, topics: dict[str, tuple[int, ...]] | None) -> dict[str, list[Any]]:
    asked = None
    if topics is not None:
        asked = tuple(
            ListPartitionReassignmentsTopics(name=name, partition_indexes=numbers) for name, numbers in topics.items()
        )
    response = ask(list_partition_reassignments, ListPartitionReassignmentsRequest(topics=asked), context, version=0)
    assert response.error_code == Code.NONE
    return {topic.name: list(topic.partitions) for topic in response.topics}


def test_all_moves_are_listed() -> None:
    found = listed(moving(), None)

    assert sorted(found) == ["a", "b"]
    [one] = found["a"]
    assert one.partition_index == 0
    assert len(one.adding_replicas) == len(one.removing_replicas) == 1
    assert sorted(one.replicas) == [1, 2]


def test_only_the_partitions_asked_for_are_listed() -> None:
    found = listed(moving(), {"a": (0, 1, 9), "c": (0,), "no such": (0,)})

    assert {name: [one.partition_index for one in partitions] for name, partitions in found.items()} == {"a": [0]}


def test_every_node_knows_them() -> None:
    context = moving()
    metadata_of(context).controller_id = 2

    assert sorted(listed(context, None)) == ["a", "b"]
