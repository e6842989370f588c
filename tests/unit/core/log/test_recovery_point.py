"""A power cut around a roll: the closed segment is torn, and of the next one something was written by itself."""

from __future__ import annotations

import pytest

from chronik.core.config.topic import TopicConfig
from chronik.core.errors import Corrupt
from tests.unit.core.fakes import MemoryFiles
from tests.unit.core.log.logs import SEGMENT, contents, filled, open_log, sync

SMALL = TopicConfig(segment_bytes=1500, index_interval_bytes=300)
COMPACTED = TopicConfig(segment_bytes=1500, index_interval_bytes=300, cleanup_policy=("compact",))


def torn_at_a_roll(config: TopicConfig = SMALL, *, at_batch_end: bool = False) -> tuple[MemoryFiles, list[bytes]]:
    """Several segments, of which the first has lost its last batch, or a part of it; and the batches."""
    files = MemoryFiles()
    _, written = filled(files, 12, config)
    first = files.open(SEGMENT + ".log")
    first.truncate(first.size() - (len(written[0]) if at_batch_end else 1))
    return files, written


@pytest.mark.parametrize("config", [SMALL, COMPACTED])
@pytest.mark.parametrize("at_batch_end", [True, False])
def test_what_stands_behind_a_torn_segment_is_put_aside_where_nothing_of_it_counted(
    config: TopicConfig, at_batch_end: bool
) -> None:
    files, written = torn_at_a_roll(config, at_batch_end=at_batch_end)
    whole = (files.open(SEGMENT + ".log").size() + 1) // len(written[0]) - (0 if at_batch_end else 1)
    later = files.paths(".log")[1:]
    assert len(later) > 1

    log = open_log(files, config)

    assert log.end_offset == 2 * whole
    assert contents(log) == b"".join(written[:whole])
    assert log.recovery.cut_from_offset == log.end_offset
    assert files.paths(".log") == [SEGMENT + ".log"]
    for path in later:
        assert files.exists(path.removesuffix(".log") + ".cut")
    assert open_log(files, config).end_offset == log.end_offset


def test_what_was_known_to_be_synced_is_never_put_aside() -> None:
    files, _ = torn_at_a_roll()

    with pytest.raises(Corrupt, match="had been synced"):
        open_log(files, SMALL, synced_offset=10)

    assert len(files.paths(".log")) > 2


def test_a_synced_batch_of_a_later_segment_counts_with_the_recovery_point() -> None:
    """A synced batch of a later segment counts only when the recovery point is stored."""
    log, _ = filled(MemoryFiles(), 3, SMALL)
    assert log.is_on_disk(log.end_offset)  # one segment: there is nothing before it that could be torn

    rolled, _ = filled(MemoryFiles(), 12, SMALL)
    assert not rolled.is_on_disk(rolled.end_offset)
    rolled.recovery_point.stored(rolled.end_offset)
    assert rolled.is_on_disk(rolled.end_offset)


def test_after_a_cut_it_is_stored_anew() -> None:
    log, _ = filled(MemoryFiles(), 12, SMALL)
    sync(log)
    log.is_on_disk(log.end_offset)
    log.recovery_point.stored(log.end_offset)

    log.truncate_to(2)

    assert log.recovery_point.offset == 2
    for _ in range(3):
        log.reset_to(0)
    assert log.recovery_point.offset == 0
