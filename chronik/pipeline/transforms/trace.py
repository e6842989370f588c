"""Events of the trace as rows: the fields that most tables need in columns, and the line itself for the stall rules.

One row an event, from the records of the trace topic or from exported files, which both are JSON objects by the line
(docs/trace.md). A line that stands for many batches is made a line for each first.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, LongType, StringType, StructField, StructType

from chronik.pipeline.schemas import BATCH_FIELDS, PRODUCED_BATCHES, event_kinds, event_schema

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

# What tables are made of. All else that events have stays in the line.
COLUMNS = (
    *("at_us", "node", "topic", "partition", "client_id", "host", "group"),
    *("base_offset", "to_offset", "offset", "size_bytes", "is_duplicate", "watermark", "next_offset", "is_leader"),
    *("took_us", "has_waited", "api", "error", "reason", "leader_epoch", "state", "generation", "count"),
)

_COMMON = ("node", "topic", "partition", "client_id", "host", "connection", "acks", "leader_epoch")


def fields() -> StructType:
    """The columns, with the types that events have; none means two things in two kinds of event."""
    known = {field.name: field for kind in event_kinds() for field in event_schema(kind)}
    return StructType([StructField("kind", StringType()), *(known[name] for name in COLUMNS)])


def lines_of_records(records: DataFrame) -> DataFrame:
    """Records of the trace topic (`partition`, `offset`, `value`) to lines, in the order of telling."""
    lines = records.select(
        F.col("partition").alias("told_in"),
        F.col("offset").alias("told_at"),
        F.posexplode(F.split(F.col("value").cast("string"), "\n")).alias("told_as", "line"),
    )
    return _apart(lines.where(F.col("line") != ""))


def lines_of_files(files: DataFrame) -> DataFrame:
    """Lines of text files (`value`), as Spark reads them."""
    lines = files.select(
        F.lit(0).alias("told_in"),
        F.monotonically_increasing_id().alias("told_at"),
        F.lit(0).alias("told_as"),
        F.col("value").alias("line"),
    )
    return _apart(lines.where(F.trim("line") != ""))


def _apart(lines: DataFrame) -> DataFrame:
    """A line `produced` for each batch of a line `produced_batches`; all others as they are."""
    is_run = F.get_json_object("line", "$.kind") == PRODUCED_BATCHES
    may_be = F.col("line").contains(PRODUCED_BATCHES)
    runs = lines.withColumn("run", F.when(may_be & is_run, F.from_json("line", _run())))
    each = runs.withColumn("batch", F.explode_outer("run.batches"))
    one = F.when(F.col("batch").isNotNull(), F.to_json(_produced())).otherwise(F.col("line"))
    return each.select("told_in", "told_at", "told_as", one.alias("line"))


def _run() -> StructType:
    """As `produced_batches` is written: what its batches have in common, and each as an array."""
    common = [field for field in event_schema("produce_appended") if field.name in _COMMON]
    return StructType([*common, StructField("batches", ArrayType(ArrayType(StringType())))])


def _produced() -> Column:
    """A batch of a run, as an event of its own."""
    kinds = {
        field.name: field.dataType for name in ("produce_appended", "produce_answered") for field in event_schema(name)
    }

    def of_batch(name: str) -> Column:
        text, kind = F.get(F.col("batch"), F.lit(BATCH_FIELDS.index(name))), kinds.get(name, LongType())
        return F.from_json(text, kind) if isinstance(kind, ArrayType) else text.cast(kind)

    return F.struct(
        F.lit("produced").alias("kind"),
        (of_batch("appended_us") + of_batch("took_us")).alias("at_us"),
        *(F.col(f"run.{name}") for name in _COMMON),
        *(of_batch(name).alias(name) for name in BATCH_FIELDS if name != "appended_us"),
    )


def events_of(lines: DataFrame) -> DataFrame:
    """A row for each line. What is no event at all has no kind."""
    parsed = lines.withColumn("event", F.from_json("line", fields()))
    return parsed.select("event.*", "told_in", "told_at", "told_as", "line")


def of_topics(events: DataFrame, topics: Sequence[str]) -> DataFrame:
    """Only these topics; what is of no topic, as groups are, stays."""
    return events.where(F.col("topic").isNull() | F.col("topic").isin(*topics)) if topics else events
