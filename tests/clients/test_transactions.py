"""Transactions of the Python clients, all of the older protocol: the same tests for each. Java, kafkajs and franz-go
have theirs in their own programs; those of Java and franz-go are of transaction version 2."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine, Iterator
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaException, Message, Producer, TopicPartition

from tests.clients.support import WAIT_SECONDS, needs, wait_until

needs("kafka")
needs("aiokafka")
import aiokafka  # noqa: E402
import aiokafka.errors  # noqa: E402
import kafka  # noqa: E402
import kafka.errors  # noqa: E402
from kafka.structs import ConsumerGroupMetadata, OffsetAndMetadata  # noqa: E402

MakeTopic = Callable[..., str]
TIMEOUT_MS = 60_000
SHORT_TIMEOUT_MS = 1_500


class TransactionalProducer(ABC):
    """A library's transactional producer as these tests see it. It has its id when it was made."""

    @abstractmethod
    def begin(self) -> None: ...

    @abstractmethod
    def send(self, topic: str, *values: bytes, partition: int = 0) -> None:
        """Sends them and waits until they are answered."""

    @abstractmethod
    def send_offset(self, group: str, topic: str, offset: int) -> None:
        """Of partition 0: committed with the transaction."""

    @abstractmethod
    def commit(self) -> None: ...

    @abstractmethod
    def abort(self) -> None: ...

    @abstractmethod
    def close(self) -> None: ...

    @property
    @abstractmethod
    def refusals(self) -> tuple[type[Exception], ...]:
        """What it raises when its node refuses."""


class Confluent(TransactionalProducer):
    refusals = (KafkaException,)

    def __init__(self, bootstrap: str, name: str, timeout_ms: int) -> None:
        settings: dict[str, Any] = {"transactional.id": name, "transaction.timeout.ms": timeout_ms}
        quiet = {"log_level": 0}  # a producer that is fenced says so on stderr
        self._bootstrap = bootstrap
        self._producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 0, **settings, **quiet})
        self._producer.init_transactions(WAIT_SECONDS)

    def begin(self) -> None:
        self._producer.begin_transaction()

    def send(self, topic: str, *values: bytes, partition: int = 0) -> None:
        errors: list[Any] = []

        def told(error: Any, _: Message) -> None:
            errors.append(error)

        for value in values:
            self._producer.produce(topic, value, partition=partition, on_delivery=told)
        self._producer.flush(WAIT_SECONDS)
        assert len(errors) == len(values)
        for error in filter(None, errors):
            raise KafkaException(error)

    def send_offset(self, group: str, topic: str, offset: int) -> None:
        consumer = Consumer({"bootstrap.servers": self._bootstrap, "group.id": group})
        try:
            metadata = consumer.consumer_group_metadata()
            self._producer.send_offsets_to_transaction([TopicPartition(topic, 0, offset)], metadata, WAIT_SECONDS)
        finally:
            consumer.close()

    def commit(self) -> None:
        self._producer.commit_transaction(WAIT_SECONDS)

    def abort(self) -> None:
        self._producer.abort_transaction(WAIT_SECONDS)

    def close(self) -> None:
        self._producer.purge()


class KafkaPython(TransactionalProducer):
    refusals = (kafka.errors.KafkaError,)

    def __init__(self, bootstrap: str, name: str, timeout_ms: int) -> None:
        self._producer = kafka.KafkaProducer(
            bootstrap_servers=bootstrap, transactional_id=name, transaction_timeout_ms=timeout_ms
        )
        self._producer.init_transactions()

    def begin(self) -> None:
        self._producer.begin_transaction()

    def send(self, topic: str, *values: bytes, partition: int = 0) -> None:
        sent = [self._producer.send(topic, value, partition=partition) for value in values]
        self._producer.flush(WAIT_SECONDS)
        for one in sent:
            one.get(WAIT_SECONDS)

    def send_offset(self, group: str, topic: str, offset: int) -> None:
        where = kafka.TopicPartition(topic, 0)
        metadata = ConsumerGroupMetadata(group, -1, "", None)
        self._producer.send_offsets_to_transaction({where: OffsetAndMetadata(offset, "", -1)}, metadata)

    def commit(self) -> None:
        self._producer.commit_transaction()

    def abort(self) -> None:
        self._producer.abort_transaction()

    def close(self) -> None:
        self._producer.close(0)


class Aiokafka(TransactionalProducer):
    refusals = (aiokafka.errors.KafkaError,)

    def __init__(self, bootstrap: str, name: str, timeout_ms: int) -> None:
        self._runner = asyncio.Runner()

        async def start() -> aiokafka.AIOKafkaProducer:
            producer = aiokafka.AIOKafkaProducer(
                bootstrap_servers=bootstrap, transactional_id=name, transaction_timeout_ms=timeout_ms
            )
            await producer.start()
            return producer

        self._producer = self._run(start())

    def _run(self, work: Coroutine[Any, Any, Any]) -> Any:
        return self._runner.run(asyncio.wait_for(work, WAIT_SECONDS))

    def begin(self) -> None:
        self._run(self._producer.begin_transaction())

    def send(self, topic: str, *values: bytes, partition: int = 0) -> None:
        async def send_all() -> None:
            sent = [await self._producer.send(topic, value, partition=partition) for value in values]
            await asyncio.gather(*sent)

        self._run(send_all())

    def send_offset(self, group: str, topic: str, offset: int) -> None:
        where = aiokafka.TopicPartition(topic, 0)
        self._run(self._producer.send_offsets_to_transaction({where: offset}, group))

    def commit(self) -> None:
        self._run(self._producer.commit_transaction())

    def abort(self) -> None:
        self._run(self._producer.abort_transaction())

    def close(self) -> None:
        self._run(self._producer.stop())
        self._runner.close()


Begin = Callable[..., TransactionalProducer]


@pytest.fixture(params=[Confluent, KafkaPython, Aiokafka], ids=["confluent", "kafka-python", "aiokafka"])
def producer_of(request: pytest.FixtureRequest, bootstrap: str) -> Iterator[Begin]:
    """Makes producers of one library: producer_of(name, timeout_ms)."""
    made: list[TransactionalProducer] = []

    def make(name: str, timeout_ms: int = TIMEOUT_MS) -> TransactionalProducer:
        made.append(request.param(bootstrap, name, timeout_ms))
        return made[-1]

    yield make
    for producer in made:
        producer.close()


def read_to_end(bootstrap: str, topic: str, *, isolation: str = "read_committed", partitions: int = 1) -> list[bytes]:
    """All that can be read now: up to the last stable offset, or to the high watermark."""
    settings = {"group.id": "no group", "isolation.level": isolation, "enable.partition.eof": True}
    consumer = Consumer({"bootstrap.servers": bootstrap, "auto.offset.reset": "earliest", **settings})
    try:
        consumer.assign([TopicPartition(topic, partition, 0) for partition in range(partitions)])
        values: list[bytes] = []
        ended: set[int | None] = set()
        while len(ended) < partitions:
            message = consumer.poll(WAIT_SECONDS)
            assert message is not None, "the end of the partition was not told in time"
            if message.error():
                ended.add(message.partition())
            else:
                values.append(message.value() or b"")
        return values
    finally:
        consumer.close()


def send_plainly(bootstrap: str, topic: str, value: bytes) -> None:
    producer = Producer({"bootstrap.servers": bootstrap})
    producer.produce(topic, value, partition=0)
    assert producer.flush(WAIT_SECONDS) == 0


def committed_offset(bootstrap: str, group: str, topic: str) -> int:
    """A consumer waits for offsets that are pending: so what it says is decided."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group})
    try:
        [found] = consumer.committed([TopicPartition(topic, 0)], timeout=WAIT_SECONDS)
        return found.offset
    finally:
        consumer.close()


def test_what_was_committed_is_read_and_what_was_aborted_is_not(
    bootstrap: str, producer_of: Begin, make_topic: MakeTopic, name: str
) -> None:
    topic = make_topic(partitions=2)
    producer = producer_of(name)
    for number in range(6):
        producer.begin()
        for partition in range(2):
            producer.send(topic, b"%d-%d" % (number, partition), partition=partition)
        if number % 3 == 1:
            producer.abort()
        else:
            producer.commit()

    kept = [b"%d-%d" % (number, partition) for number in (0, 2, 3, 5) for partition in range(2)]
    wait_until(lambda: sorted(read_to_end(bootstrap, topic, partitions=2)) == kept, "the committed ones are read")
    assert len(read_to_end(bootstrap, topic, isolation="read_uncommitted", partitions=2)) == 12


def test_what_is_open_is_not_read_and_holds_back_what_is_behind_it(
    bootstrap: str, producer_of: Begin, make_topic: MakeTopic, name: str
) -> None:
    topic = make_topic()
    producer = producer_of(name)
    send_plainly(bootstrap, topic, b"before")
    producer.begin()
    producer.send(topic, b"open")
    send_plainly(bootstrap, topic, b"behind")

    assert read_to_end(bootstrap, topic) == [b"before"]
    assert read_to_end(bootstrap, topic, isolation="read_uncommitted") == [b"before", b"open", b"behind"]

    producer.commit()
    wait_until(
        lambda: read_to_end(bootstrap, topic) == [b"before", b"open", b"behind"], "all is read when it is committed"
    )


def test_a_second_instance_fences_the_first(
    bootstrap: str, producer_of: Begin, make_topic: MakeTopic, name: str
) -> None:
    topic = make_topic()
    first = producer_of(name)
    first.begin()
    first.send(topic, b"of the first")

    second = producer_of(name)
    second.begin()
    second.send(topic, b"of the second")
    with pytest.raises(first.refusals):
        first.commit()
    second.commit()

    wait_until(lambda: read_to_end(bootstrap, topic) == [b"of the second"], "only the second's is read")


def test_an_abandoned_transaction_is_aborted_when_its_time_is_up(
    bootstrap: str, producer_of: Begin, make_topic: MakeTopic, name: str
) -> None:
    topic = make_topic()
    producer = producer_of(name, SHORT_TIMEOUT_MS)
    producer.begin()
    producer.send(topic, b"abandoned")
    send_plainly(bootstrap, topic, b"behind")
    assert read_to_end(bootstrap, topic) == []

    wait_until(lambda: read_to_end(bootstrap, topic) == [b"behind"], "the transaction is aborted")
    with pytest.raises(producer.refusals):
        producer.commit()


def test_offsets_are_committed_with_their_transaction_or_not_at_all(
    bootstrap: str, producer_of: Begin, make_topic: MakeTopic, name: str
) -> None:
    topic = make_topic()
    producer = producer_of(name)
    producer.begin()
    producer.send(topic, b"first")
    producer.send_offset(name, topic, 5)
    producer.commit()
    assert committed_offset(bootstrap, name, topic) == 5

    producer.begin()
    producer.send(topic, b"second")
    producer.send_offset(name, topic, 9)
    producer.abort()
    assert committed_offset(bootstrap, name, topic) == 5
    wait_until(lambda: read_to_end(bootstrap, topic) == [b"first"], "only the first is read")
