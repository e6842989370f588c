"""What becomes of a transaction whose client sends a request again after a lost answer, and both arrive, one late.

Jepsen found this in the protocol itself (its report on Bufstream 0.1.0, 2024): with one epoch for many transactions, a
late EndTxn ends the transaction that is ongoing by then. Part of it is committed though its client
aborts (torn), or is aborted though its client commits (lost). With transaction version 2 each end has an epoch of its
own, and the late one is fenced. Here the machine decides, and a model of two partitions shows what readers see.
"""

from __future__ import annotations

from typing import Any

import pytest

from chronik.core.config.sections.transactions import TransactionsConfig
from chronik.core.errors import Code, Refused
from chronik.core.machines.transactions.commands import (
    AddPartitions,
    EndTransaction,
    InitProducer,
    MarkersWritten,
    ProducerIdentity,
)
from chronik.core.machines.transactions.facts import TransactionSet
from chronik.core.machines.transactions.machine import TransactionsMachine
from chronik.core.types import TopicPartition

ID = "copier"
FIRST, SECOND = TopicPartition("orders", 0), TopicPartition("orders", 1)


class Coordinated:
    """A machine whose markers arrive at once, and what readers of committed records see."""

    def __init__(self, version: int) -> None:
        self.version = version
        self.machine = TransactionsMachine(0, TransactionsConfig(), lambda: version)
        self.machine.apply(*self.machine.expire(0).facts)
        self._undecided: dict[TopicPartition, list[str]] = {FIRST: [], SECOND: []}
        self.seen: list[str] = []
        self.producer: ProducerIdentity = self._ask(InitProducer(ID, 60_000, new_producer_id=7))

    def _ask(self, command: Any) -> Any:
        decision = self.machine.decide(1, command, 1_000)
        for fact in decision.facts:
            self.machine.apply(fact)
            if isinstance(fact, TransactionSet) and fact.transaction.is_prepared:
                self._mark(fact.transaction)
        answer = decision.replies[0].answer
        if isinstance(answer, Refused):
            raise answer
        return answer

    def _mark(self, transaction: Any) -> None:
        for partition in sorted(transaction.partitions):
            if transaction.is_commit:
                self.seen += self._undecided[partition]
            self._undecided[partition] = []
        producer = ProducerIdentity(transaction.producer_id, transaction.producer_epoch)
        self._ask(MarkersWritten(ID, producer))

    def write(self, partition: TopicPartition, record: str) -> None:
        """By the client: added, and written with the epoch it has."""
        self._ask(AddPartitions(ID, self.producer, (partition,), self.version))
        self._undecided[partition].append(record)

    def end(self, *, is_commit: bool) -> EndTransaction:
        """By the client. The request, to be sent again."""
        request = EndTransaction(ID, self.producer, is_commit, self.version)
        self.producer = self._ask(request)
        return request

    def arrives_late(self, request: EndTransaction) -> Code:
        try:
            self._ask(request)
        except Refused as refused:
            return refused.code
        return Code.NONE


@pytest.mark.parametrize(
    ("version", "code", "seen"),
    [(0, Code.NONE, ["one", "two, first half"]), (2, Code.PRODUCER_FENCED, ["one"])],
    ids=["one epoch: torn, as in Kafka", "an epoch each"],
)
def test_a_late_commit_tears_the_next_transaction_only_with_one_epoch(
    version: int, code: Code, seen: list[str]
) -> None:
    cluster = Coordinated(version)
    cluster.write(FIRST, "one")
    sent_again = cluster.end(is_commit=True)

    cluster.write(FIRST, "two, first half")
    assert cluster.arrives_late(sent_again) is code
    cluster.write(SECOND, "two, second half")
    cluster.end(is_commit=False)  # and the client is told that nothing of it counts

    assert cluster.seen == seen


@pytest.mark.parametrize(
    ("version", "code", "seen"),
    [
        (0, Code.NONE, ["two, second half"]),
        (2, Code.PRODUCER_FENCED, ["two, first half", "two, second half"]),
    ],
    ids=["one epoch: lost, as in Kafka", "an epoch each"],
)
def test_a_late_abort_loses_part_of_the_next_transaction_only_with_one_epoch(
    version: int, code: Code, seen: list[str]
) -> None:
    cluster = Coordinated(version)
    cluster.write(FIRST, "one")
    sent_again = cluster.end(is_commit=False)

    cluster.write(FIRST, "two, first half")
    assert cluster.arrives_late(sent_again) is code
    cluster.write(SECOND, "two, second half")
    cluster.end(is_commit=True)  # and the client is told that all of it counts

    assert cluster.seen == seen


@pytest.mark.parametrize("version", [0, 2])
def test_a_commit_that_comes_again_before_the_next_one_begins_is_answered_the_same(version: int) -> None:
    cluster = Coordinated(version)
    cluster.write(FIRST, "one")
    sent_again = cluster.end(is_commit=True)

    assert cluster.arrives_late(sent_again) is Code.NONE
    assert cluster.seen == ["one"]


@pytest.mark.parametrize("version", [0, 2])
def test_a_client_that_begins_each_transaction_anew_is_safe_with_either(version: int) -> None:
    """What `exactlyOnce` of the Spark sink does: InitProducerId before each transaction is an epoch for each."""
    cluster = Coordinated(version)
    cluster.write(FIRST, "one")
    sent_again = cluster.end(is_commit=True)

    cluster.producer = cluster._ask(InitProducer(ID, 60_000))
    cluster.write(FIRST, "two")
    assert cluster.arrives_late(sent_again) is Code.PRODUCER_FENCED
    cluster.end(is_commit=False)
    assert cluster.seen == ["one"]
