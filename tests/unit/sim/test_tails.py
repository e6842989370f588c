"""A log followed by its bytes."""

from __future__ import annotations

from chronik.core.records.batch import read_header
from chronik.core.records.payload import KeyValue, build
from chronik.sim.memory_files import MemoryFiles
from chronik.sim.tails import LogTail

FIRST = "topic-0/00000000000000000000.log"


def batch(offset: int, value: bytes = b"v") -> bytes:
    return bytes(build([KeyValue(None, value)], 1, base_offset=offset))


def write(disk: MemoryFiles, path: str, *batches: bytes) -> None:
    disk.open(path).append(batches)


def offsets(found: object) -> list[int]:
    return [header.base_offset for header in found]  # type: ignore[attr-defined]


def test_each_batch_is_told_once_when_it_comes_and_once_when_it_is_safe() -> None:
    disk = MemoryFiles()
    tail = LogTail(disk, "topic-0", 0)
    write(disk, FIRST, batch(0), batch(1))

    assert offsets(tail.grown(2)) == [0, 1]
    assert offsets(header for header, _ in tail.passed(1)) == [0]
    write(disk, FIRST, batch(2))
    assert offsets(tail.grown(3)) == [2]
    assert offsets(header for header, _ in tail.passed(3)) == [1, 2]
    assert offsets(tail.grown(3)) == []
    assert tail.offset == 3


def test_it_goes_on_in_the_next_segment() -> None:
    disk = MemoryFiles()
    tail = LogTail(disk, "topic-0", 0)
    write(disk, FIRST, batch(0))
    assert offsets(tail.grown(1)) == [0]

    write(disk, "topic-0/00000000000000000001.log", batch(1))

    assert offsets(tail.grown(2)) == [1]


def test_it_begins_with_the_first_segment_there_is() -> None:
    disk = MemoryFiles()
    write(disk, "topic-0/00000000000000000007.log", batch(7))
    write(disk, "topic-00/00000000000000000000.log", batch(0))

    assert offsets(LogTail(disk, "topic-0", 0).grown(8)) == [7]


def test_files_below_the_log_start_that_a_power_cut_brought_back_are_passed_over() -> None:
    disk = MemoryFiles()
    write(disk, FIRST, batch(0))  # what came between it and the next is gone
    write(disk, "topic-0/00000000000000000007.log", batch(7), batch(8))

    assert offsets(LogTail(disk, "topic-0", 8).grown(9)) == [7, 8]


def test_what_was_cut_off_is_forgotten_and_what_comes_in_its_place_is_told() -> None:
    disk = MemoryFiles()
    tail = LogTail(disk, "topic-0", 0)
    write(disk, FIRST, batch(0), batch(1, b"old"))
    list(tail.grown(2))

    disk.open(FIRST).truncate(len(batch(0)))
    write(disk, FIRST, batch(1, b"new"))
    found = list(tail.grown(2))

    assert [header.crc for header in found] == [read_header(batch(1, b"new")).crc]


def test_a_log_that_says_it_is_longer_than_its_files_is_not_read_to_its_end() -> None:
    disk = MemoryFiles()
    write(disk, FIRST, batch(0))
    tail = LogTail(disk, "topic-0", 0)

    assert offsets(tail.grown(5)) == [0]
    assert tail.offset == 1


def test_it_tells_what_a_power_cut_would_leave() -> None:
    disk = MemoryFiles()
    tail = LogTail(disk, "topic-0", 0)
    write(disk, FIRST, batch(0))
    disk.open(FIRST).sync()
    write(disk, FIRST, batch(1))

    list(tail.grown(2))

    assert [is_durable for _, is_durable in tail.passed(2)] == [True, False]
