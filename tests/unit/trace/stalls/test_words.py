"""How verdicts are written."""

from __future__ import annotations

import pytest

from chronik.trace.stalls.words import clock, counted, listed, seconds, times


def test_times_are_written_by_utc_to_the_millisecond() -> None:
    assert clock(1_763_265_612_345_678) == "04:00:12.345"
    assert seconds(7_049_000) == "7.0 s"


@pytest.mark.parametrize(
    ("names", "words"), [((), "none"), ((1,), "1"), ((1, 2), "1 and 2"), ((1, 2, 3), "1, 2 and 3")]
)
def test_names_are_listed(names: tuple[int, ...], words: str) -> None:
    assert listed(names) == words


def test_things_are_counted() -> None:
    assert (counted(1, "record"), counted(5_000, "record")) == ("1 record", "5,000 records")
    assert (times(1), times(2), times(1_000)) == ("once", "twice", "1,000 times")
