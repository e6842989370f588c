"""Producers wait until their batch is safe, consumers until there is something to read."""

from __future__ import annotations

import logging
from functools import partial

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from chronik.core.errors import Code
from chronik.core.replica.replica import Replica
from chronik.node.replication.purgatory import Purgatory
from chronik.trace.metrics import Metrics
from tests.unit.core.log.logs import batch_of
from tests.unit.node.fakes import NODE_ID, NOW_MS, FakeLoop, fake_deadlines, memory_replica

FOREVER = -1


class Told:
    """Who was told what, in order."""

    def __init__(self) -> None:
        self.order: list[tuple[str, Code]] = []

    def __call__(self, name: str, code: Code) -> None:
        self.order.append((name, code))


class Reader:
    def __init__(self) -> None:
        self.woken = 0

    def wake(self) -> None:
        self.woken += 1


def made(count: int = 3, *, in_sync: tuple[int, ...] = (NODE_ID,)) -> tuple[FakeLoop, Purgatory, Replica, Told]:
    """A replica with `count` records that are not safe yet, and nobody waiting."""
    loop = FakeLoop()
    replica = memory_replica(in_sync=in_sync)
    for _ in range(count):
        replica.append(batch_of(), 1, NOW_MS)
    return loop, Purgatory(fake_deadlines(loop), Metrics()), replica, Told()


def test_a_producer_hears_when_its_batch_is_safe_here_with_acks_1() -> None:
    _, waiting, replica, told = made(in_sync=(NODE_ID, 2))
    waiting.when_safe(replica, 2, 1, FOREVER, partial(told, "p"))
    assert told.order == []

    replica.own_safe(1)
    waiting.moved(replica)
    assert told.order == []
    replica.own_safe(2)
    waiting.moved(replica)

    assert told.order == [("p", Code.NONE)]


def test_with_acks_all_it_hears_only_when_the_watermark_has_passed() -> None:
    _, waiting, replica, told = made(in_sync=(NODE_ID, 2))
    waiting.when_safe(replica, 3, -1, FOREVER, partial(told, "all"))
    waiting.when_safe(replica, 3, 1, FOREVER, partial(told, "one"))

    replica.own_safe(3)
    waiting.moved(replica)
    assert told.order == [("one", Code.NONE)]
    replica.follower_fetched(2, 3, 0)
    waiting.moved(replica)

    assert told.order == [("one", Code.NONE), ("all", Code.NONE)]


def test_what_is_safe_already_is_answered_at_once() -> None:
    _, waiting, replica, told = made()
    replica.own_safe(3)

    waiting.when_safe(replica, 3, -1, FOREVER, partial(told, "p"))
    waiting.when_safe(replica, 1, 1, FOREVER, partial(told, "duplicate"))

    assert told.order == [("p", Code.NONE), ("duplicate", Code.NONE)]
    assert waiting.counts() == (0, 0)


def test_what_is_safe_here_alone_is_not_yet_safe_for_acks_all() -> None:
    _, waiting, replica, told = made(in_sync=(NODE_ID, 2))
    replica.own_safe(3)

    waiting.when_safe(replica, 3, -1, FOREVER, partial(told, "all"))
    waiting.when_safe(replica, 3, 1, FOREVER, partial(told, "one"))

    assert told.order == [("one", Code.NONE)]


def test_producers_are_told_in_the_order_of_their_batches() -> None:
    _, waiting, replica, told = made(3)
    for end_offset in (1, 2, 3):
        waiting.when_safe(replica, end_offset, 1, FOREVER, partial(told, str(end_offset)))
    assert waiting.counts() == (3, 0)

    replica.own_safe(3)
    waiting.moved(replica)

    assert told.order == [("1", Code.NONE), ("2", Code.NONE), ("3", Code.NONE)]
    assert waiting.counts() == (0, 0)


def test_a_duplicate_of_a_batch_that_is_not_safe_yet_waits_and_is_told_once() -> None:
    _, waiting, replica, told = made(2)
    waiting.when_safe(replica, 1, 1, FOREVER, partial(told, "first"))
    waiting.when_safe(replica, 2, 1, FOREVER, partial(told, "second"))
    waiting.when_safe(replica, 1, 1, FOREVER, partial(told, "first again"))

    replica.own_safe(1)
    waiting.moved(replica)
    assert ("first", Code.NONE) in told.order
    assert ("second", Code.NONE) not in told.order
    replica.own_safe(2)
    waiting.moved(replica)

    assert sorted(told.order) == [("first", Code.NONE), ("first again", Code.NONE), ("second", Code.NONE)]


def test_whose_time_is_up_is_told_so_and_never_again() -> None:
    loop, waiting, replica, told = made(in_sync=(NODE_ID, 2))
    waiting.when_safe(replica, 2, -1, 1000, partial(told, "p"))

    loop.advance(999)
    assert told.order == []
    loop.advance(1)
    assert told.order == [("p", Code.REQUEST_TIMED_OUT)]
    replica.own_safe(3)
    replica.follower_fetched(2, 3, 0)
    waiting.moved(replica)

    assert told.order == [("p", Code.REQUEST_TIMED_OUT)]


def test_who_was_told_in_time_does_not_time_out_later() -> None:
    loop, waiting, replica, told = made()
    waiting.when_safe(replica, 2, -1, 1000, partial(told, "p"))
    replica.own_safe(3)
    waiting.moved(replica)

    loop.advance(5000)

    assert told.order == [("p", Code.NONE)]


def test_without_a_timeout_it_waits_as_long_as_it_takes() -> None:
    loop, waiting, replica, told = made()
    waiting.when_safe(replica, 2, 1, FOREVER, partial(told, "p"))

    loop.advance(100_000_000)

    assert told.order == []


def test_when_the_replica_is_lost_nobody_is_told_that_his_batch_is_safe() -> None:
    _, waiting, replica, told = made()
    waiting.when_safe(replica, 2, 1, 1000, partial(told, "one"))
    waiting.when_safe(replica, 3, -1, FOREVER, partial(told, "all"))
    reader = Reader()
    waiting.when_readable([replica], reader)

    waiting.lost(replica, Code.KAFKA_STORAGE_ERROR)
    waiting.lost(replica, Code.KAFKA_STORAGE_ERROR)

    assert told.order == [("one", Code.KAFKA_STORAGE_ERROR), ("all", Code.KAFKA_STORAGE_ERROR)]
    assert reader.woken >= 1


def test_whoever_comes_after_the_replica_was_lost_is_told_so_at_once() -> None:
    _, waiting, replica, told = made()
    replica.take_offline("the disk broke")

    waiting.when_safe(replica, 3, -1, FOREVER, partial(told, "late"))

    assert told.order == [("late", Code.KAFKA_STORAGE_ERROR)]


def test_a_fault_in_one_answer_does_not_keep_the_others_waiting(caplog: pytest.LogCaptureFixture) -> None:
    _, _, replica, told = made()
    metrics = Metrics()
    waiting = Purgatory(fake_deadlines(FakeLoop()), metrics)

    def fail(code: Code) -> None:
        raise RuntimeError("a bug")

    waiting.when_safe(replica, 1, 1, FOREVER, fail)
    waiting.when_safe(replica, 2, 1, FOREVER, partial(told, "next"))
    reader = Reader()
    waiting.when_readable([replica], reader)
    replica.own_safe(2)
    with caplog.at_level(logging.ERROR):
        waiting.moved(replica)

    assert told.order == [("next", Code.NONE)]
    assert reader.woken == 1
    assert "a bug" in caplog.text
    assert metrics.faults == 1


def test_who_is_told_may_wait_again() -> None:
    _, waiting, replica, told = made(2)

    def again(code: Code) -> None:
        told("first", code)
        waiting.when_safe(replica, 2, 1, FOREVER, partial(told, "second"))

    waiting.when_safe(replica, 1, 1, FOREVER, again)
    replica.own_safe(1)
    waiting.moved(replica)
    assert told.order == [("first", Code.NONE)]
    replica.own_safe(2)
    waiting.moved(replica)

    assert told.order == [("first", Code.NONE), ("second", Code.NONE)]


# --- consumers


def test_a_reader_is_woken_each_time_until_it_stops() -> None:
    _, waiting, replica, _ = made()
    reader = Reader()
    waiting.when_readable([replica], reader)
    assert waiting.counts() == (0, 1)

    waiting.moved(replica)
    waiting.moved(replica)
    assert reader.woken == 2
    waiting.stop_reading([replica], reader)
    waiting.moved(replica)

    assert reader.woken == 2
    assert waiting.counts() == (0, 0)


def test_only_readers_of_the_partition_that_moved_are_woken() -> None:
    _, waiting, replica, _ = made()
    other = memory_replica()
    here, there, both = Reader(), Reader(), Reader()
    waiting.when_readable([replica], here)
    waiting.when_readable([other], there)
    waiting.when_readable([replica, other], both)

    waiting.moved(other)

    assert (here.woken, there.woken, both.woken) == (0, 1, 1)
    assert waiting.counts() == (0, 3)


def test_stopping_twice_or_without_having_begun_is_no_harm() -> None:
    _, waiting, replica, _ = made()
    reader = Reader()

    waiting.stop_reading([replica], reader)
    waiting.when_readable([replica], reader)
    waiting.stop_reading([replica], reader)
    waiting.stop_reading([replica], reader)

    assert waiting.counts() == (0, 0)


# --- all together


@example(ends=[2], steps=[("here", 1)])  # one short of what is waited for, which chance may well miss
@given(
    ends=st.lists(st.integers(1, 20), max_size=15),
    steps=st.lists(st.tuples(st.sampled_from(["here", "there", "time", "lost"]), st.integers(0, 20)), max_size=20),
)
def test_nobody_is_told_safe_before_it_is_and_everybody_is_told_once(
    ends: list[int], steps: list[tuple[str, int]]
) -> None:
    loop, waiting, replica, _ = made(20, in_sync=(NODE_ID, 2))
    told: dict[int, list[Code]] = {number: [] for number in range(len(ends))}

    def tell(number: int, acks: int, code: Code) -> None:
        if code == Code.NONE:
            assert ends[number] <= (replica.high_watermark if acks == -1 else replica.durable_end_offset)
        told[number].append(code)

    for number, end_offset in enumerate(ends):
        acks = -1 if number % 2 else 1
        waiting.when_safe(replica, end_offset, acks, 50 if number % 3 else FOREVER, partial(tell, number, acks))
    for what, value in steps:
        if what in ("here", "there"):
            replica.own_safe(value) if what == "here" else replica.follower_fetched(2, value, 0)
            waiting.moved(replica)
        elif what == "time":
            loop.advance(value)
        else:
            waiting.lost(replica, Code.KAFKA_STORAGE_ERROR)
    waiting.lost(replica, Code.KAFKA_STORAGE_ERROR)
    loop.advance(1000)

    assert all(len(codes) == 1 for codes in told.values())
    assert waiting.counts() == (0, 0)
