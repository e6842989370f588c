"""How the sequence numbers of idempotent producers are counted on when they begin at 0 again."""

from __future__ import annotations

import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed: pip install 'chronik[spark]'")
pytest.importorskip("pyarrow", reason="pyarrow is not installed: pip install 'chronik[spark]'")

import numpy as np
import pyarrow as pa

from chronik.pipeline.transforms.log import SEQUENCES, _swept, counted_on


def counted(*batches: tuple[int, int]) -> list[int]:
    sequences, sizes = np.array(batches, np.int64).T
    return list(counted_on(sequences, sizes))


def test_numbers_begin_again_after_the_last() -> None:
    last = SEQUENCES - 5

    assert counted((last, 5), (0, 5), (5, 5)) == [last, SEQUENCES, SEQUENCES + 5]
    assert counted((last, 10), (5, 5)) == [last, SEQUENCES + 5]


def test_they_may_begin_again_more_than_once() -> None:
    third = SEQUENCES // 3 + 1
    batches = [(third * number % SEQUENCES, third) for number in range(9)]

    assert counted(*batches) == [third * number for number in range(9)]


def test_one_that_came_too_late_stays_behind() -> None:
    assert counted((0, 5), (10, 5), (5, 5), (15, 5)) == [0, 10, 5, 15]
    assert counted((0, 5), (SEQUENCES - 5, 5), (5, 5)) == [SEQUENCES, SEQUENCES - 5, SEQUENCES + 5]


def test_many_numbers_with_a_gap_have_not_begun_again() -> None:
    first, gap, second, third = 600_000_000, 1_000_000, 500_000_000, 100_000_000  # more than half of all numbers
    table = pa.table(
        {
            "topic": ["t"] * 3,
            "partition": pa.array([0] * 3, pa.int32()),
            "producer_id": [7] * 3,
            "producer_epoch": pa.array([0] * 3, pa.int16()),
            "sequence": pa.array([first + gap, first + gap + second, 0], pa.int32()),  # in any order
            "start_offset": [first, first + second, 0],
            "size": [second, third, first],
        }
    )

    rows = _swept(table).to_pylist()

    lost = [(row["start_sequence"], row["end_sequence"]) for row in rows if row["is_lost"]]
    assert lost == [(first, first + gap)]
    assert not any(row["is_duplicated"] or row["is_reordered"] for row in rows)
