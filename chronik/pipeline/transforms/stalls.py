"""Events to stalls, by the very rules of the live stall finder (chronik/trace/stalls), many spans of time at once.

The rules weigh partitions, clients, groups and nodes against one another, so a moment needs the events of the whole
cluster, but only those of the last two minutes. Time is therefore what the work is dealt out by: a *span* of moments
gets its own events and those of the window before it. Within a span events are read in order of time, a window of them
at once in memory. What lasts across spans is put together again at the end.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from typing import TYPE_CHECKING, Any

from pyspark.sql import Window
from pyspark.sql import functions as F

from chronik.pipeline.judging import APART_US, EVERY_US, WINDOW_US, JudgedStall, known_events, stalls_between

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

SPAN_US = (
    300_000_000  # the longer, the less is judged with the window before it for nothing; the shorter, the more cores
)
KEY = ("cause", "topic", "partition", "group", "client_id", "host")
STALL = """
    cause string, topic string, partition int, `group` string, client_id string, host string, node int,
    since_us bigint, named_us bigint, until_us bigint, moments bigint, summary string, evidence array<string>,
    advice string
"""


def stalls(events: DataFrame, tasks: int, every_us: int = EVERY_US, span_us: int = SPAN_US) -> DataFrame:
    """One row a stall (`STALL`), worst and earliest first is for the reader to sort."""
    return joined(pieces(events, tasks, every_us, span_us))


def pieces(events: DataFrame, tasks: int, every_us: int, span_us: int) -> DataFrame:
    """Stalls as each span sees them: one that lasts is in several."""
    first, last = F.floor(F.col("at_us") / span_us), F.floor((F.col("at_us") + WINDOW_US) / span_us)
    spans = (
        events.select(
            F.explode(F.sequence(first, last)).alias("span"), "at_us", "told_in", "told_at", "told_as", "line"
        )
        .repartition(tasks, "span")
        .sortWithinPartitions("span", "at_us", "told_in", "told_at", "told_as")
        .select("span", "line")
    )

    def judge(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for span, rows in groupby(_rows(batches), key=lambda row: row[0]):
            known = (event for _, line in rows for event in known_events(line.encode()))
            found = stalls_between(known, span * span_us, (span + 1) * span_us, every_us)
            if found:
                yield _batch(found)

    return spans.mapInArrow(judge, STALL)


def _rows(batches: Iterator[pa.RecordBatch]) -> Iterator[tuple[int, str]]:
    for batch in batches:
        yield from zip(batch.column(0).to_pylist(), batch.column(1).to_pylist(), strict=True)


def _batch(found: list[JudgedStall]) -> pa.RecordBatch:
    import pyarrow as pa

    strings = pa.list_(pa.field("element", pa.string()))
    schema = pa.schema(
        [
            *((name, pa.string()) for name in ("cause", "topic")),
            ("partition", pa.int32()),
            *((name, pa.string()) for name in ("group", "client_id", "host")),
            ("node", pa.int32()),
            *((name, pa.int64()) for name in ("since_us", "named_us", "until_us", "moments")),
            ("summary", pa.string()),
            ("evidence", strings),
            ("advice", pa.string()),
        ]
    )
    return pa.RecordBatch.from_pylist([row_of(stall) for stall in found], schema)


def row_of(stall: JudgedStall) -> dict[str, Any]:
    verdict = stall.verdict
    return {
        "cause": str(verdict.cause),
        "topic": verdict.topic,
        "partition": verdict.partition,
        "group": verdict.group,
        "client_id": verdict.client_id,
        "host": verdict.host,
        "node": verdict.node,
        "since_us": stall.since_us,
        "named_us": stall.named_us,
        "until_us": stall.until_us,
        "moments": stall.moments,
        "summary": verdict.summary,
        "evidence": list(verdict.evidence),
        "advice": verdict.advice,
    }


def joined(found: DataFrame) -> DataFrame:
    """What goes on where another piece of it ended is one stall, with the words of its last piece."""
    in_time = Window.partitionBy(*KEY).orderBy("named_us")
    is_other = F.col("named_us") - F.lag("until_us").over(in_time) > APART_US
    numbered = found.withColumn("number", F.sum(F.coalesce(is_other.cast("int"), F.lit(0))).over(in_time))
    last = [F.max_by(name, "until_us").alias(name) for name in ("node", "summary", "evidence", "advice")]
    return (
        numbered.groupBy(*KEY, "number")
        .agg(
            F.min("since_us").alias("since_us"),
            F.min("named_us").alias("named_us"),
            F.max("until_us").alias("until_us"),
            F.sum("moments").alias("moments"),
            *last,
        )
        .select(*KEY, "node", "since_us", "named_us", "until_us", "moments", "summary", "evidence", "advice")
    )
