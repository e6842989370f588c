"""Lines of the trace in a real session: those that stand for many batches become a line for each."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed: pip install 'chronik[spark]'")

from chronik.pipeline.transforms import trace
from chronik.trace.events import Batch, ProducedBatches, TraceBegan, from_lines, to_lines

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.timeout(300)  # the first test of a run waits for Java


def test_each_batch_of_a_run_becomes_a_line_of_its_own_and_loses_nothing(spark: SparkSession) -> None:
    first = Batch(1_000_000, 500, 7, 0, 40, 100, 110, 1500, False, 90, 110, (1, 2))
    retry = Batch(1_000_200, 900, 7, 0, 40, 100, 110, 1500, True, 110, 111, (1,))
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
