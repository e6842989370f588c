"""Events of the trace as rows: the fields that most tables need in columns, and the line itself for the stall rules.

One row an event, from the records of the trace topic or from exported files, which both are JSON objects by the line
(docs/trace.md). A line that stands for many batches is made a line for each first.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, BooleanType, LongType, StringType, StructField, StructType

from chronik.pipeline.schemas import (
    ANSWERED_FIELDS,
    BATCH_FIELDS,
    BATCH_RUN,
    PRODUCED_BATCHES,
    TAKEN_FIELDS,
    event_kinds,
    event_schema,
)

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

# What tables are made of. All else that events have stays in the line.
COLUMNS = (
    *("at_us", "node", "topic", "partition", "client_id", "host", "group"),
    *("base_offset", "to_offset", "offset", "size_bytes", "is_duplicate", "watermark", "next_offset", "is_leader"),
    *("took_us", "has_waited", "api", "error", "reason", "leader_epoch", "state", "generation", "count"),
)

_SENT = (
    *("at_us", "producer_id", "producer_epoch", "base_sequence"),
    *("base_offset", "to_offset", "size_bytes", "is_duplicate", "watermark"),
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
    """A line for each batch of a line that stands for many (`produced`, or `produce_appended` where it was not
    answered); all others as they are."""
    kind = F.get_json_object("line", "$.kind")
    may_be = F.col("line").contains(BATCH_RUN) | F.col("line").contains(PRODUCED_BATCHES)
    runs = lines.withColumn("run", F.when(may_be & kind.isin(BATCH_RUN, PRODUCED_BATCHES), F.from_json("line", _run())))
    answers = F.flatten(F.transform("run.answers", lambda one: F.array_repeat(one, F.get(one, F.lit(0)).cast("int"))))
    each = runs.withColumn("answers", answers).select("*", F.posexplode_outer("run.batches").alias("place", "batch"))
    is_answered = F.col("answer").isNotNull()
    one = (
        F.when(F.col("batch").isNull(), F.col("line"))
        .when(F.col("answers").isNull(), F.to_json(_produced(_of_batch())))
        .when(is_answered, F.to_json(_produced(_of_taken() | _of_answer())))
        .otherwise(F.to_json(_appended(_of_taken())))
    )
    each = each.withColumn("answer", F.get("answers", F.col("place")))
    return each.select("told_in", "told_at", "told_as", one.alias("line"))


def _run() -> StructType:
    """As such a line is written: what its batches have in common, and each as an array. Answers are of `batch_run`."""
    common = [field for field in event_schema("produce_appended") if field.name in _COMMON]
    arrays = ArrayType(ArrayType(StringType()))
    return StructType([*common, StructField("batches", arrays), StructField("answers", arrays)])


def _columns_of(array: str, names: Sequence[str]) -> dict[str, Column]:
    """The texts of an array by what they are, in the types that events have."""
    kinds = {
        field.name: field.dataType for name in ("produce_appended", "produce_answered") for field in event_schema(name)
    } | {"is_new": BooleanType()}

    def typed(place: int, name: str) -> Column:
        text, kind = F.get(F.col(array), F.lit(place)), kinds.get(name, LongType())
        return F.from_json(text, kind) if isinstance(kind, ArrayType) else text.cast(kind)

    return {name: typed(place, name) for place, name in enumerate(names)}


def _of_batch() -> dict[str, Column]:
    """The fields of `produced`, of a batch in `produced_batches`."""
    of = _columns_of("batch", BATCH_FIELDS)
    return of | {"at_us": of["appended_us"] + of["took_us"]}


def _of_taken() -> dict[str, Column]:
    """The fields of `produce_appended`, of a batch in `batch_run`."""
    of = _columns_of("batch", TAKEN_FIELDS)
    return of | {
        "at_us": _us(of["appended_ns"]),
        "to_offset": of["last_offset"] + 1,
        "is_duplicate": ~of["is_new"],
        "watermark": of["watermark_before"],
    }


def _of_answer() -> dict[str, Column]:
    """What `produced` says beyond that, of its answer. Clocks may be set back."""
    of = _columns_of("answer", ANSWERED_FIELDS)
    appended_us = _us(_columns_of("batch", TAKEN_FIELDS)["appended_ns"])
    took_us = F.greatest(_us(of["answered_ns"]) - appended_us, F.lit(0))
    return {"watermark": of["watermark"], "in_sync": of["in_sync"], "took_us": took_us, "at_us": appended_us + took_us}


def _us(nanoseconds: Column) -> Column:
    return F.call_function("div", nanoseconds, F.lit(1000))  # `/` is of doubles, which are 256 ns apart by now


def _appended(of: dict[str, Column]) -> Column:
    return _event("produce_appended", _SENT, of)


def _produced(of: dict[str, Column]) -> Column:
    return _event("produced", (*_SENT, "watermark_before", "in_sync", "took_us"), of)


def _event(kind: str, names: Sequence[str], of: dict[str, Column]) -> Column:
    """A batch of a run, as an event of its own."""
    common = (F.col(f"run.{name}") for name in _COMMON)
    return F.struct(F.lit(kind).alias("kind"), *common, *(of[name].alias(name) for name in names))


def events_of(lines: DataFrame) -> DataFrame:
    """A row for each line. What is no event at all has no kind."""
    parsed = lines.withColumn("event", F.from_json("line", fields()))
    return parsed.select("event.*", "told_in", "told_at", "told_as", "line")


def of_topics(events: DataFrame, topics: Sequence[str]) -> DataFrame:
    """Only these topics; what is of no topic, as groups are, stays."""
    return events.where(F.col("topic").isNull() | F.col("topic").isin(*topics)) if topics else events
