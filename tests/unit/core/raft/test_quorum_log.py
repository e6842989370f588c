"""The log of the quorum on disk, as the machine sees it: points, voters, snapshots, and what a crash leaves."""

from __future__ import annotations

from typing import Any, cast

import pytest

from chronik.core.config.topic import TopicConfig
from chronik.core.errors import Corrupt
from chronik.core.log.log import Log
from chronik.core.raft import control_records, snapshot_file
from chronik.core.raft.control_records import NO_DIRECTORY, Endpoint, Voter, VotersRecord
from chronik.core.raft.messages import LogPoint
from chronik.core.raft.quorum import Voters
from chronik.core.raft.quorum_log import QuorumLog, snapshot_name
from chronik.core.records import payload
from chronik.core.records.payload import KeyValue
from tests.unit.core.fakes import MemoryFiles

DIRECTORY = "__cluster_metadata-0"
CONFIGURED = Voters((1, 2, 3))


class Disk:
    """A log on files in memory, opened as often as the test wants."""

    def __init__(self) -> None:
        self.files = MemoryFiles()

    def open(self) -> QuorumLog:
        files = cast(Any, self.files)
        log = Log.open(files, DIRECTORY, TopicConfig(), 0, was_clean=False)
        files_to_sync, end_offset = log.unsynced()
        for file in files_to_sync:
            file.sync()
        log.mark_synced(end_offset)
        return QuorumLog(log, files, CONFIGURED)


def append(quorum_log: QuorumLog, epoch: int, count: int = 1) -> None:
    pairs = [KeyValue(None, b"x") for _ in range(count)]
    batch = payload.build(pairs, 0, base_offset=quorum_log.end_offset, leader_epoch=epoch)
    quorum_log.log.append_as_follower(batch, 0)
    quorum_log.appended(batch)


def append_voters(quorum_log: QuorumLog, epoch: int, *ids: int) -> None:
    batch = control_records.build([voters(*ids)], 0, base_offset=quorum_log.end_offset, leader_epoch=epoch)
    quorum_log.log.append_as_follower(batch, 0)
    quorum_log.appended(batch)


def voters(*ids: int) -> VotersRecord:
    return VotersRecord(
        0, tuple(Voter(i, NO_DIRECTORY, (Endpoint("CONTROLLER", f"host{i}", 9000 + i),), (0, 1)) for i in ids)
    )


def write_snapshot(disk: Disk, point: LogPoint, record: VotersRecord | None = None, suffix: str = "") -> None:
    content = b"".join(snapshot_file.encode(point, [b"x"] * 3, record, 0))
    disk.files.replace(f"{DIRECTORY}/{snapshot_name(point)}{suffix}", content)


def test_an_empty_log_is_at_epoch_0_and_offset_0() -> None:
    log = Disk().open()

    assert (log.start_offset, log.end_offset, log.synced_offset, log.latest_epoch) == (0, 0, 0, 0)
    assert log.end_offset_for(5) == LogPoint(0, 0)
    assert log.snapshot is None
    assert log.voters.voters == CONFIGURED


def test_where_an_epoch_ends() -> None:
    """KIP-101, KIP-279: the largest epoch that is not above the one asked for."""
    log = Disk().open()
    append(log, 1, 3)
    append(log, 4, 2)

    assert [log.end_offset_for(epoch) for epoch in (0, 1, 3, 4, 9)] == [
        LogPoint(0, 0),
        LogPoint(1, 3),
        LogPoint(1, 3),
        LogPoint(4, 5),
        LogPoint(4, 5),
    ]
    assert log.latest_epoch == 4


@pytest.mark.parametrize("where", ["write:.log", "write:epoch-checkpoint"])
def test_an_epoch_whose_first_record_could_not_be_written_is_not_in_the_log(where: str) -> None:
    """With it a voter would win over those that have more, and its leader would have it cut what it does not have."""
    disk = Disk()
    log = disk.open()
    append(log, 2, count=3)
    disk.files.failures[where] = OSError(12, "Cannot allocate memory")

    with pytest.raises(OSError, match="memory"):
        append(log, 5)

    assert log.latest_epoch == 2
    assert log.end_offset_for(5) == LogPoint(2, 3)
    disk.files.failures.clear()
    append(log, 6)
    assert (log.latest_epoch, log.end_offset_for(5)) == (6, LogPoint(2, 3))
    assert disk.open().latest_epoch == 6


def test_a_log_of_a_version_that_knew_no_epochs_is_of_epoch_0() -> None:
    log = Disk().open()
    append(log, 0, 3)

    assert log.latest_epoch == 0
    assert log.end_offset_for(0) == LogPoint(0, 3)
    assert log.end_offset_for(7) == LogPoint(0, 3)


def test_voters_are_found_in_the_log_and_given_up_with_its_tail() -> None:
    disk = Disk()
    log = disk.open()
    append(log, 1, 2)
    append_voters(log, 1, 1, 2, 3, 4)
    append_voters(log, 1, 2, 3, 4)

    again = disk.open()

    assert again.voters == log.voters
    assert (again.voters.offset, again.voters.voters.ids) == (3, (2, 3, 4))
    assert again.voter_addresses[4] == ("host4", 9004)
    again.log.truncate_to(3)
    again.truncated()
    assert again.voters.voters.ids == (1, 2, 3, 4)
    assert sorted(again.voter_addresses) == [1, 2, 3, 4]
    again.log.truncate_to(2)
    again.truncated()
    assert again.voters.voters == CONFIGURED
    assert again.voter_addresses == {}


def test_where_a_voter_was_before_holds_again_when_the_word_of_its_move_is_cut_off() -> None:
    log = Disk().open()
    append_voters(log, 1, 1, 2)
    moved = VotersRecord(0, (Voter(2, NO_DIRECTORY, (Endpoint("CONTROLLER", "elsewhere", 1),), (0, 1)),))
    batch = control_records.build([moved], 0, base_offset=log.end_offset, leader_epoch=1)
    log.log.append_as_follower(batch, 0)
    log.appended(batch)
    assert log.voter_addresses == {2: ("elsewhere", 1)}

    log.log.truncate_to(1)
    log.truncated()

    assert log.voter_addresses == {1: ("host1", 9001), 2: ("host2", 9002)}


def test_two_snapshots_are_kept_and_the_log_from_the_older_one_on() -> None:
    disk = Disk()
    log = disk.open()
    for epoch in (1, 2, 3):
        append(log, epoch, 10)

    for point in (LogPoint(1, 10), LogPoint(2, 20), LogPoint(3, 30)):
        write_snapshot(disk, point)
        log.snapshot_written(point)

    assert log.snapshot == LogPoint(3, 30)
    assert log.start_offset == 20
    assert log.snapshot_bytes(LogPoint(1, 10)) is None
    assert (
        log.snapshot_bytes(LogPoint(2, 20)) == disk.files.open(f"{DIRECTORY}/{snapshot_name(LogPoint(2, 20))}").size()
    )
    # The log begins where a snapshot ends, so that one tells the epoch before it.
    assert log.end_offset_for(2) == LogPoint(2, 20)
    assert log.end_offset_for(1) == LogPoint(0, 20)
    assert log.epoch_at(25) == 3


def test_a_snapshot_that_is_installed_takes_the_place_of_the_log() -> None:
    disk = Disk()
    log = disk.open()
    append(log, 1, 5)
    append_voters(log, 1, 1, 2)
    point = LogPoint(4, 100)
    content = b"".join(snapshot_file.encode(point, [b"x"] * 3, voters(1, 2, 3, 4, 5), 0))

    log.take_part(point, 0, b"what an earlier try left")
    log.take_part(point, 0, content[:50])
    log.take_part(point, 50, content[50:])
    log.prepare(point)
    log.install(point)

    for state in (log, disk.open()):
        assert (state.start_offset, state.end_offset, state.synced_offset) == (100, 100, 100)
        assert state.latest_epoch == 4
        assert state.end_offset_for(9) == point
        assert state.snapshot == point
        assert (state.voters.offset, state.voters.voters.ids) == (99, (1, 2, 3, 4, 5))
    append(log, 4)
    assert log.end_offset_for(4) == LogPoint(4, 101)


def test_a_snapshot_that_names_no_voters_leaves_none_of_those_the_log_had() -> None:
    """It is from a time when the configured ones were in force: what only this log knew of others was never safe."""
    disk = Disk()
    log = disk.open()
    append(log, 1, 5)
    append_voters(log, 1, 1, 2, 3, 4)
    point = LogPoint(4, 100)
    write_snapshot(disk, point, suffix=".part")

    log.prepare(point)
    log.install(point)

    for state in (log, disk.open()):
        assert (state.voters.offset, state.voters.voters) == (-1, CONFIGURED)
        assert state.voter_addresses == {}


def test_where_the_voters_of_a_snapshot_are_is_known() -> None:
    disk = Disk()
    log = disk.open()
    append_voters(log, 1, 1, 2, 3, 4)
    point = LogPoint(4, 100)
    write_snapshot(disk, point, voters(2, 3), suffix=".part")

    log.prepare(point)
    log.install(point)

    for state in (log, disk.open()):
        assert state.voter_addresses == {2: ("host2", 9002), 3: ("host3", 9003)}


def test_a_damaged_snapshot_is_not_installed() -> None:
    disk = Disk()
    log = disk.open()
    append(log, 1, 5)
    point = LogPoint(4, 100)
    log.take_part(point, 0, b"nonsense")

    with pytest.raises(Corrupt):
        log.prepare(point)

    assert log.end_offset == 5
    assert disk.open().snapshot is None


def test_a_crash_between_the_snapshot_and_the_log_is_made_good() -> None:
    disk = Disk()
    log = disk.open()
    append(log, 1, 5)
    write_snapshot(disk, LogPoint(4, 100))

    again = disk.open()

    assert (again.start_offset, again.end_offset, again.latest_epoch) == (100, 100, 4)


def test_what_is_left_of_a_snapshot_that_was_being_fetched_goes() -> None:
    disk = Disk()
    write_snapshot(disk, LogPoint(4, 100), suffix=".part")

    assert disk.open().snapshot is None
    assert disk.files.names(DIRECTORY) == []


def test_a_damaged_snapshot_does_not_matter_while_the_log_has_everything() -> None:
    disk = Disk()
    log = disk.open()
    append(log, 1, 10)
    write_snapshot(disk, LogPoint(1, 5))
    disk.files.replace(f"{DIRECTORY}/{snapshot_name(LogPoint(1, 8))}", b"damaged")

    assert disk.open().snapshot == LogPoint(1, 5)


def test_a_log_without_its_beginning_and_without_a_snapshot_is_damaged() -> None:
    disk = Disk()
    log = disk.open()
    for _ in range(2):
        append(log, 1, 10)
    for point in (LogPoint(1, 10), LogPoint(1, 20)):
        write_snapshot(disk, point)
        log.snapshot_written(point)
    for name in disk.files.names(DIRECTORY):
        if name.endswith(".checkpoint"):
            disk.files.remove(f"{DIRECTORY}/{name}")

    with pytest.raises(Corrupt, match="no sound snapshot"):
        QuorumLog(log.log, cast(Any, disk.files), CONFIGURED)


def test_names_are_kafkas() -> None:
    assert snapshot_name(LogPoint(3, 100)) == "00000000000000000100-0000000003.checkpoint"


def test_batches_are_read_from_any_batch_on() -> None:
    log = Disk().open()
    append(log, 1, 2)
    append(log, 1, 3)
    append(log, 2, 1)

    found = [(header.base_offset, header.next_offset) for header, _ in log.batches(2, 6)]

    assert found == [(2, 5), (5, 6)]
