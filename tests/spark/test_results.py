"""Tables of what a job has found: all of them or none, and nothing that was there before is written over."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed: pip install 'chronik[spark]'")
pytest.importorskip("numba", reason="numba is not installed: pip install 'chronik[spark]'")

from chronik.pipeline.jobs import audit
from chronik.pipeline.problems import JobCannotRun, plain_errors
from chronik.pipeline.tables.results import write_tables

pytestmark = pytest.mark.timeout(300)  # the first test of a run waits for Java

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def names(folder: Path) -> list[str]:
    return sorted(each.name for each in folder.iterdir())


def test_an_empty_folder_and_what_a_killed_run_left_are_no_hindrance(spark: SparkSession, tmp_path: Path) -> None:
    out = tmp_path / "my results = ö"
    out.mkdir()
    left = tmp_path / "my results = ö.being-written" / "old"
    left.mkdir(parents=True)

    write_tables({"one": spark.range(3), "two": spark.range(4)}, f"{out}/")

    assert names(tmp_path) == [out.name]
    assert names(out) == ["one", "two"]
    assert spark.read.parquet(str(out / "two")).count() == 4


def test_on_a_full_disk_there_is_no_result_rather_than_a_part_of_one(spark: SparkSession, small_disk: Path) -> None:
    large = spark.range(2_000_000).selectExpr("uuid() as text")

    with pytest.raises(JobCannotRun, match="No space left on device"), plain_errors():
        write_tables({"small": spark.range(3), "large": large}, str(small_disk / "out"))

    assert names(small_disk) == []


def test_an_audit_says_at_once_that_its_folder_is_not_empty(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "mine").touch()
    nothing = str(tmp_path / "nothing.jsonl")  # it would be said first that this is not there, were it looked for

    with pytest.raises(JobCannotRun, match="there is something in"):
        audit.run(spark, audit.AuditSettings(received=[nothing], out=str(tmp_path / "out")))
    with pytest.raises(JobCannotRun, match=r"there is no .*nothing\.jsonl"):
        audit.run(spark, audit.AuditSettings(received=[nothing], out=str(tmp_path / "new")))

    assert names(tmp_path / "out") == ["mine"]
