"""confluent-kafka (librdkafka) as the shared tests use it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any

from confluent_kafka import OFFSET_BEGINNING, KafkaError, KafkaException, Message, Producer, TopicPartition
from confluent_kafka import Consumer as LibraryConsumer

from tests.clients.support import NONE, WAIT_SECONDS, Client, Consumer, MessageTooLarge, Record, Settings

PRODUCER_ONLY = {"max.request.size", "compression.type", "acks", "linger.ms", "enable.idempotence"}


class _LibrdkafkaConsumer:
    def __init__(self, topic: str, consumer: LibraryConsumer) -> None:
        self._topic = topic
        self._consumer = consumer

    def poll(self) -> list[Record]:
        messages: list[Message] = self._consumer.consume(500, timeout=0.2)
        records = []
        for message in messages:
            error = message.error()
            if error is not None:
                raise KafkaException(error)
            headers: Any = message.headers() or ()
            _, timestamp_ms = message.timestamp()
            records.append(
                Record(message.value(), message.key(), headers, timestamp_ms, message.partition(), message.offset())
            )
        return records

    def assignment(self) -> set[int]:
        return {assigned.partition for assigned in self._consumer.assignment()}

    def commit(self) -> None:
        self._consumer.commit(asynchronous=False)

    def seek(self, partition: int, offset: int) -> None:
        self._consumer.seek(TopicPartition(self._topic, partition, offset))

    def offset_at(self, partition: int, timestamp_ms: int) -> int | None:
        [found] = self._consumer.offsets_for_times([TopicPartition(self._topic, partition, timestamp_ms)], timeout=10)
        return found.offset if found.offset >= 0 else None

    def close(self) -> None:
        self._consumer.close()


class Librdkafka(Client):
    def produce(self, topic: str, records: Iterable[Record], settings: Settings = NONE) -> list[Record]:
        ours = {key: value for key, value in settings.items() if key in PRODUCER_ONLY}
        if "max.request.size" in ours:
            ours["message.max.bytes"] = ours.pop("max.request.size")
        producer = Producer({"bootstrap.servers": self.bootstrap, **ours})
        sent = list(records)
        answers: dict[int, tuple[KafkaError | None, Message]] = {}

        def when_answered(number: int) -> Callable[[KafkaError | None, Message], None]:
            return lambda error, message: answers.update({number: (error, message)})

        for number, record in enumerate(sent):
            where: dict[str, Any] = {} if record.partition is None else {"partition": record.partition}
            when: dict[str, Any] = {} if record.timestamp_ms is None else {"timestamp": record.timestamp_ms}
            producer.produce(
                topic,
                record.value,
                record.key,
                headers=list(record.headers),
                on_delivery=when_answered(number),
                **where,
                **when,
            )
        assert producer.flush(WAIT_SECONDS) == 0
        for error, _ in answers.values():
            if error is not None and error.code() == KafkaError.MSG_SIZE_TOO_LARGE:
                raise MessageTooLarge
            if error is not None:
                raise KafkaException(error)
        placed = [answers[number][1] for number in range(len(sent))]
        return [
            Record(record.value, record.key, partition=at.partition(), offset=at.offset())
            for record, at in zip(sent, placed, strict=True)
        ]

    def make_consumer(self, topic: str, settings: Settings, partitions: Sequence[int] | None) -> Consumer:
        ours = {key: value for key, value in settings.items() if key not in PRODUCER_ONLY}
        consumer = LibraryConsumer({"bootstrap.servers": self.bootstrap, "group.id": "no group", **ours})
        if partitions is None:
            consumer.subscribe([topic])
        else:
            # With no offset given, librdkafka would ask a group for one even here.
            consumer.assign([TopicPartition(topic, partition, OFFSET_BEGINNING) for partition in partitions])
        return _LibrdkafkaConsumer(topic, consumer)


def codes_of_one_batch(bootstrap: str, topic: str, records: Sequence[Record], partition: int = 0) -> list[int]:
    """The error code that librdkafka gives each of these records, all sent in one batch."""
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 60_000})
    codes: dict[int, int] = {}

    def told(number: int, error: KafkaError | None, _: Message) -> None:
        codes[number] = KafkaError.NO_ERROR if error is None else error.code()

    for number, record in enumerate(records):
        time_ms = record.timestamp_ms or 0  # 0: now
        producer.produce(
            topic, record.value, record.key, partition, on_delivery=partial(told, number), timestamp=time_ms
        )
    assert producer.flush(WAIT_SECONDS) == 0  # which does not wait for linger.ms
    return [codes[number] for number in range(len(records))]
