"""Rows that break a rule are split off with its name, and none is dropped."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed: pip install 'chronik[spark]'")

from pyspark.sql import functions as F

from chronik.pipeline.values.checks import Check, not_negative, one_of, present, split

pytestmark = pytest.mark.timeout(300)  # the first test of a run waits for Java

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_bad_rows_are_split_off_with_all_their_reasons(spark: SparkSession) -> None:
    rows = [("a", 1, 2), (None, -1, 2), ("b", 5, 2), ("c", None, 2), ("d", 1, 9)]
    frame = spark.createDataFrame(rows, "name string, start int, end int")
    rules = [
        present("name"),
        not_negative("start"),
        one_of("end", [2, 3]),
        Check("ends before it begins", lambda: F.col("end") >= F.col("start")),
    ]

    good, bad = split(frame, rules)

    assert [tuple(row) for row in good.collect()] == [("a", 1, 2)]
    assert {row.name: row.reason for row in bad.collect()} == {
        None: "no name; start is negative",
        "b": "ends before it begins",
        "c": "ends before it begins",  # a rule that comes to null does not hold
        "d": "end is none of 2, 3",
    }
    assert good.columns == ["name", "start", "end"]
