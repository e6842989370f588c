"""Walking batches in a file, and telling a torn write from damage."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chronik.core.errors import Corrupt
from chronik.core.log.scan import ScannedBatch, headers, read_batch, sound_batch_after, sound_batches, sound_headers
from chronik.core.records.batch import stamp
from tests.unit.core.fakes import MemoryFile, MemoryFiles
from tests.unit.core.log.logs import batch_of


def stamped(offset: int, size: int = 10) -> bytes:
    batch = batch_of(value=b"v" * size)
    stamp(batch, offset, 0)
    return bytes(batch)


def file_of(*parts: bytes) -> MemoryFile:
    file = MemoryFiles().open("topic-0/00000000000000000000.log")
    file.append(parts)
    return file


def offsets(found: list[ScannedBatch]) -> list[int]:
    return [each.header.base_offset for each in found]


@given(st.lists(st.integers(1, 300), min_size=1, max_size=20), st.integers(61, 500))
def test_every_batch_is_met_whatever_the_chunk(sizes: list[int], chunk_bytes: int) -> None:
    parts = [stamped(number, size) for number, size in enumerate(sizes)]
    file = file_of(*parts)
    found = list(headers(file, 0, file.size(), chunk_bytes=chunk_bytes))
    assert offsets(found) == list(range(len(sizes)))
    assert [read_batch(file, each) for each in found] == parts
    assert list(sound_headers(file, 0, file.size())) == found
    assert list(sound_batches(b"".join(parts), "here")) == found


def test_large_batches_are_not_read_to_walk_over_them() -> None:
    file = file_of(*(stamped(number, 100_000) for number in range(3)))
    file._door.reads = 0
    assert len(list(headers(file, 0, file.size(), chunk_bytes=1000))) == 3
    assert file._door.reads == 3


def test_a_walk_stops_where_offsets_go_back() -> None:
    file = file_of(stamped(5), stamped(4))
    with pytest.raises(Corrupt, match="offset 4 where at least 6"):
        list(headers(file, 0, file.size()))


def test_a_walk_stops_at_a_batch_that_does_not_fit_the_file() -> None:
    file = file_of(stamped(0), stamped(1)[:-1])
    with pytest.raises(Corrupt, match="are left"):
        list(headers(file, 0, file.size()))


def test_a_checksum_that_does_not_hold_is_met_only_by_those_who_check() -> None:
    bad = bytearray(stamped(0))
    bad[-1] ^= 1
    file = file_of(bytes(bad))
    assert len(list(headers(file, 0, file.size()))) == 1
    for walk in (sound_headers(file, 0, file.size()), sound_batches(bytes(bad), "here")):
        with pytest.raises(Corrupt, match="checksum"):
            list(walk)
    with pytest.raises(Corrupt, match="checksum"):
        read_batch(file, next(headers(file, 0, file.size())))


def test_a_sound_batch_behind_rubbish_is_found_at_any_distance() -> None:
    for rubbish in (b"", b"\x02" * 100, b"\x00" * 61, b"\xff" * 2_000_000):
        file = file_of(rubbish, stamped(9))
        found = sound_batch_after(file, 0, file.size(), floor_offset=5)
        assert found is not None
        assert found.position == len(rubbish)


def test_rubbish_alone_holds_no_sound_batch() -> None:
    file = file_of(b"\x02" * 300)
    assert sound_batch_after(file, 0, file.size(), floor_offset=0) is None


def test_what_a_producer_wrapped_in_a_torn_record_is_no_batch_of_the_log() -> None:
    file = file_of(b"torn" * 20, stamped(0))
    assert sound_batch_after(file, 0, file.size(), floor_offset=5) is None
