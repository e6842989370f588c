"""Compaction: the last record of each key stays, with its offset and time, and nothing else is lost on the way."""

from __future__ import annotations

import errno
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chronik.core.config.topic import TopicConfig
from chronik.core.errors import Corrupt, Interrupted
from chronik.core.log.appended import Appended
from chronik.core.log.compaction import WORK_A_STEP, cleanable
from chronik.core.log.log import Log
from chronik.core.records.batch import CONTROL_BIT, DELETE_HORIZON_BIT, TRANSACTIONAL_BIT, accept, read_header
from chronik.core.records.payload import KeyValue, Record, assemble, build, pack, walk, write_record
from chronik.core.records.steps import RECORDS_A_STEP, Work
from tests.unit.core.fakes import MemoryFiles
from tests.unit.core.log.logs import DIRECTORY, NOW_MS, SEGMENT, batch_of, contents, header_of, open_log, put

KEPT_MS = 10_000
KEPT_SUFFIXES = (".log", ".index", ".timeindex", ".snapshot", "-checkpoint")
COMPACT = TopicConfig(
    cleanup_policy=("compact",),
    segment_bytes=600,
    index_interval_bytes=200,
    min_cleanable_dirty_ratio=0.0,
    delete_retention_ms=KEPT_MS,
)


def put_pairs(
    log: Log, pairs: list[tuple[bytes | None, bytes | None]], *, codec: int = 0, time_ms: int = NOW_MS
) -> None:
    batch = build([Record(0, time_ms + n, key, value) for n, (key, value) in enumerate(pairs)], NOW_MS)
    if codec:
        batch = assemble(pack(bytes(batch[61:]), codec), header_of(batch)._replace(attributes=codec))
    log.append(batch, accept(batch), 0, NOW_MS)


def compact(log: Log, now_ms: int = NOW_MS, high_watermark: int | None = None) -> None:
    for unsynced in log.compact(now_ms, log.end_offset if high_watermark is None else high_watermark):
        if unsynced is not None and not isinstance(unsynced, Work):
            unsynced.sync()


def records(log: Log) -> list[Record]:
    return list(walk(contents(log, 400)))


def filled_with(files: MemoryFiles, keys: int, batches: int) -> Log:
    """Batches of one record each, over and over the same keys."""
    log = open_log(files, COMPACT)
    for number in range(batches):
        put_pairs(log, [(b"key%d" % (number % keys), b"v" * 60)], time_ms=NOW_MS + number)
    return log


PAIRS = st.tuples(st.sampled_from([b"a", b"b", b"c", b"d"]), st.none() | st.binary(min_size=1, max_size=80))
BATCHES = st.lists(st.tuples(st.lists(PAIRS, min_size=1, max_size=4), st.integers(0, 4)), min_size=1, max_size=40)


@settings(max_examples=150)
@given(BATCHES, st.integers(0, 100), st.booleans())
def test_the_last_record_of_each_key_stays_as_it_was(
    batches: list[tuple[list[tuple[bytes | None, bytes | None]], int]], twice_after: int, was_clean: bool
) -> None:
    files = MemoryFiles()
    log = open_log(files, COMPACT)
    for number, (pairs, codec) in enumerate(batches):
        put_pairs(log, pairs, codec=codec, time_ms=NOW_MS + number)
        if number == twice_after:
            compact(log)
    before = records(log)
    closed_end = log._segments[-1].base_offset
    end_offset = log.end_offset
    compact(log)
    after = records(log)
    known = {record.offset: record for record in before}
    assert all(known[record.offset] == record for record in after)
    assert [record.offset for record in after] == sorted(record.offset for record in after)
    cleaned = [record for record in before if record.offset < closed_end]
    last = {record.key: record for record in cleaned}
    assert [record for record in after if record.offset < closed_end] == sorted(last.values())
    assert [record for record in after if record.offset >= closed_end] == before[len(cleaned) :]
    assert (log.start_offset, log.end_offset) == (0, end_offset)
    if was_clean:
        log.close()
    again = open_log(files, COMPACT, was_clean=was_clean)
    assert (records(again), again.end_offset, again.rebuilt) == (after, end_offset, ())
    assert again.epochs.entries == log.epochs.entries


def test_a_batch_that_loses_nothing_is_copied_as_it_stands() -> None:
    files = MemoryFiles()
    log = open_log(files, COMPACT)
    for number in range(10):
        put_pairs(log, [(b"key%d" % number, b"v" * 60)], codec=number % 5)
    before = contents(log)
    compact(log)
    assert contents(log) == before


def compacted_once(files: MemoryFiles) -> Log:
    """Many small segments, and something new."""
    log = filled_with(files, 2, 36)
    compact(log)
    for number in range(36, 40):
        put_pairs(log, [(b"key%d" % (number % 2), b"v" * 60)], time_ms=NOW_MS + number)
    return log


def test_small_neighbours_become_one_segment() -> None:
    files = MemoryFiles()
    log = compacted_once(files)
    many = len(files.paths(".log"))
    compact(log)
    assert len(files.paths(".log")) < many - 4
    assert files.paths(".cleaned") == files.paths(".swap") == []
    for offset in range(40):  # every offset leads somewhere, the removed ones to the next that is there
        plan = log.read(offset, 40, 10_000, at_least_one=True)
        assert plan is not None
        assert plan.next_offset > offset


def test_what_was_compacted_before_a_restart_is_not_compacted_again() -> None:
    files = MemoryFiles()
    log = filled_with(files, 2, 36)
    compact(log)
    log.close()
    assert log.clean_offset == log._segments[-1].base_offset

    again = Log.open(files, DIRECTORY, COMPACT, NOW_MS, was_clean=True, clean_offset=log.clean_offset)
    anew = Log.open(files, DIRECTORY, COMPACT, NOW_MS, was_clean=True)

    assert again.dirtiness(NOW_MS, again.end_offset) == 0
    assert anew.dirtiness(NOW_MS, anew.end_offset) > 0
    put_pairs(again, [(b"key0", b"v" * 600), (b"key1", b"v" * 600)])
    put_pairs(again, [(b"key0", b"v" * 600)])
    compact(again)
    assert [record.key for record in records(again)] == [b"key0", b"key1", b"key0"]


@pytest.mark.parametrize("clean_offset", [37, 3])
def test_an_offset_that_is_not_in_this_log_says_nothing_of_it(clean_offset: int) -> None:
    """As in Kafka: beyond its end, or before its start, it is of another log; all of this one is dirty."""
    files = MemoryFiles()
    filled_with(files, 2, 36).close()

    log = Log.open(files, DIRECTORY, COMPACT, NOW_MS, was_clean=True, log_start_offset=5, clean_offset=clean_offset)

    assert log.clean_offset == 0


def test_a_cut_that_is_announced_makes_what_comes_after_it_dirty() -> None:
    log = filled_with(MemoryFiles(), 2, 36)
    compact(log)

    log.expect_cut(7)

    assert log.clean_offset == 7


def test_a_tombstone_stays_for_its_time_and_then_goes() -> None:
    log = open_log(MemoryFiles(), COMPACT)
    put_pairs(log, [(b"gone", b"v" * 100)])
    put_pairs(log, [(b"gone", None), (b"here", b"v" * 100)])
    for number in range(10):
        put_pairs(log, [(b"other%d" % number, b"v" * 100)])
    compact(log, now_ms=NOW_MS)
    tombstones = [record for record in records(log) if record.value is None]
    assert [(record.offset, record.key, record.timestamp) for record in tombstones] == [(1, b"gone", NOW_MS)]
    batch = contents(log)
    assert read_header(batch).attributes & DELETE_HORIZON_BIT
    assert read_header(batch).base_timestamp == NOW_MS + KEPT_MS
    compact_again(log, NOW_MS + KEPT_MS - 1)
    assert any(record.value is None for record in records(log))
    compact_again(log, NOW_MS + KEPT_MS)
    assert all(record.value is not None for record in records(log))
    assert b"here" in [record.key for record in records(log)]


def compact_again(log: Log, now_ms: int) -> None:
    """With something new to compact, or it would not be worth while."""
    put_pairs(log, [(b"filler", b"v" * 300)])
    put_pairs(log, [(b"filler", b"v" * 300)])
    compact(log, now_ms)


def test_records_without_a_key_stay() -> None:
    log = open_log(MemoryFiles(), TopicConfig(segment_bytes=300))
    put_pairs(log, [(None, b"v" * 100), (b"k", b"1" * 100)])
    put_pairs(log, [(None, b"w" * 100), (b"k", b"2" * 100)])
    put_pairs(log, [(b"x", b"")])
    log.config = COMPACT
    compact(log)
    assert [record.offset for record in records(log)] == [0, 2, 3, 4]


def test_a_committed_transaction_is_judged_by_its_keys_and_what_makes_no_sense_stays() -> None:
    log = open_log(MemoryFiles(), TopicConfig(segment_bytes=100))
    record, ending = Record(0, NOW_MS, b"k", b"1"), Record(0, NOW_MS, b"\0\0\0\1", b"\0\0\0\0\0\0")
    producer = {"producer_id": 1, "producer_epoch": 0}
    in_transaction = build([record], NOW_MS, base_sequence=0, attributes=TRANSACTIONAL_BIT, **producer)
    both = CONTROL_BIT | TRANSACTIONAL_BIT
    marker = build([ending], NOW_MS, base_offset=1, leader_epoch=0, attributes=both, **producer)
    rubbish = assemble(b"rubbish", header_of(batch_of(1)))
    put(log, in_transaction, guard=log.producers.begin_verification(header_of(in_transaction)))
    log.append_as_follower(marker, NOW_MS)
    put(log, rubbish)
    put_pairs(log, [(b"k", b"2")])
    put_pairs(log, [(b"k", b"3")])
    put_pairs(log, [(b"k", b"4")])
    log.config = COMPACT
    before = contents(log)
    compact(log)
    kept = contents(log)
    assert len(before) > len(kept)
    for batch in (marker, rubbish):
        assert bytes(batch) in kept
    assert bytes(in_transaction) not in kept


def test_a_producers_last_batch_leaves_its_header_and_with_it_its_sequence() -> None:
    files = MemoryFiles()
    log = open_log(files, COMPACT)
    for number in range(3):
        put(log, batch_of(1, value=b"v" * 200, producer_id=1, sequence=number))
    for _ in range(6):
        put(log, batch_of(1, value=b"v" * 200))
    compact(log)
    assert [record.offset for record in records(log)] == [7, 8] or len(records(log)) < 9
    for path in files.paths(".snapshot"):
        files.remove(path)
    again = open_log(files, COMPACT)
    assert put(again, batch_of(1, value=b"v" * 200, producer_id=1, sequence=2)) == Appended(2, 2, is_new=False)
    assert put(again, batch_of(1, producer_id=1, sequence=3)).is_new


def test_nothing_is_compacted_above_the_watermark_in_the_active_segment_or_too_young() -> None:
    log = filled_with(MemoryFiles(), 2, 40)
    closed = log._segments[:-1]
    assert cleanable(log._segments, COMPACT, 0, 40, NOW_MS + 100) == closed
    assert cleanable(log._segments, COMPACT, 0, closed[1].end_offset, NOW_MS + 100) == closed[:2]
    lagging = TopicConfig(min_compaction_lag_ms=50)
    run = cleanable(log._segments, lagging, 0, 40, NOW_MS + 60)
    assert 0 < len(run) < len(closed)
    assert all(segment.newest()[0] <= NOW_MS + 10 for segment in run)


def test_it_waits_until_enough_is_dirty_or_some_of_it_for_long() -> None:
    log = filled_with(MemoryFiles(), 2, 40)
    closed = log._segments[:-1]
    half = TopicConfig(min_cleanable_dirty_ratio=0.5)
    late = closed[-1].base_offset
    assert cleanable(log._segments, half, late, 40, NOW_MS + 100) == []
    assert cleanable(log._segments, half, 0, 40, NOW_MS + 100) == closed
    overdue = TopicConfig(min_cleanable_dirty_ratio=0.5, max_compaction_lag_ms=10)
    assert cleanable(log._segments, overdue, late, 40, NOW_MS + 100) == closed
    assert cleanable(log._segments, overdue, 40, 40, NOW_MS + 100) == []


def test_the_dirtiness_of_a_log_is_the_share_that_was_not_compacted_yet() -> None:
    log = filled_with(MemoryFiles(), 2, 40)
    assert log.dirtiness(NOW_MS, 40) == 1.0
    assert log.dirtiness(NOW_MS, 0) == 0.0
    compact(log)
    assert log.dirtiness(NOW_MS, 40) == 0.0
    for number in range(40, 52):
        put_pairs(log, [(b"key%d" % number, b"v" * 60)])
    assert 0.0 < log.dirtiness(NOW_MS, log.end_offset) < 1.0


def test_exactly_the_ratio_that_is_set_is_not_enough() -> None:
    log = filled_with(MemoryFiles(), 2, 40)
    assert cleanable(log._segments, TopicConfig(min_cleanable_dirty_ratio=1.0), 0, 40, NOW_MS + 100) == []


def test_a_segment_of_a_compacted_topic_is_closed() -> None:
    """A segment of a compacted topic is closed when its records may wait no longer."""
    week, hour = 604_800_000, 3_600_000
    assert TopicConfig(max_compaction_lag_ms=hour).roll_ms == week
    assert TopicConfig(cleanup_policy=("compact",), max_compaction_lag_ms=hour).roll_ms == hour
    log = open_log(MemoryFiles(), replace(COMPACT, segment_bytes=10_000, max_compaction_lag_ms=1000))
    for time_ms in (NOW_MS, NOW_MS + 1000, NOW_MS + 1001):
        put_pairs(log, [(b"k", b"v")], time_ms=time_ms)
    assert [segment.base_offset for segment in log._segments] == [0, 2]


def test_a_step_is_short_however_many_records_a_batch_has() -> None:
    log = open_log(MemoryFiles(), COMPACT)
    for _ in range(10):
        put_pairs(log, [(b"%d" % key, b"value") for key in range(WORK_A_STEP)])

    steps = list(log.compact(NOW_MS, log.end_offset))

    # Nine of them stand in closed segments; each is read once for its keys and once to be written anew.
    assert steps.count(None) >= 2 * 9


def test_what_retention_takes_meanwhile_is_not_brought_back() -> None:
    files = MemoryFiles()
    log = filled_with(files, 2, 40)
    steps = log.compact(NOW_MS, 40)
    next(steps)
    log.advance_start(20)
    log.remove_below(20, NOW_MS)
    before = contents(log)
    for _ in steps:
        pass
    assert contents(log) == before
    assert files.paths(".cleaned") == []


def test_a_plan_made_before_is_not_current_after() -> None:
    log = filled_with(MemoryFiles(), 2, 40)
    plan = log.read(0, 40, 1000, at_least_one=True)
    assert plan is not None
    assert log.is_current(plan)
    compact(log)
    assert not log.is_current(plan)


def test_damage_found_on_the_way_stops_it() -> None:
    files = MemoryFiles()
    log = filled_with(files, 2, 40)
    files.flip(SEGMENT + ".log", 8 * 100)
    with pytest.raises(Corrupt, match="checksum"):
        compact(log)
    assert files.paths(".swap") == []


class Recorded(MemoryFiles):
    """Remembers the disk as it was after every change of names."""

    def __init__(self) -> None:
        super().__init__()
        self.moments: list[MemoryFiles] = []

    def rename(self, old: str, new: str) -> None:
        super().rename(old, new)
        self.moments.append(self.copy())

    def remove(self, path: str) -> None:
        super().remove(path)
        self.moments.append(self.copy())


def test_a_crash_at_any_moment_leaves_the_old_or_the_new() -> None:
    files = Recorded()
    log = compacted_once(files)
    files.moments.clear()
    last = {record.key: record for record in records(log)}
    known = {record.offset: record for record in records(log)}
    compact(log)
    assert len(files.moments) > 10
    for moment in files.moments:
        again = open_log(moment, COMPACT)
        found = records(again)
        assert {record.key: record for record in found} == last
        assert all(known[record.offset] == record for record in found)
        assert again.end_offset == 40
        assert moment.paths(".cleaned") == moment.paths(".swap") == []


def test_an_interrupted_swap_is_no_damage_and_is_finished() -> None:
    """An interrupted swap is no damage and is finished when the log is opened anew."""

    class Failing(MemoryFiles):
        is_failing = False

        def remove(self, path: str) -> None:
            if self.is_failing and path.endswith(".log") and not path.startswith(SEGMENT):
                raise OSError(errno.ENOMEM, "no memory")
            super().remove(path)

    files = Failing()
    log = compacted_once(files)
    files.is_failing = True
    before = {record.key: record for record in records(log)}
    steps = log.compact(NOW_MS, 40)
    with pytest.raises(Interrupted) as caught:
        list(steps)
    assert caught.value.problem.errno == errno.ENOMEM
    healed = files.copy()
    assert {record.key: record for record in records(open_log(healed, COMPACT))} == before


def test_a_log_that_was_compacted_once_is_opened_and_followed_with_its_gaps() -> None:
    files = MemoryFiles()
    log = filled_with(files, keys=2, batches=40)
    compact(log)
    log.close()
    kept_since = replace(COMPACT, cleanup_policy=("delete",), chronik_gaps=True)

    reopened = open_log(files, kept_since, was_clean=False)
    follower = open_log(MemoryFiles(), kept_since)
    follower.append_as_follower(contents(reopened), NOW_MS)

    offsets = [record.offset for record in records(reopened)]
    assert reopened.end_offset == follower.end_offset == 40
    assert len(offsets) < 40
    assert [record.offset for record in records(follower)] == offsets


def put_history(log: Log, first: int, last: int, value: bytes, leader_epoch: int) -> None:
    """One record a batch, each of its own key but the even ones, which are of one: so there is something to clean."""
    for number in range(first, last):
        key = b"even" if number % 2 == 0 else b"key%02d" % number
        batch = build([Record(0, NOW_MS + number, key, value * 60)], NOW_MS)
        log.append(batch, accept(batch), leader_epoch, NOW_MS)


@pytest.mark.parametrize("steps_before", range(1, 9))
@pytest.mark.parametrize("cut_offset", [0, 11, 33, 35])
def test_a_compaction_that_a_cut_overtakes_brings_nothing_back(steps_before: int, cut_offset: int) -> None:
    """An election of a leader that was not in sync cuts below the watermark; the same offsets hold other records then,
    of the same sizes."""
    files = MemoryFiles()
    log = open_log(files, COMPACT)
    put_history(log, 0, 40, b"o", leader_epoch=0)
    steps = log.compact(NOW_MS, log.end_offset)
    for _ in range(steps_before):
        next(steps)
    log.truncate_to(cut_offset)
    put_history(log, log.end_offset, 40, b"n", leader_epoch=1)
    expected = records(log)

    with pytest.raises(StopIteration):
        next(steps)

    assert records(log) == expected
    assert records(open_log(files, COMPACT)) == expected
    assert [path for path in files.names(log.directory) if not path.endswith(KEPT_SUFFIXES)] == []


def test_a_compaction_that_a_new_beginning_overtakes_brings_nothing_back() -> None:
    log = open_log(MemoryFiles(), COMPACT)
    put_history(log, 0, 40, b"o", leader_epoch=0)
    steps = log.compact(NOW_MS, log.end_offset)
    next(steps)
    log.reset_to(0)
    put_history(log, 0, 40, b"n", leader_epoch=1)
    expected = records(log)

    with pytest.raises(StopIteration):
        next(steps)

    assert records(log) == expected


def test_a_large_batch_is_compacted_in_steps_and_unpacked_elsewhere() -> None:
    log = open_log(MemoryFiles(), COMPACT)
    put_pairs(log, [(b"%d" % (n % 100), b"value" * 3) for n in range(20_000)], codec=4)
    put_pairs(log, [(b"other", b"value")] * 20)

    taken = list(log.compact(NOW_MS, log.end_offset))

    # Read for its keys, judged, and written: each record is met three times.
    assert taken.count(None) >= 3 * 20_000 // RECORDS_A_STEP
    assert any(isinstance(step, Work) for step in taken)
    assert [record.offset for record in records_of(log)[:100]] == list(range(19_900, 20_000))


def records_of(log: Log) -> list[Record]:
    return list(walk(contents(log, 10_000)))


def test_a_batch_that_cannot_be_taken_apart_stays_and_its_keys_replace_nothing() -> None:
    log = open_log(MemoryFiles(), COMPACT)
    put_pairs(log, [(b"k", b"kept")])
    body = bytearray()
    for delta in (1, 0):  # out of order
        write_record(body, KeyValue(b"k", b"v"), 0, delta)
    odd = assemble(body, header_of(build([KeyValue(b"k", b"v")] * 2, NOW_MS)))
    log.append(odd, accept(odd), 0, NOW_MS)
    put_pairs(log, [(b"other", b"v" * 400)] * 5)
    put_pairs(log, [(b"other", b"v" * 400)] * 5)

    compact(log)

    first = next(walk(contents(log, 10_000)))
    assert (first.offset, first.value) == (0, b"kept")
    assert bytes(odd[61:]) in contents(log, 10_000)


def test_keys_beyond_what_memory_holds_are_for_the_next_time() -> None:
    log = filled_with(MemoryFiles(), keys=100, batches=400)
    sizes = [log.size_bytes()]
    for _ in range(12):
        list(log.compact(NOW_MS, log.end_offset, keys_max=40))
        sizes.append(log.size_bytes())
    assert sizes == sorted(sizes, reverse=True)
    closed_end = log._segments[-1].base_offset
    stays = [record.offset for record in records(log) if record.offset < closed_end]
    assert len(stays) <= 100
    assert {offset % 100 for offset in range(closed_end - 100, closed_end)} == {offset % 100 for offset in stays}


def test_long_keys_are_told_apart() -> None:
    log = open_log(MemoryFiles(), COMPACT)
    for _ in range(3):
        for number in range(5):
            put_pairs(log, [(b"long" * 50 + b"%d" % number, b"v" * 100)])
    put_pairs(log, [(b"other", b"v" * 500)] * 3)
    compact(log)
    closed_end = log._segments[-1].base_offset
    stays = [record.key for record in records(log) if record.offset < closed_end]
    assert len(stays) == len(set(stays)) == 5
