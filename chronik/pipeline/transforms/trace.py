"""Events of the trace as rows: the fields that most tables need in columns, and the line itself for the stall rules.

One row an event, from the records of the trace topic or from exported files, which both are JSON objects by the line
(docs/trace.md).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pyspark.sql import functions as F
from pyspark.sql.types import StringType, StructField, StructType

from chronik.pipeline.schemas import event_kinds, event_schema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

# What tables are made of. All else that events have stays in the line.
COLUMNS = (
    *("at_us", "node", "topic", "partition", "client_id", "host", "group"),
    *("base_offset", "to_offset", "offset", "size_bytes", "is_duplicate", "watermark", "next_offset", "is_leader"),
    *("took_us", "has_waited", "api", "error", "reason", "leader_epoch", "state", "generation", "count"),
)


def fields() -> StructType:
    """The columns, with the types that events have; none means two things in two kinds of event."""
    known = {field.name: field for kind in event_kinds() for field in event_schema(kind)}
    return StructType([StructField("kind", StringType()), *(known[name] for name in COLUMNS)])


def lines_of_records(records: DataFrame) -> DataFrame:
    """Records of the trace topic (`partition`, `offset`, `value`) to lines, in the order of telling."""
    return records.select(
        F.col("partition").alias("told_in"),
        F.col("offset").alias("told_at"),
        F.posexplode(F.split(F.col("value").cast("string"), "\n")).alias("told_as", "line"),
    ).where(F.col("line") != "")


def lines_of_files(files: DataFrame) -> DataFrame:
    """Lines of text files (`value`), as Spark reads them."""
    return files.select(
        F.lit(0).alias("told_in"),
        F.monotonically_increasing_id().alias("told_at"),
        F.lit(0).alias("told_as"),
        F.col("value").alias("line"),
    ).where(F.trim("line") != "")


def events_of(lines: DataFrame) -> DataFrame:
    """A row for each line. What is no event at all has no kind."""
    parsed = lines.withColumn("event", F.from_json("line", fields()))
    return parsed.select("event.*", "told_in", "told_at", "told_as", "line")


def of_topics(events: DataFrame, topics: Sequence[str]) -> DataFrame:
    """Only these topics; what is of no topic, as groups are, stays."""
    return events.where(F.col("topic").isNull() | F.col("topic").isin(*topics)) if topics else events
