"""Producers and epochs as the batches tell them: snapshots, replay, recall, the epoch checkpoint."""

from __future__ import annotations

import pytest

from chronik.core.config.topic import TopicConfig
from chronik.core.errors import Corrupt
from chronik.core.log.history import Snapshots, batches_from, recall, replay, take_in
from chronik.core.log.log import Log
from chronik.core.log.producers import Producers, WrittenBatch
from chronik.core.records.batch import TRANSACTIONAL_BIT, read_header, stamp
from chronik.core.records.control import Marker, build_marker
from tests.unit.core.fakes import MemoryFiles
from tests.unit.core.log.logs import DIRECTORY, NOW_MS, SEGMENT, batch_of, open_log, put

SMALL = TopicConfig(segment_bytes=600, index_interval_bytes=200)
CHECKPOINT = f"{DIRECTORY}/leader-epoch-checkpoint"


def log_of(files: MemoryFiles, batches: int) -> Log:
    log = open_log(files, SMALL)
    for number in range(batches):
        put(log, batch_of(2, value=b"v" * 50, producer_id=1, sequence=2 * number), leader_epoch=number // 3)
    return log


def producers_of(*ids: int) -> Producers:
    producers = Producers()
    for producer_id in ids:
        producers.advance(read_header(batch_of(1, producer_id=producer_id, sequence=0)), 0, NOW_MS)
    return producers


# --- batches


def test_batches_are_met_from_any_offset_over_all_segments() -> None:
    log = log_of(MemoryFiles(), 9)
    for offset in range(19):
        met = [found.header.base_offset for _, found in batches_from(log._segments, offset)]
        assert met == [base for base in range(0, 18, 2) if base + 1 >= offset]


# --- snapshots


def test_the_two_latest_snapshots_are_kept() -> None:
    files = MemoryFiles()
    snapshots = Snapshots(files, DIRECTORY)
    for offset in (10, 20, 30):
        snapshots.write(offset, producers_of(1))
    assert snapshots.offsets == (20, 30)
    assert files.paths() == [snapshots.path(20), snapshots.path(30)]


def test_a_damaged_snapshot_is_removed_and_the_one_before_it_is_taken() -> None:
    files = MemoryFiles()
    snapshots = Snapshots(files, DIRECTORY)
    snapshots.write(10, producers_of(1))
    snapshots.write(20, producers_of(1, 2))
    files.flip(snapshots.path(20), 100)
    producers, offset, damaged = snapshots.load(0, end_offset=50)
    assert (len(producers), offset, damaged) == (1, 10, [snapshots.path(20)])
    assert files.paths() == [snapshots.path(10)]


def test_a_snapshot_the_log_does_not_reach_is_not_taken() -> None:
    files = MemoryFiles()
    snapshots = Snapshots(files, DIRECTORY)
    snapshots.write(10, producers_of(1))
    snapshots.write(20, producers_of(1, 2))
    producers, offset, damaged = snapshots.load(0, end_offset=15)
    assert (len(producers), offset, damaged) == (1, 10, [])


def test_without_a_snapshot_one_begins_with_nothing() -> None:
    producers, offset, damaged = Snapshots(MemoryFiles(), DIRECTORY).load(0, end_offset=15)
    assert (len(producers), offset, damaged) == (0, 0, [])


# --- replay and recall


def test_replay_gives_the_state_that_appending_gave() -> None:
    log = log_of(MemoryFiles(), 9)
    replayed = Producers()
    replay(log._segments, replayed, 0)
    assert replayed.states()[0].batches == log.producers.states()[0].batches


def test_recall_brings_back_the_batches_a_snapshot_left_out() -> None:
    files = MemoryFiles()
    log = log_of(files, 9)
    expected = log.producers.states()[0].batches.copy()
    log.producers.states()[0].is_recalled = False  # as after a snapshot of Kafka's
    log.close()
    producer = open_log(files, SMALL, was_clean=True).producers.states()[0]
    assert (len(producer.batches), producer.is_recalled) == (1, False)
    recall(log._segments, producer)
    assert producer.batches == expected
    assert len(expected) == 5


def test_recall_takes_only_batches_of_the_same_producer_and_epoch() -> None:
    log = open_log(MemoryFiles())
    put(log, batch_of(1, producer_id=1, producer_epoch=0, sequence=0))
    put(log, batch_of(1, producer_id=2, producer_epoch=1, sequence=0))
    put(log, batch_of(1, producer_id=1, producer_epoch=1, sequence=0))
    put(log, batch_of(1))
    put(log, batch_of(1, producer_id=1, producer_epoch=1, sequence=1))
    producer = log.producers.states()[0]
    del producer.batches[0]
    recall(log._segments, producer)
    assert list(producer.batches) == [WrittenBatch(0, 0, 2, 2, NOW_MS), WrittenBatch(1, 1, 4, 4, NOW_MS)]


def test_a_marker_ends_the_transaction_it_is_replayed_after() -> None:
    producers = Producers()
    data = batch_of(1, producer_id=4, producer_epoch=2, sequence=0, attributes=TRANSACTIONAL_BIT)
    take_in(producers, read_header(data), data)
    assert producers.states()[0].transaction_start_offset == 0
    marker = build_marker(Marker(True, 9), 4, 2, NOW_MS)
    take_in(producers, read_header(marker), marker)
    state = producers.states()[0]
    assert (state.transaction_start_offset, state.coordinator_epoch, state.last_sequence) == (-1, 9, 0)


# --- epochs


def test_the_checkpoint_is_written_before_the_first_batch_of_an_epoch() -> None:
    files = MemoryFiles()
    log_of(files, 7)
    assert files.read_all(CHECKPOINT) == b"0\n3\n0 0\n1 6\n2 12\n"


def test_an_epoch_that_a_leader_announced_is_written_with_its_first_batch() -> None:
    files = MemoryFiles()
    log = log_of(files, 1)
    log.epochs.assign(5, log.end_offset)
    assert log.epochs.end_offset_for(0, log.end_offset) == (0, 2)
    assert b"5 2" not in files.read_all(CHECKPOINT)
    put(log, batch_of(1), leader_epoch=5)
    assert b"5 2" in files.read_all(CHECKPOINT)


def test_a_checkpoint_that_does_not_know_the_latest_epoch_is_mended_after_a_crash() -> None:
    files = MemoryFiles()
    log = log_of(files, 7)
    files.replace(CHECKPOINT, b"0\n1\n0 0\n")
    again = open_log(files, SMALL)
    assert again.epochs.entries == log.epochs.entries
    assert again.recovery.rebuilt_indexes == (CHECKPOINT,)
    assert files.read_all(CHECKPOINT) == b"0\n3\n0 0\n1 6\n2 12\n"


def test_an_epoch_whose_batches_were_cut_is_forgotten() -> None:
    files = MemoryFiles()
    log_of(files, 7)
    last = files.open(files.paths(".log")[-1])
    last.truncate(last.size() - 1)
    assert open_log(files, SMALL).epochs.entries == ((0, 0), (1, 6))


@pytest.mark.parametrize("was_clean", [True, False])
def test_a_checkpoint_and_batches_that_contradict_each_other_are_damage(was_clean: bool) -> None:
    files = MemoryFiles()
    log = log_of(files, 7)
    log.close()
    files.replace(CHECKPOINT, b"0\n3\n0 0\n4 6\n7 10\n")
    with pytest.raises(Corrupt, match="epochs"):
        open_log(files, SMALL, was_clean=was_clean)


def test_epochs_that_go_back_are_damage() -> None:
    files = MemoryFiles()
    log_of(files, 7)
    files.remove(CHECKPOINT)
    stamp(memoryview(files.contents[SEGMENT + ".log"].written), 0, 9)
    with pytest.raises(Corrupt, match="leader epoch 0 after 9"):
        open_log(files, SMALL)


def test_when_the_log_start_has_moved_the_epochs_begin_there() -> None:
    files = MemoryFiles()
    log = log_of(files, 9)
    log.advance_start(8)
    log.close()
    again = open_log(files, SMALL, was_clean=True, log_start_offset=8)
    assert again.epochs.entries == log.epochs.entries == ((1, 8), (2, 12))
    assert again.recovery.rebuilt_indexes == ()


@pytest.mark.parametrize("was_clean", [True, False])
def test_a_log_all_of_which_was_deleted_is_not_damaged(was_clean: bool) -> None:
    """Its last segment is still there, with epochs that the checkpoint need not know any more."""
    files = MemoryFiles()
    log = log_of(files, 9)
    end_offset = log.end_offset
    log.advance_start(end_offset)
    if was_clean:
        log.close()

    again = open_log(files, SMALL, was_clean=was_clean, log_start_offset=end_offset)

    assert again.epochs.entries in ((), ((2, end_offset),))
    assert (again.start_offset, again.end_offset) == (end_offset, end_offset)
