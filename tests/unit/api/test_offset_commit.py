"""OffsetCommit over the wire."""

from __future__ import annotations

import uuid
from typing import Any

from chronik.api import offset_commit
from chronik.api.durations import duration
from chronik.core.errors import Code, Refused
from chronik.core.machines.groups.answers import FetchedOffset
from chronik.wire.unions.offset_commit import Partition, Request, Topic
from tests.unit.api.fake_desk import ask, groups_of
from tests.unit.api.grouped_desk import grouped_desk, refusing_desk
from tests.unit.core.machines.groups.host import fetch

ONE = Partition(partition_index=1, committed_offset=42, committed_leader_epoch=3, committed_metadata="note")


def codes(response: Any) -> list[tuple[str, list[Code]]]:
    return [(topic.name, [one.error_code for one in topic.partitions]) for topic in response.topics]


def test_offsets_are_kept_and_unknown_topics_are_named() -> None:
    desk, host = grouped_desk({"orders": 2})
    topics = (Topic(name="missing", partitions=(ONE, ONE)), Topic(name="orders", partitions=(ONE,)))
    response = ask(offset_commit, Request(group_id="g", topics=topics), desk, version=9)
    unknown = Code.UNKNOWN_TOPIC_OR_PARTITION
    assert codes(response) == [("missing", [unknown, unknown]), ("orders", [Code.NONE])]
    assert host.ask(fetch()).offsets == (FetchedOffset("orders", 1, 42, 3, "note"),)


def test_from_version_10_topics_come_by_id() -> None:
    desk, host = grouped_desk({"orders": 2})
    topic = desk.metadata.image.topic("orders")
    assert topic is not None
    known, unknown = uuid.UUID(bytes=topic.id), uuid.UUID(int=999)
    topics = tuple(Topic(topic_id=topic_id, partitions=(ONE,)) for topic_id in (known, unknown, None))
    response = ask(offset_commit, Request(group_id="g", topics=topics), desk, version=10)
    assert [(one.topic_id, one.partitions[0].error_code) for one in response.topics] == [
        (known, Code.NONE),
        (unknown, Code.UNKNOWN_TOPIC_ID),
        (None, Code.UNKNOWN_TOPIC_ID),
    ]
    assert host.ask(fetch()).offsets[0].topic == "orders"


def test_nothing_is_asked_when_no_topic_is_known() -> None:
    desk, _ = grouped_desk()
    ask(offset_commit, Request(group_id="g", topics=(Topic(name="missing", partitions=(ONE,)),)), desk, version=9)
    assert groups_of(desk).asked == []


def test_what_only_some_versions_can_say_reaches_the_group() -> None:
    desk, _ = grouped_desk({"orders": 2})
    topics = (Topic(name="orders", partitions=(ONE,)),)
    ask(offset_commit, Request(group_id="g", topics=topics, retention_time=duration(5_000)), desk, version=2)
    ask(offset_commit, Request(group_id="g", topics=topics), desk, version=9)
    old, new = (command for _, command in groups_of(desk).asked)
    assert (old.retention_ms, old.knows_epochs) == (5_000, False)
    assert (new.retention_ms, new.knows_epochs) == (-1, True)


def test_a_refusal_is_on_every_partition() -> None:
    desk = refusing_desk(Refused(Code.ILLEGAL_GENERATION), {"orders": 2})
    topics = (Topic(name="orders", partitions=(ONE, ONE)),)
    response = ask(offset_commit, Request(group_id="g", topics=topics), desk, version=8)
    assert codes(response) == [("orders", [Code.ILLEGAL_GENERATION] * 2)]
