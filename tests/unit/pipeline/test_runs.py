"""Records to runs, within one Arrow batch: nothing is lost or made up on the way, and order is kept."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("pyspark", reason="pyspark is not installed: pip install 'chronik[spark]'")
pytest.importorskip("pyarrow", reason="pyarrow is not installed: pip install 'chronik[spark]'")

import pyarrow as pa

from chronik.pipeline.transforms.runs import RUNS, joined

TYPES = pa.schema(
    [
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("start_offset", pa.int64()),
        ("end_offset", pa.int64()),
        ("position", pa.int64()),
        ("producer", pa.string()),
    ]
)
Record = tuple[
    str | None, int | None, int | None, int | None, str | None
]  # topic, partition, offset, position, producer

some_records = st.lists(
    st.tuples(
        st.sampled_from(["a", "b", None]),
        st.sampled_from([0, 1, None]),
        st.integers(0, 12) | st.none(),
        st.integers(0, 12) | st.none(),
        st.sampled_from(["p", None]),
    ),
    max_size=40,
)


def runs_of(records: list[Record]) -> list[dict[str, Any]]:
    rows = [
        {"topic": topic, "partition": partition, "start_offset": offset, "position": position, "producer": producer}
        | {"end_offset": None if offset is None else offset + 1}
        for topic, partition, offset, position, producer in records
    ]
    (found,) = (
        joined(iter([pa.RecordBatch.from_pylist(rows, TYPES)])) if rows else (pa.RecordBatch.from_pylist([], TYPES),)
    )
    assert found.schema.names == RUNS.names
    found.validate(full=True)
    rows_found: list[dict[str, Any]] = found.to_pylist()
    return rows_found


@settings(deadline=None)
@given(some_records)
def test_every_record_is_in_one_run_with_its_place_in_the_order(records: list[Record]) -> None:
    whole = [record for record in records if record[2] is not None]

    found = runs_of(whole)

    back = [
        (
            run["topic"],
            run["partition"],
            offset,
            None if run["position"] is None else run["position"] + offset - run["start_offset"],
            run["producer"],
        )
        for run in found
        for offset in range(run["start_offset"], run["end_offset"])
    ]
    assert sorted(back, key=repr) == sorted(whole, key=repr)


def test_what_has_no_offset_is_kept_as_it_is_and_so_breaks_a_rule() -> None:
    found = runs_of([("a", 0, 1, None, None), ("a", 0, None, None, None), ("a", 0, 2, None, None)])

    assert sorted((run["start_offset"] is None, run["end_offset"]) for run in found if run["start_offset"]) == [
        (False, 3)
    ]
    assert any(run["start_offset"] is None for run in found)


def test_partitions_that_take_turns_are_long_runs_all_the_same() -> None:
    turns: list[Record] = [("a", number % 3, number // 3, None, None) for number in range(300)]

    assert [(run["partition"], run["start_offset"], run["end_offset"]) for run in runs_of(turns)] == [
        (0, 0, 100),
        (1, 0, 100),
        (2, 0, 100),
    ]


def test_what_was_given_out_of_order_is_not_put_in_order() -> None:
    given_so: list[Record] = [("a", 0, offset, position, None) for position, offset in enumerate([0, 2, 1, 3, 4])]

    found = [(run["start_offset"], run["end_offset"], run["position"]) for run in runs_of(given_so)]

    assert found == [(0, 1, 0), (2, 3, 1), (1, 2, 2), (3, 5, 3)]
