"""A partition's log: append, read, sync, retention, truncation."""

from __future__ import annotations

import errno

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chronik.core.config.topic import TopicConfig
from chronik.core.errors import Code, Corrupt, Refused
from chronik.core.log.appended import Appended
from chronik.core.log.log import Log
from chronik.core.log.scan import sound_batches
from chronik.core.records.batch import TIMESTAMP_TYPE_BIT, accept, crc_holds, read_header, stamp
from tests.unit.core.fakes import MemoryFiles
from tests.unit.core.log.logs import DIRECTORY, NOW_MS, SEGMENT, batch_of, contents, filled, open_log, put, sync

SMALL = TopicConfig(segment_bytes=1000, index_interval_bytes=200)
DISK_FULL = OSError(errno.ENOSPC, "No space left on device")


def bases(files: MemoryFiles) -> list[int]:
    return [int(path.rpartition("/")[2].removesuffix(".log")) for path in files.paths(".log")]


# --- empty logs


def test_opening_an_empty_log_lists_the_directory_and_does_nothing_else() -> None:
    files = MemoryFiles()
    log = open_log(files, was_clean=True)
    assert (log.start_offset, log.end_offset, log.size_bytes()) == (0, 0, 0)
    assert (files.listings, files.reads, files.paths()) == (1, 0, [])
    log.close()
    assert files.paths() == []
    assert log.unsynced() == ([], 0)
    assert log.read(0, 0, 100, at_least_one=True) is None


# --- appending


def test_batches_get_offsets_one_after_the_other() -> None:
    log = open_log(MemoryFiles())
    assert put(log, batch_of(3)) == Appended(0, 2)
    assert put(log, batch_of(2)) == Appended(3, 4)
    assert log.end_offset == 5


def test_a_batch_is_one_write_and_stays_as_it_was_sent_but_for_offset_and_epoch() -> None:
    files = MemoryFiles()
    log = open_log(files)
    put(log, batch_of(1))
    sent = bytes(batch_of(2, value=b"sent"))
    files.appends = 0
    put(log, bytearray(sent), leader_epoch=0)
    assert files.appends == 1
    stored = contents(log)[-len(sent) :]
    assert stored[21:] == sent[21:]
    assert crc_holds(stored, read_header(stored).crc)
    assert (read_header(stored).base_offset, read_header(stored).leader_epoch) == (1, 0)


def test_where_the_log_sets_the_time_the_batch_says_so_and_its_checksum_holds() -> None:
    log = open_log(MemoryFiles(), TopicConfig(message_timestamp_type="LogAppendTime"))
    assert put(log, batch_of(2, time_ms=5), now_ms=NOW_MS) == Appended(0, 1, NOW_MS)
    header = read_header(contents(log))
    assert header.max_timestamp == NOW_MS
    assert header.attributes & TIMESTAMP_TYPE_BIT
    assert list(sound_batches(contents(log), "batches read"))  # or it would raise


def test_a_retry_gets_its_first_offsets_and_nothing_is_written() -> None:
    files = MemoryFiles()
    log = open_log(files)
    put(log, batch_of(2))
    put(log, batch_of(3, producer_id=9, sequence=0))
    size = log.size_bytes()
    assert put(log, batch_of(3, producer_id=9, sequence=0)) == Appended(2, 4, is_new=False)
    assert (log.size_bytes(), log.end_offset) == (size, 5)


def test_a_retry_is_told_the_time_the_log_had_set() -> None:
    log = open_log(MemoryFiles(), TopicConfig(message_timestamp_type="LogAppendTime"))
    put(log, batch_of(1, producer_id=9, sequence=0), now_ms=NOW_MS)
    again = put(log, batch_of(1, producer_id=9, sequence=0), now_ms=NOW_MS + 50)
    assert again == Appended(0, 0, NOW_MS, is_new=False)


@pytest.mark.parametrize(
    "where", ["write:.log", "write:.index", "write:.timeindex", "write:.snapshot", "write:epoch-checkpoint"]
)
def test_a_failed_write_leaves_the_log_as_it_was(where: str) -> None:
    files = MemoryFiles()
    log = open_log(files, TopicConfig(segment_bytes=700))
    put(log, batch_of(1, producer_id=9, sequence=0, value=b"v" * 500))
    before = contents(log)
    files.failures[where] = DISK_FULL
    for _ in range(2):
        with pytest.raises(OSError, match="No space"):
            put(log, batch_of(1, producer_id=9, sequence=1, value=b"v" * 500), leader_epoch=1)
        assert (log.end_offset, contents(log)) == (1, before)
    files.failures.clear()
    # The very same batch is not a duplicate, and what follows is not a gap.
    assert put(log, batch_of(1, producer_id=9, sequence=1, value=b"v" * 500), leader_epoch=1) == Appended(1, 1)
    assert put(log, batch_of(1, producer_id=9, sequence=2), leader_epoch=1) == Appended(2, 2)
    log.close()
    again = open_log(files, was_clean=True)
    assert contents(again) == contents(log)
    assert again.epochs.entries == ((0, 0), (1, 1))


def test_a_full_disk_refuses_and_goes_on_when_there_is_room() -> None:
    files = MemoryFiles(room_bytes=500)
    log = open_log(files)
    put(log, batch_of(1, value=b"v" * 200))
    with pytest.raises(OSError, match="No space"):
        put(log, batch_of(1, value=b"v" * 400))
    files.room_bytes = 5000
    assert put(log, batch_of(1, value=b"v" * 400)) == Appended(1, 1)


# --- rolling


def test_a_full_segment_is_followed_by_one_named_after_its_first_offset() -> None:
    files = MemoryFiles()
    log, written = filled(files, 10, SMALL)
    per_segment = 1000 // len(written[0])
    assert bases(files) == [n * 2 * per_segment for n in range(len(bases(files)))]
    assert len(bases(files)) > 2
    assert contents(log) == b"".join(written)


def test_a_segment_that_is_old_enough_is_closed() -> None:
    files = MemoryFiles()
    log = open_log(files, TopicConfig(segment_ms=1000))
    put(log, batch_of(1, time_ms=NOW_MS))
    put(log, batch_of(1, time_ms=NOW_MS + 1000))
    assert bases(files) == [0]
    put(log, batch_of(1, time_ms=NOW_MS + 1001))
    assert bases(files) == [0, 2]


def test_settings_may_change_at_run_time() -> None:
    files = MemoryFiles()
    log = open_log(files)
    put(log, batch_of(1))
    log.config = TopicConfig(max_message_bytes=50)
    with pytest.raises(Refused) as refused:
        put(log, batch_of(1))
    assert refused.value.code == Code.MESSAGE_TOO_LARGE


# --- reading


def test_a_read_from_the_middle_of_a_batch_returns_that_whole_batch() -> None:
    log, written = filled(MemoryFiles(), 3, count=5)
    plan = log.read(7, 15, 1, at_least_one=True)
    assert plan is not None
    assert (plan.start_offset, plan.next_offset, plan.length) == (5, 10, len(written[1]))


def test_nothing_at_or_above_the_bound_is_read() -> None:
    log, written = filled(MemoryFiles(), 4, count=5)
    plan = log.read(0, 10, 10**6, at_least_one=True)
    assert plan is not None
    assert (plan.length, plan.next_offset) == (2 * len(written[0]), 10)
    assert log.read(10, 10, 10**6, at_least_one=True) is None


def test_a_batch_larger_than_the_limit_is_read_only_when_one_is_wanted_at_least() -> None:
    log, written = filled(MemoryFiles(), 2)
    assert log.read(0, 4, 10, at_least_one=False) is None
    plan = log.read(0, 4, 10, at_least_one=True)
    assert plan is not None
    assert plan.length == len(written[0])


def test_below_the_log_start_there_is_nothing_to_read() -> None:
    log, _ = filled(MemoryFiles(), 2)
    log.advance_start(2)
    with pytest.raises(Refused) as refused:
        log.read(1, 4, 1000, at_least_one=True)
    assert refused.value.code == Code.OFFSET_OUT_OF_RANGE


def test_at_the_tail_no_file_is_touched_to_plan_a_read() -> None:
    files = MemoryFiles()
    log, _ = filled(files, 100)
    files.reads = 0
    assert log.read(198, 200, 1000, at_least_one=True) is not None
    assert files.reads == 0


@settings(max_examples=50)
@given(
    st.lists(st.tuples(st.integers(1, 4), st.integers(0, 400)), min_size=1, max_size=30),
    st.integers(1, 3000),
    st.booleans(),
)
def test_whatever_was_appended_is_read_back_in_pages_of_any_size(
    batches: list[tuple[int, int]], max_bytes: int, is_reopened: bool
) -> None:
    files = MemoryFiles()
    log = open_log(files, SMALL)
    written = b""
    for count, size in batches:
        batch = batch_of(count, value=b"v" * size)
        put(log, batch)
        written += batch
    if is_reopened:
        log.close()
        log = open_log(files, SMALL, was_clean=True)
    assert contents(log, max_bytes) == written


def test_a_read_that_was_planned_is_checked_against_its_plan() -> None:
    files = MemoryFiles()
    log, written = filled(files, 3)
    log.close()
    again = open_log(files, was_clean=True)
    plan = again.read(0, 6, 10**6, at_least_one=True)
    assert plan is not None
    assert plan.needs_check
    whole = b"".join(written)
    again.check_slice(plan, whole)
    wrong_epoch = bytearray(whole)
    stamp(wrong_epoch, 0, 7)
    wrong_offset = bytearray(whole)
    stamp(memoryview(wrong_offset)[-len(written[2]) :], 9, 0)
    for bad in (whole[:-1], whole[:-1] + b"x", bytes(wrong_epoch), bytes(wrong_offset)):
        with pytest.raises(Corrupt):
            again.check_slice(plan, bad)


# --- making it safe


def test_what_is_unsynced_is_named_once_and_then_safe() -> None:
    log, _ = filled(MemoryFiles(), 3)
    files, end_offset = log.unsynced()
    assert ([file.path for file in files], end_offset) == (["topic-0/leader-epoch-checkpoint", SEGMENT + ".log"], 6)
    log.mark_synced(6)
    assert (log.synced_offset, log.unsynced()) == (6, ([], 6))


def test_synced_never_goes_back_and_never_beyond_the_end() -> None:
    log, _ = filled(MemoryFiles(), 3)
    log.mark_synced(4)
    log.mark_synced(2)
    assert log.synced_offset == 4
    log.mark_synced(100)
    assert log.synced_offset == 6


def test_a_segment_that_was_closed_is_synced_too_with_what_stands_beside_it() -> None:
    files = MemoryFiles()
    log, _ = filled(files, 5, SMALL)
    base = bases(files)[1]
    unsynced = {file.path.rpartition("/")[2] for file in log.unsynced()[0]}
    assert unsynced == {
        f"{0:020}.log",
        f"{0:020}.index",
        f"{0:020}.timeindex",
        f"{base:020}.snapshot",
        f"{base:020}.log",
        "leader-epoch-checkpoint",
    }


def test_closing_a_log_whose_batches_are_synced_waits_for_no_disk() -> None:
    """10,000 of them are closed one after the other when a node stops."""
    files = MemoryFiles()
    log, _ = filled(files, 3)
    sync(log)
    files.failures["sync"] = OSError("this would have been a sync")
    log.close()
    files.failures.clear()

    files.crash()
    again = open_log(files, was_clean=True, synced_offset=6)
    assert (again.end_offset, again.epochs.entries) == (6, log.epochs.entries)


def test_a_sync_that_began_before_a_segment_was_closed_does_not_count_for_its_index() -> None:
    files = MemoryFiles()
    log, _ = filled(files, 2, SMALL)
    _, end_offset = log.unsynced()
    put(log, batch_of(1, value=b"v" * 900))  # closes the segment while the sync is under way
    log.mark_synced(end_offset)
    assert SEGMENT + ".index" in [file.path for file in log.unsynced()[0]]
    sync(log)
    assert log.unsynced()[0] == []


# --- letting go


def test_delete_records_moves_the_start_and_removes_whole_segments() -> None:
    files = MemoryFiles()
    log, _ = filled(files, 10, SMALL)
    second, third = bases(files)[1:3]
    log.advance_start(third + 1)
    assert bases(files)[0] == 0
    assert log.remove_below(third + 1, NOW_MS) == 2
    assert (log.start_offset, bases(files)[0]) == (third + 1, third)
    assert files.paths(f"{second:020}.index") == []
    assert contents(log)
    again = open_log(files, SMALL, log_start_offset=third + 1)
    assert contents(again) == contents(log)


def test_the_start_does_not_move_beyond_the_end() -> None:
    log, _ = filled(MemoryFiles(), 1)
    with pytest.raises(Refused) as refused:
        log.advance_start(3)
    assert refused.value.code == Code.OFFSET_OUT_OF_RANGE


def test_expired_segments_go_and_are_named() -> None:
    files = MemoryFiles()
    log, _ = filled(files, 10, SMALL)
    log.config = TopicConfig(segment_bytes=1000, retention_bytes=0)
    third = bases(files)[2]
    gone = log.expire(NOW_MS, high_watermark=third)
    log.remove_below(third, NOW_MS)
    assert len(gone) == 2
    assert SEGMENT + ".log: more than retention.bytes=0" in gone
    assert (log.start_offset, bases(files)[0]) == (third, third)


@pytest.mark.parametrize("was_clean", [True, False])
def test_a_log_that_expired_whole_goes_on_at_the_same_offset_after_a_restart(was_clean: bool) -> None:
    files = MemoryFiles()
    log, _ = filled(files, 3)
    sync(log)
    assert len(log.expire(NOW_MS + 10**12, high_watermark=6)) == 1
    log.remove_below(6, NOW_MS)
    assert (log.start_offset, log.end_offset, log.size_bytes()) == (6, 6, 0)
    if was_clean:
        log.close()
    else:
        files.crash()
    again = open_log(files, was_clean=was_clean, synced_offset=6, log_start_offset=6)
    assert (again.start_offset, again.end_offset) == (6, 6)
    assert put(again, batch_of(1)) == Appended(6, 6)
    assert len(contents(again)) == len(batch_of(1))


def test_on_a_full_disk_retention_still_frees_the_closed_segments() -> None:
    files = MemoryFiles()
    log, _ = filled(files, 10, SMALL)
    last = bases(files)[-1]
    files.failures["write"] = DISK_FULL
    log.expire(NOW_MS + 10**12, high_watermark=20)
    with pytest.raises(OSError, match="No space"):
        log.remove_below(20, NOW_MS)
    assert bases(files) == [last]
    files.failures.clear()
    assert log.remove_below(20, NOW_MS) == 1
    assert log.size_bytes() == 0
    assert (log.start_offset, log.end_offset) == (20, 20)


def test_the_watermark_keeps_what_has_expired() -> None:
    log, _ = filled(MemoryFiles(), 3)
    assert log.expire(NOW_MS + 10**12, high_watermark=5) == []


# --- truncation


def test_truncation_takes_batches_epochs_and_producers_back() -> None:
    files = MemoryFiles()
    log = open_log(files, SMALL)
    for number in range(10):
        put(log, batch_of(2, value=b"v" * 100, producer_id=1, sequence=2 * number), leader_epoch=number // 5)
    before = contents(log)
    log.truncate_to(7)
    assert (log.end_offset, log.epochs.entries) == (6, ((0, 0),))
    assert before.startswith(contents(log))
    assert put(log, batch_of(1, producer_id=1, sequence=6), leader_epoch=3) == Appended(6, 6)
    log.close()
    again = open_log(files, SMALL, was_clean=True)
    assert contents(again) == contents(log)
    assert again.epochs.entries == ((0, 0), (3, 6))


def test_truncation_to_the_start_of_a_segment_keeps_it_as_the_active_one() -> None:
    files = MemoryFiles()
    log, written = filled(files, 10, SMALL)
    second = bases(files)[1]
    log.truncate_to(second)
    assert log.end_offset == second
    put(log, batch_of(1))
    assert contents(log).startswith(b"".join(written[: second // 2]))


def test_truncation_at_or_above_the_end_does_nothing() -> None:
    log, written = filled(MemoryFiles(), 2)
    log.truncate_to(4)
    assert contents(log) == b"".join(written)


def test_what_was_truncated_is_no_longer_synced() -> None:
    log, _ = filled(MemoryFiles(), 3)
    sync(log)
    log.truncate_to(2)
    put(log, batch_of(1))
    assert log.synced_offset == 2
    assert log.unsynced()[1] == 3


# --- following


def followed(leader: Log, follower: Log) -> None:
    plan = leader.read(follower.end_offset, leader.end_offset, 10**6, at_least_one=True)
    assert plan is not None
    follower.append_as_follower(plan.file.read(plan.position, plan.length), NOW_MS)


def test_a_follower_has_the_leaders_bytes_epochs_and_producers() -> None:
    leader, follower = open_log(MemoryFiles()), open_log(MemoryFiles())
    for number in range(6):
        put(leader, batch_of(2, producer_id=5, sequence=2 * number), leader_epoch=number // 2)
    followed(leader, follower)
    assert contents(follower) == contents(leader)
    assert follower.epochs.entries == leader.epochs.entries
    assert put(follower, batch_of(2, producer_id=5, sequence=10), leader_epoch=3) == Appended(10, 11, is_new=False)


def test_a_follower_takes_only_what_comes_next() -> None:
    leader, _ = filled(MemoryFiles(), 3)
    follower = open_log(MemoryFiles())
    content = contents(leader)
    with pytest.raises(ValueError, match="ends at 0"):
        follower.append_as_follower(content[len(content) // 3 :], NOW_MS)
    with pytest.raises(Corrupt):
        follower.append_as_follower(content[:-1] + b"x", NOW_MS)
    assert follower.end_offset == 0


# --- the directory


def test_the_files_are_named_as_kafka_names_them() -> None:
    files = MemoryFiles()
    log, _ = filled(files, 2, value=b"v" * 40_000)
    log.close()
    assert [path.removeprefix(DIRECTORY + "/") for path in files.paths()] == [
        "00000000000000000000.index",
        "00000000000000000000.log",
        "00000000000000000000.timeindex",
        "00000000000000000004.snapshot",
        "leader-epoch-checkpoint",
    ]


def test_a_small_log_needs_few_files() -> None:
    files = MemoryFiles()
    log, _ = filled(files, 2)
    log.close()
    assert [path.removeprefix(DIRECTORY + "/") for path in files.paths()] == [
        "00000000000000000000.log",
        "00000000000000000004.snapshot",
        "leader-epoch-checkpoint",
    ]


def test_an_abandoned_log_stores_nothing() -> None:
    files = MemoryFiles()
    log, _ = filled(files, 2)
    before = files.paths()
    log.abandon()
    assert files.paths() == before


def test_other_files_in_the_directory_do_no_harm() -> None:
    files = MemoryFiles()
    files.replace(f"{DIRECTORY}/partition.metadata", b"version: 0\n")
    log = open_log(files, was_clean=True)
    assert accept(batch_of(1)).record_count == 1
    assert put(log, batch_of(1)) == Appended(0, 0)
