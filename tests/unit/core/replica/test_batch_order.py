"""The order of an idempotent producer's batches on one connection."""

from __future__ import annotations

import pytest

from chronik.core.errors import Code
from chronik.core.records.batch import BatchHeader, read_header
from chronik.core.replica.batch_order import PRODUCERS_KEPT, UNSETTLED_KEPT, BatchOrder
from tests.unit.core.log.logs import batch_of

TOPIC, PARTITION = "orders", 0
HERE, THERE = (1, 4), (2, 5)  # leader, leader epoch


def batch(sequence: int, producer_id: int = 7, producer_epoch: int = 0) -> BatchHeader:
    return read_header(batch_of(producer_id=producer_id, producer_epoch=producer_epoch, sequence=sequence))


def comes(order: BatchOrder, header: BatchHeader, leadership: tuple[int, int] | None = HERE) -> bool:
    return order.comes(TOPIC, PARTITION, header, leadership)


def goes(order: BatchOrder, header: BatchHeader, leadership: tuple[int, int] | None = HERE) -> None:
    order.goes(TOPIC, PARTITION, header, leadership)


def settled(order: BatchOrder, header: BatchHeader, code: Code = Code.NONE) -> None:
    order.settled(TOPIC, PARTITION, header, code)


@pytest.mark.parametrize("code", [Code.NOT_LEADER_OR_FOLLOWER, Code.NOT_ENOUGH_REPLICAS, Code.KAFKA_STORAGE_ERROR])
def test_nothing_overtakes_a_refused_batch_until_it_comes_again(code: Code) -> None:
    order = BatchOrder()
    settled(order, batch(3), code)
    settled(order, batch(4), Code.NOT_LEADER_OR_FOLLOWER)

    assert not comes(order, batch(4))
    assert not comes(order, batch(9))
    assert comes(order, batch(3))
    assert comes(order, batch(4))


def test_an_earlier_one_may_come_again_instead() -> None:
    order = BatchOrder()
    settled(order, batch(3), Code.NOT_LEADER_OR_FOLLOWER)
    assert comes(order, batch(2))
    assert comes(order, batch(4))


def test_other_producers_partitions_and_epochs_are_not_behind_it() -> None:
    order = BatchOrder()
    settled(order, batch(0), Code.NOT_LEADER_OR_FOLLOWER)

    assert comes(order, batch(1, producer_id=8))
    assert order.comes(TOPIC, 1, batch(1), HERE)
    assert order.comes("payments", PARTITION, batch(1), HERE)
    assert comes(order, batch(1, producer_epoch=1))


@pytest.mark.parametrize("code", [Code.MESSAGE_TOO_LARGE, Code.INVALID_RECORD, Code.INVALID_PRODUCER_EPOCH])
def test_what_a_producer_gives_up_is_not_waited_for(code: Code) -> None:
    order = BatchOrder()
    goes(order, batch(0))
    settled(order, batch(0), code)
    assert comes(order, batch(1), THERE)
    assert not order


def test_behind_a_batch_under_way_only_the_same_leader_is_right() -> None:
    order = BatchOrder()
    goes(order, batch(0))
    assert comes(order, batch(1), HERE)
    assert not comes(order, batch(1), THERE)
    assert not comes(order, batch(1), None)

    settled(order, batch(0))
    assert comes(order, batch(1), THERE)
    assert not order


def test_behind_a_batch_that_waits_for_a_leader_others_wait_too() -> None:
    order = BatchOrder()
    goes(order, batch(0), None)
    assert comes(order, batch(1), None)
    assert not comes(order, batch(1), HERE)


@pytest.mark.parametrize("code", [Code.REQUEST_TIMED_OUT, Code.NOT_ENOUGH_REPLICAS_AFTER_APPEND])
def test_a_batch_that_a_leader_has_and_may_lose_ties_the_next_ones_to_that_leader(code: Code) -> None:
    order = BatchOrder()
    goes(order, batch(0))
    settled(order, batch(0), code)
    assert comes(order, batch(1), HERE)
    assert not comes(order, batch(1), THERE)

    assert comes(order, batch(0), THERE)  # again
    assert comes(order, batch(1), THERE)


def test_what_clients_choose_is_bounded() -> None:
    order = BatchOrder()
    for producer_id in range(2 * PRODUCERS_KEPT):
        settled(order, batch(0, producer_id), Code.NOT_LEADER_OR_FOLLOWER)
    for sequence in range(2 * UNSETTLED_KEPT):
        goes(order, batch(sequence))

    assert comes(order, batch(1, producer_id=0))  # forgotten
    assert not comes(order, batch(1, producer_id=2 * PRODUCERS_KEPT - 1))
    assert comes(order, batch(UNSETTLED_KEPT), THERE)
    assert not comes(order, batch(UNSETTLED_KEPT + 2), THERE)
