"""aiokafka: asyncio. It gets an event loop of its own, so that a run needs none."""

from __future__ import annotations

import asyncio
import logging
import time
from functools import partial
from typing import Any

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition, __version__
from aiokafka.errors import KafkaError

from chronik.client.security import in_force
from chronik.verify.clients.protocol import (
    FLUSH_S,
    ConsumerFailed,
    ProducerFailed,
    Receiving,
    Sending,
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


class _Consumer:
    def __init__(self, servers: list[str], order: Receiving) -> None:
        self._records_max = order.max_poll_records
        self._runner = asyncio.Runner()
        try:
            self._consumer = self._runner.run(self._start(servers, order))
        except ConsumerFailed:
            self._runner.close()
            raise

    async def _start(self, servers: list[str], order: Receiving) -> Any:
        consumer = AIOKafkaConsumer(
            bootstrap_servers=servers,
            **in_force().for_aiokafka(),
            client_id=order.client_id,
            group_id=order.group,
            auto_offset_reset="earliest",
            enable_auto_commit=order.group is not None,
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
