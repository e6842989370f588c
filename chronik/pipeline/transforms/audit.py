"""Every offset accounted for: runs of ledger, log and receivers, laid over one another, to the tables of an audit.

Partitions are cut into chunks of offsets that are swept by themselves (`chronik.pipeline.sweep`): so one hot partition
keeps all cores busy, and none needs room for more than a chunk. What a chunk must know of the others, so that what is
out of order is found across their borders, is sent to it as a row."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import TYPE_CHECKING, Any

from pyspark.sql import Window
from pyspark.sql import functions as F

from chronik.pipeline import schemas
from chronik.pipeline import sweep as s
from chronik.pipeline.sweep import Sides
from chronik.pipeline.values.checks import Check

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import Column, DataFrame

PLACE = ("topic", "partition")
CHUNK_OFFSETS = 1 << 18
_STATES = {"record": s.RECORD, schemas.MARKER: s.MARKER, schemas.ABORTED: s.ABORTED, schemas.OPEN: s.OPEN}
OUTCOMES = {s.FOUND: schemas.FOUND, s.LOST: schemas.LOST, s.UNEXPECTED: schemas.UNEXPECTED}
OUTCOMES |= {s.EXPLAINED: schemas.EXPLAINED, s.UNKNOWN: schemas.UNKNOWN}
_MARKS = {
    "is_expected": s.EXPECTED_BIT,
    "is_duplicated": s.DUPLICATED_BIT,
    "is_reordered": s.REORDERED_BIT,
    "is_acknowledged_twice": s.TWICE_BIT,
    "is_in_log": s.IN_LOG_BIT,
    "is_served": s.SERVED_BIT,
}


def union(frames: list[DataFrame]) -> DataFrame:
    return reduce(lambda one, other: one.unionByName(other), frames)


# --- what is known, as layers


def layer(runs: DataFrame, number: int | Column) -> DataFrame:
    """Runs of one layer; `position` and `producer` where they have them."""
    position = F.col("position") if "position" in runs.columns else F.lit(None).cast("bigint")
    producer = F.col("producer") if "producer" in runs.columns else F.lit(None).cast("string")
    return runs.select(
        *PLACE,
        (F.lit(number) if isinstance(number, int) else number).alias("layer"),
        F.col("start_offset").cast("bigint").alias("start_offset"),
        F.col("end_offset").cast("bigint").alias("end_offset"),
        position.alias("position"),
        producer.alias("producer"),
    )


def ranges(parts: list[DataFrame]) -> DataFrame:
    """From the first to the last offset that anything is known of, for each partition."""
    ends = [part.select(*PLACE, "start_offset", "end_offset") for part in parts]
    return (
        union(ends)
        .groupBy(*PLACE)
        .agg(F.min("start_offset").alias("start_offset"), F.max("end_offset").alias("end_offset"))
        .where(F.col("start_offset") < F.col("end_offset"))
    )


def layers_of_log(log: DataFrame) -> DataFrame:
    """A run of LOG is on the layer of its state."""
    numbers = F.create_map(*(F.lit(each) for pair in _STATES.items() for each in pair))
    return layer(log, numbers[F.col("state")])


def layers_of_bounds(bounds: DataFrame, ranges: DataFrame) -> DataFrame:
    """What a partition's log cannot have any more: what is before its start, and what compaction may have taken."""
    known = bounds.join(ranges, list(PLACE))
    before = known.select(*PLACE, "start_offset", F.col("log_start").alias("end_offset"))
    inside = known.where("is_compacted").select(
        *PLACE, F.col("log_start").alias("start_offset"), F.col("log_end").alias("end_offset")
    )
    is_some = F.col("start_offset") < F.col("end_offset")
    return layer(before.where(is_some), s.RETENTION).unionByName(layer(inside.where(is_some), s.COMPACTION))


def layer_of_waiting(received: DataFrame, bounds: DataFrame) -> DataFrame:
    """What lies in the log behind the last that was received: it may still come."""
    ends = received.groupBy(*PLACE).agg(F.max("end_offset").alias("received_end"))
    behind = bounds.join(ends, list(PLACE), "left").select(
        *PLACE, F.coalesce("received_end", "log_start").alias("start_offset"), F.col("log_end").alias("end_offset")
    )
    return layer(behind.where(F.col("start_offset") < F.col("end_offset")), s.WAITING)


# --- the sweep


def accounts(
    layers: DataFrame, sides: Sides, is_order_known: bool = True, chunk_offsets: int = CHUNK_OFFSETS
) -> DataFrame:
    """Layers to ACCOUNTS: each offset of the RANGE layer once."""
    pieces = cut(layers, chunk_offsets)
    together = union([pieces, _later(pieces), _earlier(pieces)]) if is_order_known else pieces
    return together.groupBy(*PLACE, "chunk").applyInArrow(_sweeper(sides), schemas.ACCOUNTS)


def cut(layers: DataFrame, chunk_offsets: int) -> DataFrame:
    """The same runs, none of them across the border of two chunks."""
    first, last = (F.expr(f"{offset} div {chunk_offsets}") for offset in ("start_offset", "(end_offset - 1)"))
    chunks = layers.withColumn("chunk", F.explode(F.sequence(first, last)))
    start = F.greatest("start_offset", F.col("chunk") * chunk_offsets)
    return chunks.select(
        *PLACE,
        "layer",
        start.alias("start_offset"),
        F.least("end_offset", (F.col("chunk") + 1) * chunk_offsets).alias("end_offset"),
        (F.col("position") + start - F.col("start_offset")).alias("position"),
        "producer",
        "chunk",
    )


def _later(pieces: DataFrame) -> DataFrame:
    """To each chunk, the least position that was given further on in its partition."""
    least = (
        pieces.where((F.col("layer") == s.RECEIVED) & F.col("position").isNotNull())
        .groupBy(*PLACE, "chunk")
        .agg(F.min("position").alias("position"))
    )
    after = Window.partitionBy(*PLACE).orderBy(F.desc("chunk")).rowsBetween(Window.unboundedPreceding, -1)
    known = least.withColumn("position", F.min("position").over(after)).withColumn(
        "producer", F.lit(None).cast("string")
    )
    return _finding(known, s.LATER)


def _earlier(pieces: DataFrame) -> DataFrame:
    """To each chunk, the highest number of each of its producers further back in the partition."""
    last = F.col("position") + F.col("end_offset") - F.col("start_offset") - 1
    highest = (
        pieces.where((F.col("layer") == s.LEDGER) & F.col("position").isNotNull())
        .groupBy(*PLACE, "chunk", "producer")
        .agg(F.max(last).alias("position"))
    )
    before = Window.partitionBy(*PLACE, "producer").orderBy("chunk").rowsBetween(Window.unboundedPreceding, -1)
    return _finding(highest.withColumn("position", F.max("position").over(before)), s.EARLIER)


def _finding(known: DataFrame, number: int) -> DataFrame:
    nowhere = F.lit(0).cast("bigint")
    return known.where(F.col("position").isNotNull()).select(
        *PLACE,
        F.lit(number).alias("layer"),
        nowhere.alias("start_offset"),
        nowhere.alias("end_offset"),
        "position",
        "producer",
        "chunk",
    )


def _sweeper(sides: Sides) -> Callable[[pa.Table], pa.Table]:
    def swept(table: pa.Table) -> pa.Table:
        import numpy as np
        import pyarrow as pa

        def column(name: str) -> Any:
            return table[name].combine_chunks().fill_null(s.NONE).to_numpy(zero_copy_only=False).astype(np.int64)

        producers = table["producer"].combine_chunks().dictionary_encode()
        codes = producers.indices.fill_null(s.NONE).to_numpy(zero_copy_only=False).astype(np.int64)
        runs = s.Runs(column("layer"), column("start_offset"), column("end_offset"), column("position"), codes)
        found = s.sweep(runs, sides)
        rows = pa.array(np.zeros(len(found.start), np.int64))
        outcomes = pa.array([OUTCOMES[number] for number in range(len(OUTCOMES))])
        reasons = pa.array(schemas.REASONS)
        columns = [
            table["topic"].take(rows),
            table["partition"].take(rows),
            pa.array(found.start),
            pa.array(found.end),
            outcomes.take(pa.array(found.outcome)),
            reasons.take(pa.array(found.reason - s.MARKER, mask=found.reason == s.NONE)),
            producers.dictionary.take(pa.array(found.producer, mask=found.producer == s.NONE)),
            *(pa.array((found.marks & bit) != 0) for bit in _MARKS.values()),
            pa.array(found.times),
        ]
        return pa.table(columns, names=schemas.ACCOUNTS.names)

    return swept


# --- the tables


def partitions(accounts: DataFrame) -> DataFrame:
    """As PARTITIONS."""
    reasons = [_sum((F.col("reason") == name), f"explained_{name}") for name in schemas.REASONS]
    ends = [F.min("start_offset").alias("start_offset"), F.max("end_offset").alias("end_offset")]
    return accounts.groupBy(*PLACE).agg(*ends, *_counts(), *reasons).select(*schemas.PARTITIONS.names)


def producers(accounts: DataFrame) -> DataFrame:
    """As PRODUCERS."""
    named = accounts.where(F.col("producer").isNotNull())
    return named.groupBy(*PLACE, "producer").agg(*_counts()).select(*schemas.PRODUCERS.names)


def _counts() -> list[Column]:
    outcomes = [_sum(F.col("outcome") == name, name) for name in schemas.OUTCOMES]
    marks = [_sum(F.col(name), name.removeprefix("is_")) for name in _MARKS if name != "is_in_log"]
    return [*outcomes, *marks]


def _sum(condition: Column, name: str) -> Column:
    size = F.col("end_offset") - F.col("start_offset")
    return F.sum(F.when(condition, size).otherwise(0)).alias(name)


def findings(accounts: DataFrame) -> DataFrame:
    """Whatever is not simply found, runs joined over the borders of chunks; all of FINDINGS but who committed it."""
    said = F.array_compact(
        F.array(
            F.when(F.col("outcome") != schemas.FOUND, F.col("outcome")),
            F.when(F.col("is_duplicated"), F.lit("duplicated")),
            F.when(F.col("is_reordered"), F.lit("reordered")),
            F.when(F.col("is_acknowledged_twice"), F.lit("acknowledged_twice")),
        )
    )
    odd = accounts.withColumn("finding", F.explode(said))
    same = [*PLACE, "finding", "reason", "producer", "is_in_log", "is_served", "times"]
    ordered = Window.partitionBy(*same).orderBy("start_offset")
    begins = F.coalesce(F.lag("end_offset").over(ordered) != F.col("start_offset"), F.lit(True))
    island = F.sum(F.col("begins").cast("int")).over(ordered)
    return (
        odd.withColumn("begins", begins)
        .withColumn("island", island)
        .groupBy(*same, "island")
        .agg(F.min("start_offset").alias("start_offset"), F.max("end_offset").alias("end_offset"))
        .select(*(name for name in schemas.FINDINGS.names if name != "committed_by"))
    )


def with_commits(findings: DataFrame, committed: DataFrame | None) -> DataFrame:
    """As FINDINGS: which groups say that they have worked off a run."""
    if committed is None:
        return findings.withColumn("committed_by", F.array().cast("array<string>"))
    groups = committed.groupBy(*PLACE).agg(F.collect_list(F.struct("group", "offset")).alias("commits"))
    joined = findings.join(groups, list(PLACE), "left")
    past = F.filter("commits", lambda commit: commit["offset"] >= F.col("end_offset"))
    names = F.array_sort(F.transform(past, lambda commit: commit["group"]))
    return joined.withColumn("committed_by", F.coalesce(names, F.array().cast("array<string>"))).select(
        *schemas.FINDINGS.names
    )


def served(answers: DataFrame) -> DataFrame:
    """Fetch answers of the trace to SERVED: what one client was given on and on is one row."""
    given = answers.where((F.col("kind") == "fetch_answered") & (F.col("to_offset") > F.col("offset")))
    who = [*PLACE, "client_id", "host", "group"]
    ordered = Window.partitionBy(*who).orderBy("at_us", "offset")
    begins = F.coalesce(F.lag("to_offset").over(ordered) != F.col("offset"), F.lit(True))
    return (
        given.withColumn("partition", F.col("partition").cast("int"))
        .withColumn("begins", begins)
        .withColumn("island", F.sum(F.col("begins").cast("int")).over(ordered))
        .groupBy(*who, "island")
        .agg(
            F.min("offset").alias("start_offset"),
            F.max("to_offset").alias("end_offset"),
            F.timestamp_micros(F.min("at_us")).alias("first_at"),
            F.timestamp_micros(F.max("at_us")).alias("last_at"),
            F.count("*").alias("answers"),
        )
        .select(*schemas.SERVED.names)
    )


def commits_of_trace(events: DataFrame) -> DataFrame:
    """As COMMITTED: the last that each group said."""
    said = events.where(F.col("kind") == "committed")
    last = F.max_by("offset", "at_us").alias("offset")
    return said.groupBy("topic", F.col("partition").cast("int").alias("partition"), "group").agg(last)


def accounted_for() -> list[Check]:
    """What holds for every row of PARTITIONS: nothing is left out or counted twice."""
    total = reduce(lambda one, other: one + other, (F.col(name) for name in schemas.OUTCOMES))
    explained = reduce(lambda one, other: one + other, (F.col(f"explained_{name}") for name in schemas.REASONS))
    return [
        Check("not every offset is accounted for", lambda: total == F.col("end_offset") - F.col("start_offset")),
        Check("reasons do not add up", lambda: explained == F.col("explained")),
    ]
