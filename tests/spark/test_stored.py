"""Delta tables read from their files alone, without a plan that grows with the days they have."""

from __future__ import annotations

from datetime import date, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed: pip install 'chronik[spark]'")
pytest.importorskip("deltalake", reason="deltalake is not installed: pip install 'chronik[spark]'")

import deltalake
import pyarrow as pa

from chronik.pipeline.tables.stored import read_table

pytestmark = pytest.mark.timeout(300)  # the first test of a run waits for Java

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TOPICS = ("a b", "c+d%20=ö", "007")
DAYS = 40


def test_a_table_of_many_days_is_read_in_one_go(spark: SparkSession, tmp_path: Path) -> None:
    table = tmp_path / "my tables = ö"
    days = [date(2023, 1, 1) + timedelta(number) for number in range(DAYS - 1)]
    rows = [(topic, day, number) for topic in TOPICS for number, day in enumerate([*days, None])]
    columns = {name: [row[place] for row in rows] for place, name in enumerate(("topic", "date", "offset"))}
    deltalake.write_deltalake(str(table), pa.table(columns), partition_by=["topic", "date"])

    found = read_table(spark, table)
    some = read_table(spark, table, ["offset", "topic"], [TOPICS[1]])

    assert sorted(found.collect(), key=str) == sorted(rows, key=str)
    assert found.columns == ["topic", "date", "offset"]
    assert sorted(tuple(row) for row in some.collect()) == [(TOPICS[1], number) for number in range(DAYS)]
    assert len(some.inputFiles()) == DAYS
    assert found._jdf.queryExecution().optimizedPlan().toString().count("Relation") == 1
    assert read_table(spark, table, topics=["nobody's"]).count() == 0
