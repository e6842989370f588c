"""Transactions in a log: which are undecided, which were aborted, and that no crash, cut or compaction forgets it."""

from __future__ import annotations

import errno

import pytest

from chronik.core.config.topic import TopicConfig
from chronik.core.errors import Code, Refused
from chronik.core.log.aborted import AbortedTransaction, encode
from chronik.core.log.log import Log
from chronik.core.records.batch import TRANSACTIONAL_BIT, BatchHeader, read_header
from chronik.core.records.control import Marker
from chronik.core.records.payload import walk
from tests.unit.core.fakes import MemoryFiles
from tests.unit.core.log.logs import (
    DIRECTORY,
    NOW_MS,
    SEGMENT,
    batch_of,
    contents,
    end_transaction,
    open_log,
    put,
    put_in_transaction,
    sync,
)
from tests.unit.core.log.test_compaction import COMPACT, KEPT_MS, Recorded, compact, put_pairs

SMALL = TopicConfig(segment_bytes=250)  # two batches or three


def aborted(log: Log, start_offset: int = 0) -> list[AbortedTransaction]:
    return log.aborted_between(start_offset, log.end_offset)


def refusal(log: Log, batch: bytearray, guard: object = None) -> Code:
    before = log.end_offset
    with pytest.raises(Refused) as caught:
        put(log, batch, guard=guard)  # type: ignore[arg-type]
    assert log.end_offset == before
    return caught.value.code


def in_transaction(sequence: int = 0, epoch: int = 0) -> bytearray:
    return batch_of(producer_id=1, producer_epoch=epoch, sequence=sequence, attributes=TRANSACTIONAL_BIT)


# --- what is undecided


def test_the_first_undecided_offset_is_where_the_earliest_transaction_began() -> None:
    log = open_log(MemoryFiles())
    put(log, batch_of())
    assert log.first_undecided(10) is None

    put_in_transaction(log, 1)
    put_in_transaction(log, 2)
    assert log.first_undecided(10) == 1

    end_transaction(log, 1)
    assert log.first_undecided(10) == 2
    end_transaction(log, 2, is_commit=False)
    assert log.first_undecided(10) is None


def test_a_marker_above_the_high_watermark_decides_nothing_yet() -> None:
    log = open_log(MemoryFiles())
    put_in_transaction(log, 1)
    marker = end_transaction(log, 1)

    assert log.first_undecided(high_watermark=marker.last_offset) == 0
    assert log.first_undecided(high_watermark=marker.last_offset + 1) is None


def test_the_earliest_is_undecided_though_a_later_one_ended_first() -> None:
    log = open_log(MemoryFiles())
    put_in_transaction(log, 1)
    put_in_transaction(log, 2)
    first_to_end = end_transaction(log, 2)
    end_transaction(log, 1)

    assert log.first_undecided(high_watermark=first_to_end.last_offset) == 0


def test_the_next_transaction_of_a_producer_begins_where_its_own_first_batch_is() -> None:
    log = open_log(MemoryFiles())
    put_in_transaction(log, 1)
    end_transaction(log, 1)
    put_in_transaction(log, 1, sequence=1)
    put_in_transaction(log, 1, sequence=2)

    assert log.first_undecided(log.end_offset) == 2


def test_deleted_records_of_an_open_transaction_hold_back_nothing() -> None:
    """Deleted records of an open transaction hold back nothing below the log start."""
    log = open_log(MemoryFiles())
    put_in_transaction(log, 1)
    put(log, batch_of())
    log.advance_start(2)

    assert log.first_undecided(2) == 2
    end_transaction(log, 1)
    assert log.first_undecided(3) is None


# --- what was aborted


def test_aborted_transactions_are_found_by_what_lies_between_first_offset_and_marker() -> None:
    log = open_log(MemoryFiles())
    put_in_transaction(log, 1)  # 0
    put_in_transaction(log, 2)  # 1
    end_transaction(log, 1, is_commit=False)  # 2
    end_transaction(log, 2)  # 3
    put_in_transaction(log, 1, sequence=1)  # 4
    end_transaction(log, 1, is_commit=False)  # 5

    first, second = AbortedTransaction(1, 0, 2, 1), AbortedTransaction(1, 4, 5, 6)
    assert aborted(log) == [first, second]
    assert log.aborted_between(0, 1) == [first]
    assert log.aborted_between(3, 4) == []
    assert log.aborted_between(2, 4) == [first]
    assert log.aborted_between(5, 6) == [second]


def test_the_marker_of_a_transaction_may_be_in_a_later_segment() -> None:
    log = open_log(MemoryFiles(), SMALL)
    put_in_transaction(log, 1)
    for _ in range(8):
        put(log, batch_of())
    end_transaction(log, 1, is_commit=False)

    assert log.aborted_between(0, 1) == [AbortedTransaction(1, 0, 9, 10)]


def two_aborted(files: MemoryFiles, config: TopicConfig = SMALL) -> tuple[Log, list[AbortedTransaction]]:
    """In two segments, the first begun before either."""
    log = open_log(files, config)
    put_in_transaction(log, 1)
    for _ in range(5):
        put(log, batch_of())
    end_transaction(log, 1, is_commit=False)
    put_in_transaction(log, 2)
    for _ in range(5):
        put(log, batch_of())
    end_transaction(log, 2, is_commit=False)
    put_in_transaction(log, 3)
    expected = [AbortedTransaction(1, 0, 6, 7), AbortedTransaction(2, 7, 13, 14)]
    assert aborted(log) == expected
    return log, expected


def test_an_orderly_stop_keeps_the_aborted_and_the_open() -> None:
    files = MemoryFiles()
    log, expected = two_aborted(files)
    log.close()

    again = open_log(files, SMALL, was_clean=True, synced_offset=log.end_offset)

    assert aborted(again) == expected
    assert again.first_undecided(again.end_offset) == 14
    end_transaction(again, 3, is_commit=False)
    assert len(aborted(again)) == 3


@pytest.mark.parametrize("config", [SMALL, TopicConfig()])
@pytest.mark.parametrize("loses_files", [False, True])
def test_recovery_makes_the_index_anew(config: TopicConfig, loses_files: bool) -> None:
    files = MemoryFiles()
    log, expected = two_aborted(files, config)
    sync(log)
    if loses_files:
        for name in files.names(DIRECTORY):
            if name.endswith((".txnindex", ".snapshot")):
                files.remove(f"{DIRECTORY}/{name}")

    again = open_log(files, config)

    assert aborted(again) == expected
    assert again.first_undecided(again.end_offset) == 14


def test_recovery_does_not_believe_an_index_that_is_ahead_of_its_log() -> None:
    files = MemoryFiles()
    log = open_log(files)
    put_in_transaction(log, 1)
    put(log, batch_of())
    sync(log)
    files.replace(f"{SEGMENT}.txnindex", encode([AbortedTransaction(1, 0, 1, 2)]))

    again = open_log(files)

    assert aborted(again) == []
    again.close()
    assert f"{SEGMENT}.txnindex".split("/")[1] not in files.names(DIRECTORY)


def test_an_index_that_a_bit_has_turned_in_is_made_anew() -> None:
    files = MemoryFiles()
    log, expected = two_aborted(files)
    log.close()
    paths = [f"{DIRECTORY}/{name}" for name in files.names(DIRECTORY) if name.endswith(".txnindex")]
    assert len(paths) == 2
    for path in paths:
        content = files.read_all(path)
        for at in (3, 9, 17, 25):  # version and producer, first offset, last offset
            turned = bytearray(content)
            turned[at] ^= 1
            if at == 17:
                continue  # the first offset: nothing in the log says otherwise where the batch is gone
            files.replace(path, bytes(turned))
            again = open_log(files, SMALL, was_clean=True, synced_offset=log.end_offset)
            assert aborted(again) == expected
            assert path in again.rebuilt
        files.replace(path, content)


def test_what_is_cut_off_is_not_aborted_and_what_is_open_again_is_undecided() -> None:
    log, expected = two_aborted(MemoryFiles())

    log.truncate_to(13)

    assert aborted(log) == expected[:1]
    assert log.first_undecided(log.end_offset) == 7
    log.truncate_to(6)
    assert aborted(log) == []
    assert log.first_undecided(log.end_offset) == 0


def test_a_cut_after_a_restart_takes_from_the_index_on_disk() -> None:
    files = MemoryFiles()
    log, expected = two_aborted(files)
    log.close()
    again = open_log(files, SMALL, was_clean=True, synced_offset=log.end_offset)

    again.truncate_to(13)

    assert aborted(again) == expected[:1]
    again.close()
    third = open_log(files, SMALL, was_clean=True, synced_offset=again.end_offset)
    assert aborted(third) == expected[:1]


class UnreadableIndex(MemoryFiles):
    """Its `.txnindex` cannot be read while that is so."""

    is_unreadable = False

    def read_all(self, path: str) -> bytes:
        if self.is_unreadable and path.endswith(".txnindex"):
            raise OSError(errno.EMFILE, "too many open files")
        return super().read_all(path)


@pytest.mark.parametrize("is_follower", [False, True])
def test_an_abort_is_not_lost_when_the_index_cannot_be_read(is_follower: bool) -> None:
    """The marker is not in the log then either: it comes again, to the leader and so to the follower."""
    leader = open_log(MemoryFiles())
    for producer_id in (1, 2):
        put_in_transaction(leader, producer_id)
    end_transaction(leader, 1, is_commit=False)
    before = contents(leader)
    end_transaction(leader, 2, is_commit=False)
    marker = contents(leader)[len(before) :]
    files = UnreadableIndex()
    log = open_log(files)
    log.append_as_follower(before, NOW_MS)
    log.close()
    log = open_log(files, was_clean=True, synced_offset=log.end_offset)

    def end() -> None:
        if is_follower:
            log.append_as_follower(marker, NOW_MS)
        else:
            end_transaction(log, 2, is_commit=False)

    files.is_unreadable = True
    with pytest.raises(OSError, match="too many open files"):
        end()
    assert log.end_offset == 3
    files.is_unreadable = False
    end()

    assert log.end_offset == 4
    assert [entry.producer_id for entry in aborted(log)] == [1, 2]


def test_a_follower_comes_to_the_same() -> None:
    leader, expected = two_aborted(MemoryFiles())
    follower = open_log(MemoryFiles(), SMALL)

    follower.append_as_follower(contents(leader), NOW_MS)

    assert aborted(follower) == expected
    assert follower.first_undecided(follower.end_offset) == leader.first_undecided(leader.end_offset) == 14
    states = [(s.producer_id, s.epoch, s.transaction_start_offset) for s in follower.producers.states()]
    assert states == [(s.producer_id, s.epoch, s.transaction_start_offset) for s in leader.producers.states()]


def test_retention_keeps_what_later_segments_need() -> None:
    log, expected = two_aborted(MemoryFiles())
    log.advance_start(7)
    log.remove_below(7, NOW_MS)
    assert aborted(log, 7) == expected[1:]


# --- who may write


def test_a_transaction_begins_only_with_the_guard_of_its_verification() -> None:
    log = open_log(MemoryFiles())
    batch = in_transaction()
    assert refusal(log, batch) == Code.INVALID_TXN_STATE
    guard = log.producers.begin_verification(read_header(batch))

    put(log, batch, guard=guard)

    assert log.producers.begin_verification(read_header(in_transaction(1))) is None  # begun: nothing to ask
    put(log, in_transaction(1))


def test_a_marker_between_verification_and_append_takes_the_guard_away() -> None:
    log = open_log(MemoryFiles())
    batch = in_transaction()
    guard = log.producers.begin_verification(read_header(batch))
    end_transaction(log, 1, is_commit=False)

    assert refusal(log, batch, guard) == Code.INVALID_TXN_STATE
    assert log.first_undecided(log.end_offset) is None


@pytest.mark.parametrize(("marker_epoch", "is_taken"), [(1, True), (2, False)])
def test_a_marker_of_version_2_leaves_the_guard_of_the_next_transaction(marker_epoch: int, is_taken: bool) -> None:
    """KIP-890: it has the epoch of the next transaction, which does not wait for it to begin. One with a later epoch
    ends that transaction."""
    log = open_log(MemoryFiles())
    put_in_transaction(log, 1)
    batch = in_transaction(epoch=1)
    guard = log.producers.begin_verification(read_header(batch), is_epoch_new=True)
    log.append_marker(Marker(is_commit=True, coordinator_epoch=0), 1, marker_epoch, 0, NOW_MS, 2)

    if is_taken:
        put(log, batch, guard=guard)
        assert log.first_undecided(log.end_offset) == 2
    else:
        assert refusal(log, batch, guard) == Code.INVALID_PRODUCER_EPOCH


def test_of_several_batches_under_way_the_lowest_sequence_is_the_first() -> None:
    log = open_log(MemoryFiles())
    second, first = in_transaction(1), in_transaction(0)
    guard = log.producers.begin_verification(read_header(second))
    assert log.producers.begin_verification(read_header(first)) is guard

    assert refusal(log, second, guard) == Code.OUT_OF_ORDER_SEQUENCE_NUMBER
    put(log, first, guard=guard)
    put(log, second, guard=guard)


def test_a_fenced_epoch_appends_nothing() -> None:
    log = open_log(MemoryFiles())
    put_in_transaction(log, 1, epoch=4)
    end_transaction(log, 1, is_commit=False, epoch=5)
    late = in_transaction(1, epoch=4)
    guard = log.producers.begin_verification(read_header(late))

    assert refusal(log, late, guard) == Code.INVALID_PRODUCER_EPOCH
    with pytest.raises(Refused) as caught:
        log.append_of_coordinator(late, read_header(late), 0, NOW_MS, guard)
    assert caught.value.code == Code.INVALID_PRODUCER_EPOCH
    assert log.end_offset == 2


def test_a_marker_of_an_earlier_producer_or_coordinator_is_refused() -> None:
    log = open_log(MemoryFiles())
    put_in_transaction(log, 1, epoch=4)
    end_transaction(log, 1, epoch=4, coordinator_epoch=7)
    for epoch, coordinator_epoch, code in (
        (3, 7, Code.INVALID_PRODUCER_EPOCH),
        (4, 6, Code.TRANSACTION_COORDINATOR_FENCED),
    ):
        with pytest.raises(Refused) as caught:
            log.append_marker(Marker(True, coordinator_epoch), 1, epoch, 0, NOW_MS)
        assert caught.value.code == code
    assert log.end_offset == 2


def test_a_marker_that_comes_again_does_not_end_the_next_transaction() -> None:
    log = open_log(MemoryFiles())
    put_in_transaction(log, 1, epoch=4)
    end_transaction(log, 1, epoch=5, transaction_version=2)
    again = end_transaction(log, 1, epoch=5, transaction_version=2)
    assert not again.is_new
    assert log.end_offset == 2

    put_in_transaction(log, 1, epoch=5)
    with pytest.raises(Refused) as caught:
        end_transaction(log, 1, epoch=5, transaction_version=2)
    assert caught.value.code == Code.INVALID_PRODUCER_EPOCH
    assert log.first_undecided(log.end_offset) == 2


def test_a_coordinators_batch_opens_its_producers_transaction_and_has_no_sequence() -> None:
    files = MemoryFiles()
    log = open_log(files)
    for _ in range(2):
        batch = batch_of(producer_id=1, producer_epoch=0, sequence=-1, attributes=TRANSACTIONAL_BIT)
        header = read_header(batch)
        log.append_of_coordinator(batch, header, 0, NOW_MS, log.producers.begin_verification(header))
    assert log.first_undecided(log.end_offset) == 0
    log.close()

    again = open_log(files, was_clean=True, synced_offset=2)

    (state,) = again.producers.states()
    assert (state.last_sequence, state.transaction_start_offset) == (-1, 0)


# --- compaction


def test_compaction_drops_what_was_aborted_and_keeps_the_marker_until_its_horizon() -> None:
    files = MemoryFiles()
    log = open_log(files, COMPACT)
    put_pairs(log, [(b"key", b"first")])  # 0
    put_in_transaction(log, 1, value=b"aborted" * 20)  # 1, the same key
    end_transaction(log, 1, is_commit=False)  # 2
    put_in_transaction(log, 1, sequence=1, value=b"committed" * 20)  # 3
    end_transaction(log, 1)  # 4
    for _ in range(8):
        put_pairs(log, [(b"other", b"v" * 90)])

    compact(log)
    values = [record.value for record in walk(contents(log)) if record.key == b"key"]
    assert values == [b"committed" * 20]
    assert {1, 2} & {entry.last_offset for entry in aborted(log)} == {
        2
    }  # the marker stays, and is known for what it is

    compact_again(log, NOW_MS)
    assert 2 in offsets(log)
    assert aborted(log) == []  # nothing is left that a consumer would have to leave out
    compact_again(log, NOW_MS + KEPT_MS + 1)
    assert 2 not in offsets(log)
    again = open_log(files, COMPACT)
    assert again.first_undecided(again.end_offset) is None
    assert again.producers.states()[0].last_sequence == 1


def test_what_was_aborted_goes_even_when_nothing_replaces_it_and_replaces_nothing() -> None:
    log = open_log(MemoryFiles(), COMPACT)
    put_pairs(log, [(b"key", b"first" * 20)])
    put_in_transaction(log, 1, value=b"aborted" * 20)
    end_transaction(log, 1, is_commit=False)
    for _ in range(8):
        put_pairs(log, [(b"other", b"v" * 90)])

    compact(log)

    assert [record.value for record in walk(contents(log)) if record.key == b"key"] == [b"first" * 20]


def compact_again(log: Log, now_ms: int) -> None:
    for _ in range(8):
        put_pairs(log, [(b"other", b"v" * 90)])
    compact(log, now_ms)


def offsets(log: Log) -> list[int]:
    return [record.offset for record in walk(contents(log))]


def test_compaction_stops_below_an_open_transaction() -> None:
    log = open_log(MemoryFiles(), COMPACT)
    put_in_transaction(log, 1, value=b"open" * 30)
    for _ in range(12):
        put_pairs(log, [(b"key", b"v" * 90)])
    stable_offset = log.first_undecided(log.end_offset)
    assert stable_offset == 0

    compact(log, high_watermark=stable_offset)

    assert offsets(log) == list(range(13))


def test_the_last_marker_of_a_producer_keeps_its_epoch_for_those_without_a_snapshot() -> None:
    files = MemoryFiles()
    log = open_log(files, COMPACT)
    put_in_transaction(log, 1, epoch=4, value=b"v" * 90)
    end_transaction(log, 1, is_commit=False, epoch=5)
    for turn in range(4):
        compact_again(log, NOW_MS + turn * (KEPT_MS + 1))
    assert 0 not in offsets(log)
    for name in files.names(DIRECTORY):
        if name.endswith(".snapshot"):
            files.remove(f"{DIRECTORY}/{name}")

    again = open_log(files, COMPACT)

    (state,) = again.producers.states()
    assert state.epoch == 5


def test_a_crash_amid_compaction_loses_no_aborted_transaction() -> None:
    files = Recorded()
    log = open_log(files, COMPACT)
    for number in range(4):
        put_in_transaction(log, number, value=b"aborted" * 20)
        put_pairs(log, [(b"other", b"v" * 90)])
        end_transaction(log, number, is_commit=False)
    for _ in range(4):
        put_pairs(log, [(b"other", b"v" * 90)])
    sync(log)
    before = {entry.producer_id: entry.last_offset for entry in aborted(log)}
    files.moments.clear()

    compact(log)

    assert any(moment.paths(".txnindex.swap") for moment in files.moments)
    seen_data = 0
    for moment in files.moments:
        again = open_log(moment, COMPACT, synced_offset=log.end_offset)
        headers = headers_of(again)
        known = {entry.producer_id: entry.last_offset for entry in aborted(again)}
        with_data = {h.producer_id for h in headers if h.is_transactional and not h.is_control and h.record_count}
        markers = {h.producer_id: h.base_offset for h in headers if h.is_control and h.record_count}
        seen_data += len(with_data)
        assert {producer_id: before[producer_id] for producer_id in with_data}.items() <= known.items()
        assert known.items() <= markers.items()
    assert seen_data


def headers_of(log: Log) -> list[BatchHeader]:
    content = contents(log)
    found: list[BatchHeader] = []
    at = 0
    while at < len(content):
        found.append(read_header(content, at))
        at += found[-1].size_bytes
    return found
