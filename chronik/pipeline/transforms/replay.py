"""Rows of tables or topics to records that are to be written again: which, in what order, what is kept of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F
from pyspark.sql.types import BinaryType, StringType
from pyspark.sql.window import Window

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

RECORD = ("key", "value", "headers", "timestamp", "partition")
WANTED = (*RECORD, "topic", "offset")
_DUE = "due_at"


def within(rows: DataFrame, since_ms: int | None, until_ms: int | None) -> DataFrame:
    """Rows of a span of time, half-open."""
    if since_ms is not None:
        rows = rows.where(F.col("timestamp") >= F.timestamp_millis(F.lit(since_ms)))
    if until_ms is not None:
        rows = rows.where(F.col("timestamp") < F.timestamp_millis(F.lit(until_ms)))
    return rows


def in_order(rows: DataFrame, tasks: int) -> DataFrame:
    """What was in one partition is written by one task, in its order, and the same way each time."""
    places = _places(rows)
    if not places:
        return rows
    together = [name for name in places if name != "offset"]
    parted = rows.repartition(tasks, *together) if together else rows.coalesce(1)
    return parted.sortWithinPartitions(*places)


def in_time(rows: DataFrame) -> DataFrame:
    """By one task, in the order of time, yet each partition in its own order: none is before one that it came after."""
    places = _places(rows)
    if "timestamp" not in rows.columns or "offset" not in places:
        return in_order(rows.coalesce(1), 1)
    before = Window.partitionBy(*(name for name in places if name != "offset")).orderBy("offset")
    timed = rows.withColumn(_DUE, F.max("timestamp").over(before.rowsBetween(Window.unboundedPreceding, 0)))
    return timed.repartition(1).sortWithinPartitions(_DUE, *places).drop(_DUE)


def as_records(rows: DataFrame, *, keeps_partition: bool = True, keeps_timestamp: bool = True) -> DataFrame:
    """The columns that the sink takes. A value that was read by its schema becomes JSON."""
    is_kept = {"partition": keeps_partition, "timestamp": keeps_timestamp}
    kept = [name for name in RECORD if name in rows.columns and is_kept.get(name, True)]
    if "value" in kept and not isinstance(rows.schema["value"].dataType, BinaryType | StringType):
        rows = rows.withColumn("value", F.to_json("value"))
    return rows.select(*kept)


def _places(rows: DataFrame) -> list[str]:
    return [name for name in ("topic", "partition", "offset") if name in rows.columns]
