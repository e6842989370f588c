"""The first batch of a transaction waits for its coordinator; what is behind it on the connection waits as well."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, cast

import pytest

from chronik.api import produce
from chronik.api.context import HeldUp, TransactionContext
from chronik.core.errors import Code
from chronik.core.machines.transactions.commands import ProducerIdentity
from chronik.core.records.batch import TRANSACTIONAL_BIT
from chronik.core.records.control import Marker
from chronik.core.types import TopicPartition
from tests.unit.api.house_context import WAITING, Asked, HouseContext, run
from tests.unit.core.log.logs import batch_of
from tests.unit.wire.hot_requests import Topics, produce_request

ORDERS_0, ORDERS_1 = TopicPartition("orders", 0), TopicPartition("orders", 1)


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    logging.disable(logging.ERROR)
    yield
    logging.disable(logging.NOTSET)


class Coordinators:
    """What they were asked, and what they say when they may."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, ProducerIdentity, list[TopicPartition], bool]] = []
        self.codes: dict[TopicPartition, Code] = {}
        self.gate = asyncio.Event()
        self.gate.set()

    async def confirm(
        self, transactional_id: str, producer: ProducerIdentity, partitions: Sequence[TopicPartition], *, adds: bool
    ) -> dict[TopicPartition, Code]:
        self.asked.append((transactional_id, producer, list(partitions), adds))
        await self.gate.wait()
        return {one: self.codes.get(one, Code.NONE) for one in partitions}


def with_coordinators(context: HouseContext) -> Coordinators:
    desk = Coordinators()
    context.context = replace(context.context, transactional=TransactionContext(verification=desk))
    return desk


def transactional(sequence: int = 0, *, producer_id: int = 7, epoch: int = 0, count: int = 1) -> bytes:
    return bytes(
        batch_of(count, producer_id=producer_id, producer_epoch=epoch, sequence=sequence, attributes=TRANSACTIONAL_BIT)
    )


def send(context: HouseContext, topics: Topics, *, version: int = 11, txn: str | None = "tx", acks: int = -1) -> Asked:
    return context.ask(produce, version, produce_request(version, txn, acks, 1000, topics))


def outcomes(asked: Asked) -> list[tuple[int, int]]:
    return [(p.error_code, p.base_offset) for topic in asked.response.responses for p in topic.partition_responses]


async def settle(context: HouseContext) -> None:
    """Everything that is not held up by the gate has happened."""
    for _ in range(4):
        await asyncio.sleep(0)
        await context.house.settle()


def one(records: bytes, partition: int = 0) -> Topics:
    return [("orders", [(partition, records)])]


@pytest.mark.parametrize(("version", "adds"), [(3, False), (11, False), (12, True)])
def test_the_coordinator_is_asked_once_for_all_partitions_that_begin_a_transaction(version: int, adds: bool) -> None:
    async def ask() -> None:
        context = HouseContext()
        desk = with_coordinators(context)
        first = send(context, [("orders", [(0, transactional()), (1, transactional())])], version=version)
        await settle(context)
        assert outcomes(first) == [(0, 0), (0, 0)]
        assert desk.asked == [("tx", ProducerIdentity(7, 0), [ORDERS_0, ORDERS_1], adds)]

        second = send(context, one(transactional(1)), version=version)
        await settle(context)

        assert outcomes(second) == [(0, 1)]
        assert len(desk.asked) == 1, "the transaction is known to be open here"

    asyncio.run(ask())


@run()
async def test_what_is_behind_it_on_the_connection_waits(context: HouseContext) -> None:
    desk = with_coordinators(context)
    desk.gate.clear()
    asked = send(context, one(transactional()))
    await settle(context)
    assert isinstance(asked.leave, HeldUp)
    assert asked.raw is WAITING
    assert context.house.replicas.leader("orders", 0).log.end_offset == 0

    desk.gate.set()
    await settle(context)

    assert outcomes(asked) == [(0, 0)]


@run()
async def test_a_transaction_that_ends_while_its_coordinator_is_asked_takes_nothing(context: HouseContext) -> None:
    """F55: the answer was true when it was given. The marker has taken the guard away."""
    desk = with_coordinators(context)
    desk.gate.clear()
    asked = send(context, one(transactional()))
    await settle(context)
    replica = context.house.replicas.leader("orders", 0)
    context.house.replicas.append_marker(replica, Marker(is_commit=False, coordinator_epoch=1), 7, 0, 0)
    desk.gate.set()
    await settle(context)

    assert outcomes(asked) == [(Code.INVALID_TXN_STATE, -1)]
    assert replica.log.end_offset == 1, "the marker"


@run()
async def test_the_marker_of_the_last_transaction_does_not_refuse_the_next_one(context: HouseContext) -> None:
    """With transaction version 2 a producer goes on before the markers are everywhere. Refused, it would die."""
    desk = with_coordinators(context)
    send(context, one(transactional()), version=12)
    await settle(context)
    desk.gate.clear()
    asked = send(context, one(transactional(epoch=1)), version=12)
    await settle(context)
    replica = context.house.replicas.leader("orders", 0)
    context.house.replicas.append_marker(replica, Marker(is_commit=True, coordinator_epoch=1), 7, 1, 2)
    desk.gate.set()
    await settle(context)

    assert outcomes(asked) == [(0, 2)]


@pytest.mark.parametrize(
    ("code", "version", "told"),
    [
        (Code.TRANSACTION_ABORTABLE, 10, Code.INVALID_TXN_STATE),
        (Code.TRANSACTION_ABORTABLE, 11, Code.TRANSACTION_ABORTABLE),
        (Code.PRODUCER_FENCED, 12, Code.INVALID_PRODUCER_EPOCH),
        (Code.INVALID_PRODUCER_ID_MAPPING, 12, Code.INVALID_PRODUCER_ID_MAPPING),
        (Code.CONCURRENT_TRANSACTIONS, 11, Code.NOT_ENOUGH_REPLICAS),
        (Code.CONCURRENT_TRANSACTIONS, 12, Code.CONCURRENT_TRANSACTIONS),
        (Code.NETWORK_EXCEPTION, 12, Code.NOT_ENOUGH_REPLICAS),
        (Code.COORDINATOR_LOAD_IN_PROGRESS, 12, Code.NOT_ENOUGH_REPLICAS),
        (Code.COORDINATOR_NOT_AVAILABLE, 12, Code.NOT_ENOUGH_REPLICAS),
        (Code.NOT_COORDINATOR, 12, Code.NOT_ENOUGH_REPLICAS),
        (Code.CLUSTER_AUTHORIZATION_FAILED, 12, Code.INVALID_TXN_STATE),
    ],
)
def test_what_a_coordinator_does_not_confirm_is_not_appended(code: Code, version: int, told: Code) -> None:
    async def ask() -> None:
        context = HouseContext()
        desk = with_coordinators(context)
        desk.codes[ORDERS_1] = code
        asked = send(context, [("orders", [(0, transactional()), (1, transactional())])], version=version)
        await settle(context)

        assert outcomes(asked) == [(0, 0), (told, -1)]
        assert context.house.replicas.leader("orders", 1).log.end_offset == 0

    asyncio.run(ask())


@run()
async def test_a_batch_does_not_overtake_the_one_that_could_not_be_verified(context: HouseContext) -> None:
    desk = with_coordinators(context)
    desk.codes[ORDERS_0] = Code.COORDINATOR_NOT_AVAILABLE
    first = send(context, one(transactional(0)))
    await settle(context)
    desk.codes.clear()
    second = send(context, one(transactional(1)))
    await settle(context)
    again = [send(context, one(transactional(0))), send(context, one(transactional(1)))]
    await settle(context)

    assert outcomes(first) == [(Code.NOT_ENOUGH_REPLICAS, -1)]
    assert outcomes(second) == [(Code.OUT_OF_ORDER_SEQUENCE_NUMBER, -1)]
    assert [outcomes(asked) for asked in again] == [[(0, 0)], [(0, 1)]]


@pytest.mark.parametrize(("version", "told"), [(11, (0, 0)), (12, (Code.OUT_OF_ORDER_SEQUENCE_NUMBER, -1))])
def test_with_version_2_a_transaction_begins_with_sequence_0(version: int, told: tuple[int, int]) -> None:
    """Where the log knows nothing of the producer, as after its state expired: what came before is missing then."""

    async def ask() -> None:
        context = HouseContext()
        with_coordinators(context)
        asked = send(context, one(transactional(5)), version=version)
        await settle(context)

        assert outcomes(asked) == [told]

    asyncio.run(ask())


@run()
async def test_a_batch_whose_leader_changed_meanwhile_is_not_taken_here(context: HouseContext) -> None:
    desk = with_coordinators(context)
    desk.gate.clear()
    asked = send(context, one(transactional()))
    await settle(context)
    replica = context.house.replicas.leader("orders", 0)
    replica.follow(2, 5, 5)
    desk.gate.set()
    await settle(context)

    assert outcomes(asked) == [(Code.NOT_LEADER_OR_FOLLOWER, -1)]
    assert replica.log.end_offset == 0


@run()
async def test_a_batch_that_comes_back_is_verified_anew(context: HouseContext) -> None:
    """It was to go to another leader, and this node leads again: a guard of before says nothing any more."""
    sent_on: list[tuple[Any, Any]] = []

    class Forwarding:
        def produce(self, pending: Any, batches: list[Any]) -> None:
            sent_on.extend((pending, batch) for batch in batches)

    desk = with_coordinators(context)
    context.context = replace(context.context, forwarding=cast(Any, Forwarding()))
    desk.gate.clear()
    asked = send(context, one(transactional()))
    await settle(context)
    replica = context.house.replicas.leader("orders", 0)
    replica.follow(2, 5, 5)
    desk.gate.set()
    await settle(context)
    [(pending, batch)] = sent_on
    replica.lead(6, 6, (1,), (1,), 0)
    pending.again(batch)
    await settle(context)

    assert outcomes(asked) == [(0, 0)]
    assert len(desk.asked) == 2


@pytest.mark.parametrize(
    ("records", "txn", "told"),
    [
        (transactional(), None, Code.TRANSACTIONAL_ID_AUTHORIZATION_FAILED),
        (transactional(producer_id=-1, sequence=-1, epoch=-1), "tx", Code.INVALID_RECORD),
    ],
)
def test_a_transactional_batch_without_its_ids_is_refused(records: bytes, txn: str | None, told: Code) -> None:
    async def ask() -> None:
        context = HouseContext()
        desk = with_coordinators(context)
        asked = send(context, one(records), txn=txn)
        await settle(context)

        assert outcomes(asked) == [(told, -1)]
        assert desk.asked == []

    asyncio.run(ask())


@run()
async def test_a_request_has_batches_of_one_transactional_producer(context: HouseContext) -> None:
    with_coordinators(context)
    asked = send(context, [("orders", [(0, transactional()), (1, transactional(producer_id=8))])])
    await settle(context)

    assert outcomes(asked) == [(0, 0), (Code.INVALID_PRODUCER_ID_MAPPING, -1)]


@run()
async def test_a_plain_batch_with_a_transactional_id_is_a_plain_batch(context: HouseContext) -> None:
    desk = with_coordinators(context)
    asked = send(context, one(bytes(batch_of())))
    await settle(context)

    assert outcomes(asked) == [(0, 0)]
    assert desk.asked == []


@run()
async def test_a_fault_of_the_verification_is_no_answer(context: HouseContext) -> None:
    class Broken:
        async def confirm(self, *_: Any, **__: Any) -> dict[TopicPartition, Code]:
            raise RuntimeError("a fault")

    context.context = replace(context.context, transactional=TransactionContext(verification=Broken()))
    asked = send(context, one(transactional()))
    await settle(context)
    with pytest.raises(RuntimeError):
        await asyncio.gather(*context.tasks)

    assert asked.raw is None, "hung up: nothing true can be said"
