"""Lines of the trace in a real session: those that stand for many batches become a line for each."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed: pip install 'chronik[spark]'")

from chronik.pipeline.transforms import trace
from chronik.trace.events import AnyEvent, TraceBegan
from chronik.trace.lines import Answered, BatchLine, BatchRun, ProducedBatches, Taken, from_lines, to_lines

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.timeout(300)  # the first test of a run waits for Java


def test_each_batch_of_a_run_becomes_a_line_of_its_own_and_loses_nothing(spark: SparkSession) -> None:
    first = BatchLine(1_000_000, 500, 7, 0, 40, 100, 110, 1500, False, 90, 110, (1, 2))
    retry = BatchLine(1_000_200, 900, 7, 0, 40, 100, 110, 1500, True, 110, 111, (1,))
    run = ProducedBatches(1_002_000, 1, "orders", 2, "app", "10.0.0.7", 5, -1, 3, [first, retry])
    told = to_lines([TraceBegan(5, 1), run])
    records = spark.createDataFrame([(0, 17, bytearray(told))], "partition int, offset long, value binary")

    rows = trace.events_of(trace.lines_of_records(records)).orderBy("told_as", "at_us").collect()

    assert [(row.kind, row.at_us, row.took_us) for row in rows] == [
        ("trace_began", 5, None),
        ("produced", 1_000_500, 500),
        ("produced", 1_001_100, 900),
    ]
    assert [row.is_duplicate for row in rows] == [None, False, True]
    assert [(row.topic, row.partition, row.client_id, row.watermark) for row in rows[1:]] == [
        ("orders", 2, "app", 110),
        ("orders", 2, "app", 111),
    ]
    assert from_lines("\n".join(row.line for row in rows).encode()) == from_lines(told)


def test_batches_of_a_run_become_lines_of_their_own_with_the_answer_that_is_theirs(spark: SparkSession) -> None:
    at_ns = 1_763_389_000_123_456_789  # doubles are too coarse for such a number
    batches = [
        Taken(at_ns, 90, 1500, 7, 0, 40, 100, 109, -1, True),
        Taken(at_ns + 200_000, 91, 70, 7, 0, 50, 110, 110, -1, True),
        Taken(at_ns + 300_000, 91, 1500, 7, 0, 40, 100, 109, -1, False),
        Taken(at_ns + 400_000, 92, 10, 7, 0, 51, 111, 111, -1, True),
    ]
    answers = [Answered(1, at_ns + 500_100, 110, (1, 2)), Answered(2, at_ns - 5, 111, (1,))]
    run = BatchRun(at_ns // 1000 + 900, 1, "orders", 2, "app", "10.0.0.7", 5, -1, 3, batches, answers)
    nobody = BatchRun(at_ns // 1000 + 900, 1, "orders", 2, "app", "10.0.0.7", 5, 0, 3, batches[:1], [])
    told = to_lines([run, nobody])
    records = spark.createDataFrame([(0, 17, bytearray(told))], "partition int, offset long, value binary")

    rows = trace.events_of(trace.lines_of_records(records)).orderBy("told_as", "base_offset", "at_us").collect()

    kinds = ["produced", "produced", "produced", "produce_appended", "produce_appended"]
    assert sorted(row.kind for row in rows) == sorted(kinds)
    assert [(row.base_offset, row.is_duplicate, row.took_us) for row in rows] == [
        (100, True, 0),
        (100, False, 500),
        (110, False, 0),
        (111, False, None),
        (100, False, None),
    ]

    def placed(lines: bytes) -> list[AnyEvent]:
        return sorted(from_lines(lines), key=repr)

    assert placed("\n".join(row.line for row in rows).encode()) == placed(told)
