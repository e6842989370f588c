"""The image: what records make of it, and what it costs."""

from __future__ import annotations

import tracemalloc
from typing import cast

import pytest

from chronik.core.config.node import NodeConfig
from chronik.core.machines.metadata.commands import CreateTopics, NewTopic, ResourceType
from chronik.core.machines.metadata.image import MetadataImage, Partition
from chronik.core.machines.metadata.records import (
    BrokerEndpoint,
    ConfigRecord,
    MetadataRecord,
    PartitionChangeRecord,
    PartitionRecord,
    RegisterBrokerRecord,
    TopicRecord,
)
from tests.unit.core.machines.metadata.machine_asked import Asked, topic_id


def with_partition() -> MetadataImage:
    image = MetadataImage("c", NodeConfig())
    image.apply(TopicRecord("t", topic_id(1)))
    image.apply(PartitionRecord(0, topic_id(1), (1, 2, 3), (1, 2, 3), (), (), 1, 0, 0))
    return image


def test_a_partition_is_found_by_name_and_number() -> None:
    image = with_partition()

    assert image.partition("t", 0) == Partition(1, 0, (1, 2, 3), (1, 2, 3), 0)
    assert image.partition("t", 1) is None
    assert image.partition("t", -1) is None
    assert image.partition("u", 0) is None


def test_a_new_leader_begins_a_new_epoch() -> None:
    image = with_partition()

    image.apply(PartitionChangeRecord(0, topic_id(1), leader=2))

    assert image.partition("t", 0) == Partition(2, 1, (1, 2, 3), (1, 2, 3), 1)


def test_a_change_of_the_in_sync_set_leaves_the_leader_epoch() -> None:
    image = with_partition()

    image.apply(PartitionChangeRecord(0, topic_id(1), isr=(1, 3)))
    image.apply(PartitionChangeRecord(0, topic_id(1), replicas=(1, 3, 4)))

    assert image.partition("t", 0) == Partition(1, 0, (1, 3, 4), (1, 3), 2)


def test_a_partition_may_be_written_again() -> None:
    image = with_partition()

    image.apply(PartitionRecord(0, topic_id(1), (4,), (4,), (), (), 4, 7, 9))

    assert image.partition("t", 0) == Partition(4, 7, (4,), (4,), 9)


def test_only_brokers_that_are_not_fenced_are_live() -> None:
    image = MetadataImage("c", NodeConfig())
    for number, fenced in ((3, False), (1, False), (2, True)):
        end_points = (BrokerEndpoint("PLAINTEXT", "h", 1, 0),)
        image.apply(RegisterBrokerRecord(number, bytes(16), 0, end_points, (), None, fenced, False))

    assert [broker.id for broker in image.live_brokers()] == [1, 3]


def test_topics_without_settings_share_one_config() -> None:
    asked = Asked()
    asked.ask(CreateTopics((NewTopic("a", topic_id(1)), NewTopic("b", topic_id(2)))))

    assert asked.image.topic_config("a") is asked.image.topic_config("b")


def test_a_setting_of_a_newer_version_is_passed_over() -> None:
    image = with_partition()

    image.apply(ConfigRecord(ResourceType.TOPIC, "t", "from.the.future", "1"))
    image.apply(ConfigRecord(ResourceType.BROKER, "", "from.the.future", "1"))

    assert image.topic_overrides("t") == {}
    assert image.topic_config("t").retention_ms > 0
    assert image.version == 4


def test_what_is_no_record_cannot_be_applied() -> None:
    with pytest.raises(TypeError):
        MetadataImage("c", NodeConfig()).apply(cast("MetadataRecord", "a string"))


def test_ten_thousand_partitions_take_little_memory() -> None:
    asked = Asked(brokers=(1, 2, 3))
    asked.ask(CreateTopics((NewTopic("warm-up", topic_id(1), 1, 3),)))
    tracemalloc.start()

    asked.ask(CreateTopics((NewTopic("t", topic_id(2), 9_999, 3),)))
    asked.log.clear()
    size, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert asked.image.partition_count == 10_000
    assert size < 4 * 1024 * 1024
