"""Where a reset puts each offset."""

from __future__ import annotations

import pytest

from chronik.client.errors import ChronikError
from chronik.inspect.group_offsets import Move, Spot, Target, plan

PARTITION = ("orders", 0)
SPOT = Spot(PARTITION, before=50, start=10, end=100, at_time=60)


@pytest.mark.parametrize(
    ("target", "after"),
    [
        (Target(to_earliest=True), 10),
        (Target(to_latest=True), 100),
        (Target(to_offset=0), 10),
        (Target(to_offset=10), 10),
        (Target(to_offset=55), 55),
        (Target(to_offset=100), 100),
        (Target(to_offset=101), 100),
        (Target(shift_by=-5), 45),
        (Target(shift_by=5), 55),
        (Target(shift_by=-1000), 10),
        (Target(shift_by=1000), 100),
        (Target(to_time_ms=1), 60),
    ],
)
def test_an_offset_goes_where_asked_but_never_out_of_the_log(target: Target, after: int) -> None:
    assert plan(target, SPOT).after == after


def test_an_offset_held_to_the_log_says_so() -> None:
    assert plan(Target(to_offset=5), SPOT) == Move(PARTITION, 50, 10, "5 is before the start")
    assert plan(Target(shift_by=5000), SPOT) == Move(PARTITION, 50, 100, "5,050 is beyond the end")
    assert plan(Target(to_offset=55), SPOT).note == ""


def test_a_time_after_the_last_message_is_the_end() -> None:
    assert plan(Target(to_time_ms=1), Spot(PARTITION, None, 10, 100, at_time=-1)).after == 100


def test_a_shift_needs_something_to_shift() -> None:
    with pytest.raises(ChronikError, match="orders:0 has no committed offset to shift"):
        plan(Target(shift_by=1), Spot(PARTITION, None, 10, 100))


def test_a_partition_whose_offsets_nobody_tells_is_refused_and_not_guessed() -> None:
    with pytest.raises(ChronikError, match="orders:0 has no leader"):
        plan(Target(to_latest=True), Spot(PARTITION, 5, 10, None))
