"""Opening a log after a crash: what is torn is cut and reported, what is damaged is never served and never cut."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chronik.core.config.topic import TopicConfig
from chronik.core.errors import Corrupt
from chronik.core.log.appended import Appended
from chronik.core.log.log import Log
from chronik.core.log.producers import ProducerState
from chronik.core.records.batch import LENGTH_FIELD_END, stamp
from chronik.core.records.steps import finish
from chronik.core.types import UNKNOWN_OFFSET
from chronik.sim.chance import SimChance
from chronik.sim.files import SimDisk
from tests.unit.core.fakes import MemoryFiles
from tests.unit.core.log.logs import (
    DIRECTORY,
    NOW_MS,
    SEGMENT,
    batch_of,
    contents,
    filled,
    open_log,
    put,
    sync,
)

SMALL = TopicConfig(segment_bytes=1500, index_interval_bytes=300)
BATCHES = 12
CHECKPOINT = f"{DIRECTORY}/leader-epoch-checkpoint"


def log_of_producers(files: MemoryFiles, batches: int = BATCHES) -> tuple[Log, list[bytes]]:
    """Several segments, two producers, three leader epochs."""
    log, written = open_log(files, SMALL), []
    for number in range(batches):
        batch = batch_of(
            2, value=b"v" * 100, time_ms=NOW_MS + number, producer_id=number % 2, sequence=2 * (number // 2)
        )
        put(log, batch, leader_epoch=number // 4)
        written.append(bytes(batch))
    return log, written


def known(log: Log) -> tuple[object, ...]:
    """All a log knows, as far as anyone can tell from outside."""

    def state(producer: ProducerState) -> tuple[int, ...]:
        return producer.producer_id, producer.epoch, producer.last_sequence, producer.last_timestamp

    times = [finish(log.offset_for_time(NOW_MS + number, log.end_offset)) for number in range(-1, BATCHES + 1)]
    states = [state(producer) for producer in log.producers.states()]
    return log.start_offset, log.end_offset, log.epochs.entries, states, times, contents(log, 500)


# --- the torn tail


def test_after_a_kill_everything_written_is_there() -> None:
    files = MemoryFiles()
    log, _ = log_of_producers(files)
    again = open_log(files.copy(), SMALL)
    assert known(again) == known(log)
    assert (again.recovery.cut_bytes, again.recovery.rebuilt_indexes) == (0, ())
    assert again.recovery.scanned_batches == BATCHES


def test_the_log_cut_at_every_byte_of_its_last_two_batches_keeps_what_is_whole() -> None:
    files = MemoryFiles()
    _, written = filled(files, 6)
    whole = b"".join(written)
    start = len(whole) - len(written[-1]) - len(written[-2])
    for size in range(start, len(whole)):
        torn = files.copy()
        torn.contents[SEGMENT + ".log"].written = bytearray(whole[:size])
        log = open_log(torn, synced_offset=8)
        kept = 4 if size < start + len(written[-2]) else 5
        assert log.end_offset == 2 * kept
        assert contents(log) == b"".join(written[:kept])
        rest = whole[len(contents(log)) : size]
        assert log.recovery.cut_bytes == len(rest)
        assert log.recovery.cut_from_offset == (2 * kept if rest else None)
        # Nothing is destroyed: what was cut lies beside.
        assert (torn.read_all(SEGMENT + ".cut") if rest else b"") == rest
        assert put(log, batch_of(1)).base_offset == 2 * kept
        plan = log.read(2 * kept, 2 * kept + 1, 1000, at_least_one=True)
        assert plan is not None
        assert not plan.needs_check
        assert contents(log).startswith(b"".join(written[:kept]))


@settings(max_examples=100)
@given(st.integers(0, BATCHES), st.integers(0, 10**6), st.booleans())
def test_a_power_cut_at_any_moment_loses_nothing_that_was_synced(synced: int, torn: int, is_zeroed: bool) -> None:
    files = MemoryFiles()
    log, written = open_log(files, SMALL), b""
    for number in range(BATCHES):
        if number == synced:
            sync(log)
            safe = log.end_offset
        batch = batch_of(1, value=b"v" * 200, producer_id=1, sequence=number)
        put(log, batch, leader_epoch=number // 3)
        written += batch
    if synced == BATCHES:
        sync(log)
        safe = log.end_offset

    def tear(path: str, durable: bytes, full: bytes) -> bytes:
        if not path.endswith(".log"):
            return durable
        size = len(durable) + torn % (len(full) - len(durable) + 1)
        # What a file system may leave: the new size, and zeros where data was not written in time.
        return full[:size] + bytes(len(full) - size if is_zeroed else 0)

    last = files.paths(".log")[-1]
    files.crash(lambda path, durable, full: tear(path, durable, full) if path == last else durable)
    try:
        again = open_log(files, SMALL, synced_offset=safe)
    except Corrupt:
        # A whole segment was never synced, and a later one is there: not a torn write, so nothing is touched.
        assert len(files.paths(".log")) > 1
        return
    assert again.end_offset >= safe
    assert again.start_offset == 0 or safe == 0  # else the first segment, never synced, is gone with its name
    size = len(written) // BATCHES
    assert contents(again) == written[again.start_offset * size : again.end_offset * size]
    sequence = again.end_offset
    assert put(again, batch_of(1, producer_id=1, sequence=sequence), leader_epoch=9) == Appended(sequence, sequence)


def test_a_crash_during_recovery_is_recovered_from() -> None:
    files = MemoryFiles()
    _, written = filled(files, 3)
    files.open(SEGMENT + ".log").append((b"torn",))
    files.failures["sync:.log"] = OSError("gone")
    with pytest.raises(OSError, match="gone"):
        open_log(files)
    files.failures.clear()
    assert contents(open_log(files)) == b"".join(written)
    assert files.read_all(SEGMENT + ".cut").startswith(b"torn")


def test_a_segment_begun_and_never_written_is_not_in_the_way() -> None:
    files = MemoryFiles()
    log, written = filled(files, 3)
    torn = files.read_all(SEGMENT + ".log")[:-1]
    files.replace(SEGMENT + ".log", torn)
    files.replace(f"{DIRECTORY}/{log.end_offset:020}.log", b"")
    again = open_log(files)
    assert again.end_offset == 4
    assert contents(again) == b"".join(written[:2])
    assert files.paths(".log") == [SEGMENT + ".log"]


@pytest.mark.parametrize(("synced_offset", "is_empty"), [(0, True), (6, True), (0, False)])
def test_a_segment_of_an_earlier_life_hides_nothing_that_was_written_since(synced_offset: int, is_empty: bool) -> None:
    """It was dropped, the log went on past where it began, and a power cut brought it back (seed 1290)."""
    files = MemoryFiles()
    _, written = filled(files, 3)
    stale = batch_of(2, value=b"o" * 50)
    stamp(stale, 5, 0)
    files.replace(f"{DIRECTORY}/{5:020}.log", b"" if is_empty else stale)

    again = open_log(files, synced_offset=synced_offset)

    assert again.end_offset == 6
    assert contents(again) == b"".join(written)
    assert files.paths(".log") == [SEGMENT + ".log"]


def test_what_recovery_drops_stays_away_after_a_power_cut() -> None:
    disk = SimDisk(SimChance(1, "disk"))
    log = open_log(disk)
    put(log, batch_of(2))
    sync(log)
    disk.replace(f"{DIRECTORY}/{9:020}.log", b"")

    assert open_log(disk).end_offset == 2
    disk.power_cut(keeps=0.0)

    assert [path for path in disk.contents if path.endswith(".log")] == [SEGMENT + ".log"]


# --- damage


def test_a_bad_header_below_what_was_synced_is_damage() -> None:
    files = MemoryFiles()
    _, written = filled(files, 3)
    files.open(SEGMENT + ".log").truncate(sum(map(len, written)) - 1)
    with pytest.raises(Corrupt, match="below 6 had been synced"):
        open_log(files, synced_offset=6)
    assert files.open(SEGMENT + ".log").size() == sum(map(len, written)) - 1


def test_bad_records_below_what_was_synced_are_noticed_when_they_are_read() -> None:
    files = MemoryFiles()
    _, written = filled(files, 3)
    files.flip(SEGMENT + ".log", 8 * (sum(map(len, written)) - 1))
    log = open_log(files, synced_offset=6)
    with pytest.raises(Corrupt, match="checksum"):
        contents(log)


def test_a_bad_batch_before_a_sound_one_is_damage_even_above_what_was_synced() -> None:
    files = MemoryFiles()
    _, written = filled(files, 3)
    for bit in (8 * len(written[0]) + 8 * 11, 8 * len(written[0]) + 8 * 70):  # its length, its records
        damaged = files.copy()
        damaged.flip(SEGMENT + ".log", bit)
        with pytest.raises(Corrupt, match="no torn write"):
            open_log(damaged, synced_offset=2)
        assert damaged.open(SEGMENT + ".log").size() == sum(map(len, written))
        assert damaged.paths(".cut") == []


def test_a_log_that_ends_below_what_was_synced_is_damaged() -> None:
    files = MemoryFiles()
    _, written = filled(files, 3)
    files.open(SEGMENT + ".log").truncate(len(written[0]))
    for was_clean in (True, False):
        with pytest.raises(Corrupt, match="all below 6 was safe"):
            open_log(files.copy(), synced_offset=6, was_clean=was_clean)


def test_a_log_that_is_gone_is_damaged_when_something_was_safe() -> None:
    with pytest.raises(Corrupt, match="ends at offset 0"):
        open_log(MemoryFiles(), synced_offset=1)
    with pytest.raises(Corrupt, match="ends at offset 0"):
        open_log(MemoryFiles(), was_clean=True, log_start_offset=1)


def test_a_missing_segment_in_the_middle_is_not_read_over() -> None:
    files = MemoryFiles()
    log, _ = filled(files, 12, SMALL)
    sync(log)
    files.remove(files.paths(".log")[1])
    with pytest.raises(Corrupt):
        contents(open_log(files.copy(), SMALL, synced_offset=UNKNOWN_OFFSET))
    with pytest.raises(Corrupt):
        contents(open_log(files.copy(), SMALL, synced_offset=24))


def test_a_cut_segment_before_the_last_is_damage_unless_its_recovery_point_says() -> None:
    """A cut segment before the last is damage unless its recovery point says that nothing behind it counts."""
    files = MemoryFiles()
    filled(files, 12, SMALL)
    first = files.open(SEGMENT + ".log")
    first.truncate(first.size() - 1)
    with pytest.raises(Corrupt, match="not the last segment"):
        open_log(files, SMALL, synced_offset=UNKNOWN_OFFSET)
    with pytest.raises(Corrupt, match="had been synced"):
        open_log(files, SMALL, synced_offset=10)


# --- a cut


def test_a_sync_that_began_before_a_roll_says_nothing_of_the_segment_that_was_closed() -> None:
    files = MemoryFiles()
    log, _ = filled(files, 1, TopicConfig(segment_bytes=100))
    sync(log)
    put(log, batch_of(2))  # rolls
    log.mark_synced(2)
    assert SEGMENT + ".log" in [file.path for file in log.unsynced()[0]]


# --- a shutdown in order


def test_after_a_shutdown_in_order_nothing_is_scanned_and_everything_is_known() -> None:
    files = MemoryFiles()
    log, _ = log_of_producers(files, 12)
    log.close()
    files.reads = 0
    again = open_log(files, SMALL, was_clean=True, synced_offset=log.end_offset)
    assert files.reads < 30
    assert (again.recovery.scanned_batches, again.recovery.was_clean) == (0, True)
    assert known(again) == known(log)
    assert again.rebuilt == ()


def test_everything_survives_a_power_cut_after_a_shutdown_in_order() -> None:
    files = MemoryFiles()
    log, _ = log_of_producers(files, 12)
    log.close()
    expected = known(log)
    files.crash()
    again = open_log(files, SMALL, was_clean=True, synced_offset=log.end_offset)
    assert known(again) == expected


def test_a_shutdown_that_was_not_in_order_after_all_is_noticed() -> None:
    files = MemoryFiles()
    log, written = filled(files, 3)
    log.close()
    files.open(SEGMENT + ".log").append((b"torn",))
    again = open_log(files, was_clean=True, synced_offset=6)
    assert contents(again) == b"".join(written)
    assert (again.recovery.was_clean, again.recovery.cut_bytes) == (False, 4)


def test_a_batch_behind_the_end_that_was_written_down_is_looked_at_again() -> None:
    files = MemoryFiles()
    log, _ = filled(files, 3)
    log.close()
    put(log, batch_of(1))
    again = open_log(files, was_clean=True, synced_offset=6)
    assert (again.recovery.was_clean, again.end_offset) == (False, 7)


def test_closing_twice_or_without_a_change_writes_nothing() -> None:
    files = MemoryFiles()
    log, _ = filled(files, 3)
    log.close()
    files.appends = 0
    log.close()
    open_log(files, was_clean=True, synced_offset=6).close()
    assert files.appends == 0


# --- bits


def flip_any(files: MemoryFiles, data: st.DataObject) -> tuple[str, int]:
    path = data.draw(st.sampled_from([path for path in files.paths() if files.open(path).size()]))
    bit = data.draw(st.integers(0, files.open(path).size() * 8 - 1))
    files.flip(path, bit)
    return path, bit


@settings(max_examples=150)
@given(st.data())
def test_a_flipped_bit_in_any_file_is_never_served(data: st.DataObject) -> None:
    files = MemoryFiles()
    log, _ = log_of_producers(files)
    log.close()
    expected = known(log)
    path, _ = flip_any(files, data)
    try:
        again = open_log(files, SMALL, was_clean=True, synced_offset=log.end_offset)
        found = known(again)
    except Corrupt:
        assert path.endswith(".log")  # everything else can be made anew
        return
    assert found == expected
    assert path.endswith((".index", ".timeindex", ".snapshot", "checkpoint"))
    if path.endswith(("checkpoint", f"{log.end_offset:020}.snapshot")):
        assert path in again.recovery.rebuilt_indexes


@settings(max_examples=150)
@given(st.data())
def test_a_flipped_bit_found_after_a_crash_is_never_served(data: st.DataObject) -> None:
    files = MemoryFiles()
    log, written = log_of_producers(files)
    sync(log)
    log.truncate_to(log.end_offset)
    expected = known(log)
    path, _ = flip_any(files, data)
    try:
        again = open_log(files, SMALL, was_clean=False, synced_offset=log.end_offset - 2)
        found = known(again)
    except Corrupt:
        assert path.endswith(".log")
        return
    last = files.paths(".log")[-1]
    if path == last and again.recovery.cut_bytes:
        # The last batch was not known to be synced: a torn write. It is cut, and what is left is right.
        assert again.recovery.cut_from_offset == again.end_offset == log.end_offset - 2
        assert contents(again) == b"".join(written[:-1])
        return
    if path == last and again.recovery.rebuilt_indexes:
        # The leader epoch of the very last batch has no checksum; the checkpoint contradicted it.
        assert again.recovery.rebuilt_indexes == (CHECKPOINT,)
        return
    assert found == expected


@pytest.mark.parametrize("back", [1, 2])
def test_no_flipped_bit_in_the_header_of_the_last_batches_gives_it_another_place(back: int) -> None:
    files = MemoryFiles()
    log, written = filled(files, 6)
    start = sum(map(len, written[:-back]))
    for bit in range(start * 8, (start + 12) * 8):  # base offset and length, which no checksum covers
        damaged = files.copy()
        damaged.flip(SEGMENT + ".log", bit)
        try:
            again = open_log(damaged, synced_offset=4)
        except Corrupt:
            assert damaged.open(SEGMENT + ".log").size() == log.size_bytes()
        else:
            assert contents(again) == b"".join(written[:5])
            assert (again.recovery.cut_from_offset, back) == (10, 1)
            assert (
                bit >= (start + 8) * 8
            )  # with a wrong length it looks torn; with another offset it is whole, and kept


@pytest.mark.parametrize("suffix", [".index", ".timeindex", ".snapshot", "leader-epoch-checkpoint"])
@pytest.mark.parametrize("was_clean", [True, False])
@pytest.mark.parametrize("damage", ["missing", "empty", "rubbish"])
def test_what_can_be_made_anew_is_made_anew(suffix: str, was_clean: bool, damage: str) -> None:
    files = MemoryFiles()
    log, _ = log_of_producers(files)
    log.close()
    expected = known(log)
    for path in files.paths(suffix):
        match damage:
            case "missing":
                files.remove(path)
            case "empty":
                files.replace(path, b"")
            case "rubbish":
                files.replace(path, b"rubbish" * 12)
    again = open_log(files, SMALL, was_clean=was_clean, synced_offset=log.end_offset)
    assert known(again) == expected
    # After a crash everything is read anyway; and an empty offset index is a sparse one.
    if (
        was_clean
        and not (suffix == ".index" and damage == "empty")
        and not (suffix == ".snapshot" and damage == "missing")
    ):
        assert again.recovery.rebuilt_indexes or again.rebuilt


def test_what_is_larger_than_its_file_is_not_read() -> None:
    files = MemoryFiles()
    _, written = filled(files, 2)
    content = files.contents[SEGMENT + ".log"].written
    content[len(written[0]) + 8 : len(written[0]) + LENGTH_FIELD_END] = (2**31 - 1).to_bytes(4, "big")
    log = open_log(files, synced_offset=2)
    assert (log.end_offset, log.recovery.cut_bytes) == (2, len(written[1]))


def test_a_log_start_that_was_moved_just_before_a_kill_takes_nothing_out_of_service() -> None:
    files = MemoryFiles()
    log, written = filled(files, 6)
    log.advance_start(3)
    put(
        log, batch_of(2)
    )  # it writes the epochs down, with where they now start; the log start's own checkpoint is older
    again = open_log(files.copy(), log_start_offset=0)
    assert (again.start_offset, again.end_offset) == (3, 14)
    assert again.epochs.entries == log.epochs.entries
    assert contents(again).startswith(written[1])


def test_so_does_none_whose_latest_epochs_were_not_written_either() -> None:
    files = MemoryFiles()
    log, _ = filled(files, 6)
    log.advance_start(3)
    put(log, batch_of(2))
    checkpoint = files.read_all(CHECKPOINT)
    put(log, batch_of(2), leader_epoch=5)
    files.replace(CHECKPOINT, checkpoint)

    again = open_log(files, log_start_offset=0)

    assert (again.start_offset, again.end_offset) == (3, 16)
    assert again.epochs.entries == log.epochs.entries
    assert again.recovery.rebuilt_indexes == (CHECKPOINT,)


@pytest.mark.parametrize("synced_offset", [0, 8, 12])
def test_files_below_the_log_start_that_are_back_in_part(synced_offset: int) -> None:
    """Files below the log start that are back in part after a power cut are no hole."""
    files, config = MemoryFiles(), TopicConfig(segment_bytes=300)
    log, written = filled(files, 6, config)  # each in a segment of its own
    sync(log)
    first = files.read_all(SEGMENT + ".log")
    log.advance_start(8)
    assert log.remove_below(8, NOW_MS) == 4
    files.replace(SEGMENT + ".log", first)

    again = open_log(files, config, synced_offset=synced_offset, log_start_offset=8)

    assert (again.start_offset, again.end_offset) == (8, 12)
    assert contents(again) == b"".join(written[4:])
    assert again.remove_below(8, NOW_MS) == 1
    assert files.paths("0.log") == [f"{log.directory}/{10:020}.log"]
