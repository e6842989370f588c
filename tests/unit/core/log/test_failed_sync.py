"""A sync failed, and the process was restarted: the system has the bytes in memory, and takes them for written."""

from __future__ import annotations

import pytest

from chronik.core.config.topic import TopicConfig
from chronik.core.types import Buffer
from chronik.sim.chance import SimChance
from chronik.sim.files import SimDisk
from tests.unit.core.fakes import MemoryFile, MemoryFiles
from tests.unit.core.log.logs import NOW_MS, SEGMENT, batch_of, contents, filled, open_log, put, sync

SMALL = TopicConfig(segment_bytes=1500, index_interval_bytes=300)


def disk_whose_sync_failed(seed: int = 1) -> SimDisk:
    """Offsets 0 to 3 are safe, 4 to 7 were written, and the sync of them failed. Then the process died."""
    disk = SimDisk(SimChance(seed, "disk"))
    log, _ = filled(disk, 2)
    sync(log)
    for number in range(2):
        put(log, batch_of(2, value=b"w" * 100, time_ms=NOW_MS + 10 + number))
    disk.failures["sync"] = OSError(5, "Input/output error")
    with pytest.raises(OSError):
        sync(log)
    disk.failures.clear()
    disk.process_died()
    return disk


@pytest.mark.parametrize("was_clean", [True, False])
def test_what_a_failed_sync_left_counts_only_when_it_was_written_again(was_clean: bool) -> None:
    # Given what the system has in memory, and takes for written (an orderly stop of all others says nothing of it)
    disk = disk_whose_sync_failed()

    # When the next process opens the log and its sync succeeds
    again = open_log(disk, was_clean=was_clean, synced_offset=4)
    sync(again)
    assert again.synced_offset == 8

    # Then it is on disk
    disk.power_cut(keeps=0.0)
    assert open_log(disk, synced_offset=8).end_offset == 8


def test_what_was_synced_is_not_written_again() -> None:
    disk = disk_whose_sync_failed()
    written: list[int] = []

    class Watched(MemoryFile):
        def write_again(self, position: int, content: Buffer) -> None:
            written.append(position)

    files = MemoryFiles()
    files.contents = disk.contents
    files.open = lambda path: Watched(files, path)  # type: ignore[method-assign]
    size = len(disk.contents[SEGMENT + ".log"].written)

    open_log(files, synced_offset=4)

    assert written == [size // 2, size * 3 // 4]


def test_what_a_failed_sync_left_and_is_not_in_memory_any_more_is_a_torn_tail() -> None:
    disk = disk_whose_sync_failed()
    disk.power_cut(keeps=0.0)

    assert open_log(disk, synced_offset=4).end_offset == 4


def test_an_orderly_stop_says_nothing_of_a_log_whose_sync_had_failed() -> None:
    # Given a segment that was closed, with all that stands beside it, though its sync failed and the next never began
    disk = SimDisk(SimChance(1, "disk"))
    log = open_log(disk, SMALL)
    for _ in range(5):
        put(log, batch_of(2, value=b"v" * 100))
    disk.failures[f"write:{log.end_offset:020}.log"] = OSError(28, "No space left on device")
    with pytest.raises(OSError):
        put(log, batch_of(2, value=b"v" * 1400))
    disk.failures = {"sync": OSError(5, "Input/output error")}
    with pytest.raises(OSError):
        sync(log)
    disk.failures.clear()
    disk.process_died()

    # When the node was stopped in order without this log, and starts again
    again = open_log(disk, SMALL, was_clean=True, synced_offset=0)
    sync(again)

    # Then what it calls safe is on disk
    assert (again.recovery.was_clean, again.synced_offset) == (False, 10)
    disk.power_cut(keeps=0.0)
    assert open_log(disk, SMALL, synced_offset=10).end_offset == 10


def test_a_roll_leaves_nothing_of_a_failed_write_between_two_segments() -> None:
    # Given a write that failed, of which a part is left behind the end of the file: it could not be cut off
    disk = SimDisk(SimChance(1, "disk"))
    log, _ = filled(disk, 4, SMALL)
    left = bytes(batch_of(2, value=b"refused" * 20))[:-9]
    disk.contents[log._segments[-1].file.path].overhang = left

    # When the log goes on in another segment, and the next process opens it
    before = len(log._segments)
    while len(log._segments) == before:
        put(log, batch_of(6, value=b"w" * 100))
    sync(log)
    disk.process_died()

    # Then all that was written is there, and nothing else
    again = open_log(disk, SMALL, synced_offset=log.synced_offset)
    assert again.end_offset == log.end_offset
    assert contents(again) == contents(log)
    assert left not in b"".join(bytes(each.written) for each in disk.contents.values())
