"""What was read is served only if it is what was planned."""

from __future__ import annotations

import pytest

from chronik.core.errors import Corrupt
from chronik.core.log.log import Log
from chronik.core.log.segment import Slice
from chronik.core.log.slice_check import check_slice
from tests.unit.core.fakes import MemoryFiles
from tests.unit.core.log.logs import filled


def planned() -> tuple[Log, Slice, bytes]:
    """Three batches of two records each."""
    log, _ = filled(MemoryFiles(), 3)
    plan = log.read(0, 6, 10_000, at_least_one=True)
    assert plan is not None
    return log, plan, plan.file.read(plan.position, plan.length)


def test_what_was_planned_passes() -> None:
    log, plan, content = planned()

    check_slice(plan, content, log.epochs, log.start_offset, has_gaps=False)


def test_too_few_bytes_are_damage() -> None:
    log, plan, content = planned()

    with pytest.raises(Corrupt, match="bytes wanted"):
        check_slice(plan, content[:-1], log.epochs, log.start_offset, has_gaps=False)


def test_a_batch_of_another_epoch_is_damage() -> None:
    log, plan, content = planned()
    log.epochs.assign(7, 4)

    with pytest.raises(Corrupt, match="leader epoch 0 is not of this offset"):
        check_slice(plan, content, log.epochs, log.start_offset, has_gaps=False)


def test_an_end_before_the_planned_one_is_damage_unless_there_may_be_gaps() -> None:
    log, plan, content = planned()
    further = plan._replace(next_offset=8)

    check_slice(further, content, log.epochs, log.start_offset, has_gaps=True)
    with pytest.raises(Corrupt, match="ends at offset 6 where 8 was planned"):
        check_slice(further, content, log.epochs, log.start_offset, has_gaps=False)
