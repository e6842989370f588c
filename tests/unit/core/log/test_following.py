"""A follower's log: cut where the leader's differs, begun anew where it starts, and what it remembers then."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chronik.core.config.topic import TopicConfig
from chronik.core.log.appended import Appended
from chronik.core.log.log import Log
from chronik.core.log.producers import Producers
from tests.unit.core.fakes import MemoryFiles
from tests.unit.core.log.logs import NOW_MS, batch_of, contents, filled, open_log, put, sync

SMALL = TopicConfig(segment_bytes=1000, index_interval_bytes=200)


def remembered(producers: Producers) -> list[tuple[int, int, int, int]]:
    return [
        (one.producer_id, one.epoch, one.last_sequence, one.batches[-1].last_offset if one.batches else -1)
        for one in producers.states()
    ]


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("put"), st.integers(0, 2), st.integers(1, 3)),
        st.tuples(st.just("cut"), st.integers(0, 12), st.just(0)),
        st.tuples(st.just("sync"), st.just(0), st.just(0)),
        st.tuples(st.just("lead"), st.just(0), st.just(0)),
    ),
    max_size=40,
)


@settings(max_examples=100, deadline=None)
@given(STEPS)
def test_after_any_cuts_the_log_remembers_what_a_fresh_reading_of_it_would(steps: list[tuple[str, int, int]]) -> None:
    files = MemoryFiles()
    log = open_log(files, SMALL)
    epoch = 0
    sequences: dict[int, int] = {}
    for what, number, count in steps:
        if what == "put":
            producer = log.producers.get(number)
            sequence = 0 if producer is None or not producer.batches else producer.last_sequence + 1
            batch = batch_of(count, value=b"v" * 150, producer_id=number, sequence=sequence)
            assert put(log, batch, leader_epoch=epoch).is_new
            sequences[number] = sequence
        elif what == "cut":
            log.truncate_to(max(log.start_offset, log.end_offset - number))
        elif what == "sync":
            sync(log)
        else:
            epoch += 1
        assert log.synced_offset <= log.end_offset

    sync(log)
    fresh = open_log(files.copy(), SMALL, synced_offset=log.synced_offset)
    assert (fresh.start_offset, fresh.end_offset) == (log.start_offset, log.end_offset)
    assert contents(fresh) == contents(log)
    assert fresh.epochs.entries == log.epochs.entries
    assert remembered(fresh.producers) == remembered(log.producers)


def test_a_retry_of_what_was_cut_is_appended_and_of_what_stayed_is_not() -> None:
    log = open_log(MemoryFiles(), SMALL)
    for number in range(4):
        put(log, batch_of(2, value=b"v" * 150, producer_id=1, sequence=2 * number))

    log.truncate_to(4)

    assert put(log, batch_of(2, value=b"v" * 150, producer_id=1, sequence=2)) == Appended(2, 3, is_new=False)
    assert put(log, batch_of(2, value=b"v" * 150, producer_id=1, sequence=4)) == Appended(4, 5)


def test_a_log_begun_anew_has_nothing_and_begins_where_it_was_told() -> None:
    files = MemoryFiles()
    log, _ = filled(files, 10, SMALL)
    sync(log)

    log.reset_to(500)

    assert (log.start_offset, log.end_offset, log.synced_offset) == (500, 500, 500)
    assert (log.epochs.entries, len(log.producers), log.size_bytes()) == ((), 0, 0)
    assert put(log, batch_of(3), leader_epoch=7) == Appended(500, 502)
    sync(log)
    again = open_log(files, SMALL, synced_offset=503)
    assert (again.start_offset, again.end_offset, again.epochs.entries) == (500, 503, ((7, 500),))


def test_a_crash_right_after_a_new_beginning_finds_it() -> None:
    files = MemoryFiles()
    log, _ = filled(files, 10, SMALL)
    sync(log)

    log.reset_to(500)
    files.crash()

    again = open_log(files, SMALL)
    assert (again.start_offset, again.end_offset) == (500, 500)


def test_a_follower_that_begins_in_the_middle_of_a_batch_takes_the_whole_batch() -> None:
    """The leader's log start was moved there by DeleteRecords."""
    leader = open_log(MemoryFiles())
    put(leader, batch_of(10))
    put(leader, batch_of(2))
    leader.advance_start(7)
    files = MemoryFiles()
    follower = open_log(files)
    follower.reset_to(7)

    plan = leader.read(7, leader.end_offset, 10**6, at_least_one=True)
    assert plan is not None
    follower.append_as_follower(plan.file.read(plan.position, plan.length), NOW_MS)

    assert (follower.start_offset, follower.end_offset) == (7, 12)
    assert contents(follower) == contents(leader)
    sync(follower)
    again = open_log(files, synced_offset=12, log_start_offset=7)
    assert (again.start_offset, again.end_offset) == (7, 12)


def test_a_cut_that_was_announced_lets_go_of_what_was_synced() -> None:
    """What is on disk must say so before: a log that ends below it would be taken for damaged."""
    log: Log = filled(MemoryFiles(), 5)[0]
    sync(log)

    log.expect_cut(4)

    assert (log.synced_offset, log.end_offset, log.cuts) == (4, 10, 1)


@pytest.mark.parametrize("is_announced", [False, True])
@pytest.mark.parametrize("end_offset", [0, 3, 6])
def test_a_cut_below_the_first_segment_begins_anew_there(end_offset: int, is_announced: bool) -> None:
    """Or the log would seem to have what lies between: it would be fetched from its old start on."""
    files = MemoryFiles()
    leader = filled(MemoryFiles(), 6)[0]
    follower = open_log(files)
    follower.reset_to(7)
    plan = leader.read(7, leader.end_offset, 10**6, at_least_one=True)
    assert plan is not None
    follower.append_as_follower(plan.file.read(plan.position, plan.length), NOW_MS)
    sync(follower)

    if is_announced:
        follower.expect_cut(end_offset)
    follower.truncate_to(end_offset)

    assert (follower.start_offset, follower.end_offset, follower.synced_offset) == (end_offset,) * 3
    again = open_log(files, synced_offset=end_offset, log_start_offset=end_offset)
    assert (again.start_offset, again.end_offset) == (end_offset, end_offset)


OLD_MS = NOW_MS - 2 * 24 * 3600 * 1000
EXPIRATION_MS = 24 * 3600 * 1000


@pytest.mark.parametrize("was_clean", [True, False])
def test_a_restart_gives_a_producer_its_time_anew_however_old_its_records_are(was_clean: bool) -> None:
    files = MemoryFiles()
    log = open_log(files)
    batch = batch_of(2, time_ms=OLD_MS, producer_id=1, sequence=0)
    put(log, bytearray(batch))
    log.close()

    again = open_log(files, was_clean=was_clean)
    for monotonic_ms in (5, 6):
        again.producers.expire(monotonic_ms, EXPIRATION_MS)

    assert not put(again, bytearray(batch)).is_new
    again.producers.expire(6 + EXPIRATION_MS, EXPIRATION_MS)
    assert len(again.producers) == 0  # it has not written since: a duplicate is no writing


def test_a_follower_that_is_elected_knows_the_producers_of_old_records() -> None:
    leader, follower = open_log(MemoryFiles()), open_log(MemoryFiles())
    batch = batch_of(2, time_ms=OLD_MS, producer_id=1, sequence=0)
    put(leader, bytearray(batch))
    follower.append_as_follower(contents(leader), NOW_MS)
    for monotonic_ms in (5, 6):
        follower.producers.expire(monotonic_ms, EXPIRATION_MS)

    assert not put(follower, bytearray(batch), leader_epoch=1).is_new
