"""The steps between states, alone; what a machine makes of them is in test_machine.py."""

from __future__ import annotations

from dataclasses import replace

import pytest

from chronik.core.errors import Code, Refused
from chronik.core.machines.transactions import transitions
from chronik.core.machines.transactions.commands import (
    AddPartitions,
    EndTransaction,
    InitProducer,
    ProducerIdentity,
    ProducerIdNeeded,
)
from chronik.core.machines.transactions.transaction import (
    LAST_EPOCH_FOR_PRODUCERS,
    Transaction,
    TransactionStatus,
)
from chronik.core.types import TopicPartition

S = TransactionStatus
EMPTY = Transaction("tx", 7, 3, 60_000, last_update_ms=10, previous_producer_id=7)
P = TopicPartition("orders", 0)


def test_a_step_that_the_table_does_not_have_is_a_bug() -> None:
    with pytest.raises(AssertionError):
        transitions.changed(EMPTY, S.COMPLETE_COMMIT, 20)


def test_a_new_producer_id_is_asked_for_only_where_one_is_needed() -> None:
    assert transitions.begun(InitProducer("tx", 60_000), 20).answer == ProducerIdNeeded()
    assert transitions.initialized(EMPTY, InitProducer("tx", 60_000), 20).answer == (7, 4)
    exhausted = replace(EMPTY, producer_epoch=LAST_EPOCH_FOR_PRODUCERS)
    ended = transitions.initialized(exhausted, InitProducer("tx", 60_000), 20)
    assert ended == (None, ProducerIdNeeded())
    ongoing = replace(exhausted, status=S.ONGOING, partitions=frozenset({P}), start_ms=15)
    producer = ProducerIdentity(7, LAST_EPOCH_FOR_PRODUCERS)
    older = transitions.ended(ongoing, EndTransaction("tx", producer, is_commit=True), 20)
    assert older.answer == producer  # the older protocol does not raise it
    newer = transitions.ended(ongoing, EndTransaction("tx", producer, is_commit=True, client_version=2), 20)
    assert newer == (None, ProducerIdNeeded())


def test_the_start_of_a_transaction_is_its_first_partition() -> None:
    first = transitions.added(EMPTY, AddPartitions("tx", ProducerIdentity(7, 3), (P,)), 20)
    assert first is not None
    assert (first.start_ms, first.last_update_ms) == (20, 20)
    second = transitions.added(first, AddPartitions("tx", ProducerIdentity(7, 3), (TopicPartition("b", 1),)), 30)
    assert second is not None
    assert (second.start_ms, second.last_update_ms) == (20, 30)


def test_a_begin_forgets_the_last_transaction() -> None:
    complete = replace(EMPTY, status=S.COMPLETE_COMMIT, start_ms=5, client_version=2)
    begun = transitions.initialized(complete, InitProducer("tx", 30_000), 20).transaction
    assert begun is not None
    assert (begun.status, begun.start_ms, begun.timeout_ms, begun.client_version) == (S.EMPTY, -1, 30_000, 0)


def test_one_that_names_an_epoch_of_the_future_is_fenced() -> None:
    with pytest.raises(Refused) as refused:
        transitions.initialized(EMPTY, InitProducer("tx", 60_000, ProducerIdentity(7, 9)), 20)
    assert refused.value.code is Code.PRODUCER_FENCED
