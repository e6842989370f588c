"""Tables and files that a job is given by their path: tables, Parquet, JSON lines or CSV, told by their names."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from chronik.pipeline.problems import JobCannotRun
from chronik.pipeline.tables import stored

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
            return spark.read.json(path)
        if name.endswith(".csv"):
            return spark.read.option("header", "true").csv(path)
        if is_local and stored.has_log(Path(path)):
            return stored.read_table(spark, Path(path))
        return stored.read_parquet(spark, path)
    except JobCannotRun:
        raise
    except Exception as problem:
        if not type(problem).__module__.startswith(("pyspark", "py4j")):
            raise
        raise JobCannotRun(
            f"{path} cannot be read as {_kind(name)}", "JSON lines end in .jsonl or .json, CSV in .csv"
        ) from problem


def _kind(name: str) -> str:
    return "JSON" if name.endswith(JSON_ENDINGS) else "CSV" if name.endswith(".csv") else "Parquet"
