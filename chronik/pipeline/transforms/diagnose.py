"""Events to tables: how offsets moved, which partitions were slow, who was refused, which groups rebalanced."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as F

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

# A batch that is answered soon stands in one line, which counts for both (docs/trace.md).
APPENDED = ("produce_appended", "produced")
ANSWERED = ("produce_answered", "produced")
AT_REST = ("Stable", "Empty", "Dead")
PERCENTILES = (0.5, 0.99, 0.999)
ACCURACY = 1000  # of percentiles: one in so many


def timeline(events: DataFrame, step_us: int) -> DataFrame:
    """For each partition and each `step_us` in which something was reported of it: where it stood at the end of that
    time, and what went in and out during it. Null is 'nothing reported'."""
    rows = events.where(F.col("topic").isNotNull() & (F.col("partition") >= 0)).withColumn(
        "from_us", F.floor(F.col("at_us") / step_us) * step_us
    )
    moved = rows.groupBy("topic", "partition", "from_us").agg(
        F.max(_of("fetch_answered", F.when(F.col("to_offset") > F.col("offset"), F.col("to_offset")))).alias(
            "consumed"
        ),
        F.max(_of("committed", F.col("offset"))).alias("committed"),
        *_flow(),
        F.percentile_approx(_of(ANSWERED, F.col("took_us")), list(PERCENTILES), ACCURACY).alias("produce_us"),
        F.percentile_approx(_given_at_once(), list(PERCENTILES), ACCURACY).alias("fetch_us"),
    )
    place = ["topic", "partition", "from_us"]
    as_reported = moved.join(_stood(rows), place, "left")
    return as_reported.select(
        *place, "next_offset", "watermark", *(name for name in moved.columns if name not in place)
    )


def _stood(rows: DataFrame) -> DataFrame:
    """Where each partition's log ended and how far it could be read, reported by one node at a time: the one with the
    latest leader epoch so far. One that was cut off goes on telling where it stood when it led."""
    as_reported = rows.groupBy("topic", "partition", "from_us", "node").agg(
        F.max(F.when(F.col("kind").isin("partition_seen", *APPENDED), F.col("leader_epoch"))).alias("epoch"),
        F.max(_as_leaders_report("next_offset", "to_offset")).alias("next_offset"),
        F.max(_as_leaders_report("watermark", None)).alias("watermark"),
    )
    so_far = (
        Window.partitionBy("topic", "partition")
        .orderBy("from_us")
        .rangeBetween(Window.unboundedPreceding, Window.currentRow)
    )
    leader = F.max(F.when(F.col("epoch").isNotNull(), F.struct("epoch", "node"))).over(so_far)
    # Where no node has named an epoch yet, it is one node all the same.
    source = F.coalesce(leader["node"], F.min(F.when(F.col("next_offset").isNotNull(), F.col("node"))).over(so_far))
    known = as_reported.withColumn("source", source).where(F.col("node") == F.col("source"))
    return known.select("topic", "partition", "from_us", "next_offset", "watermark")


def whole_timeline(events: DataFrame, step_us: int) -> DataFrame:
    """The same of all partitions together: what went in and out, and how long answers took."""
    return events.groupBy((F.floor(F.col("at_us") / step_us) * step_us).alias("from_us")).agg(
        *_flow(),
        F.percentile_approx(_of(ANSWERED, F.col("took_us")), list(PERCENTILES), ACCURACY).alias("produce_us"),
        F.percentile_approx(_given_at_once(), list(PERCENTILES), ACCURACY).alias("fetch_us"),
        F.sum(F.when(F.col("kind") == "refused", 1).otherwise(0)).alias("refusals"),
    )


def partitions(events: DataFrame) -> DataFrame:
    """One row a partition: what went through it, how far its watermark and its readers fell behind, how slow it was."""
    rows = events.where(F.col("topic").isNotNull() & (F.col("partition") >= 0))
    gap = F.when(F.col("kind") == "partition_seen", F.col("next_offset") - F.col("watermark"))
    return (
        rows.groupBy("topic", "partition")
        .agg(
            *_flow(),
            F.max(_as_leaders_report("next_offset", "to_offset")).alias("next_offset"),
            F.max(_as_leaders_report("watermark", None)).alias("watermark"),
            F.max(_of("fetch_answered", F.when(F.col("to_offset") > F.col("offset"), F.col("to_offset")))).alias(
                "consumed"
            ),
            F.max(_of("committed", F.col("offset"))).alias("committed"),
            F.max(gap).alias("gap_max"),
            F.percentile_approx(_of(ANSWERED, F.col("took_us")), list(PERCENTILES), ACCURACY).alias("produce_us"),
            F.percentile_approx(_given_at_once(), list(PERCENTILES), ACCURACY).alias("fetch_us"),
            F.count(_of("refused", F.lit(1))).alias("refusals"),
            F.count_distinct(_of("leader_changed", F.col("leader_epoch"))).alias("leader_changes"),
        )
        .withColumn("unread", F.greatest(F.col("watermark") - F.col("consumed"), F.lit(0)))
    )


def slowest(partitions: DataFrame) -> DataFrame:
    """Worst first: what hides records, then what is not read, then what is slow to answer."""
    hidden = F.coalesce(F.col("next_offset") - F.col("watermark"), F.lit(0))
    return partitions.orderBy(
        hidden.desc(),
        F.coalesce("unread", F.lit(0)).desc(),
        F.coalesce(F.get("produce_us", F.lit(1)), F.lit(0)).desc(),
        "topic",
        "partition",
    )


def refusals(events: DataFrame) -> DataFrame:
    """By client, request and error, the most frequent first."""
    return (
        events.where(F.col("kind") == "refused")
        .groupBy("client_id", "host", "api", "error", "topic")
        .agg(
            F.count("*").alias("times"),
            F.min("at_us").alias("first_us"),
            F.max("at_us").alias("last_us"),
            F.sort_array(F.collect_set("node")).alias("nodes"),
            F.sort_array(F.collect_set("partition")).alias("partitions"),
            F.max_by("reason", "at_us").alias("reason"),
        )
        .orderBy(F.desc("times"), "client_id", "api", "error", "topic")
    )


def rebalances(events: DataFrame) -> DataFrame:
    """By group: how often it was dealt out anew, who came and went, how long it was not at rest."""
    as_reported = events.where(F.col("kind").isin("group_changed", "group_joined", "group_left"))
    in_time = Window.partitionBy("group").orderBy("at_us", "told_in", "told_at", "told_as")
    changes = events.where(F.col("kind") == "group_changed")
    lasted = changes.withColumn("lasts_us", F.lead("at_us").over(in_time) - F.col("at_us"))
    restless = lasted.groupBy("group").agg(
        F.sum(F.when(~F.col("state").isin(*AT_REST), F.col("lasts_us")).otherwise(0)).alias("restless_us"),
        F.max_by("state", "at_us").alias("state"),
        (F.count_distinct("generation") - 1).alias("rebalances"),
    )
    return (
        as_reported.groupBy("group")
        .agg(
            F.count(_of("group_joined", F.lit(1))).alias("joined"),
            *(
                F.count(_of("group_left", F.when(F.col("reason") == reason, 1))).alias(reason)
                for reason in ("left", "expired", "replaced")
            ),
            F.min("at_us").alias("first_us"),
            F.max("at_us").alias("last_us"),
        )
        .join(restless, "group", "left")
        .orderBy(F.desc_nulls_last("rebalances"), "group")
    )


def totals(events: DataFrame) -> DataFrame:
    """One row: how much there is, from when to when, of which nodes, and what is known to be missing."""
    return events.agg(
        F.count("*").alias("lines"),
        F.count("kind").alias("events"),
        F.min("at_us").alias("from_us"),
        F.max("at_us").alias("to_us"),
        F.sort_array(F.collect_set("node")).alias("nodes"),
        F.coalesce(F.sum(_of("events_lost", F.col("count"))), F.lit(0)).alias("events_lost"),
    )


def _flow() -> list[Column]:
    produced = F.when(F.col("kind").isin(*APPENDED) & ~F.col("is_duplicate"), 1)
    given = F.when(F.col("kind") == "fetch_answered", 1)
    return [
        F.sum(F.coalesce(produced * (F.col("to_offset") - F.col("base_offset")), F.lit(0))).alias("records_in"),
        F.sum(F.coalesce(produced * F.col("size_bytes"), F.lit(0))).alias("bytes_in"),
        F.sum(F.coalesce(given * (F.col("to_offset") - F.col("offset")), F.lit(0))).alias("records_out"),
        F.sum(F.coalesce(given * F.col("size_bytes"), F.lit(0))).alias("bytes_out"),
    ]


def _of(kinds: str | tuple[str, ...], value: Column) -> Column:
    return F.when(F.col("kind").isin(*([kinds] if isinstance(kinds, str) else kinds)), value)


def _given_at_once() -> Column:
    """How long a fetch took that found something there: one that waited for records says how rare those were."""
    is_given = (F.col("to_offset") > F.col("offset")) & ~F.col("has_waited")
    return _of("fetch_answered", F.when(is_given, F.col("took_us")))


def _as_leaders_report(name: str, of_appended: str | None) -> Column:
    """A follower's watermark is older, and no news; and a fetch may have been answered by a follower."""
    is_follower = (F.col("kind") == "watermark_moved") & ~F.col("is_leader")
    as_reported = F.when(~is_follower & ~F.col("kind").isin("fetch_answered", "fetch_waits"), F.col(name))
    if of_appended is None:
        return as_reported
    return F.coalesce(as_reported, _of(APPENDED, F.col(of_appended)))
