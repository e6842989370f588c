"""confluent-kafka: librdkafka, in C with threads of its own; callbacks come when it is polled."""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

from confluent_kafka import OFFSET_BEGINNING, KafkaError, KafkaException, Message, TopicPartition, __version__
from confluent_kafka import Consumer as LibraryConsumer
from confluent_kafka import Producer as LibraryProducer

from chronik.client.security import in_force
from chronik.verify.clients.protocol import (
    FLUSH_S,
    IN_FLIGHT_MAX,
    Consumer,
    ConsumerFailed,
    Receiving,
    Sending,
    TransactionFailed,
    is_in_vain,
    library_of,
    until_stopped,
)
from chronik.verify.ledger import Ledger, ReceivedRecord
from chronik.verify.messages import Messages

LOOK_EVERY = 500
ROOM_WAIT_S = 0.1
# Ahead of what the application asks for: a run's consumer takes all it can get.
FETCH_WAIT_MS = 500


class Confluent:
    def __init__(self, bootstrap: str) -> None:
        quiet = logging.getLogger("chronik.verify.librdkafka")
        quiet.addHandler(logging.NullHandler())
        quiet.propagate = False
        self._settings: dict[str, Any] = {"bootstrap.servers": bootstrap, "log_level": 0, "logger": quiet}
        self._settings |= in_force().for_librdkafka()

    @property
    def version(self) -> str:
        return str(__version__)

    def produce(self, order: Sending, messages: Messages, ledger: Ledger) -> None:
        producer = LibraryProducer(
            self._settings
            | {
                "client.id": order.client_id,
                "acks": str(order.acks),
                "enable.idempotence": order.is_idempotent,
                "delivery.timeout.ms": int(order.timeout_s * 1000),
                "queue.buffering.max.messages": IN_FLIGHT_MAX,
            }
        )
        for number in range(ledger.messages):
            self._send(producer, order, number, messages, ledger)
            if number % LOOK_EVERY == 0:
                producer.poll(0)
                if is_in_vain(order, ledger):
                    break
        deadline = time.monotonic() + 2 * order.timeout_s  # each message has its own time; this is if the client hangs
        while producer.flush(FLUSH_S) and time.monotonic() < deadline:
            until_stopped(order)

    def _send(self, producer: Any, order: Sending, number: int, messages: Messages, ledger: Ledger) -> None:
        partition = order.partition(number)
        ledger.send(number, partition)
        given = {} if partition is None else {"partition": partition}
        while True:
            try:
                producer.produce(
                    order.topic, messages.value(number), on_delivery=partial(_told, ledger, number), **given
                )
                return
            except BufferError:
                producer.poll(ROOM_WAIT_S)  # a message that gets no answer in its time makes room as well
                until_stopped(order)
            except KafkaException as refused:
                ledger.refuse(number, reason(refused.args[0]))
                return

    def consumer(self, order: Receiving) -> _Consumer:
        return _Consumer(self._settings, order)

    def transactional(self, name: str, timeout_s: float) -> _Transactional:
        with _plain():
            return _Transactional(self._settings, name, timeout_s)


@contextlib.contextmanager
def _plain() -> Iterator[None]:
    try:
        yield
    except KafkaException as error:
        raise TransactionFailed(reason(error.args[0])) from error


class _Transactional:
    def __init__(self, settings: dict[str, Any], name: str, timeout_s: float) -> None:
        self._timeout_s = timeout_s
        self._producer = LibraryProducer(
            settings
            | {
                "client.id": name,
                "transactional.id": name,
                "transaction.timeout.ms": int(timeout_s * 1000),
                "delivery.timeout.ms": int(timeout_s * 1000),
            }
        )
        try:
            self._producer.init_transactions(timeout_s)
        except KafkaException:
            self.close()
            raise

    def begin(self) -> None:
        with _plain():
            self._producer.begin_transaction()

    def send(self, topic: str, value: bytes, partition: int) -> None:
        deadline = time.monotonic() + self._timeout_s
        while True:
            try:
                with _plain():
                    self._producer.produce(topic, value, partition=partition)
                return
            except BufferError as full:
                self._producer.poll(ROOM_WAIT_S)
                if time.monotonic() > deadline:
                    raise TransactionFailed("QUEUE_FULL") from full

    def send_offsets(self, consumer: Consumer, group: str, topic: str, offsets: Mapping[int, int]) -> None:
        wanted = [TopicPartition(topic, number, offset) for number, offset in offsets.items()]
        with _plain():
            metadata = library_of(consumer).consumer_group_metadata()
            self._producer.send_offsets_to_transaction(wanted, metadata, self._timeout_s)

    def commit(self) -> None:
        with _plain():
            self._producer.commit_transaction(self._timeout_s)

    def abort(self) -> None:
        with _plain():
            self._producer.abort_transaction(self._timeout_s)

    def close(self) -> None:
        self._producer.purge()  # what it still has is of a transaction that is over


class _Consumer:
    def __init__(self, settings: dict[str, Any], order: Receiving) -> None:
        self._records_max = order.max_poll_records
        self._consumer = LibraryConsumer(
            settings
            | {
                "client.id": order.client_id,
                "group.id": order.group or "not-used",
                "auto.offset.reset": "earliest",
                "enable.auto.commit": order.group is not None and order.is_auto_commit,
                "isolation.level": "read_committed" if order.is_committed_only else "read_uncommitted",
                "fetch.wait.max.ms": FETCH_WAIT_MS,
            }
        )
        self.library = self._consumer
        if order.group is not None:
            self._consumer.subscribe([order.topic])
        else:
            self._consumer.assign(
                [
                    TopicPartition(order.topic, partition, offset or OFFSET_BEGINNING)
                    for partition, offset in order.starts.items()
                ]
            )

    def poll(self, wait_s: float) -> list[ReceivedRecord]:
        """librdkafka waits until it has all that may be given, or the time is up: so one message is waited for, and
        what came with it is taken without waiting."""
        try:
            found = self._consumer.consume(1, timeout=wait_s)
            if found and self._records_max > 1:
                found += self._consumer.consume(self._records_max - 1, timeout=0)
        except KafkaException as error:
            raise ConsumerFailed(reason(error.args[0])) from error
        return [_record(message) for message in found if not _is_passing(message)]

    def close(self) -> None:
        self._consumer.close()


def _is_passing(message: Message) -> bool:
    """An error that librdkafka gets over by itself; any other is raised."""
    error = message.error()
    if error is None:
        return False
    if error.fatal() or not (error.retriable() or error.code() < 0 or error.code() in _PASSING):
        raise ConsumerFailed(reason(error))
    return True


_PASSING = (KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError.LEADER_NOT_AVAILABLE, KafkaError.NOT_LEADER_FOR_PARTITION)


def _record(message: Message) -> ReceivedRecord:
    value, partition, offset = message.value(), message.partition(), message.offset()
    return ReceivedRecord(
        None if value is None else bytes(value),
        -1 if partition is None else partition,
        -1 if offset is None else offset,
    )


def _told(ledger: Ledger, number: int, error: KafkaError | None, message: Message) -> None:
    if error is None:
        ledger.acknowledge(number, message.partition(), message.offset())
    else:
        ledger.refuse(number, reason(error))


def reason(error: KafkaError) -> str:
    return str(error.name())
