"""Tables and files that a job is given by their path: tables, Parquet, JSON lines or CSV, known by their names."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from chronik.pipeline.problems import JobCannotRun
from chronik.pipeline.tables import stored
from chronik.pipeline.tables.kinds import is_empty, to_read
from chronik.pipeline.transforms.ingest import quarantine_schema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

JSON_ENDINGS = (".json", ".jsonl", ".ndjson")


def read_table(spark: SparkSession, path: str) -> DataFrame:
    """The rows there. Raises JobCannotRun for what cannot be read."""
    is_local = "://" not in path
    if is_local and not Path(path).exists():
        raise JobCannotRun(f"there is no {path}")
    name = path.rstrip("/").removesuffix(".gz").lower()
    try:
        if name.endswith(JSON_ENDINGS):
            return spark.read.json(for_reading(path))
        if name.endswith(".csv"):
            return spark.read.option("header", "true").csv(for_reading(path))
        if is_local and stored.has_log(Path(path)):
            return stored.read_table(spark, Path(path))
        if is_local and Path(path).is_dir() and is_empty(Path(path)):
            # As ingest leaves a quarantine, and a table, that nothing came into.
            return spark.createDataFrame([], quarantine_schema())
        return stored.read_parquet(spark, for_reading(path))
    except JobCannotRun:
        raise
    except Exception as problem:
        if not type(problem).__module__.startswith(("pyspark", "py4j")):
            raise
        raise JobCannotRun(
            f"{path} cannot be read as {_kind(name)}", "JSON lines end in .jsonl or .json, CSV in .csv"
        ) from problem


def for_reading(path: str) -> str:
    """A path of this machine as Spark is to take it, wherever it runs. What is not there may be a pattern."""
    return path if "://" in path or not Path(path).exists() else to_read(Path(path))


def _kind(name: str) -> str:
    return "JSON" if name.endswith(JSON_ENDINGS) else "CSV" if name.endswith(".csv") else "Parquet"
