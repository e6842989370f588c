"""What a topic holds, by the headers of its batches: records, markers, what was aborted; and how producers count."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as F
from pyspark.sql.types import BooleanType, LongType, StructField, StructType

from chronik.pipeline import schemas

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    import pyarrow as pa
    from pyspark.sql import Column, DataFrame

SEQUENCES = 1 << 31  # they begin at 0 again after the last
PRODUCER = ("topic", "partition", "producer_id", "producer_epoch")
_PARTS = StructType(
    [
        *(field for field in schemas.SEQUENCES if field.name in PRODUCER),
        StructField("start_sequence", LongType()),
        StructField("end_sequence", LongType()),
        StructField("is_lost", BooleanType()),
        StructField("is_duplicated", BooleanType()),
        StructField("is_reordered", BooleanType()),
    ]
)


def log_of(batches: DataFrame) -> DataFrame:
    """BATCHES to LOG. How a transaction ended is said by the next marker of its producer in the partition."""
    columns = [F.col(name) for name in schemas.LOG.names]
    in_transaction = F.col("is_transactional") | F.col("is_control")
    after = (
        Window.partitionBy("topic", "partition", "producer_id")
        .orderBy("start_offset")
        .rowsBetween(Window.currentRow, Window.unboundedFollowing)
    )
    ended = F.first("marker", ignorenulls=True).over(after)
    plain = batches.where(~in_transaction).withColumn("state", F.lit("record"))
    others = batches.where(in_transaction).withColumn("ended", ended)
    state = (
        F.when(F.col("is_control"), schemas.MARKER)
        .when(F.col("ended") == "commit", "record")
        .when(F.col("ended") == "abort", schemas.ABORTED)
        .otherwise(schemas.OPEN)
    )
    return plain.select(*columns).unionByName(others.withColumn("state", state).select(*columns))


def numbered(log: DataFrame, bounds: DataFrame) -> DataFrame:
    """The batches of idempotent producers, each with whether it begins where the one before it ended."""
    mine = log.where((F.col("producer_id") >= 0) & (F.col("sequence") >= 0) & (F.col("state") != schemas.MARKER))
    mine = _from_start(mine, bounds)
    size = F.col("end_offset") - F.col("start_offset")
    due = F.lag((F.col("sequence") + size) % SEQUENCES).over(Window.partitionBy(*PRODUCER).orderBy("start_offset"))
    return mine.withColumn("size", size).withColumn("is_due", F.coalesce(due == F.col("sequence"), F.lit(True)))


def _from_start(batches: DataFrame, bounds: DataFrame) -> DataFrame:
    """What the log still had when it had been read.

    Retention may run meanwhile: then the oldest batches were read and those behind them were not, and the numbers in
    between are not lost.
    """
    starts = F.broadcast(bounds.select("topic", "partition", "log_start"))
    known = batches.join(starts, ["topic", "partition"], "left").where("log_start is null or end_offset > log_start")
    gone = F.greatest(F.coalesce("log_start", F.lit(0)) - F.col("start_offset"), F.lit(0))
    sequence = ((F.col("sequence") + gone) % SEQUENCES).cast("int")
    return known.withColumns({"sequence": sequence, "start_offset": F.col("start_offset") + gone}).drop("log_start")


def parts(numbered: DataFrame) -> DataFrame:
    """Of producers that count in any other way than on and on: stretches of their numbers, and what is to be said of
    each.

    Most topics have none: then nothing but the numbering itself is looked at.
    """
    odd = numbered.groupBy(*PRODUCER).agg(F.min("is_due").alias("is_fine")).where(~F.col("is_fine")).select(*PRODUCER)
    runs = numbered.join(odd, list(PRODUCER)).select(*PRODUCER, "sequence", "start_offset", "size")
    return runs.groupBy(*PRODUCER).applyInArrow(_swept, _PARTS)


def sequences(numbered: DataFrame, parts: DataFrame, bounds: DataFrame) -> DataFrame:
    """As SEQUENCES. In a compacted topic a number that is not there is no loss."""
    size = F.col("end_sequence") - F.col("start_sequence")

    def total(flag: str) -> Column:
        return F.sum(F.when(F.col(flag), size).otherwise(0)).alias(flag)

    odd = parts.groupBy(*PRODUCER).agg(
        F.sum(size).alias("span"), total("is_lost"), total("is_duplicated"), total("is_reordered")
    )
    all_of = numbered.groupBy(*PRODUCER).agg(
        F.sum("size").alias("records"),
        F.min("start_offset").alias("first_offset"),
        (F.max("end_offset") - 1).alias("last_offset"),
    )
    joined = all_of.join(odd, list(PRODUCER), "left").join(bounds, ["topic", "partition"], "left")
    lost = F.coalesce("is_lost", F.lit(0))
    expected = F.coalesce("span", "records")
    return joined.select(
        *PRODUCER,
        expected.alias("expected"),
        (expected - lost).alias("found"),
        F.when(F.col("is_compacted"), 0).otherwise(lost).alias("lost"),
        F.coalesce("is_duplicated", F.lit(0)).alias("duplicated"),
        F.coalesce("is_reordered", F.lit(0)).alias("reordered"),
        "first_offset",
        "last_offset",
    )


def sequence_findings(parts: DataFrame, bounds: DataFrame) -> DataFrame:
    """As SEQUENCE_FINDINGS."""
    lost = F.when(F.col("is_compacted"), schemas.EXPLAINED).otherwise(schemas.LOST)
    found = F.array_compact(
        F.array(
            F.when(F.col("is_lost"), lost),
            F.when(F.col("is_duplicated"), F.lit("duplicated")),
            F.when(F.col("is_reordered"), F.lit("reordered")),
        )
    )
    explained = parts.join(bounds, ["topic", "partition"], "left").withColumn("finding", F.explode(found))
    reason = F.when(F.col("finding") == schemas.EXPLAINED, schemas.COMPACTION)
    return explained.withColumn("reason", reason).select(*schemas.SEQUENCE_FINDINGS.names)


def counted_on(sequence: npt.NDArray[np.int64], size: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Numbers that begin at 0 again after the last, as if they went on. In the order of writing.

    Each is taken to be as near as can be to the one that was due: a producer that skips numbers skips less than half of
    all.
    """
    import numpy as np

    due = sequence[:-1] + size[:-1]
    ahead = (sequence[1:] - due + SEQUENCES // 2) % SEQUENCES - SEQUENCES // 2
    start = sequence[0] + np.concatenate(([0], np.cumsum(size[:-1] + ahead)))
    return start + SEQUENCES if start.min() < 0 else start


def _swept(table: pa.Table) -> pa.Table:
    """One producer's numbers, swept as offsets are: the offset of a record is its position in the order of writing."""
    import numpy as np
    import pyarrow as pa

    from chronik.pipeline import sweep as s

    table = table.sort_by("start_offset")
    size, offset = table["size"].to_numpy(), table["start_offset"].to_numpy()
    start = counted_on(table["sequence"].to_numpy().astype(np.int64), size)
    low, high = start.min(), (start + size).max()
    runs = s.Runs(
        np.append(np.full(len(start), s.RECEIVED), s.RANGE),
        np.append(start, low),
        np.append(start + size, high),
        np.append(offset, s.NONE),
        np.full(len(start) + 1, s.NONE),
    )
    found = s.sweep(runs, s.Sides(has_ledger=False, has_log=False, has_received=True))
    key = [table[name].take(pa.array(np.zeros(len(found.start), np.int64))) for name in PRODUCER]
    flags = [found.outcome == s.LOST, (found.marks & s.DUPLICATED_BIT) != 0, (found.marks & s.REORDERED_BIT) != 0]
    return pa.table([*key, *map(pa.array, (found.start, found.end, *flags))], names=_PARTS.names)
