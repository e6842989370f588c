"""Batches are told once each: with their answer where it comes soon, else apart from it."""

from __future__ import annotations

from typing import NamedTuple, cast

from chronik.core.log.log import Appended
from chronik.core.replica.replica import Replica
from chronik.trace.batches import Batches
from chronik.trace.events import AnyEvent, Batch, ProduceAnswered, ProduceAppended, ProducedBatches, Written, apart

RECORDS = b"\xff" * 100  # of no idempotent producer


class FakeClient(NamedTuple):
    connection_id: int = 5
    client_id: str = "app"
    client_host: str = "10.0.0.7"


class FakeReplica:
    topic, partition, leader_epoch, high_watermark, in_sync = "orders", 0, 3, 0, None


class Telling:
    """Batches with a clock that is set by hand."""

    def __init__(self) -> None:
        self.now_us = 1_000_000
        self.written: list[Written] = []
        self.batches = Batches(1, lambda: self.now_us, self.written.append)
        self.replica = cast(Replica, FakeReplica())

    def append(self, offset: int, acks: int = 1, connection: int = 5) -> Batch:
        client = FakeClient(connection)
        return self.batches.appended(
            self.replica, acks, client, self.now_us, 0, Appended(offset, offset), memoryview(RECORDS)
        )

    def answer(self, batch: Batch) -> None:
        self.batches.answered(batch, self.replica, 1, FakeClient())

    def told(self, unanswered_us: int = 100) -> list[AnyEvent]:
        self.batches.tell(unanswered_us)
        return apart(self.written)


def test_batches_of_one_connection_are_one_event_and_those_of_another_are_another() -> None:
    telling = Telling()
    for offset, connection in enumerate((5, 6, 5)):
        telling.answer(telling.append(offset, connection=connection))

    told = telling.told()

    assert [len(one.batches) for one in telling.written if isinstance(one, ProducedBatches)] == [2, 1]
    assert [event.base_offset for event in told if isinstance(event, ProduceAnswered)] == [0, 2, 1]


def test_a_batch_that_waits_holds_up_no_other_and_is_told_with_its_answer() -> None:
    telling = Telling()
    waits, answered = telling.append(0), telling.append(1)
    telling.answer(answered)
    assert [event.base_offset for event in telling.told() if isinstance(event, ProduceAppended)] == [1]

    telling.now_us += 70
    telling.answer(waits)

    assert [event.took_us for event in telling.told() if isinstance(event, ProduceAnswered)] == [0, 70]
    assert telling.batches.count == 0


def test_a_batch_that_waits_for_too_long_is_told_and_its_answer_apart() -> None:
    telling = Telling()
    batch = telling.append(0)
    telling.now_us += 100
    assert [type(event) for event in telling.told(100)] == [ProduceAppended]
    telling.now_us += 100
    telling.answer(batch)

    appended, answered = telling.told()

    assert isinstance(answered, ProduceAnswered)
    assert (appended.at_us, answered.at_us, answered.took_us) == (1_000_000, 1_000_200, 200)


def test_a_batch_whose_producer_is_refused_was_appended_all_the_same() -> None:
    telling = Telling()
    batch = telling.append(0)
    telling.batches.not_answered(batch)

    assert [type(event) for event in telling.told()] == [ProduceAppended]
    telling.batches.not_answered(batch)
    assert len(telling.told()) == 1


def test_nobody_waits_for_an_answer_that_never_comes() -> None:
    telling = Telling()
    telling.append(0, acks=0)

    assert telling.batches.count == 0
    assert [type(event) for event in telling.told()] == [ProduceAppended]


def test_a_clock_that_is_set_back_makes_no_batch_unanswered() -> None:
    telling = Telling()
    batch = telling.append(0)
    telling.now_us -= 500
    telling.answer(batch)

    assert [event.took_us for event in telling.told() if isinstance(event, ProduceAnswered)] == [0]
