"""kafka-python against the node under test."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import pytest

from tests.clients.behaviours import EARLIEST, ClientBehaviours, member_of
from tests.clients.support import NONE, Client, Consumer, MessageTooLarge, Record, Settings, at_once, needs, read

needs("kafka")
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition  # noqa: E402
from kafka.admin import ConfigResource, ConfigResourceType, NewPartitions, NewTopic, OffsetSpec  # noqa: E402
from kafka.errors import (  # noqa: E402
    InvalidPartitionsError,
    MessageSizeTooLargeError,
    TopicAlreadyExistsError,
    UnknownTopicOrPartitionError,
)
from kafka.structs import OffsetAndMetadata  # noqa: E402


def _translated(settings: Settings) -> dict[str, Any]:
    """Kafka's names as this library spells them."""
    translated = {key.replace(".", "_"): value for key, value in settings.items()}
    if translated.get("acks") in ("0", "1"):
        translated["acks"] = int(translated["acks"])
    if translated.get("compression_type") == "none":
        translated["compression_type"] = None
    return translated


class _KafkaPythonConsumer:
    def __init__(self, topic: str, consumer: KafkaConsumer) -> None:
        self._topic = topic
        self._consumer = consumer

    def poll(self) -> list[Record]:
        # kafka-python 3.0 never takes in an assignment that arrives after the poll that asked for it was over.
        return [
            Record(r.value, r.key, r.headers, r.timestamp, r.partition, r.offset)
            for records in self._consumer.poll(timeout_ms=2_000).values()
            for r in records
        ]

    def assignment(self) -> set[int]:
        return {partition.partition for partition in self._consumer.assignment()}

    def commit(self) -> None:
        self._consumer.commit()

    def seek(self, partition: int, offset: int) -> None:
        self._consumer.seek(TopicPartition(self._topic, partition), offset)

    def offset_at(self, partition: int, timestamp_ms: int) -> int | None:
        where = TopicPartition(self._topic, partition)
        found = self._consumer.offsets_for_times({where: timestamp_ms})[where]
        return None if found is None else found.offset

    def close(self) -> None:
        self._consumer.close()


class KafkaPython(Client):
    def produce(self, topic: str, records: Iterable[Record], settings: Settings = NONE) -> list[Record]:
        ours = {key: value for key, value in _translated(settings).items() if key in KafkaProducer.DEFAULT_CONFIG}
        producer = KafkaProducer(bootstrap_servers=self.bootstrap, **ours)
        try:
            sent = [
                (r, producer.send(topic, r.value, r.key, list(r.headers), r.partition, r.timestamp_ms)) for r in records
            ]
            producer.flush(30)
            placed = [(record, future.get(30)) for record, future in sent]
        except MessageSizeTooLargeError as error:
            raise MessageTooLarge from error
        finally:
            producer.close()
        return [Record(r.value, r.key, partition=at.partition, offset=at.offset) for r, at in placed]

    def make_consumer(self, topic: str, settings: Settings, partitions: Sequence[int] | None) -> Consumer:
        ours = {key: value for key, value in _translated(settings).items() if key in KafkaConsumer.DEFAULT_CONFIG}
        consumer = KafkaConsumer(bootstrap_servers=self.bootstrap, **ours)
        if partitions is None:
            consumer.subscribe([topic])
        else:
            consumer.assign([TopicPartition(topic, partition) for partition in partitions])
        return _KafkaPythonConsumer(topic, consumer)


@pytest.fixture
def client(bootstrap: str) -> Iterator[Client]:
    library = KafkaPython(bootstrap)
    yield library
    library.close()


@pytest.fixture
def admin(bootstrap: str) -> Iterator[KafkaAdminClient]:
    admin = KafkaAdminClient(bootstrap_servers=bootstrap)
    yield admin
    admin.close()


class TestKafkaPython(ClientBehaviours):
    """All that every client can do."""


def test_a_topic_is_created_listed_described_and_deleted(admin: KafkaAdminClient, name: str) -> None:
    admin.create_topics([NewTopic(name, num_partitions=3, replication_factor=1)])
    at_once(lambda: name in admin.list_topics(), "the topic is listed")
    [described] = admin.describe_topics([name])
    assert [partition["partition_index"] for partition in described["partitions"]] == [0, 1, 2]
    [leader] = {partition["leader_id"] for partition in described["partitions"]}
    assert [broker["broker_id"] for broker in admin.describe_cluster()["brokers"]] == [leader]
    [same] = admin.describe_topic_partitions([name])["topics"]
    assert len(same["partitions"]) == 3
    with pytest.raises(TopicAlreadyExistsError):
        admin.create_topics([NewTopic(name, num_partitions=3, replication_factor=1)])
    admin.delete_topics([name])
    at_once(lambda: name not in admin.list_topics(), "the topic is gone")
    with pytest.raises(UnknownTopicOrPartitionError):
        admin.delete_topics([name])


def test_a_topic_only_validated_is_not_created(admin: KafkaAdminClient, name: str) -> None:
    admin.create_topics([NewTopic(name, num_partitions=3, replication_factor=1)], validate_only=True)
    assert name not in admin.list_topics()


def test_topic_configs_show_defaults_and_what_was_altered(
    admin: KafkaAdminClient, make_topic: Callable[..., str]
) -> None:
    topic = make_topic(**{"max.message.bytes": "5000"})
    asked = ConfigResource(ConfigResourceType.TOPIC, topic)
    configs = admin.describe_configs([asked], config_filter="all")["topic"][topic]
    assert configs["max.message.bytes"]["value"] == "5000"
    assert configs["max.message.bytes"]["config_source"] == "DYNAMIC_TOPIC_CONFIG"
    assert configs["retention.ms"]["value"] == "604800000"
    assert configs["retention.ms"]["config_source"] == "DEFAULT_CONFIG"

    admin.alter_configs([ConfigResource(ConfigResourceType.TOPIC, topic, {"retention.ms": "1000000"})])
    altered = admin.describe_configs([asked])["topic"][topic]
    assert {key: config["value"] for key, config in altered.items()} == {
        "max.message.bytes": "5000",
        "retention.ms": "1000000",
    }

    admin.reset_configs([ConfigResource(ConfigResourceType.TOPIC, topic, ["retention.ms"])])
    assert set(admin.describe_configs([asked])["topic"][topic]) == {"max.message.bytes"}


def test_partitions_are_added_and_never_taken_away(admin: KafkaAdminClient, make_topic: Callable[..., str]) -> None:
    topic = make_topic(partitions=2)
    admin.create_partitions({topic: NewPartitions(5)})
    [described] = admin.describe_topics([topic])
    assert len(described["partitions"]) == 5
    with pytest.raises(InvalidPartitionsError):
        admin.create_partitions({topic: NewPartitions(3)})


def test_offsets_are_listed_by_kind_and_records_deleted(
    admin: KafkaAdminClient, client: Client, make_topic: Callable[..., str]
) -> None:
    topic = make_topic()
    where = TopicPartition(topic, 0)
    newest_ms = int(time.time() * 1000)
    for age_ms in (3000, 0, 2000):
        client.produce(topic, [Record(b"x", timestamp_ms=newest_ms - age_ms)])

    def offset(kind: int) -> int:
        return admin.list_partition_offsets({where: kind})[where].offset

    assert offset(OffsetSpec.EARLIEST) == 0
    assert offset(OffsetSpec.LATEST) == 3
    assert offset(OffsetSpec.MAX_TIMESTAMP) == 1
    assert offset(newest_ms - 2500) == 1
    assert admin.delete_records({where: 2})[where]["low_watermark"] == 2
    assert offset(OffsetSpec.EARLIEST) == 2
    assert [record.offset for record in read(client.consumer(topic, EARLIEST, partitions=[0]), 1)] == [2]


def test_a_group_is_listed_described_moved_and_deleted(
    admin: KafkaAdminClient, client: Client, make_topic: Callable[..., str]
) -> None:
    topic = make_topic(partitions=2)
    first = TopicPartition(topic, 0)
    client.produce(topic, [Record(b"x", partition=number % 2) for number in range(6)])
    consumer = client.consumer(topic, member_of(topic))
    read(consumer, 6)
    consumer.commit()
    assert topic in {group["group_id"] for group in admin.list_groups()}
    group = admin.describe_groups([topic])[topic]
    assert group["group_state"] == "Stable"
    [member] = group["members"]
    assert member["member_assignment"]["assigned_partitions"] == [{"topic": topic, "partitions": [0, 1]}]
    offsets = admin.list_group_offsets([topic])[topic]
    assert {at.partition: committed.offset for at, committed in offsets.items()} == {0: 3, 1: 3}
    assert admin.delete_groups([topic]) == {topic: "NonEmptyGroupError"}
    consumer.close()

    admin.alter_group_offsets(topic, {first: OffsetAndMetadata(1, "moved by hand", -1)})
    assert admin.list_group_offsets([topic])[topic][first][:2] == (1, "moved by hand")
    admin.delete_group_offsets(topic, [first])
    assert first not in admin.list_group_offsets([topic])[topic]
    assert admin.delete_groups([topic]) == {topic: "OK"}
    assert admin.delete_groups([topic]) == {topic: "GroupIdNotFoundError"}


def test_log_dirs_and_producers_are_described(
    admin: KafkaAdminClient, client: Client, make_topic: Callable[..., str]
) -> None:
    topic = make_topic()
    client.produce(topic, [Record(b"x" * 1000) for _ in range(3)])
    [broker] = admin.describe_log_dirs()
    sizes = {
        at["name"]: at["partitions"][0]["partition_size"] for log_dir in broker["log_dirs"] for at in log_dir["topics"]
    }
    assert sizes[topic] > 3000
    where = TopicPartition(topic, 0)
    [producer] = admin.describe_producers([where])[where].active_producers
    assert producer.last_sequence == 2
