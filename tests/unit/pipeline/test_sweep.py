"""The sweep over runs, held against a slow and simple one that looks at each offset by itself."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("numba", reason="numba is not installed: pip install 'chronik[spark]'")

import numpy as np

from chronik.pipeline import sweep as s
from chronik.pipeline.sweep import NONE, Runs, Segments, Sides
from tests.spark.one_by_one import Run, Said, one_by_one

LEDGER_AND_RECEIVED = Sides(has_ledger=True, has_log=False, has_received=True)
LEDGER_AND_LOG = Sides(has_ledger=True, has_log=True, has_received=False)
ALL = Sides(has_ledger=True, has_log=True, has_received=True)


def swept(runs: list[Run], sides: Sides) -> Segments:
    columns = [np.array([run[index] for run in runs], np.int64) for index in range(5)]
    return s.sweep(Runs(*columns), sides)


def by_offset(found: Segments) -> dict[int, Said]:
    said: dict[int, Said] = {}
    for start, end, outcome, reason, marks, times, _ in zip(
        *(getattr(found, name).tolist() for name in Segments.__dataclass_fields__), strict=True
    ):
        for offset in range(start, end):
            assert offset not in said, "an offset is accounted for twice"
            is_expected, is_twice = bool(marks & s.EXPECTED_BIT), bool(marks & s.DUPLICATED_BIT)
            said[offset] = Said(outcome, reason, is_expected, is_twice, bool(marks & s.REORDERED_BIT), times)
    return said


ORDERED = (s.LEDGER, s.RECEIVED)


@st.composite
def some_runs(draw: st.DrawFn) -> list[Run]:
    """Layers at random. Positions are given out one after the other, as a consumer or a producer counts."""
    runs = [Run(s.RANGE, 0, 40)]
    counted = dict.fromkeys(ORDERED, 0)
    for _ in range(draw(st.integers(0, 12))):
        layer = draw(
            st.sampled_from([s.LEDGER, s.RECORD, s.RECEIVED, s.RECEIVED, s.SERVED, *range(s.MARKER, s.LAYERS)])
        )
        start = draw(st.integers(0, 38))
        end = draw(st.integers(start + 1, 40))
        if layer in ORDERED:
            producer = draw(st.integers(0, 1)) if layer == s.LEDGER else NONE
            runs.append(Run(layer, start, end, counted[layer], producer))
            counted[layer] += end - start
        else:
            runs.append(Run(layer, start, end))
    return draw(st.permutations(runs))


@settings(max_examples=300, deadline=None)
@given(
    some_runs(),
    st.sampled_from([LEDGER_AND_RECEIVED, LEDGER_AND_LOG, ALL, Sides(False, True, True), Sides(False, True, False)]),
)
def test_every_offset_is_accounted_for_once_and_as_if_looked_at_alone(runs: list[Run], sides: Sides) -> None:
    found = by_offset(swept(runs, sides))

    assert found == one_by_one(runs, sides)
    assert sorted(found) == list(range(40))


def test_what_was_promised_and_came_is_one_segment_however_many_runs_it_was() -> None:
    runs = [Run(s.RANGE, 0, 1000)]
    runs += [Run(s.LEDGER, at, at + 10, at, 0) for at in range(0, 1000, 10)]
    runs += [Run(s.RECEIVED, at, at + 50, at) for at in range(0, 1000, 50)]

    found = swept(runs, LEDGER_AND_RECEIVED)

    assert (found.start.tolist(), found.end.tolist(), found.outcome.tolist()) == ([0], [1000], [s.FOUND])


def test_a_record_given_late_is_reordered_and_the_one_it_let_pass_is_not() -> None:
    runs = [Run(s.RANGE, 0, 10), Run(s.LEDGER, 0, 10), Run(s.RECEIVED, 0, 5, 0), Run(s.RECEIVED, 6, 7, 5)]
    runs += [Run(s.RECEIVED, 5, 6, 6), Run(s.RECEIVED, 7, 10, 7)]

    said = by_offset(swept(runs, LEDGER_AND_RECEIVED))

    assert [offset for offset in said if said[offset].is_reordered] == [5]


def test_reading_again_from_further_back_is_duplication_and_no_reordering() -> None:
    runs = [Run(s.RANGE, 0, 10), Run(s.LEDGER, 0, 10), Run(s.RECEIVED, 0, 8, 0), Run(s.RECEIVED, 5, 10, 8)]

    said = by_offset(swept(runs, LEDGER_AND_RECEIVED))

    assert [offset for offset in said if said[offset].is_duplicated] == [5, 6, 7]
    assert not any(each.is_reordered for each in said.values())


def test_what_is_known_of_other_stretches_counts_for_the_order() -> None:
    received = [Run(s.RANGE, 0, 4), Run(s.RECEIVED, 0, 2, 10), Run(s.RECEIVED, 2, 4, 30), Run(s.LATER, 0, 0, 20)]
    written = [Run(s.RANGE, 4, 8), Run(s.RECEIVED, 4, 8), Run(s.LEDGER, 4, 6, 10, 0), Run(s.LEDGER, 6, 8, 10, 1)]
    written += [Run(s.EARLIER, 0, 0, 40, 0)]

    assert [each.is_reordered for each in by_offset(swept(received, LEDGER_AND_RECEIVED)).values()] == [
        False, False, True, True,
    ]  # fmt: skip
    assert [each.is_reordered for each in by_offset(swept(written, LEDGER_AND_RECEIVED)).values()] == [
        True, True, False, False,
    ]  # fmt: skip


def test_an_offset_promised_to_two_is_marked() -> None:
    found = swept(
        [Run(s.RANGE, 0, 4), Run(s.LEDGER, 0, 3), Run(s.LEDGER, 2, 4), Run(s.RECEIVED, 0, 4)], LEDGER_AND_RECEIVED
    )

    assert (found.marks & s.TWICE_BIT != 0).tolist() == [False, True, False]
    assert found.start.tolist() == [0, 2, 3]
