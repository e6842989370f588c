"""Each step of a transaction is an event: as its coordinator decides it, and why it ends."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from chronik.core.config.sections.transactions import TransactionsConfig
from chronik.core.machines.transactions.commands import (
    AddPartitions,
    AnyTransactionCommand,
    EndTransaction,
    InitProducer,
    MarkersWritten,
    ProducerIdentity,
)
from chronik.core.machines.transactions.facts import TransactionSet
from chronik.core.machines.transactions.machine import TransactionsMachine
from chronik.core.types import TopicPartition
from chronik.node.coordinators.transaction_changes import report
from chronik.trace.events import (
    AnyEvent,
    TraceBegan,
    TransactionBegun,
    TransactionCompleted,
    TransactionPartitionAdded,
    TransactionPrepared,
)
from chronik.trace.recorder import Recorder
from tests.unit.node.fakes import FakeClock

ID, MARKED = "billing-1", ProducerIdentity(7, 1)
ORDERS_0, ORDERS_1 = TopicPartition("orders", 0), TopicPartition("orders", 1)
OTHERS_0, OFFSETS_3 = TopicPartition("others", 0), TopicPartition("__consumer_offsets", 3)


class Traced:
    """A machine, and the trace of the topic `orders`."""

    def __init__(self, *, is_all: bool = False) -> None:
        self.recorder = Recorder(1, FakeClock())
        self.recorder.switch(is_all=is_all, exceptions=frozenset() if is_all else frozenset({"orders"}))
        self.machine = TransactionsMachine(0, TransactionsConfig(), lambda: 2)
        self.machine.apply(*self.machine.expire(0).facts)
        self.ask(InitProducer(ID, 60_000, new_producer_id=7), 1_000)

    def ask(self, command: AnyTransactionCommand, at_ms: int) -> None:
        self._take(self.machine.decide(1, command, at_ms).facts)

    def expire(self, at_ms: int) -> None:
        self._take(self.machine.expire(at_ms).facts)

    def _take(self, facts: Sequence[object]) -> None:
        for fact in facts:
            assert isinstance(fact, TransactionSet)
            self.machine.apply(fact)
            report(fact, self.recorder.observer)

    def begin(self, *partitions: TopicPartition, epoch: int = 0, at_ms: int = 2_000) -> None:
        self.ask(AddPartitions(ID, ProducerIdentity(7, epoch), partitions, 2), at_ms)

    def end(self, *, is_commit: bool, at_ms: int = 5_000) -> None:
        self.ask(EndTransaction(ID, ProducerIdentity(7, 0), is_commit, 2), at_ms)

    def told(self) -> list[AnyEvent]:
        events = [event for event in self.recorder.read().events if not isinstance(event, TraceBegan)]
        return [msgspec.structs.replace(event, at_us=0) for event in events]


def test_a_transaction_is_told_step_by_step() -> None:
    traced = Traced()
    traced.begin(ORDERS_0)
    traced.begin(ORDERS_0, ORDERS_1, at_ms=3_000)
    traced.end(is_commit=True)
    traced.ask(MarkersWritten(ID, MARKED), 5_020)

    assert traced.told() == [
        TransactionBegun(0, 1, ID, 7, 0, 60_000),
        TransactionPartitionAdded(0, 1, "orders", 0, ID, 7, 0),
        TransactionPartitionAdded(0, 1, "orders", 1, ID, 7, 0),
        TransactionPrepared(0, 1, ID, 7, 1, True, "client", 2, 3_000),
        TransactionCompleted(0, 1, ID, 7, 1, True, 20),
    ]


def test_an_abort_says_that_the_client_wanted_it() -> None:
    traced = Traced()
    traced.begin(ORDERS_0)
    traced.end(is_commit=False)
    traced.ask(MarkersWritten(ID, MARKED), 5_020)

    assert traced.told()[2:] == [
        TransactionPrepared(0, 1, ID, 7, 1, False, "client", 1, 3_000),
        TransactionCompleted(0, 1, ID, 7, 1, False, 20),
    ]


def test_an_abort_says_that_time_was_up() -> None:
    traced = Traced()
    traced.begin(ORDERS_0)
    traced.expire(62_000)

    assert traced.told()[-1] == TransactionPrepared(0, 1, ID, 7, 1, False, "timeout", 1, 60_000)


def test_an_abort_says_that_another_producer_has_begun() -> None:
    traced = Traced()
    traced.begin(ORDERS_0)
    traced.ask(InitProducer(ID, 60_000), 4_000)

    assert traced.told()[-1] == TransactionPrepared(0, 1, ID, 7, 1, False, "fenced", 1, 2_000)


def test_the_next_transaction_of_a_producer_begins_anew() -> None:
    traced = Traced()
    traced.begin(ORDERS_0)
    traced.end(is_commit=True)
    traced.ask(MarkersWritten(ID, MARKED), 5_020)
    traced.begin(ORDERS_0, epoch=1, at_ms=6_000)

    assert traced.told()[-2:] == [
        TransactionBegun(0, 1, ID, 7, 1, 60_000),
        TransactionPartitionAdded(0, 1, "orders", 0, ID, 7, 1),
    ]


def test_partitions_of_other_topics_are_not_told_but_those_of_offsets() -> None:
    traced = Traced()
    traced.begin(OTHERS_0, OFFSETS_3)

    added = [event for event in traced.told() if isinstance(event, TransactionPartitionAdded)]
    assert [(event.topic, event.partition) for event in added] == [("__consumer_offsets", 3)]


def test_that_a_producer_begins_with_an_id_is_no_transaction() -> None:
    traced = Traced(is_all=True)
    traced.ask(InitProducer(ID, 60_000), 2_000)

    assert traced.told() == []
