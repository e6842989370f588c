"""Tables as DataFrames: Delta and Iceberg without Maven, and plain Parquet."""

from __future__ import annotations

import json
from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlparse

from chronik.pipeline.delta import LOG
from chronik.pipeline.iceberg import CATALOG, IcebergTable
from chronik.pipeline.problems import CannotRun
from chronik.pipeline.tables import for_spark

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

# What a reader of the files alone may pass over. Others change which rows there are, or what columns are called.
_HARMLESS = frozenset({"timestampNtz", "vacuumProtocolCheck", "v2Checkpoint"})


def read_table(spark: SparkSession, path: Path, columns: Collection[str]) -> DataFrame:
    """All rows of a table, with those of the columns that it has.

    Raises CannotRun where there is no table, or one that cannot be read from its files.
    """
    if (path / LOG).is_dir():
        return _read_delta(spark, path, columns)
    if (path / CATALOG).is_file():
        return _read_iceberg(spark, path, columns)
    if not path.is_dir() or next(path.rglob("*.parquet"), None) is None:
        raise CannotRun(f"{path} is no table", "give the folder of a table, or of Parquet files")
    # Spark takes what looks like numbers in names of folders for numbers: a topic may be called 7.
    rows = spark.read.option("mergeSchema", "true").parquet(for_spark(path))
    rows = rows.withColumn("topic", rows["topic"].cast("string")) if "topic" in rows.columns else rows
    return rows.select(*(name for name in rows.columns if name in columns))


def _read_delta(spark: SparkSession, path: Path, columns: Collection[str]) -> DataFrame:
    """The files that the log names. It also has the values of the columns that a table is partitioned by."""
    from deltalake import DeltaTable
    from deltalake.exceptions import DeltaError
    from pyspark.sql import functions as F
    from pyspark.sql.types import StructType

    try:
        table = DeltaTable(str(path))
        features = set(table.protocol().reader_features or ())
        everything = StructType.fromJson(json.loads(table.schema().to_json()))
        schema = StructType([field for field in everything.fields if field.name in columns])
        by = [name for name in table.metadata().partition_columns if name in columns]
        files = _files(table, by)
    except DeltaError as problem:
        raise CannotRun(f"{path}: {problem}") from problem
    if features - _HARMLESS:
        raise CannotRun(f"{path} uses {', '.join(sorted(features - _HARMLESS))}: its files alone do not say its rows")
    stored = StructType([field for field in schema.fields if field.name not in by])
    frame = spark.createDataFrame([], schema)
    for values, paths in files.items():
        rows = spark.read.schema(stored).parquet(*paths)
        for name, value in zip(by, values, strict=True):
            rows = rows.withColumn(name, F.lit(value).cast(schema[name].dataType))
        frame = frame.unionByName(rows)
    return frame


def _read_iceberg(spark: SparkSession, path: Path, columns: Collection[str]) -> DataFrame:
    """The files that the last snapshot names. They have all columns in them."""
    from pyspark.sql.types import StructType

    table = IcebergTable(path)
    everything = table.schema()
    if everything is None:
        raise CannotRun(f"{path} is no table: its catalog is empty")
    schema = StructType([field for field in everything.fields if field.name in columns])
    paths = [for_spark(file) for file in table.files()]
    return spark.read.schema(schema).parquet(*paths) if paths else spark.createDataFrame([], schema)


def _files(table: object, by: list[str]) -> dict[tuple[str | None, ...], list[str]]:
    """Files by the values of the columns that the table is partitioned by."""
    import pyarrow as pa

    actions = pa.table(table.get_add_actions(flatten=True))  # type: ignore[attr-defined]
    root = Path(unquote(urlparse(str(table.table_uri)).path))  # type: ignore[attr-defined]
    found: dict[tuple[str | None, ...], list[str]] = {}
    for action in actions.to_pylist():
        values = tuple(None if action[f"partition.{name}"] is None else str(action[f"partition.{name}"]) for name in by)
        found.setdefault(values, []).append(for_spark(root / unquote(action["path"])))
    return found
