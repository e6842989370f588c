"""Ledgers and received records, whatever form they came in, as runs of offsets with the same columns.

A row with `offset` is a record, one with `start_offset` and `end_offset` a run. Records become runs before anything is
shuffled, by plain arrays: a table of a hundred million records is a few thousand runs.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F
from pyspark.sql.types import IntegerType, LongType, StringType, StructField, StructType

from chronik.pipeline.values.checks import Check, not_negative, present

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import Column, DataFrame

PLACE = ("topic", "partition")
RUNS = StructType(
    [
        StructField("topic", StringType()),
        StructField("partition", IntegerType()),
        StructField("start_offset", LongType()),
        StructField("end_offset", LongType()),
        StructField("position", LongType()),
        StructField("producer", StringType()),
    ]
)
"""What all of them become: `position` is a ledger's `number` or a receiver's `position`."""


def missing_columns(columns: list[str]) -> list[str]:
    """What a table would need to have for an audit."""
    missing = [name for name in PLACE if name not in columns]
    if "offset" not in columns and not {"start_offset", "end_offset"} <= set(columns):
        missing.append("offset (or start_offset and end_offset)")
    return missing


def is_by_record(columns: list[str]) -> bool:
    return not {"start_offset", "end_offset"} <= set(columns)


def runs_of(frame: DataFrame, position: str) -> DataFrame:
    """As RUNS. What cannot be read as a number is null, and so breaks RULES later."""
    by_record = is_by_record(frame.columns)
    start = F.col("offset" if by_record else "start_offset").try_cast("bigint")
    end = start + 1 if by_record else F.col("end_offset").try_cast("bigint")
    runs = frame.select(
        F.col("topic").cast("string").alias("topic"),
        F.col("partition").try_cast("int").alias("partition"),
        start.alias("start_offset"),
        end.alias("end_offset"),
        _or_null(frame, position, "bigint"),
        _or_null(frame, "producer", "string"),
    ).toDF(*RUNS.names)
    return runs.mapInArrow(joined, RUNS) if by_record else runs


def _or_null(frame: DataFrame, name: str, kind: str) -> Column:
    return F.col(name).try_cast(kind) if name in frame.columns else F.lit(None).cast(kind)


def rules() -> list[Check]:
    """What holds for every run; a row that breaks one is not audited, and neither is anything with it."""
    return [
        present("topic"),
        present("partition"),
        not_negative("partition"),
        present("start_offset"),
        not_negative("start_offset"),
        present("end_offset"),
        Check("ends before it begins", lambda: F.col("end_offset") > F.col("start_offset")),
    ]


def joined(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Records that follow one another in offset and order as one run, within what Spark hands over at once."""
    for batch in batches:
        if batch.num_rows:
            yield _of_batch(batch)


def _of_batch(batch: pa.RecordBatch) -> pa.RecordBatch:
    import numpy as np
    import pyarrow as pa

    topic, partition, producer = (_codes(batch[name]) for name in ("topic", "partition", "producer"))
    start, end, position = (_numbers(batch[name]) for name in ("start_offset", "end_offset", "position"))
    # By position, where there is one: what came later must not be moved before what came first.
    order = np.lexsort((start, position, producer, partition, topic))
    keys = [column[order] for column in (topic, partition, producer)]
    start, end, position = start[order], end[order], position[order]
    breaks = start[1:] != end[:-1]
    for key in keys:
        breaks |= key[1:] != key[:-1]
    breaks |= np.where(position[1:] < 0, position[:-1] >= 0, position[1:] != position[:-1] + 1)
    firsts = np.concatenate(([0], np.flatnonzero(breaks) + 1))
    lasts = np.concatenate((firsts[1:] - 1, [len(order) - 1]))
    begun = batch.take(pa.array(order[firsts]))
    return begun.set_column(3, "end_offset", batch["end_offset"].take(pa.array(order[lasts])))


def _codes(column: pa.Array) -> Any:
    """A small number for each value."""
    return _numbers(column.dictionary_encode().indices)


def _numbers(column: pa.Array) -> Any:
    return column.fill_null(-1).to_numpy(zero_copy_only=False)
