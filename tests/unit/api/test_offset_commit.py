"""OffsetCommit over the wire."""

from __future__ import annotations

import uuid
from typing import Any

from chronik.api import offset_commit
from chronik.api.durations import duration
from chronik.core.errors import Code, Refused
from chronik.core.machines.groups.answers import FetchedOffset
from chronik.core.machines.groups.config import GroupConfig
from chronik.wire.unions.offset_commit import AnyOffsetCommitPartition, AnyOffsetCommitRequest, AnyOffsetCommitTopic
from tests.unit.api.fake_context import ask, groups_of
from tests.unit.api.grouped_context import grouped_context, refusing_desk
from tests.unit.core.machines.groups.host import fetch

ONE = AnyOffsetCommitPartition(
    partition_index=1, committed_offset=42, committed_leader_epoch=3, committed_metadata="note"
)


def at(*numbers: int) -> tuple[AnyOffsetCommitPartition, ...]:
    return tuple(AnyOffsetCommitPartition(partition_index=number, committed_offset=100 + number) for number in numbers)


def codes(response: Any) -> list[tuple[str, list[Code]]]:
    return [(topic.name, [one.error_code for one in topic.partitions]) for topic in response.topics]


def test_offsets_are_kept_and_unknown_topics_are_named() -> None:
    context, host = grouped_context({"orders": 2})
    topics = (
        AnyOffsetCommitTopic(name="missing", partitions=(ONE, ONE)),
        AnyOffsetCommitTopic(name="orders", partitions=(ONE,)),
    )
    response = ask(offset_commit, AnyOffsetCommitRequest(group_id="g", topics=topics), context, version=9)
    unknown = Code.UNKNOWN_TOPIC_OR_PARTITION
    assert codes(response) == [("missing", [unknown, unknown]), ("orders", [Code.NONE])]
    orders = context.metadata.image.topics["orders"]
    assert host.ask(fetch()).offsets == (FetchedOffset("orders", 1, 42, 3, "note", orders.id),)


def test_partitions_that_do_not_exist_are_named_and_the_others_are_kept() -> None:
    context, host = grouped_context({"orders": 2, "bills": 1})
    topics = (
        AnyOffsetCommitTopic(name="orders", partitions=at(2, 1, -1, 0)),
        AnyOffsetCommitTopic(name="bills", partitions=at(0, 1)),
    )
    response = ask(offset_commit, AnyOffsetCommitRequest(group_id="g", topics=topics), context, version=9)
    unknown = Code.UNKNOWN_TOPIC_OR_PARTITION
    assert codes(response) == [("orders", [unknown, Code.NONE, unknown, Code.NONE]), ("bills", [Code.NONE, unknown])]
    assert [one.partition_index for one in response.topics[0].partitions] == [2, 1, -1, 0]
    kept = [(one.topic, one.partition, one.offset) for one in host.ask(fetch()).offsets]
    assert kept == [("orders", 1, 101), ("orders", 0, 100), ("bills", 0, 100)]


def test_what_the_group_refuses_and_what_does_not_exist_are_told_apart() -> None:
    context, _ = grouped_context({"orders": 2}, GroupConfig(offset_metadata_max_bytes=3))
    partitions = (*at(2), ONE, *at(0))
    response = ask(
        offset_commit,
        AnyOffsetCommitRequest(group_id="g", topics=(AnyOffsetCommitTopic(name="orders", partitions=partitions),)),
        context,
        9,
    )
    told = [Code.UNKNOWN_TOPIC_OR_PARTITION, Code.OFFSET_METADATA_TOO_LARGE, Code.NONE]
    assert codes(response) == [("orders", told)]


def test_a_partition_that_does_not_exist_is_called_so_for_a_topic_named_by_id_too() -> None:
    context, host = grouped_context({"orders": 2})
    topic = context.metadata.image.topic("orders")
    assert topic is not None
    topics = (AnyOffsetCommitTopic(topic_id=uuid.UUID(bytes=topic.id), partitions=at(2, 1)),)
    response = ask(offset_commit, AnyOffsetCommitRequest(group_id="g", topics=topics), context, version=10)
    [answered] = response.topics
    assert [one.error_code for one in answered.partitions] == [Code.UNKNOWN_TOPIC_OR_PARTITION, Code.NONE]
    assert [one.partition for one in host.ask(fetch()).offsets] == [1]


def test_from_version_10_topics_come_by_id() -> None:
    context, host = grouped_context({"orders": 2})
    topic = context.metadata.image.topic("orders")
    assert topic is not None
    known, unknown = uuid.UUID(bytes=topic.id), uuid.UUID(int=999)
    topics = tuple(AnyOffsetCommitTopic(topic_id=topic_id, partitions=(ONE,)) for topic_id in (known, unknown, None))
    response = ask(offset_commit, AnyOffsetCommitRequest(group_id="g", topics=topics), context, version=10)
    assert [(one.topic_id, one.partitions[0].error_code) for one in response.topics] == [
        (known, Code.NONE),
        (unknown, Code.UNKNOWN_TOPIC_ID),
        (None, Code.UNKNOWN_TOPIC_ID),
    ]
    assert host.ask(fetch()).offsets[0].topic == "orders"


def test_nothing_is_asked_when_no_partition_is_known() -> None:
    context, _ = grouped_context({"orders": 2})
    topics = (
        AnyOffsetCommitTopic(name="missing", partitions=(ONE,)),
        AnyOffsetCommitTopic(name="orders", partitions=at(2)),
    )
    ask(offset_commit, AnyOffsetCommitRequest(group_id="g", topics=topics), context, version=9)
    assert groups_of(context).asked == []


def test_what_only_some_versions_can_say_reaches_the_group() -> None:
    context, _ = grouped_context({"orders": 2})
    topics = (AnyOffsetCommitTopic(name="orders", partitions=(ONE,)),)
    ask(
        offset_commit,
        AnyOffsetCommitRequest(group_id="g", topics=topics, retention_time=duration(5_000)),
        context,
        version=2,
    )
    ask(offset_commit, AnyOffsetCommitRequest(group_id="g", topics=topics), context, version=9)
    old, new = (command for _, command in groups_of(context).asked)
    assert (old.retention_ms, old.knows_epochs) == (5_000, False)
    assert (new.retention_ms, new.knows_epochs) == (-1, True)


def test_a_refusal_is_on_every_partition() -> None:
    context = refusing_desk(Refused(Code.ILLEGAL_GENERATION), {"orders": 2})
    topics = (AnyOffsetCommitTopic(name="orders", partitions=(ONE, ONE)),)
    response = ask(offset_commit, AnyOffsetCommitRequest(group_id="g", topics=topics), context, version=8)
    assert codes(response) == [("orders", [Code.ILLEGAL_GENERATION] * 2)]
