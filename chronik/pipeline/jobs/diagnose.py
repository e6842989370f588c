"""diagnose: the trace topic, or files of it, to stalls with cause and evidence, and tables of what else happened."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from chronik.core.machines.metadata.names import TRACE_TOPIC
from chronik.pipeline.judging import EVERY_US, WINDOW_US
from chronik.pipeline.problems import JobCannotRun
from chronik.pipeline.progress import ProgressBar
from chronik.pipeline.session import cores_of
from chronik.pipeline.tables.results import refuse_what_is_there, write_tables

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

STEPS = 240  # of time, in a timeline: as many as a picture can show
WHOLE_STEPS = 60  # in that of all partitions: percentiles of a few answers would say little
ROWS_MAX = 200  # of a table, in what is shown; the tables themselves have all
# A timeline's step is one of these: so times on its axis are round.
STEPS_US: list[int] = [
    number * size for size in (10**4, 10**5, 10**6, 10**7, 10**8, 10**9, 10**10) for number in (1, 2, 5)
]


@dataclass(frozen=True)
class DiagnoseSettings:
    """Where the trace is, and what of it is meant."""

    kafka: Mapping[str, str] = field(default_factory=dict)  # options of the source, for the trace topic
    files: Sequence[str] = ()  # instead of it
    topics: Sequence[str] = ()  # only these
    since_us: int | None = None
    until_us: int | None = None
    every_us: int = EVERY_US
    out: str | None = None  # a folder for the tables


@dataclass(frozen=True)
class Diagnosis:
    """The tables, as DataFrames; they are evaluated when they are read."""

    totals: DataFrame
    stalls: DataFrame
    partitions: DataFrame
    timeline: DataFrame
    whole_timeline: DataFrame
    refusals: DataFrame
    rebalances: DataFrame
    step_us: int
    whole_step_us: int

    def tables(self) -> dict[str, DataFrame]:
        return {
            "totals": self.totals,
            "stalls": self.stalls,
            "partitions": self.partitions,
            "timeline": self.timeline,
            "whole_timeline": self.whole_timeline,
            "refusals": self.refusals,
            "rebalances": self.rebalances,
        }


@dataclass(frozen=True)
class DiagnoseOutcome:
    """What is shown of it: the first rows of each table, worst first, and how many there are in all."""

    totals: dict[str, Any]
    stalls: list[dict[str, Any]]
    stalls_count: int
    partitions: list[dict[str, Any]]
    refusals: list[dict[str, Any]]
    rebalances: list[dict[str, Any]]
    out: str | None


def run(spark: SparkSession, settings: DiagnoseSettings, bar: ProgressBar | None = None) -> DiagnoseOutcome:
    """Raises JobCannotRun."""
    bar = bar or ProgressBar()
    if settings.out is not None:
        refuse_what_is_there(settings.out)
    with diagnosed(spark, settings, bar) as found:
        if settings.out is not None:
            bar.show(step="writing the tables")
            write_tables({name: each.coalesce(1) for name, each in found.tables().items()}, settings.out)
        stalls = head(ranked(found.stalls))
        return DiagnoseOutcome(
            totals=head(found.totals)[0],
            stalls=stalls,
            stalls_count=len(stalls) if len(stalls) < ROWS_MAX else found.stalls.count(),
            partitions=head(found.partitions),
            refusals=head(found.refusals),
            rebalances=head(found.rebalances),
            out=settings.out,
        )


@contextmanager
def diagnosed(spark: SparkSession, settings: DiagnoseSettings, bar: ProgressBar | None = None) -> Iterator[Diagnosis]:
    """The tables of a trace, which is read once and kept on disk while the block runs. Raises JobCannotRun."""
    bar = bar or ProgressBar()
    from pyspark import StorageLevel
    from pyspark.sql import functions as F

    from chronik.pipeline.transforms import diagnose, stalls

    bar.show(step="reading the trace")
    events = read(spark, settings).persist(StorageLevel.DISK_ONLY)
    found = None
    try:
        totals = diagnose.totals(events)
        first = totals.first()
        if first is None or not first["events"]:
            raise JobCannotRun(
                "there are no events in this trace", "is tracing on? `chronik trace on`, `chronik trace status`"
            )
        bar.show(rows=first["events"], step="asking the rules")
        length_us = first["to_us"] - first["from_us"]
        step_us, whole_step_us = step_of(length_us, STEPS), step_of(length_us, WHOLE_STEPS)
        tasks = max(cores_of(spark), 2)
        since_us = settings.since_us or 0
        known = events.where("kind is not null")
        # The rules are what takes time: each table that shows their stalls would ask them again.
        found = stalls.stalls(known, tasks, settings.every_us).where(F.col("until_us") >= since_us)
        found = found.persist(StorageLevel.DISK_ONLY)
        known = known.where(F.col("at_us") >= since_us)  # what came before was for the rules alone
        yield Diagnosis(
            totals,
            found,
            diagnose.slowest(diagnose.partitions(known)),
            diagnose.timeline(known, step_us),
            diagnose.whole_timeline(known, whole_step_us),
            diagnose.refusals(known),
            diagnose.rebalances(known),
            step_us,
            whole_step_us,
        )
    finally:
        if found is not None:
            found.unpersist()
        events.unpersist()


def read(spark: SparkSession, settings: DiagnoseSettings) -> DataFrame:
    """Events, of files or of the trace topic."""
    from pyspark.sql import functions as F

    from chronik.pipeline.inputs import for_reading
    from chronik.pipeline.topics.holdings import check_traced
    from chronik.pipeline.transforms import trace

    if settings.files:
        lines = trace.lines_of_files(spark.read.text([for_reading(path) for path in settings.files]))
    else:
        check_traced(settings.kafka)
        lines = trace.lines_of_records(spark.read.format("chronik").options(**_options(settings)).load())
    events = trace.of_topics(trace.events_of(lines), settings.topics)
    if settings.since_us is not None:
        events = events.where(F.col("at_us") >= settings.since_us - WINDOW_US)
    return events if settings.until_us is None else events.where(F.col("at_us") < settings.until_us)


def _options(settings: DiagnoseSettings) -> dict[str, str]:
    options = {**settings.kafka, "subscribe": TRACE_TOPIC}
    if settings.since_us is not None:
        # Records are a moment younger than the events in them, never older.
        options["startingTimestamp"] = str((settings.since_us - WINDOW_US) // 1000)
        options["startingOffsetsByTimestampStrategy"] = "latest"
    return options


def ranked(stalls: DataFrame) -> DataFrame:
    """Worst first, as live."""
    from pyspark.sql import functions as F

    from chronik.trace.stalls.finding import ORDER

    place = F.array_position(F.array(*(F.lit(str(cause)) for cause in ORDER)), F.col("cause"))
    return stalls.orderBy(place, "since_us", "topic", "partition", "group", "client_id")


def head(table: DataFrame, rows: int = ROWS_MAX) -> list[dict[str, Any]]:
    return [row.asDict(recursive=True) for row in table.limit(rows).collect()]


def step_of(length_us: int, steps: int) -> int:
    return next((step for step in STEPS_US if step * steps >= length_us), STEPS_US[-1])
