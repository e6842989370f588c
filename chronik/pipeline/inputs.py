"""Tables and files that a job is given by their path: Delta, Parquet, JSON lines or CSV, told by their names."""

from __future__ import annotations

from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from chronik.pipeline.problems import CannotRun

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

JSON_ENDINGS = (".json", ".jsonl", ".ndjson")
DELTA_LOG = "_delta_log"
TOPIC_OF_FILE = "partition.topic"


def read_table(spark: SparkSession, path: str) -> DataFrame:
    """The rows there. Raises CannotRun for what cannot be read."""
    is_local = "://" not in path
    if is_local and not Path(path).exists():
        raise CannotRun(f"there is no {path}")
    name = path.rstrip("/").removesuffix(".gz").lower()
    try:
        if name.endswith(JSON_ENDINGS):
            return spark.read.json(path)
        if name.endswith(".csv"):
            return spark.read.option("header", "true").csv(path)
        if is_local and (Path(path) / DELTA_LOG).is_dir():
            return _read_delta(spark, path)
        return _read_parquet(spark, [path])
    except CannotRun:
        raise
    except Exception as problem:
        if not type(problem).__module__.startswith(("pyspark", "py4j")):
            raise
        raise CannotRun(
            f"{path} cannot be read as {_kind(name)}", "JSON lines end in .jsonl or .json, CSV in .csv"
        ) from problem


def _kind(name: str) -> str:
    return "JSON" if name.endswith(JSON_ENDINGS) else "CSV" if name.endswith(".csv") else "Parquet"


def _read_parquet(spark: SparkSession, paths: list[str]) -> DataFrame:
    """A topic in the name of a folder is a text, also where it looks like a number."""
    from pyspark.sql.types import StringType, StructField, StructType

    frame = spark.read.parquet(*paths)
    if "topic" not in frame.columns or frame.schema["topic"].dataType == StringType():
        return frame
    fields = [StructField(each.name, StringType()) if each.name == "topic" else each for each in frame.schema]
    return spark.read.schema(StructType(fields)).parquet(*paths)


def _read_delta(spark: SparkSession, path: str) -> DataFrame:
    """The files of the table's last version, and no others that lie in its folder."""
    import pyarrow as pa
    from deltalake import DeltaTable
    from deltalake.exceptions import DeltaError
    from pyspark.sql import functions as F

    try:
        table: Any = DeltaTable(path)
        files = pa.table(table.get_add_actions(flatten=True)).to_pylist()
    except DeltaError as problem:
        raise CannotRun(f"{path} cannot be read as a Delta table: {problem}") from problem
    # A column that the table is partitioned by is not in its files.
    by_topic: dict[str | None, list[str]] = {}
    for file in files:
        by_topic.setdefault(file.get(TOPIC_OF_FILE), []).append(str(Path(path) / unquote(file["path"])))
    frames = []
    for topic, paths in by_topic.items():
        frame = spark.read.parquet(*paths)
        frames.append(frame if topic is None else frame.withColumn("topic", F.lit(topic)))
    if not frames:
        return _empty(spark)
    return reduce(lambda one, other: one.unionByName(other, allowMissingColumns=True), frames)


def _empty(spark: SparkSession) -> DataFrame:
    return spark.createDataFrame([], "topic string, partition int, offset bigint")
