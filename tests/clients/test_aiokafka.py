"""aiokafka against the node under test. Each object gets an event loop of its own, so that shared tests need none."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import pytest

from tests.clients.behaviours import EARLIEST, ClientBehaviours, member_of
from tests.clients.support import (
    NONE,
    WAIT_SECONDS,
    Client,
    Consumer,
    MessageTooLarge,
    Record,
    Settings,
    at_once,
    needs,
    read,
)

needs("aiokafka")
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition  # noqa: E402
from aiokafka.admin import AIOKafkaAdminClient, NewPartitions, NewTopic, RecordsToDelete  # noqa: E402
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType  # noqa: E402
from aiokafka.errors import MessageSizeTooLargeError, for_code  # noqa: E402

MakeTopic = Callable[..., str]
PRODUCER_ONLY = {"max_request_size", "compression_type", "acks", "linger_ms", "enable_idempotence"}


def _translated(settings: Settings) -> dict[str, Any]:
    """Kafka's names as this library spells them."""
    translated = {key.replace(".", "_"): value for key, value in settings.items()}
    if translated.get("acks") in ("0", "1"):
        translated["acks"] = int(translated["acks"])
    if translated.get("compression_type") == "none":
        translated["compression_type"] = None
    return translated


class _AiokafkaConsumer:
    def __init__(self, topic: str, partitions: Sequence[int] | None, settings: dict[str, Any]) -> None:
        self._topic = topic
        self._runner = asyncio.Runner()
        self._consumer = self._runner.run(self._start(partitions, settings))
        self._is_open = True

    async def _start(self, partitions: Sequence[int] | None, settings: dict[str, Any]) -> AIOKafkaConsumer:
        consumer = AIOKafkaConsumer(**settings)
        if partitions is None:
            consumer.subscribe([self._topic])
        else:
            consumer.assign([TopicPartition(self._topic, partition) for partition in partitions])
        await consumer.start()
        return consumer

    def poll(self) -> list[Record]:
        found = self._runner.run(self._consumer.getmany(timeout_ms=200))
        return [
            Record(r.value, r.key, r.headers, r.timestamp, r.partition, r.offset)
            for records in found.values()
            for r in records
        ]

    def assignment(self) -> set[int]:
        return {partition.partition for partition in self._consumer.assignment()}

    def commit(self) -> None:
        self._runner.run(self._consumer.commit())

    def seek(self, partition: int, offset: int) -> None:
        self._consumer.seek(TopicPartition(self._topic, partition), offset)

    def offset_at(self, partition: int, timestamp_ms: int) -> int | None:
        where = TopicPartition(self._topic, partition)
        found = self._runner.run(self._consumer.offsets_for_times({where: timestamp_ms}))[where]
        return None if found is None else found.offset

    def close(self) -> None:
        if self._is_open:
            self._is_open = False
            self._runner.run(self._consumer.stop())
            self._runner.close()


class Aiokafka(Client):
    def produce(self, topic: str, records: Iterable[Record], settings: Settings = NONE) -> list[Record]:
        ours = {key: value for key, value in _translated(settings).items() if key in PRODUCER_ONLY}
        return asyncio.run(self._produce(topic, list(records), ours))

    async def _produce(self, topic: str, records: list[Record], settings: dict[str, Any]) -> list[Record]:
        producer = AIOKafkaProducer(bootstrap_servers=self.bootstrap, **settings)
        await producer.start()
        try:
            sent = [
                await producer.send(topic, r.value, r.key, r.partition, r.timestamp_ms, list(r.headers))
                for r in records
            ]
            placed = await asyncio.wait_for(asyncio.gather(*sent), WAIT_SECONDS)
        except MessageSizeTooLargeError as error:
            raise MessageTooLarge from error
        finally:
            await producer.stop()
        # With acks=0 there is no answer, and so no place.
        places = [(None, None) if at is None else (at.partition, at.offset) for at in placed]
        return [
            Record(record.value, record.key, partition=partition, offset=offset)
            for record, (partition, offset) in zip(records, places, strict=True)
        ]

    def make_consumer(self, topic: str, settings: Settings, partitions: Sequence[int] | None) -> Consumer:
        ours = {key: value for key, value in _translated(settings).items() if key not in PRODUCER_ONLY}
        return _AiokafkaConsumer(topic, partitions, {"bootstrap_servers": self.bootstrap, **ours})


class Admin:
    """The admin client, called as if it were not asynchronous."""

    def __init__(self, bootstrap: str) -> None:
        self._runner = asyncio.Runner()
        self._client = self._runner.run(self._start(bootstrap))

    async def _start(self, bootstrap: str) -> AIOKafkaAdminClient:
        client = AIOKafkaAdminClient(bootstrap_servers=bootstrap)
        await client.start()
        return client

    def __getattr__(self, name: str) -> Callable[..., Any]:
        return lambda *arguments, **named: self._runner.run(getattr(self._client, name)(*arguments, **named))

    def close(self) -> None:
        self._runner.run(self._client.close())
        self._runner.close()


@pytest.fixture
def client(bootstrap: str) -> Iterator[Client]:
    library = Aiokafka(bootstrap)
    yield library
    library.close()


@pytest.fixture
def admin(bootstrap: str) -> Iterator[Admin]:
    admin = Admin(bootstrap)
    yield admin
    admin.close()


class TestAiokafka(ClientBehaviours):
    """All that every client can do."""


def _name_of(error_code: int) -> str:
    return for_code(error_code).__name__


def test_a_topic_is_created_listed_described_and_deleted(admin: Admin, name: str) -> None:
    def create() -> str:
        [(_, error_code, _)] = admin.create_topics([NewTopic(name, 3, 1)]).topic_errors
        return _name_of(error_code)

    def delete() -> str:
        [(_, error_code)] = admin.delete_topics([name]).topic_error_codes
        return _name_of(error_code)

    assert create() == "NoError"
    at_once(lambda: name in admin.list_topics(), "the topic is listed")
    [described] = admin.describe_topics([name])
    assert sorted(partition["partition"] for partition in described["partitions"]) == [0, 1, 2]
    [broker] = admin.describe_cluster()["brokers"]
    assert {partition["leader"] for partition in described["partitions"]} == {broker["node_id"]}
    assert create() == "TopicAlreadyExistsError"
    assert delete() == "NoError"
    at_once(lambda: name not in admin.list_topics(), "the topic is gone")
    assert delete() == "UnknownTopicOrPartitionError"


def test_configs_are_altered_all_at_once_and_partitions_added(admin: Admin, make_topic: MakeTopic) -> None:
    topic = make_topic(**{"max.message.bytes": "5000"})

    def configs() -> dict[str, str]:
        [answer] = admin.describe_configs([ConfigResource(ConfigResourceType.TOPIC, topic)])
        [(_, _, _, _, entries)] = answer.resources
        return {entry[0]: entry[1] for entry in entries}

    assert configs()["max.message.bytes"] == "5000"
    # The old request replaces all configs of the topic: what is not named goes back to its default.
    admin.alter_configs([ConfigResource(ConfigResourceType.TOPIC, topic, {"retention.ms": "1000000"})])
    assert (configs()["retention.ms"], configs()["max.message.bytes"]) == ("1000000", "1048588")
    [(_, error_code, _)] = admin.create_partitions({topic: NewPartitions(4)}).topic_errors
    assert _name_of(error_code) == "NoError"
    [described] = admin.describe_topics([topic])
    assert len(described["partitions"]) == 4


def test_records_are_deleted_up_to_an_offset(admin: Admin, client: Client, make_topic: MakeTopic) -> None:
    topic = make_topic()
    client.produce(topic, [Record(b"x") for _ in range(5)])
    where = TopicPartition(topic, 0)
    assert admin.delete_records({where: RecordsToDelete(3)}) == {where: 3}
    received = read(client.consumer(topic, EARLIEST, partitions=[0]), 2)
    assert [record.offset for record in received] == [3, 4]


def test_a_group_is_listed_and_described_with_its_offsets(admin: Admin, client: Client, make_topic: MakeTopic) -> None:
    topic = make_topic(partitions=2)
    client.produce(topic, [Record(b"x", partition=number % 2) for number in range(6)])
    consumer = client.consumer(topic, member_of(topic))
    read(consumer, 6)
    consumer.commit()
    assert (topic, "consumer") in admin.list_consumer_groups()
    [answer] = admin.describe_consumer_groups([topic])
    [(error_code, group, state, protocol_type, protocol, members)] = answer.groups
    assert (error_code, group, state, protocol_type, protocol) == (0, topic, "Stable", "consumer", "roundrobin")
    assert len(members) == 1
    offsets = admin.list_consumer_group_offsets(topic)
    assert {at.partition: committed.offset for at, committed in offsets.items()} == {0: 3, 1: 3}
