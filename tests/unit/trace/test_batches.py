"""Batches are told once each: with their answer where it comes soon, else apart from it."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import NamedTuple, cast

import pytest

from chronik.core.log.appended import Appended
from chronik.core.replica.replica import Replica
from chronik.trace.batches import PendingBatches
from chronik.trace.events import AnyEvent, ProduceAnswered, ProduceAppended
from chronik.trace.lines import BatchRun, Written, from_lines, to_lines

PRINCIPAL = "User:alice"
RECORDS = b"\xff" * 100  # of no idempotent producer


class FakeClient(NamedTuple):
    connection_id: int = 5
    client_id: str = "app"
    client_host: str = "10.0.0.7"
    principal: str = PRINCIPAL


class FakeReplica:
    """Safe here as far as it is told."""

    topic, partition, leader_epoch, high_watermark, durable_end_offset, in_sync = "orders", 0, 3, 0, 0, None


class Telling:
    """Batches with a clock that is set by hand."""

    def __init__(self) -> None:
        self.now_us = 1_000_000
        self.written: list[Written] = []
        self.turn: list[Callable[[], None]] = []  # what is to be done at its end
        self.log_end = 0
        self.batches = PendingBatches(1, lambda: self.now_us * 1000, self.written.append, self.turn.append)
        self.replica = cast(Replica, FakeReplica())

    def append(self, offset: int, acks: int = 1, connection: int = 5) -> None:
        """In a turn of the loop of its own."""
        self.begin_append(offset, acks, connection)
        self.end_turn()

    def begin_append(self, offset: int, acks: int = 1, connection: int = 5) -> None:
        """The turn goes on."""
        client = FakeClient(connection)
        is_new = offset >= self.log_end
        self.log_end = max(self.log_end, offset + 1)
        appended = Appended(offset, offset, is_new=is_new)
        self.batches.appended(self.replica, acks, client, self.now_us * 1000, 0, appended, memoryview(RECORDS))

    def end_turn(self) -> None:
        turn, self.turn[:] = list(self.turn), []
        for action in turn:
            action()

    def refuse(self, offset: int, connection: int = 5) -> None:
        self.batches.refused(self.replica, FakeClient(connection), offset)

    def safe_to(self, offset: int) -> None:
        """On this disk, and on those of all."""
        fake = cast(FakeReplica, self.replica)
        fake.durable_end_offset = fake.high_watermark = offset
        if self.replica in self.batches.awaited:
            self.batches.released(self.replica)

    def told(self, unanswered_us: int = 100) -> list[AnyEvent]:
        self.batches.tell(unanswered_us)
        return from_lines(to_lines(self.written))  # as it is written down, so in JSON


def answers(told: list[AnyEvent]) -> list[ProduceAnswered]:
    return [event for event in told if isinstance(event, ProduceAnswered)]


def test_batches_of_one_connection_are_one_event_and_those_of_another_are_another() -> None:
    telling = Telling()
    for offset, connection in enumerate((5, 6, 5)):
        telling.append(offset, connection=connection)
    telling.safe_to(3)

    told = telling.told()

    assert [len(one.batches) for one in telling.written if isinstance(one, BatchRun)] == [2, 1]
    assert [event.base_offset for event in answers(told)] == [0, 2, 1]


def test_what_is_safe_when_it_is_appended_is_answered_at_once() -> None:
    telling = Telling()
    telling.safe_to(1)

    telling.append(0)
    telling.now_us += 30

    assert [(event.base_offset, event.took_us) for event in answers(telling.told())] == [(0, 0)]
    assert telling.batches.awaited == {}


def test_all_that_is_safe_in_a_turn_is_answered_together_at_its_end() -> None:
    telling = Telling()
    telling.safe_to(3)
    for offset in range(3):
        telling.begin_append(offset)
        telling.now_us += 10

    telling.end_turn()

    assert [(event.base_offset, event.took_us, event.watermark) for event in answers(telling.told())] == [
        (0, 30, 3),
        (1, 20, 3),
        (2, 10, 3),
    ]
    assert len([one for one in telling.written if isinstance(one, BatchRun)]) == 1


def test_a_batch_that_becomes_safe_before_its_turn_ends_is_answered() -> None:
    telling = Telling()
    telling.begin_append(0)
    telling.safe_to(1)
    telling.end_turn()

    assert [event.base_offset for event in answers(telling.told())] == [0]


def test_a_batch_keeps_the_epoch_in_which_it_was_appended_though_another_leads() -> None:
    """A batch keeps the epoch in which it was appended though another leads before the turn ends."""
    telling = Telling()
    telling.begin_append(0)
    cast(FakeReplica, telling.replica).leader_epoch = 4
    telling.begin_append(1)
    telling.end_turn()

    told = telling.told(0)

    assert [event.leader_epoch for event in told if isinstance(event, ProduceAppended)] == [3, 4]


def test_who_reads_in_the_middle_of_a_turn_is_told_of_it_and_nothing_is_told_twice() -> None:
    telling = Telling()
    telling.safe_to(2)
    telling.begin_append(0)
    assert [event.base_offset for event in answers(telling.told())] == [0]

    telling.begin_append(1)
    telling.end_turn()

    assert [event.base_offset for event in answers(telling.told())] == [0, 1]


def test_the_memory_of_a_large_batch_may_be_used_again_before_the_turn_ends() -> None:
    telling = Telling()
    memory = bytearray(20_000)
    memory[43:57] = struct.pack(">qhi", 77, 2, 900)  # where a batch has its producer

    telling.batches.appended(telling.replica, 1, FakeClient(), 0, 0, Appended(0, 0), memoryview(memory))
    memory[:] = bytes(20_000)
    telling.end_turn()

    (told,) = telling.told(0)
    assert isinstance(told, ProduceAppended)
    assert (told.producer_id, told.producer_epoch, told.base_sequence, told.size_bytes) == (77, 2, 900, 20_000)


def test_who_hangs_up_before_the_turn_ends_is_not_answered() -> None:
    telling = Telling()
    telling.safe_to(1)
    telling.begin_append(0)
    telling.batches.hung_up(5)
    telling.now_us += 10
    telling.end_turn()

    assert [type(event) for event in telling.told()] == [ProduceAppended]


def test_each_batch_is_answered_by_the_first_release_that_reaches_it() -> None:
    telling = Telling()
    for offset in range(4):
        telling.append(offset)
    for reached in (1, 1, 3):
        telling.now_us += 10
        telling.safe_to(reached)

    assert [(event.base_offset, event.took_us) for event in answers(telling.told())] == [(0, 10), (1, 30), (2, 30)]
    assert [event.watermark for event in answers(telling.told())] == [1, 3, 3]


def test_those_that_wait_do_not_count_again() -> None:
    """Those that wait do not count again so that nobody looks through them all the time."""
    telling = Telling()
    for offset in range(3):
        telling.append(offset)
    assert telling.batches.count == 3

    telling.told()
    telling.append(3)

    assert telling.batches.count == 1
    telling.safe_to(4)
    assert len(answers(telling.told())) == 4


def test_acks_all_waits_for_the_watermark() -> None:
    telling = Telling()
    telling.append(0, acks=-1)
    cast(FakeReplica, telling.replica).durable_end_offset = 1
    telling.batches.released(telling.replica)
    assert answers(telling.told()) == []

    telling.safe_to(1)

    assert [event.base_offset for event in answers(telling.told())] == [0]


def test_a_retry_of_a_batch_that_waits_is_answered_with_it_and_not_with_a_later_one() -> None:
    telling = Telling()
    for offset in (0, 1, 0):
        telling.append(offset)
    telling.safe_to(1)

    assert [event.base_offset for event in answers(telling.told())] == [0, 0]


def test_a_batch_that_waits_for_too_long_is_told_and_its_answer_apart() -> None:
    telling = Telling()
    telling.append(0)
    telling.now_us += 100
    assert [type(event) for event in telling.told(100)] == [ProduceAppended]
    telling.now_us += 100
    telling.safe_to(1)

    appended, answered = telling.told()

    assert isinstance(answered, ProduceAnswered)
    assert (appended.at_us, answered.at_us, answered.took_us) == (1_000_000, 1_000_200, 200)
    assert len(telling.told()) == 2
    assert telling.batches.awaited == {}


def test_a_batch_whose_producer_is_refused_was_appended_all_the_same() -> None:
    telling = Telling()
    telling.append(0)
    telling.append(1)
    telling.refuse(0)
    telling.safe_to(2)  # the one that was told that time is up may have been wrong

    told = telling.told()

    assert sorted(event.base_offset for event in told if isinstance(event, ProduceAppended)) == [0, 1]
    assert [event.base_offset for event in answers(told)] == [1]


def test_who_is_refused_though_his_batch_is_safe_at_once_is_not_answered() -> None:
    telling = Telling()
    telling.safe_to(1)

    telling.append(0, acks=-1)
    telling.refuse(0)  # too few are in sync now

    assert [type(event) for event in telling.told()] == [ProduceAppended]


def test_who_is_refused_late_is_not_answered_later() -> None:
    telling = Telling()
    telling.append(0)
    telling.now_us += 100
    telling.told(100)

    telling.refuse(0)
    telling.safe_to(1)

    assert [type(event) for event in telling.told()] == [ProduceAppended]


@pytest.mark.parametrize("is_long", [False, True])
@pytest.mark.parametrize("retry_connection", [5, 6])
def test_a_retry_is_answered_though_the_first_attempt_was_refused(is_long: bool, retry_connection: int) -> None:
    telling = Telling()
    telling.append(0)
    telling.now_us += 100
    if is_long:
        telling.told(100)
    telling.refuse(0)
    telling.append(0, connection=retry_connection)
    telling.now_us += 50
    telling.safe_to(1)

    told = telling.told()

    assert [(event.connection, event.took_us) for event in answers(told)] == [(retry_connection, 50)]
    assert sum(isinstance(event, ProduceAppended) for event in told) == 2


def test_a_retry_that_is_answered_at_once_is_not_the_attempt_that_was_refused() -> None:
    telling = Telling()
    telling.append(0)
    telling.now_us += 100
    telling.refuse(0)
    telling.safe_to(1)
    telling.now_us += 50
    telling.append(0)

    told = telling.told()

    assert [(event.at_us, event.took_us) for event in answers(told)] == [(1_000_150, 0)]
    assert sum(isinstance(event, ProduceAppended) for event in told) == 2


@pytest.mark.parametrize("is_long", [False, True])
def test_who_hung_up_is_not_answered_though_his_batch_becomes_safe(is_long: bool) -> None:
    telling = Telling()
    telling.append(0)
    telling.append(1)
    telling.now_us += 10
    telling.safe_to(1)
    if is_long:
        telling.now_us += 100
        telling.told(100)
    telling.now_us += 10
    telling.batches.hung_up(5)
    telling.append(2, connection=6)
    telling.now_us += 10
    telling.safe_to(3)

    told = telling.told()

    assert [event.base_offset for event in answers(told)] == [0, 2]
    assert sorted(event.base_offset for event in told if isinstance(event, ProduceAppended)) == [0, 1, 2]
    assert len(telling.told()) == len(told)
    assert (telling.batches.count, telling.batches.awaited) == (0, {})


def test_nobody_waits_for_an_answer_that_never_comes() -> None:
    telling = Telling()
    telling.append(0, acks=0)

    assert telling.batches.awaited == {}
    assert [type(event) for event in telling.told()] == [ProduceAppended]
    assert telling.batches.count == 0


def test_a_clock_that_is_set_back_makes_no_batch_unanswered() -> None:
    telling = Telling()
    telling.append(0)
    telling.now_us -= 500
    telling.safe_to(1)

    assert [event.took_us for event in answers(telling.told())] == [0]
