"""The contract of the jobs: what a ledger, runs, trace events and the tables of an audit look like.

A *run* is a stretch of offsets [start_offset, end_offset) of one partition. Everything an audit compares is kept as
runs: a run costs the same whether it holds one record or a million. Names of columns are never changed; new ones are
added, and what reads these tables passes over columns that it does not know."""

from __future__ import annotations

from functools import cache
from typing import Any

import msgspec
from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    DataType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from chronik.trace.events import AnyEvent
from chronik.trace.lines import Answered, BatchLine, BatchRun, ProducedBatches, Taken


def _columns(**types: DataType) -> list[StructField]:
    """Columns that may be null."""
    return [StructField(name, kind) for name, kind in types.items()]


_TEXT, _INT, _LONG, _FLAG, _TIME = StringType(), IntegerType(), LongType(), BooleanType(), TimestampType()
_PLACE = [
    StructField("topic", _TEXT, False),
    StructField("partition", _INT, False),
]
_RUN = [*_PLACE, StructField("start_offset", _LONG, False), StructField("end_offset", _LONG, False)]

# --- what an audit takes

LEDGER = StructType([*_RUN, *_columns(producer=_TEXT, number=_LONG)])
"""What was acknowledged to producers: every offset in it was. As Parquet, JSON lines, CSV or Delta, written by
anyone.

`producer` is any name; `number` says which message of this producer to this partition the first record of the run is,
in the order of sending, and grows by one with each record of it: with it, what was written out of order is found. Both
may be null or left out. Instead of `start_offset` and `end_offset` there may be `offset`: then a row is one record.
"""

RECEIVED = StructType([*_RUN, *_columns(position=_LONG)])
"""What came out: consumed records, or a table filled from topics. A row with `offset` is one record, as in a ledger.

`position` counts what a consumer was given, in the order of giving: it grows by one with each record. With it, what was
given out of order is found. It may be null or left out.
"""

COMMITTED = StructType([*_PLACE, StructField("group", _TEXT, False), StructField("offset", _LONG, False)])
"""How far groups say they are: everything below `offset` is worked off."""

# --- what a topic holds

BATCHES = StructType(
    [
        *_RUN,
        *_columns(
            base_offset=_LONG,
            last_offset=_LONG,
            records=_INT,
            size_bytes=_INT,
            leader_epoch=_INT,
            producer_id=_LONG,
            producer_epoch=_INT,
            sequence=_INT,
            first_timestamp=_TIME,
            max_timestamp=_TIME,
            timestamp_type=_INT,
            compression=_TEXT,
            is_transactional=_FLAG,
            is_control=_FLAG,
            marker=_TEXT,
        ),
    ]
)
"""A topic as `format("chronik")` with `chronik.read=batches` gives it: one row a record batch, from its header alone.

[start_offset, end_offset) are the offsets that are there: a batch that compaction has thinned out gives a row for each
run of records left in it, and one that lies across the border of two tasks gives a row to each. `base_offset`,
`last_offset` (included), `records` and `size_bytes` are of the whole batch. `sequence` is that of `start_offset`, -1
without an idempotent producer. `marker` is `commit` or `abort` in a control batch."""

LOG = StructType(
    [
        *_RUN,
        *_columns(state=_TEXT, producer_id=_LONG, producer_epoch=_INT, sequence=_INT),
    ]
)
"""What a topic holds, as runs: `state` is record, aborted, open (a transaction that has not ended) or marker."""

BOUNDS = StructType([*_PLACE, *_columns(log_start=_LONG, log_end=_LONG, is_compacted=_FLAG)])
"""Where each partition begins and ends, and whether its topic is compacted."""

SERVED = StructType(
    [*_RUN, *_columns(client_id=_TEXT, host=_TEXT, group=_TEXT, first_at=_TIME, last_at=_TIME, answers=_LONG)]
)
"""What was served to whom and when, from the fetch trace: answers that follow one another are one row."""

# --- what an audit gives

ACCOUNTS = StructType(
    [
        *_RUN,
        *_columns(
            outcome=_TEXT,
            reason=_TEXT,
            producer=_TEXT,
            is_expected=_FLAG,
            is_duplicated=_FLAG,
            is_reordered=_FLAG,
            is_acknowledged_twice=_FLAG,
            is_in_log=_FLAG,
            is_served=_FLAG,
            times=_LONG,
        ),
    ]
)
"""Every offset of the audited range exactly once, in runs of offsets of which the same is to be said.

`outcome` is one of OUTCOMES; `reason` explains an `explained` one; `times` is how often each of these offsets was seen.
"""

FOUND, LOST, UNEXPECTED, EXPLAINED, UNKNOWN = "found", "lost", "unexpected", "explained", "unknown"
OUTCOMES = (FOUND, LOST, UNEXPECTED, EXPLAINED, UNKNOWN)
"""Every offset has one: expected and there; expected and nowhere; there, though no ledger or log says so; not there,
for a known reason; and what nothing is known of."""

MARKER, ABORTED, OPEN, RETENTION, COMPACTION, WAITING = (
    "marker",
    "aborted",
    "open",
    "retention",
    "compaction",
    "waiting",
)
REASONS = (MARKER, ABORTED, OPEN, RETENTION, COMPACTION, WAITING)
"""A transaction's end mark; of a transaction that was aborted, or is not ended; deleted for age or size or by request;
compacted away; in the log and not received yet."""

_COUNTS = _columns(
    expected=_LONG,
    found=_LONG,
    lost=_LONG,
    duplicated=_LONG,
    reordered=_LONG,
    unexpected=_LONG,
    explained=_LONG,
    unknown=_LONG,
    acknowledged_twice=_LONG,
    served=_LONG,
)
PARTITIONS = StructType(
    [*_RUN, *_COUNTS, *_columns(**{f"explained_{name}": _LONG for name in REASONS})],
)
"""One row a partition. The audited range is [start_offset, end_offset): found + lost + unexpected + explained + unknown
is its length. `duplicated` and `reordered` are offsets among those that were seen."""

PRODUCERS = StructType([*_PLACE, StructField("producer", _TEXT), *_COUNTS])
"""The same for each producer that the ledger names, of the offsets that were acknowledged to it."""

FINDINGS = StructType(
    [
        *_RUN,
        *_columns(
            finding=_TEXT,
            reason=_TEXT,
            producer=_TEXT,
            is_in_log=_FLAG,
            is_served=_FLAG,
            times=_LONG,
            committed_by=ArrayType(_TEXT, containsNull=False),
        ),
    ]
)
"""Whatever is not simply found, as runs: `finding` is lost, duplicated, reordered, unexpected, explained, unknown or
acknowledged_twice. An offset that is both duplicated and reordered is in two of them. `committed_by` are the groups
that say they have worked off the whole run."""

SEQUENCES = StructType(
    [
        *_PLACE,
        *_columns(
            producer_id=_LONG,
            producer_epoch=_INT,
            expected=_LONG,
            found=_LONG,
            lost=_LONG,
            duplicated=_LONG,
            reordered=_LONG,
            first_offset=_LONG,
            last_offset=_LONG,
        ),
    ]
)
"""One row for each idempotent producer, epoch and partition: its own numbering, from the headers of its batches.
Between its first and its last number in the log, `lost` are those that are nowhere, `duplicated` those written more
than once."""

SEQUENCE_FINDINGS = StructType(
    [
        *_PLACE,
        *_columns(
            producer_id=_LONG,
            producer_epoch=_INT,
            finding=_TEXT,
            reason=_TEXT,
            start_sequence=_LONG,
            end_sequence=_LONG,
        ),
    ]
)
"""Which numbers those are: [start_sequence, end_sequence), counted on beyond 2,147,483,647."""

# --- the trace

BATCH_RUN = str(BatchRun.__struct_config__.tag)
PRODUCED_BATCHES = str(ProducedBatches.__struct_config__.tag)
"""The kinds of line that stand for many batches, the second in version 3 of the schema only: they are only written,
readers are given two events for each batch."""
TAKEN_FIELDS, ANSWERED_FIELDS, BATCH_FIELDS = Taken._fields, Answered._fields, BatchLine._fields
"""What their arrays hold, in this order."""


@cache
def event_schema(kind: str) -> StructType:
    """The columns of one kind of trace event, as chronik/trace/events.py has them. Raises KeyError for no kind."""
    return _struct_of(_kinds()[kind])


def event_kinds() -> tuple[str, ...]:
    """The kinds there are."""
    return tuple(_kinds())


@cache
def _kinds() -> dict[str, type[Any]]:
    return {str(each.__struct_config__.tag): each for each in AnyEvent.__args__}


def _struct_of(kind: type[Any]) -> StructType:
    described = msgspec.inspect.type_info(kind)
    assert isinstance(described, msgspec.inspect.StructType)
    return StructType([StructField(field.encode_name, _type_of(field.type)) for field in described.fields])


def _type_of(described: msgspec.inspect.Type) -> DataType:
    match described:
        case msgspec.inspect.IntType():
            return _LONG
        case msgspec.inspect.StrType():
            return _TEXT
        case msgspec.inspect.BoolType():
            return _FLAG
        case msgspec.inspect.UnionType(types=types):
            (meant,) = (each for each in types if not isinstance(each, msgspec.inspect.NoneType))
            return _type_of(meant)
        case msgspec.inspect.VarTupleType(item_type=item):
            return ArrayType(_type_of(item))
        case msgspec.inspect.TupleType():
            return ArrayType(_TEXT)  # a pair of different things, such as a topic and a number
        case msgspec.inspect.StructType(cls=cls):
            return _struct_of(cls)
    raise TypeError(f"no column is known for {described}")
