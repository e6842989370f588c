"""How far tombstones are gone is known before they go, and after a restart."""

from __future__ import annotations

from dataclasses import replace

import pytest

from chronik.core.log.horizon import HORIZON_NAME, TombstoneHorizon
from chronik.core.log.log import Log
from tests.unit.core.fakes import MemoryFile, MemoryFiles
from tests.unit.core.log.logs import DIRECTORY, NOW_MS, contents, open_log
from tests.unit.core.log.test_compaction import COMPACT, KEPT_MS, compact, put_pairs, records

PATH = f"{DIRECTORY}/{HORIZON_NAME}"


def with_tombstone(files: MemoryFiles) -> Log:
    """The tombstone is at offset 1, and has been met by compaction once; there is more to compact."""
    log = open_log(files, COMPACT)
    put_pairs(log, [(b"gone", b"v" * 100)])
    put_pairs(log, [(b"gone", None)])
    for number in range(10):
        put_pairs(log, [(b"other%d" % number, b"v" * 100)])
    compact(log)
    for _ in range(5):
        put_pairs(log, [(b"filler", b"v" * 300)])
    return log


def test_nothing_is_gone_while_all_tombstones_are_there() -> None:
    files = MemoryFiles()
    log = with_tombstone(files)
    compact(log, NOW_MS + KEPT_MS - 1)

    assert log.horizon.offset == 0
    assert HORIZON_NAME not in files.names(DIRECTORY)


@pytest.mark.parametrize("was_clean", [False, True])
def test_the_horizon_lies_behind_the_last_tombstone_that_went_also_after_a_restart(was_clean: bool) -> None:
    files = MemoryFiles()
    log = with_tombstone(files)
    compact(log, NOW_MS + KEPT_MS)
    if was_clean:
        log.close()

    assert all(record.key != b"gone" for record in records(log))
    assert [log.horizon.offset, open_log(files, COMPACT, was_clean=was_clean).horizon.offset] == [2, 2]


def test_it_is_on_disk_before_the_tombstone_is_gone() -> None:
    files = MemoryFiles()
    log = with_tombstone(files)
    found: list[tuple[bool, int]] = []
    for unsynced in log.compact(NOW_MS + KEPT_MS, log.end_offset):
        if isinstance(unsynced, MemoryFile):
            unsynced.sync()
        again = open_log(files.copy(), COMPACT)
        found.append((any(record.key == b"gone" for record in records(again)), again.horizon.offset))

    assert (False, 2) in found
    assert (False, 0) not in found


def test_tombstones_that_a_follower_needs_stay_however_old() -> None:
    log = with_tombstone(MemoryFiles())
    for unsynced in log.compact(NOW_MS + KEPT_MS, log.end_offset, tombstones_needed_from=1):
        if isinstance(unsynced, MemoryFile):
            unsynced.sync()

    assert any(record.value is None for record in records(log))
    assert log.horizon.offset == 0


def test_a_tombstone_whose_key_was_one_too_many_to_know_stays_as_long() -> None:
    """A tombstone whose key was one too many to know stays as long as what it deletes."""
    log = open_log(MemoryFiles(), replace(COMPACT, segment_bytes=6000))
    put_pairs(log, [(b"gone", b"value")])
    for number in range(30):
        put_pairs(log, [(b"other%d" % number, b"v" * 60)])
    put_pairs(log, [(b"gone", None)])
    put_pairs(log, [(b"filler", b"v" * 3000)])
    put_pairs(log, [(b"filler", b"v" * 3000)])
    for now_ms in (NOW_MS, NOW_MS + KEPT_MS, NOW_MS + 2 * KEPT_MS):
        for unsynced in log.compact(now_ms, log.end_offset, keys_max=10):
            if isinstance(unsynced, MemoryFile):
                unsynced.sync()
        of_it = [record.value for record in records(log) if record.key == b"gone"]
        assert of_it in ([b"value", None], [None], [])


def test_an_empty_log_takes_over_the_leaders_and_another_keeps_its_own() -> None:
    leader = with_tombstone(MemoryFiles())
    batches = contents(leader)
    follower = open_log(MemoryFiles(), COMPACT)

    follower.append_as_follower(batches, NOW_MS, leader_horizon=90)
    put_pairs(leader, [(b"new", b"value")])
    follower.append_as_follower(contents(leader)[len(batches) :], NOW_MS, leader_horizon=95)

    assert follower.horizon.offset == 90


def test_a_log_that_is_cut_below_it_may_get_other_tombstones_there() -> None:
    files = MemoryFiles()
    log = with_tombstone(files)
    log.horizon.advance(9)
    log.truncate_to(12)
    assert log.horizon.offset == 9
    log.truncate_to(5)
    assert (log.horizon.offset, log.end_offset) == (5, 5)
    assert open_log(files, COMPACT).horizon.offset == 5

    log.reset_to(0)
    assert log.horizon.offset == 0


@pytest.mark.parametrize("content", [b"", b"12\n", b"nonsense\n00000000\n", b"\xff\xff", b"12\n00000000\n"])
def test_one_that_cannot_be_read_may_have_been_anything(content: bytes) -> None:
    files = MemoryFiles()
    files.replace(PATH, content)
    horizon = TombstoneHorizon(files, DIRECTORY)

    horizon.load(77)

    assert horizon.offset == 77


def test_a_turned_bit_never_makes_it_another_offset() -> None:
    files = MemoryFiles()
    TombstoneHorizon(files, DIRECTORY).advance(123)
    stored = files.read_all(PATH)
    for bit in range(len(stored) * 8):
        turned = bytearray(stored)
        turned[bit // 8] ^= 1 << bit % 8
        files.replace(PATH, bytes(turned))
        horizon = TombstoneHorizon(files, DIRECTORY)
        horizon.load(1000)
        assert horizon.offset == 1000
