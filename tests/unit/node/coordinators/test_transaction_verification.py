"""Coordinators are asked for many producers at once, and again while the transaction before is ending."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Iterator
from dataclasses import replace
from typing import Any, cast

import pytest

from chronik.core.config.sections.transactions import TransactionsConfig
from chronik.core.errors import Code
from chronik.core.machines.metadata.image import Broker
from chronik.core.machines.transactions.commands import ProducerIdentity
from chronik.core.types import TopicPartition
from chronik.node.coordinators.transaction_verification import TransactionVerifier
from chronik.node.net.peers import Unreachable
from chronik.wire.unions.add_partitions_to_txn import (
    AnyAddPartitionsPartitionResult,
    AnyAddPartitionsResponse,
    AnyAddPartitionsResult,
    AnyAddPartitionsTopicResult,
)
from tests.unit.node.fakes import NODE_ID, House

OTHER_NODE = 2
ORDERS_0, ORDERS_1 = TopicPartition("orders", 0), TopicPartition("orders", 1)
PRODUCER = ProducerIdentity(7, 3)


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    logging.disable(logging.ERROR)
    yield
    logging.disable(logging.NOTSET)


class FakeCoordinator:
    """A node that is asked: what it was sent, and what it says."""

    def __init__(self) -> None:
        self.asked: list[Any] = []
        self.codes: dict[str, list[Code]] = {}  # by transactional id, one answer after the other
        self.error = Code.NONE
        self.problem: Exception | None = None
        self.gate = asyncio.Event()
        self.gate.set()

    async def answer(self, request: Any) -> AnyAddPartitionsResponse:
        self.asked.append(request)
        await self.gate.wait()
        if self.problem is not None:
            raise self.problem
        return AnyAddPartitionsResponse(
            error_code=self.error, results_by_transaction=tuple(map(self._result, request.transactions))
        )

    def _result(self, transaction: Any) -> AnyAddPartitionsResult:
        left = self.codes.get(transaction.transactional_id)
        code = left.pop(0) if left else Code.NONE
        return AnyAddPartitionsResult(
            transactional_id=transaction.transactional_id,
            topic_results=tuple(
                AnyAddPartitionsTopicResult(
                    name=topic.name,
                    results_by_partition=tuple(
                        AnyAddPartitionsPartitionResult(partition_index=number, partition_error_code=code)
                        for number in topic.partitions
                    ),
                )
                for topic in transaction.topics
            ),
        )

    def ids(self) -> list[list[str]]:
        return [[one.transactional_id for one in request.transactions] for request in self.asked]


class Place:
    """A verifier whose coordinator is here, on another node (`far`), or nowhere (`none`)."""

    def __init__(self) -> None:
        self.house = House(None, {"orders": 2})
        self.here, self.there = FakeCoordinator(), FakeCoordinator()
        self.config = TransactionsConfig()
        self.verifier = TransactionVerifier(
            self._coordinator_now,
            cast(Any, self),
            self.house.waiting,
            self.house.metrics,
            NODE_ID,
            lambda: self.config,
            self.here.answer,
        )

    def _coordinator_now(self, transactional_id: str) -> Broker | None:
        if transactional_id == "none":
            return None
        node_id = OTHER_NODE if transactional_id.startswith("far") else NODE_ID
        return replace(self.house.image.brokers[NODE_ID], id=node_id)

    def link(self, node_id: int, purpose: str) -> Place:
        assert (node_id, purpose) == (OTHER_NODE, "verification")
        return self

    def ask(self, api_key: int, request: Any, *, timeout_ms: int) -> asyncio.Future[Any]:
        assert (api_key, timeout_ms > 0) == (24, True)
        return asyncio.ensure_future(self.there.answer(request))

    def confirm(self, name: str, *partitions: TopicPartition, adds: bool = False) -> asyncio.Future[Any]:
        return self.verifier.confirm(name, PRODUCER, partitions, adds=adds)

    async def settle(self) -> None:
        for _ in range(6):
            await asyncio.sleep(0)


def run(test: Callable[[Place], Coroutine[Any, Any, None]]) -> Callable[[], None]:
    async def with_place() -> None:
        await test(Place())

    def wrapped() -> None:
        asyncio.run(with_place())

    wrapped.__name__ = test.__name__
    return wrapped


@pytest.mark.parametrize("adds", [False, True])
@pytest.mark.parametrize("name", ["near", "far"])
def test_the_question_says_who_and_what(name: str, adds: bool) -> None:
    async def ask() -> None:
        place = Place()
        answer = place.confirm(name, ORDERS_0, ORDERS_1, adds=adds)
        await place.settle()

        assert answer.result() == {ORDERS_0: Code.NONE, ORDERS_1: Code.NONE}
        (request,) = (place.there if name == "far" else place.here).asked
        (asked,) = request.transactions
        assert (asked.transactional_id, asked.producer_id, asked.producer_epoch) == (name, *PRODUCER)
        assert asked.verify_only is not adds
        assert [(topic.name, topic.partitions) for topic in asked.topics] == [("orders", (0, 1))]

    asyncio.run(ask())


@run
async def test_questions_that_come_while_one_is_under_way_go_together(place: Place) -> None:
    place.there.gate.clear()
    answers = [place.confirm(f"far-{number}", ORDERS_0) for number in range(4)]
    await place.settle()
    assert place.there.ids() == [["far-0"]]

    place.there.codes["far-2"] = [Code.PRODUCER_FENCED]
    place.there.gate.set()
    await place.settle()

    assert place.there.ids() == [["far-0"], ["far-1", "far-2", "far-3"]]
    codes = [answer.result()[ORDERS_0] for answer in answers]
    assert codes == [Code.NONE, Code.NONE, Code.PRODUCER_FENCED, Code.NONE]


@run
async def test_a_transaction_that_still_ends_is_asked_about_again(place: Place) -> None:
    place.here.codes["near"] = [Code.CONCURRENT_TRANSACTIONS, Code.CONCURRENT_TRANSACTIONS]
    answer = place.confirm("near", ORDERS_0, adds=True)
    await place.settle()
    for _ in range(2):
        assert not answer.done()
        place.house.loop.advance(place.config.add_partitions_to_txn_retry_backoff_ms)
        await place.settle()

    assert answer.result() == {ORDERS_0: Code.NONE}
    assert len(place.here.asked) == 3


@run
async def test_one_that_does_not_end_is_left_to_the_producer(place: Place) -> None:
    place.here.codes["near"] = [Code.CONCURRENT_TRANSACTIONS] * 100
    answer = place.confirm("near", ORDERS_0, adds=True)
    await place.settle()
    for _ in range(5):
        assert not answer.done()
        place.house.loop.advance(place.config.add_partitions_to_txn_retry_backoff_ms)
        await place.settle()

    assert answer.result() == {ORDERS_0: Code.CONCURRENT_TRANSACTIONS}


@run
async def test_with_the_older_protocol_it_is_left_to_the_producer_at_once(place: Place) -> None:
    place.here.codes["near"] = [Code.CONCURRENT_TRANSACTIONS]
    answer = place.confirm("near", ORDERS_0)
    await place.settle()

    assert answer.result() == {ORDERS_0: Code.CONCURRENT_TRANSACTIONS}


@run
async def test_a_coordinator_that_cannot_be_asked_is_a_code(place: Place) -> None:
    nowhere = place.confirm("none", ORDERS_0)
    place.there.problem = Unreachable("gone")
    unreached = place.confirm("far", ORDERS_0)
    place.here.error = Code.CLUSTER_AUTHORIZATION_FAILED
    refused = place.confirm("near", ORDERS_0)
    await place.settle()

    assert nowhere.result() == {ORDERS_0: Code.COORDINATOR_NOT_AVAILABLE}
    assert unreached.result() == {ORDERS_0: Code.NETWORK_EXCEPTION}
    assert refused.result() == {ORDERS_0: Code.CLUSTER_AUTHORIZATION_FAILED}
    assert place.house.metrics.faults == 0


@run
async def test_a_fault_is_counted_and_no_success(place: Place) -> None:
    place.here.problem = RuntimeError("a fault")
    answer = place.confirm("near", ORDERS_0)
    await place.settle()

    assert answer.result() == {ORDERS_0: Code.UNKNOWN_SERVER_ERROR}
    assert place.house.metrics.faults == 1


@run
async def test_verification_can_be_switched_off_and_adding_cannot(place: Place) -> None:
    place.config = replace(place.config, transaction_partition_verification_enable=False)
    unasked = place.confirm("near", ORDERS_0)
    assert unasked.result() == {ORDERS_0: Code.NONE}
    assert place.here.asked == []

    added = place.confirm("near", ORDERS_0, adds=True)
    await place.settle()

    assert added.result() == {ORDERS_0: Code.NONE}
    assert len(place.here.asked) == 1
