"""kafka-python against the node under test."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import pytest

from tests.clients.behaviours import EARLIEST, ClientBehaviours, member_of
from tests.clients.support import NONE, Client, Consumer, MessageTooLarge, Record, Settings, needs, read

needs("kafka")
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition  # noqa: E402
from kafka.admin import ConfigResource, ConfigResourceType, NewPartitions, NewTopic, OffsetSpec  # noqa: E402
from kafka.errors import (  # noqa: E402
    GroupIdNotFoundError,
    MessageSizeTooLargeError,
    TopicAlreadyExistsError,
    UnknownTopicOrPartitionError,
)


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
        return [
            Record(r.value, r.key, r.headers, r.timestamp, r.partition, r.offset)
            for records in self._consumer.poll(timeout_ms=200).values()
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
    assert name in admin.list_topics()
    print(admin.describe_topics([name]))
    with pytest.raises(TopicAlreadyExistsError):
        admin.create_topics([NewTopic(name, num_partitions=3, replication_factor=1)])
    admin.delete_topics([name])
    assert name not in admin.list_topics()
    with pytest.raises(UnknownTopicOrPartitionError):
        admin.delete_topics([name])
