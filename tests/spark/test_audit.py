"""The audit in a real session: planted faults are found exactly, each offset, and none more."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed: pip install 'chronik[spark]'")
pytest.importorskip("pyarrow", reason="pyarrow is not installed: pip install 'chronik[spark]'")
pytest.importorskip("numba", reason="numba is not installed: pip install 'chronik[spark]'")

import pyarrow.parquet as pq

from chronik.pipeline.jobs.audit import Outcome, Settings, run
from tests.spark.planted import Planted, plant

pytestmark = pytest.mark.timeout(300)  # the first test of a run waits for Java

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

RECORDS = int(os.environ.get("CHRONIK_AUDIT_RECORDS", "60000"))
"""Of the planted run; 10,000,000 has been done."""


def offsets_of(found: Outcome, folder: str | Path, finding: str) -> dict[int, set[int]]:
    """All offsets of one finding, by partition, from the table that was written."""
    table = pq.read_table(Path(folder) / "findings").to_pylist()
    offsets: dict[int, set[int]] = {}
    for row in table:
        if row["finding"] == finding:
            run_of = set(range(row["start_offset"], row["end_offset"]))
            assert not run_of & offsets.setdefault(row["partition"], set()), "an offset is told of twice"
            offsets[row["partition"]] |= run_of
    assert sum(map(len, offsets.values())) == found.totals[finding]
    return offsets


def test_planted_losses_duplicates_and_reorderings_are_found_each_and_none_more(
    spark: SparkSession, tmp_path: Path
) -> None:
    planted: Planted = plant(tmp_path, records=RECORDS, partitions=3, share=0.0001 if RECORDS > 1_000_000 else 0.002)
    out = tmp_path / "tables"

    found = run(spark, Settings(ledgers=[str(planted.ledger)], received=[str(planted.received)], out=str(out)))

    for finding in ("lost", "duplicated", "reordered", "unexpected"):
        assert offsets_of(found, out, finding) == getattr(planted, finding), finding
    assert found.totals["expected"] == RECORDS
    assert found.totals["found"] == RECORDS - found.totals["lost"]
    assert (found.totals["explained"], found.totals["unknown"]) == (0, 0)
    assert found.is_order_known
