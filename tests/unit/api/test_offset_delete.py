"""OffsetDelete over the wire."""

from __future__ import annotations

import dataclasses
from types import SimpleNamespace
from typing import Any, cast

from kio.schema.offset_delete.v0.request import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)

from chronik.api import offset_delete
from chronik.core.errors import Code
from chronik.core.machines.groups.commands import OffsetToCommit
from tests.unit.api.fake_context import ask
from tests.unit.api.grouped_context import grouped_context
from tests.unit.core.machines.groups.host import commit, fetch


def request(*names: str, numbers: tuple[int, ...] = (0, 1)) -> OffsetDeleteRequest:
    partitions = tuple(OffsetDeleteRequestPartition(partition_index=number) for number in numbers)
    topics = tuple(OffsetDeleteRequestTopic(name=name, partitions=partitions) for name in names)
    return OffsetDeleteRequest(group_id="g", topics=topics)


def test_offsets_are_forgotten_and_unknown_topics_are_named() -> None:
    context, host = grouped_context({"orders": 2})
    host.ask(commit(OffsetToCommit("orders", 0, 1), OffsetToCommit("orders", 1, 2)))
    response = ask(offset_delete, request("missing", "orders"), context, version=0)
    assert response.error_code is Code.NONE
    assert [(topic.name, [one.error_code for one in topic.partitions]) for topic in response.topics] == [
        ("missing", [Code.UNKNOWN_TOPIC_OR_PARTITION] * 2),
        ("orders", [Code.NONE] * 2),
    ]
    assert host.ask(fetch()).offsets == ()


def test_partitions_that_do_not_exist_are_named_and_the_others_are_forgotten() -> None:
    context, host = grouped_context({"orders": 2, "bills": 2})
    host.ask(commit(*(OffsetToCommit(topic, number, 1) for topic in ("orders", "bills") for number in (0, 1))))
    response = ask(offset_delete, request("orders", "bills", numbers=(2, 1, -1)), context, version=0)
    unknown = Code.UNKNOWN_TOPIC_OR_PARTITION
    for topic in response.topics:
        assert [(one.partition_index, one.error_code) for one in topic.partitions] == [
            (2, unknown),
            (1, Code.NONE),
            (-1, unknown),
        ]
    assert [(one.topic, one.partition) for one in host.ask(fetch()).offsets] == [("orders", 0), ("bills", 0)]


def test_a_group_that_is_not_there_is_an_error_of_the_whole_answer() -> None:
    context, _ = grouped_context({"orders": 2})
    response = ask(offset_delete, request("orders"), context, version=0)
    assert response.error_code is Code.GROUP_ID_NOT_FOUND


def test_a_topic_that_is_deleted_while_the_coordinator_is_asked_is_answered() -> None:
    """A topic that is deleted while the coordinator is asked is answered as it was."""
    context, host = grouped_context({"orders": 2})
    host.ask(commit(OffsetToCommit("orders", 0, 1)))
    lookups = iter([context.metadata.image.topic("orders")])
    vanishing = SimpleNamespace(image=SimpleNamespace(topic=lambda name: next(lookups, None)))
    context = dataclasses.replace(context, metadata=cast(Any, vanishing))
    response = ask(offset_delete, request("orders"), context, version=0)
    assert response.error_code is Code.NONE
    assert [one.error_code for one in response.topics[0].partitions] == [Code.NONE] * 2
