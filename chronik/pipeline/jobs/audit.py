"""audit: what was acknowledged to producers, what the log holds, what receivers were given; every offset accounted
for."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, fields
from datetime import datetime
from typing import TYPE_CHECKING, Any

from chronik.pipeline import schemas
from chronik.pipeline.gathered import AuditSettings, Gathered, keep
from chronik.pipeline.progress import ProgressBar
from chronik.pipeline.sweep import RANGE
from chronik.pipeline.tables.results import refuse_what_is_there, write_tables

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

__all__ = ["Audit", "AuditOutcome", "AuditSettings", "NotAccountedFor", "audited", "outcome_of", "run"]

ROWS = "rows"
ROWS_MAX = 200  # of a table, in what is shown; the tables themselves have all
CHUNKS_MAX = 4096  # of all partitions together: each has a fixed cost
COUNTS = ("expected", "found", "lost", "duplicated", "reordered", "unexpected", "explained", "unknown")
MORE_COUNTS = ("acknowledged_twice", "served")
NOT_TABLES = ("is_order_known", "expected_by", "sums")
FINDINGS_ORDER = ("lost", "acknowledged_twice", "duplicated", "reordered", "unexpected", "unknown", "explained")


@dataclass(frozen=True)
class Audit:
    """The tables, as DataFrames; None where nothing was given to make one of."""

    is_order_known: bool
    expected_by: str
    sums: dict[str, int]
    accounts: DataFrame
    partitions: DataFrame
    findings: DataFrame
    producers: DataFrame | None
    sequences: DataFrame | None
    sequence_findings: DataFrame | None
    served: DataFrame | None
    committed: DataFrame | None

    def tables(self) -> dict[str, DataFrame]:
        every = {each.name: getattr(self, each.name) for each in fields(self)}
        return {name: table for name, table in every.items() if name not in NOT_TABLES and table is not None}


@dataclass(frozen=True)
class AuditOutcome:
    """What is shown of it: totals, the first rows of each table, worst first, and how many there are in all."""

    totals: dict[str, int]
    explained_by: dict[str, int]
    sequences: dict[str, int]
    partitions: list[dict[str, Any]]
    partitions_count: int
    producers: list[dict[str, Any]]
    findings: list[dict[str, Any]]
    findings_count: int
    sequence_findings: list[dict[str, Any]]
    served: list[dict[str, Any]]
    committed: list[dict[str, Any]]
    is_order_known: bool
    """Whether anything said in which order records were sent or given: else nothing can be found reordered."""
    expected_by: str
    """Who says what is to be found: a `ledger` (what was acknowledged to producers), the `log`, or no more than
    `offsets`."""
    out: str | None

    @property
    def lost(self) -> int:
        return self.totals["lost"] + self.sequences["lost"]

    def to_json(self) -> dict[str, Any]:
        """The names of the keys are a contract (docs/pipeline-audit.md): new ones are added, none is renamed."""
        rest = {name: getattr(self, name) for name in ("explained_by", "sequences", "partitions", "partitions_count")}
        rest |= {name: getattr(self, name) for name in ("producers", "findings", "findings_count")}
        rest |= {name: getattr(self, name) for name in ("sequence_findings", "served", "committed", "out")}
        return {
            "verdict": "lost" if self.lost else "nothing lost",
            **self.totals,
            "order_known": self.is_order_known,
            "expected_by": self.expected_by,
            **rest,
        }


class NotAccountedFor(Exception):
    """The audit itself is wrong: a defect of ours, never of the data."""


def run(spark: SparkSession, settings: AuditSettings, bar: ProgressBar | None = None) -> AuditOutcome:
    """The whole audit. Raises CannotRun."""
    if settings.out is not None:
        refuse_what_is_there(settings.out)
    with audited(spark, settings, bar or ProgressBar()) as found:
        if settings.out is not None:
            write_tables(found.tables(), settings.out)
        return outcome_of(found, settings.out)


@contextmanager
def audited(spark: SparkSession, settings: AuditSettings, bar: ProgressBar) -> Iterator[Audit]:
    """The tables of an audit. Inputs are read once, and kept on disk while the block runs. Raises CannotRun."""
    from chronik.pipeline.transforms import audit, log

    with ExitStack() as kept:
        gathered = Gathered(spark, settings, kept, bar)
        ranges = keep(kept, audit.ranges(gathered.extents()))
        total = _total(ranges)
        bar.show(rows=total)
        layers = audit.union([audit.layer(ranges, RANGE), *gathered.layers(ranges)])
        chunk_offsets = max(audit.CHUNK_OFFSETS, total // CHUNKS_MAX)
        accounts = audit.accounts(layers, gathered.sides, gathered.is_order_known, chunk_offsets)
        accounts = keep(kept, accounts)
        partitions = keep(kept, audit.partitions(accounts))
        sums = check_all_accounted_for(partitions, total)
        numbered = None if gathered.log is None else keep(kept, log.numbered(gathered.log, gathered.bounds))
        parts = None if numbered is None else keep(kept, log.parts(numbered))
        findings = audit.with_commits(audit.findings(accounts), gathered.committed)
        yield Audit(
            is_order_known=gathered.is_order_known,
            expected_by=gathered.sides.expected_by,
            sums=sums,
            accounts=accounts,
            partitions=partitions,
            findings=keep(kept, findings),
            producers=None if gathered.ledger is None else audit.producers(accounts),
            sequences=None if numbered is None else log.sequences(numbered, parts, gathered.bounds),
            sequence_findings=None if parts is None else log.sequence_findings(parts, gathered.bounds),
            served=gathered.served,
            committed=gathered.committed,
        )


def outcome_of(found: Audit, out: str | None = None) -> AuditOutcome:
    """The first rows of each table, and sums of all."""
    from pyspark.sql import functions as F

    sums = found.sums
    worst = [F.desc("lost"), F.desc("unexpected"), F.desc("explained"), F.col("topic"), F.col("partition")]
    order = F.array_position(F.array(*(F.lit(name) for name in FINDINGS_ORDER)), F.col("finding"))
    findings = head(found.findings, order, "topic", "partition", "start_offset")
    return AuditOutcome(
        totals={name: sums[name] for name in (*COUNTS, *MORE_COUNTS)},
        explained_by={name: sums[f"explained_{name}"] for name in schemas.REASONS},
        sequences=_sequences(found.sequences),
        partitions=head(found.partitions, *worst),
        partitions_count=sums[ROWS],
        producers=head(found.producers, F.desc("lost"), "topic", "partition", "producer"),
        findings=findings,
        findings_count=len(findings) if len(findings) < ROWS_MAX else found.findings.count(),
        sequence_findings=head(found.sequence_findings, "finding", "topic", "partition", "start_sequence"),
        served=head(found.served, "topic", "partition", "first_at"),
        committed=head(found.committed, "topic", "partition", "group"),
        is_order_known=found.is_order_known,
        expected_by=found.expected_by,
        out=out,
    )


def head(table: DataFrame | None, *order: Column | str) -> list[dict[str, Any]]:
    """The first rows; none of a table that is not there."""
    if table is None:
        return []
    rows = [row.asDict(recursive=True) for row in table.orderBy(*order).limit(ROWS_MAX).collect()]
    return [
        {name: value.isoformat() if isinstance(value, datetime) else value for name, value in row.items()}
        for row in rows
    ]


def _sequences(table: DataFrame | None) -> dict[str, int]:
    if table is None:
        return dict.fromkeys(COUNTS[:5], 0)
    (row,) = table.agg(*_sums(COUNTS[:5])).collect()
    return {name: int(row[name]) for name in COUNTS[:5]}


def _sums(names: Sequence[str]) -> list[Column]:
    """And the number of rows."""
    from pyspark.sql import functions as F

    return [*(F.coalesce(F.sum(name), F.lit(0)).alias(name) for name in names), F.count("*").alias(ROWS)]


def check_all_accounted_for(partitions: DataFrame, total: int) -> dict[str, int]:
    """Every offset of the ranges, `total` in all, has one outcome. Returns the sums. Raises NotAccountedFor."""
    from pyspark.sql import functions as F

    from chronik.pipeline.transforms.audit import accounted_for
    from chronik.pipeline.values.checks import reason

    why = F.concat_ws("-", "topic", "partition", reason(accounted_for()))
    broken = F.first(F.when(reason(accounted_for()).isNotNull(), why), ignorenulls=True).alias("broken")
    names = (*COUNTS, *MORE_COUNTS, *(f"explained_{name}" for name in schemas.REASONS))
    (row,) = partitions.agg(*_sums(names), broken).collect()
    if row["broken"] is not None:
        raise NotAccountedFor(row["broken"])
    accounted = sum(row[name] for name in schemas.OUTCOMES)
    if accounted != total:
        raise NotAccountedFor(f"{accounted} offsets are accounted for, and there are {total}")
    return {name: int(row[name]) for name in (*names, ROWS)}


def _total(ranges: DataFrame) -> int:
    from pyspark.sql import functions as F

    (row,) = ranges.agg(F.sum(F.col("end_offset") - F.col("start_offset")).alias("total")).collect()
    return int(row["total"] or 0)
