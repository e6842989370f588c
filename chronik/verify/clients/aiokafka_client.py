"""aiokafka: asyncio. It gets an event loop of its own, so that a run needs none."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Coroutine, Iterator, Mapping
from functools import partial
from typing import Any

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition, __version__
from aiokafka.errors import KafkaError

from chronik.client.security import in_force
from chronik.verify.clients.protocol import (
    FLUSH_S,
    Consumer,
    ConsumerFailed,
    ProducerFailed,
    Receiving,
    Sending,
    TransactionFailed,
    is_in_vain,
    until_stopped,
)
from chronik.verify.ledger import Ledger, ReceivedRecord
from chronik.verify.messages import Messages
from chronik.verify.settings import VerifyAcks

# aiokafka gives a batch up after this time, retries included, but also waits as long for one answer.
REQUEST_TIMEOUT_S = 40.0
CLOSE_S = 5.0


class AioKafka:
    def __init__(self, bootstrap: str) -> None:
        self._servers = bootstrap.split(",")
        logging.getLogger("aiokafka").addHandler(logging.NullHandler())
        logging.getLogger("aiokafka").propagate = False

    @property
    def version(self) -> str:
        return str(__version__)

    def produce(self, order: Sending, messages: Messages, ledger: Ledger) -> None:
        asyncio.run(self._produce(order, messages, ledger))

    async def _produce(self, order: Sending, messages: Messages, ledger: Ledger) -> None:
        producer = AIOKafkaProducer(
            bootstrap_servers=self._servers,
            **in_force().for_aiokafka(),
            client_id=order.client_id,
            acks="all" if order.acks is VerifyAcks.ALL else int(order.acks),
            enable_idempotence=order.is_idempotent,
            request_timeout_ms=int(min(REQUEST_TIMEOUT_S, order.timeout_s) * 1000),
        )
        try:
            await producer.start()
        except KafkaError as error:
            await _end(producer)
            raise ProducerFailed(reason(error)) from error
        try:
            for number in range(ledger.messages):
                await self._send(producer, order, number, messages, ledger)
                if is_in_vain(order, ledger):  # each message would wait for its time
                    break
            deadline = time.monotonic() + 2 * order.timeout_s  # each message has its own time; this is if it hangs
            while ledger.waiting and time.monotonic() < deadline:
                await asyncio.wait([asyncio.ensure_future(producer.flush())], timeout=FLUSH_S)
                until_stopped(order)
        finally:
            await _end(producer)

    async def _send(self, producer: Any, order: Sending, number: int, messages: Messages, ledger: Ledger) -> None:
        partition = order.partition(number)
        ledger.send(number, partition)
        try:
            # It waits while the partition's batch is full and not on its way, so memory is bounded.
            answer = await producer.send(order.topic, messages.value(number), partition=partition)
        except KafkaError as error:
            ledger.refuse(number, reason(error))
        else:
            answer.add_done_callback(partial(_told, ledger, number))

    def consumer(self, order: Receiving) -> _Consumer:
        return _Consumer(self._servers, order)

    def transactional(self, name: str, timeout_s: float) -> _Transactional:
        with _plain():
            return _Transactional(self._servers, name, timeout_s)


@contextlib.contextmanager
def _plain() -> Iterator[None]:
    try:
        yield
    except (KafkaError, TimeoutError) as error:
        raise TransactionFailed(reason(error)) from error


class _Transactional:
    """Has an event loop of its own, which runs while something is asked of it."""

    def __init__(self, servers: list[str], name: str, timeout_s: float) -> None:
        self._timeout_s = timeout_s
        self._runner = asyncio.Runner()
        self._sent: list[Any] = []
        self._producer: Any = None
        try:
            self._producer = self._runner.run(self._start(servers, name))
        except (KafkaError, TimeoutError):
            self._runner.close()
            raise

    async def _start(self, servers: list[str], name: str) -> Any:
        timeout_ms = int(self._timeout_s * 1000)
        producer = AIOKafkaProducer(
            bootstrap_servers=servers,
            client_id=name,
            transactional_id=name,
            transaction_timeout_ms=timeout_ms,
            request_timeout_ms=min(int(REQUEST_TIMEOUT_S * 1000), timeout_ms),
        )
        try:
            async with asyncio.timeout(self._timeout_s):
                await producer.start()
        except (KafkaError, TimeoutError):
            await _end(producer)
            raise
        return producer

    def _run(self, step: Coroutine[Any, Any, Any]) -> Any:
        async def within() -> Any:
            async with asyncio.timeout(self._timeout_s):
                return await step

        with _plain():
            return self._runner.run(within())

    def begin(self) -> None:
        self._sent.clear()
        self._run(self._producer.begin_transaction())

    def send(self, topic: str, value: bytes, partition: int) -> None:
        self._sent.append(self._run(self._producer.send(topic, value, partition=partition)))

    def send_offsets(self, consumer: Consumer, group: str, topic: str, offsets: Mapping[int, int]) -> None:
        wanted = {TopicPartition(topic, number): offset for number, offset in offsets.items()}
        self._run(self._producer.send_offsets_to_transaction(wanted, group))

    def commit(self) -> None:
        self._run(self._flushed())  # one that was refused is not committed over
        self._run(self._producer.commit_transaction())

    async def _flushed(self) -> None:
        await asyncio.gather(*self._sent)

    def abort(self) -> None:
        self._run(self._producer.abort_transaction())

    def close(self) -> None:
        try:
            self._runner.run(_end(self._producer))
        finally:
            self._runner.close()


class _Consumer:
    def __init__(self, servers: list[str], order: Receiving) -> None:
        self._records_max = order.max_poll_records
        self._runner = asyncio.Runner()
        try:
            self._consumer = self._runner.run(self._start(servers, order))
        except ConsumerFailed:
            self._runner.close()
            raise
        self.library = self._consumer

    async def _start(self, servers: list[str], order: Receiving) -> Any:
        consumer = AIOKafkaConsumer(
            bootstrap_servers=servers,
            **in_force().for_aiokafka(),
            client_id=order.client_id,
            group_id=order.group,
            auto_offset_reset="earliest",
            enable_auto_commit=order.group is not None and order.is_auto_commit,
            isolation_level="read_committed" if order.is_committed_only else "read_uncommitted",
        )
        if order.group is not None:
            consumer.subscribe([order.topic])
        else:
            consumer.assign([TopicPartition(order.topic, partition) for partition in order.starts])
        try:
            await consumer.start()
        except KafkaError as error:
            await _end(consumer)
            raise ConsumerFailed(reason(error)) from error
        if order.group is None:
            for partition, offset in order.starts.items():
                consumer.seek(TopicPartition(order.topic, partition), offset)
        return consumer

    def poll(self, wait_s: float) -> list[ReceivedRecord]:
        try:
            found = self._runner.run(
                self._consumer.getmany(timeout_ms=max(int(wait_s * 1000), 1), max_records=self._records_max)
            )
        except KafkaError as error:
            raise ConsumerFailed(reason(error)) from error
        return [
            ReceivedRecord(each.value, each.partition, each.offset) for records in found.values() for each in records
        ]

    def close(self) -> None:
        try:
            self._runner.run(_end(self._consumer))
        finally:
            self._runner.close()


async def _end(client: Any) -> None:
    """aiokafka waits for all that is under way, and for ever when the cluster is gone."""
    try:
        async with asyncio.timeout(CLOSE_S):
            await client.stop()
    except (TimeoutError, KafkaError):
        pass  # it is over either way; what was not answered stays so in the ledger


def _told(ledger: Ledger, number: int, answer: asyncio.Future[Any]) -> None:
    if answer.cancelled():
        ledger.refuse(number, "Cancelled")
    elif (error := answer.exception()) is not None:
        ledger.refuse(number, reason(error))
    else:
        told = answer.result()  # None with acks=0
        ledger.acknowledge(number, *((told.partition, told.offset) if told is not None else (None, None)))


def reason(error: BaseException) -> str:
    return type(error).__name__
