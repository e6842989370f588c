"""Tables as DataFrames: Delta and Iceberg without Maven, and plain Parquet."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlparse

from chronik.pipeline.problems import JobCannotRun
from chronik.pipeline.tables.delta import LOG
from chronik.pipeline.tables.iceberg import CATALOG, IcebergTable
from chronik.pipeline.tables.kinds import to_read
from chronik.pipeline.transforms.ingest import quarantine_schema

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

# What a reader of the files alone may pass over. Others change which rows there are, or what columns are called.
_HARMLESS = frozenset({"timestampNtz", "vacuumProtocolCheck", "v2Checkpoint"})
_FILE, _IS_LISTED = "file_that_has_it", "file_is_listed"


def read_table(
    spark: SparkSession, path: Path, columns: Collection[str] | None = None, topics: Collection[str] = ()
) -> DataFrame:
    """All rows of a table, with those of the columns that it has (None: all).

    Where topics are named, files that have none of their records may be left out. Raises JobCannotRun where there is no
    table, or one that cannot be read from its files.
    """
    if (path / LOG).is_dir():
        return _read_delta(spark, path, columns, topics)
    if (path / CATALOG).is_file():
        return _read_iceberg(spark, path, columns)
    if not path.is_dir() or next(path.rglob("*.parquet"), None) is None:
        raise JobCannotRun(f"{path} is no table", "give the folder of a table, or of Parquet files")
    rows = read_parquet(spark, to_read(path))
    return rows.select(*(name for name in rows.columns if columns is None or name in columns))


def has_log(path: Path) -> bool:
    """Whether something there says which files are the table's. Without it, all files of the folder are."""
    return (path / LOG).is_dir() or (path / CATALOG).is_file()


def read_parquet(spark: SparkSession, path: str) -> DataFrame:
    """Spark takes what looks like a number in the name of a folder for one: a topic may be called 007."""
    from pyspark.sql.types import StringType, StructField, StructType

    reader = spark.read.option("mergeSchema", "true")
    rows = reader.parquet(path)
    if "topic" not in rows.columns or rows.schema["topic"].dataType == StringType():
        return rows
    fields = [StructField(each.name, StringType()) if each.name == "topic" else each for each in rows.schema]
    return reader.schema(StructType(fields)).parquet(path)


def _read_delta(spark: SparkSession, path: Path, columns: Collection[str] | None, topics: Collection[str]) -> DataFrame:
    """The files that the log names. It also has the values of the columns that a table is partitioned by."""
    from deltalake import DeltaTable
    from deltalake.exceptions import DeltaError
    from pyspark.sql import functions as F
    from pyspark.sql.types import StructType

    try:
        table = DeltaTable(str(path))
        features = set(table.protocol().reader_features or ())
        schema = _chosen(StructType.fromJson(json.loads(table.schema().to_json())), columns)
        by = [name for name in table.metadata().partition_columns if name in schema.names]
        files = _files(table, by, topics)
    except DeltaError as problem:
        raise JobCannotRun(f"{path} cannot be read as a Delta table: {problem}") from problem
    if features - _HARMLESS:
        raise JobCannotRun(
            f"{path} uses {', '.join(sorted(features - _HARMLESS))}: its files alone do not say its rows"
        )
    stored = StructType([field for field in schema.fields if field.name not in by])
    if not files:
        return spark.createDataFrame([], schema)
    rows = spark.read.schema(stored).parquet(*(to_read(file) for file in files))
    if not by:
        return rows
    named = rows.select("*", F.col("_metadata.file_path").alias(_FILE))
    joined = named.join(F.broadcast(_values_by_file(rows, files, by, schema)), _FILE, "left")
    nowhere = F.raise_error(F.concat(F.lit("the table's log does not name "), _FILE))
    return joined.select(
        *(
            F.when(F.col(_IS_LISTED), F.col(name)).otherwise(nowhere).alias(name) if name in by else name
            for name in schema.names
        )
    )


def _values_by_file(
    rows: DataFrame, files: Mapping[Path, Sequence[str | int | None]], by: Sequence[str], schema: StructType
) -> DataFrame:
    """What the rows of each file have in the columns `by`. One table for all, as small as the list of files is."""
    from pyspark.sql import functions as F
    from pyspark.sql.types import BooleanType, DateType, IntegerType, StringType, StructField, StructType

    is_date = {name: isinstance(schema[name].dataType, DateType) for name in by}
    columns = [StructField(name, IntegerType() if is_date[name] else StringType()) for name in by]
    # Spark's own names of the files: it writes some characters as %20 and others not, here file:/// and there file:/
    names = [name.removeprefix("file:").lstrip("/") for name in rows.inputFiles()]
    listed = [
        (f"file:{slashes}{name}", True, *files[Path(f"/{unquote(name)}")]) for name in names for slashes in ("/", "///")
    ]
    keys = [StructField(_FILE, StringType()), StructField(_IS_LISTED, BooleanType())]
    values = rows.sparkSession.createDataFrame(listed, StructType([*keys, *columns]))
    for name in by:
        given = F.date_from_unix_date(name) if is_date[name] else F.col(name)
        values = values.withColumn(name, given.cast(schema[name].dataType))
    return values


def _read_iceberg(spark: SparkSession, path: Path, columns: Collection[str] | None) -> DataFrame:
    """The files that the last snapshot names. They have all columns in them."""
    table = IcebergTable(path)
    everything = table.schema()
    if everything is None:
        # As ingest leaves a table that nothing came into yet.
        return spark.createDataFrame([], _chosen(quarantine_schema(), columns))
    schema = _chosen(everything, columns)
    paths = [to_read(file) for file in table.files()]
    return spark.read.schema(schema).parquet(*paths) if paths else spark.createDataFrame([], schema)


def _chosen(schema: StructType, columns: Collection[str] | None) -> StructType:
    from pyspark.sql.types import StructType

    return StructType([field for field in schema.fields if columns is None or field.name in columns])


def _files(table: object, by: Sequence[str], topics: Collection[str]) -> dict[Path, tuple[str | int | None, ...]]:
    """Files, with the values of the columns that the table is partitioned by; only those of these topics, if any."""
    import pyarrow as pa

    actions = pa.table(table.get_add_actions(flatten=True))  # type: ignore[attr-defined]
    root = Path(unquote(urlparse(str(table.table_uri)).path))  # type: ignore[attr-defined]
    columns = [_values(actions.column(f"partition.{name}")) for name in by]
    rows = zip(actions.column("path").to_pylist(), *columns, strict=True)
    found = {(root / unquote(path)).resolve(): tuple(values) for path, *values in rows}
    if not topics or "topic" not in by:
        return found
    return {file: values for file, values in found.items() if values[by.index("topic")] in topics}


def _values(column: pa.ChunkedArray) -> list[str | int | None]:
    """As text, but dates as days since 1970: Python has none after the year 9999, and a table may."""
    import pyarrow as pa

    if pa.types.is_date32(column.type):
        days: list[str | int | None] = column.cast(pa.int32()).to_pylist()
        return days
    return [None if each is None else str(each) for each in column.to_pylist()]
