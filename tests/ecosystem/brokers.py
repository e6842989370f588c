"""What the tests ask the brokers on either side: topics, records, settings and committed offsets, by librdkafka."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from confluent_kafka import (
    Consumer,
    ConsumerGroupTopicPartitions,
    KafkaError,
    KafkaException,
    Message,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ConfigSource,
    NewTopic,
    OffsetSpec,
)

from tests.clients.support import wait_until

ANSWER_SECONDS = 60.0
NOT_YET = (KafkaError.LEADER_NOT_AVAILABLE, KafkaError.NOT_LEADER_FOR_PARTITION, KafkaError.UNKNOWN_TOPIC_OR_PART)

Kept = tuple[int, int, bytes | None, bytes | None, int]
"""Partition, offset, key, value and timestamp of a record."""


class Brokers:
    """A cluster, be it Chronik's or Apache Kafka's, as a test sees it from outside."""

    def __init__(self, bootstrap: str, replicas: int) -> None:
        self.bootstrap = bootstrap
        self.replicas = replicas
        self._admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})

    def create(self, topic: str, partitions: int, settings: Mapping[str, str] | None = None) -> None:
        wanted = NewTopic(topic, partitions, self.replicas, config=dict(settings or {}))
        self._admin.create_topics([wanted])[topic].result(ANSWER_SECONDS)

    def topics(self) -> set[str]:
        return set(self._admin.list_topics(timeout=ANSWER_SECONDS).topics)

    def partitions(self, topic: str) -> int:
        return len(self._admin.list_topics(topic, timeout=ANSWER_SECONDS).topics[topic].partitions)

    def settings(self, topic: str) -> dict[str, str]:
        """What was set for this topic alone, and can be set."""
        resource = ConfigResource(ConfigResource.Type.TOPIC, topic)
        entries = self._admin.describe_configs([resource])[resource].result(ANSWER_SECONDS)
        return {
            name: entry.value
            for name, entry in entries.items()
            if entry.source == ConfigSource.DYNAMIC_TOPIC_CONFIG.value and not entry.is_read_only
        }

    def alter(self, topic: str, settings: Mapping[str, str | None]) -> None:
        """Sets these, and takes back those whose value is None."""
        changes = [
            ConfigEntry(
                name, value, incremental_operation=AlterConfigOpType.DELETE if value is None else AlterConfigOpType.SET
            )
            for name, value in settings.items()
        ]
        resource = ConfigResource(ConfigResource.Type.TOPIC, topic, incremental_configs=changes)
        self._admin.incremental_alter_configs([resource])[resource].result(ANSWER_SECONDS)

    def send(self, topic: str, records: Sequence[tuple[bytes | None, bytes | None]]) -> None:
        """Keys and values, in the partitions that librdkafka gives them. Returns when all in sync have them."""
        failed: list[KafkaError] = []

        def told(error: KafkaError | None, _: Message) -> None:
            if error is not None:
                failed.append(error)

        producer = Producer({"bootstrap.servers": self.bootstrap, "enable.idempotence": True, "log_level": 0})
        for key, value in records:
            producer.produce(topic, value, key, on_delivery=told)
            producer.poll(0)
        assert producer.flush(ANSWER_SECONDS) == 0, "records that nothing answered"
        assert failed == []

    def ends(self, topic: str) -> list[int]:
        """The end of each partition; empty while there is no such topic, or one of its leaders is not known."""
        if topic not in self.topics():
            return []
        asked = {TopicPartition(topic, partition): OffsetSpec.latest() for partition in range(self.partitions(topic))}
        answers = self._admin.list_offsets(asked, request_timeout=ANSWER_SECONDS)
        try:
            return [answers[place].result(ANSWER_SECONDS).offset for place in asked]
        except KafkaException as refused:
            if refused.args[0].retriable() or refused.args[0].code() in NOT_YET:
                return []
            raise

    def records(self, topic: str, group: str | None = None) -> list[Kept]:
        """All records up to the present end, in the order of places; a group commits that it has read them."""
        ends: dict[int, int] = {}

        def are_known() -> bool:
            ends.update(enumerate(self.ends(topic)))
            return bool(ends)

        wait_until(are_known, f"{topic} has leaders", ANSWER_SECONDS)
        settings = {"bootstrap.servers": self.bootstrap, "group.id": group or "not-used", "enable.auto.commit": False}
        consumer = Consumer({**settings, "log_level": 0})
        consumer.assign([TopicPartition(topic, partition, 0) for partition in ends])
        at = dict.fromkeys(ends, 0)
        found: list[Kept] = []
        try:
            while any(at[partition] < end for partition, end in ends.items()):
                message = consumer.poll(ANSWER_SECONDS)
                assert message is not None, f"no record for {ANSWER_SECONDS:.0f} s: at {at}, ends {ends}"
                if (error := message.error()) is not None:
                    if error.retriable():
                        continue  # a leader has gone, and librdkafka looks for the next
                    raise KafkaException(error)
                partition, offset = message.partition() or 0, message.offset() or 0
                at[partition] = offset + 1
                found.append((partition, offset, message.key(), message.value(), message.timestamp()[1]))
            if group is not None:
                places = [TopicPartition(topic, partition, end) for partition, end in ends.items()]
                consumer.commit(offsets=places, asynchronous=False)
        finally:
            consumer.close()
        return sorted(found)

    def read_committed(self, topic: str) -> list[Kept]:
        """All that `read_committed` may read now, up to the last stable offset, in the order of places."""
        settings = {"group.id": "not-used", "isolation.level": "read_committed", "enable.partition.eof": True}
        consumer = Consumer({"bootstrap.servers": self.bootstrap, **settings, "log_level": 0})
        open_ones = set(range(self.partitions(topic)))
        consumer.assign([TopicPartition(topic, partition, 0) for partition in open_ones])
        found: list[Kept] = []
        try:
            while open_ones:
                message = consumer.poll(ANSWER_SECONDS)
                assert message is not None, f"no record and no end for {ANSWER_SECONDS:.0f} s"
                partition = message.partition() or 0
                if (error := message.error()) is None:
                    offset = message.offset() or 0
                    found.append((partition, offset, message.key(), message.value(), message.timestamp()[1]))
                elif error.code() == KafkaError._PARTITION_EOF:
                    open_ones.discard(partition)
        finally:
            consumer.close()
        return sorted(found, key=lambda kept: kept[:2])

    def committed(self, group: str) -> dict[tuple[str, int], int]:
        """Where a group stands in each partition; empty if there is no such group."""
        asked = self._admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)])
        return {
            (each.topic, each.partition): each.offset for each in asked[group].result(ANSWER_SECONDS).topic_partitions
        }
