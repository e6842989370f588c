"""kafka-python: pure Python, a sender thread of its own, callbacks from that thread."""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

from kafka import KafkaConsumer, KafkaProducer, OffsetAndMetadata, TopicPartition, __version__
from kafka.errors import KafkaError, KafkaTimeoutError

from chronik.client.security import in_force
from chronik.verify.clients.protocol import (
    IN_FLIGHT_MAX,
    Consumer,
    ConsumerFailed,
    ProducerFailed,
    Receiving,
    Sending,
    TransactionFailed,
    is_in_vain,
    library_of,
    until_stopped,
)
from chronik.verify.ledger import Ledger, ReceivedRecord
from chronik.verify.messages import Messages
from chronik.verify.settings import VerifyAcks

LOOK_EVERY = 500
PAUSE_S = 0.002
REQUEST_TIMEOUT_S = 30.0
CLOSE_S = 5.0


class KafkaPython:
    def __init__(self, bootstrap: str) -> None:
        self._servers = bootstrap.split(",")
        # It tells of every lost connection on the log; what matters of that is in the ledger.
        logging.getLogger("kafka").addHandler(logging.NullHandler())
        logging.getLogger("kafka").propagate = False

    @property
    def version(self) -> str:
        return str(__version__)

    def produce(self, order: Sending, messages: Messages, ledger: Ledger) -> None:
        producer = self._producer(order)
        try:
            for number in range(ledger.messages):
                self._send(producer, order, number, messages, ledger)
                if number % LOOK_EVERY == 0:
                    _wait_until_fewer(IN_FLIGHT_MAX, ledger, order)
                    if is_in_vain(order, ledger):
                        break
            producer.flush(0)
        except KafkaTimeoutError:
            _wait_until_fewer(0, ledger, order)
        finally:
            _close(producer, 0 if order.is_stopped() else CLOSE_S)

    def _producer(self, order: Sending) -> Any:
        try:
            return KafkaProducer(
                bootstrap_servers=self._servers,
                **in_force().for_kafka_python(),
                client_id=order.client_id,
                acks=-1 if order.acks is VerifyAcks.ALL else int(order.acks),
                enable_idempotence=order.is_idempotent,
                delivery_timeout_ms=int(order.timeout_s * 1000),
                request_timeout_ms=int(min(REQUEST_TIMEOUT_S, order.timeout_s) * 1000),
                max_block_ms=int(order.timeout_s * 1000),
            )
        except KafkaError as error:
            raise ProducerFailed(reason(error)) from error

    def _send(self, producer: Any, order: Sending, number: int, messages: Messages, ledger: Ledger) -> None:
        partition = order.partition(number)
        ledger.send(number, partition)
        try:
            future = producer.send(order.topic, messages.value(number), partition=partition)
        except KafkaError as error:
            ledger.refuse(number, reason(error))
            return
        future.add_callback(partial(_acknowledged, ledger, number))
        future.add_errback(partial(_refused, ledger, number))

    def consumer(self, order: Receiving) -> _Consumer:
        try:
            return _Consumer(self._servers, order)
        except KafkaError as error:
            raise ConsumerFailed(reason(error)) from error

    def transactional(self, name: str, timeout_s: float) -> _Transactional:
        with _plain():
            return _Transactional(self._servers, name, timeout_s)


@contextlib.contextmanager
def _plain() -> Iterator[None]:
    try:
        yield
    except KafkaError as error:
        raise TransactionFailed(reason(error)) from error


class _Transactional:
    def __init__(self, servers: list[str], name: str, timeout_s: float) -> None:
        self._producer = KafkaProducer(
            bootstrap_servers=servers,
            client_id=name,
            transactional_id=name,
            transaction_timeout_ms=int(timeout_s * 1000),
            delivery_timeout_ms=int(timeout_s * 1000),
            request_timeout_ms=int(min(REQUEST_TIMEOUT_S, timeout_s) * 1000),
            max_block_ms=int(timeout_s * 1000),
        )
        self._sent: list[Any] = []
        try:
            self._producer.init_transactions()
        except KafkaError:
            self.close()
            raise

    def begin(self) -> None:
        self._sent.clear()
        with _plain():
            self._producer.begin_transaction()

    def send(self, topic: str, value: bytes, partition: int) -> None:
        with _plain():
            self._sent.append(self._producer.send(topic, value, partition=partition))

    def send_offsets(self, consumer: Consumer, group: str, topic: str, offsets: Mapping[int, int]) -> None:
        wanted = {
            TopicPartition(topic, number): OffsetAndMetadata(offset, "", -1) for number, offset in offsets.items()
        }
        with _plain():
            self._producer.send_offsets_to_transaction(wanted, library_of(consumer).group_metadata())

    def commit(self) -> None:
        with _plain():
            self._producer.flush()
            for sent in self._sent:
                sent.get(timeout=0)  # one that was refused is not committed over
            self._producer.commit_transaction()

    def abort(self) -> None:
        with _plain():
            self._producer.abort_transaction()

    def close(self) -> None:
        _close(self._producer, CLOSE_S)


class _Consumer:
    def __init__(self, servers: list[str], order: Receiving) -> None:
        self._consumer = KafkaConsumer(
            bootstrap_servers=servers,
            **in_force().for_kafka_python(),
            client_id=order.client_id,
            group_id=order.group,
            auto_offset_reset="earliest",
            enable_auto_commit=order.is_auto_commit,
            max_poll_records=order.max_poll_records,
            isolation_level="read_committed" if order.is_committed_only else "read_uncommitted",
        )
        self.library = self._consumer
        if order.group is not None:
            self._consumer.subscribe([order.topic])
            return
        self._consumer.assign([TopicPartition(order.topic, partition) for partition in order.starts])
        for partition, offset in order.starts.items():
            self._consumer.seek(TopicPartition(order.topic, partition), offset)

    def poll(self, wait_s: float) -> list[ReceivedRecord]:
        try:
            found = self._consumer.poll(timeout_ms=max(int(wait_s * 1000), 1))
        except KafkaError as error:
            raise ConsumerFailed(reason(error)) from error
        return [
            ReceivedRecord(each.value, each.partition, each.offset) for records in found.values() for each in records
        ]

    def close(self) -> None:
        self._consumer.close()


def _wait_until_fewer(count: int, ledger: Ledger, order: Sending) -> None:
    """Until no more messages than that wait for an answer: kafka-python takes whatever it is given."""
    deadline = time.monotonic() + 2 * order.timeout_s  # a message has timed out long before
    while ledger.waiting > count and time.monotonic() < deadline:
        until_stopped(order)
        time.sleep(PAUSE_S)
    until_stopped(order)


def _close(producer: Any, timeout_s: float) -> None:
    try:
        producer.close(timeout=timeout_s)
    except KafkaTimeoutError:
        # kafka-python 3.0 stays open while a message has no answer, and complains when it is collected.
        producer._sender.force_close()
        with contextlib.suppress(KafkaTimeoutError):
            producer.close(timeout=CLOSE_S)


def _acknowledged(ledger: Ledger, number: int, told: Any) -> None:
    ledger.acknowledge(number, told.partition, told.offset)


def _refused(ledger: Ledger, number: int, error: Exception) -> None:
    ledger.refuse(number, reason(error))


def reason(error: Exception) -> str:
    return type(error).__name__
