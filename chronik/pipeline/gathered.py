"""What an audit is given, in whatever form, gathered as runs: each input is read once and kept on disk."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from chronik.core.machines.metadata.names import TRACE_TOPIC
from chronik.pipeline import schemas
from chronik.pipeline.problems import JobCannotRun
from chronik.pipeline.progress import ProgressBar
from chronik.pipeline.session import cores_of
from chronik.pipeline.sweep import LEDGER, RECEIVED, SERVED, Sides

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from chronik.pipeline.topics.holdings import Bounds

TASKS_A_CORE = 2


@dataclass(frozen=True)
class AuditSettings:
    """What to compare. At least a topic or something received; a ledger says what is to be found there."""

    kafka: Mapping[str, str] = field(default_factory=dict)
    """How to reach the cluster: options of `format("chronik")`. Needed for topics, the trace and groups."""
    topics: Sequence[str] = ()
    """Read from the cluster. Where some are named, nothing else of the ledger or of what was received is looked at."""
    ledgers: Sequence[str] = ()
    received: Sequence[str] = ()
    is_traced: bool = False
    """Whether to read the cluster's trace topic."""
    trace_files: Sequence[str] = ()
    groups: Sequence[str] | None = ()
    """None: all groups of the cluster."""
    is_still_reading: bool = False
    """Whether what lies in the log behind the last that was received may still come: else it is lost."""
    out: str | None = None
    """A folder for the tables, which must not exist yet."""


def keep(kept: ExitStack, frame: DataFrame) -> DataFrame:
    """The same, worked out once, as long as `kept` is open."""
    from pyspark import StorageLevel

    frame.persist(StorageLevel.DISK_ONLY)
    kept.callback(frame.unpersist)
    return frame


class Gathered:
    """All inputs, as runs; None where there is none."""

    def __init__(self, spark: SparkSession, settings: AuditSettings, kept: ExitStack, bar: ProgressBar) -> None:
        """Raises JobCannotRun for what is not there or makes no sense."""
        if not self.sides_of(settings).can_compare:
            raise JobCannotRun("there is nothing to compare", "name a topic, or give what was received")
        self._spark = spark
        self._settings = settings
        self._kept = kept
        self.sides = self.sides_of(settings)
        self.is_order_known = False
        self.ledger = self._runs("ledger", settings.ledgers, "number")
        self.received = self._runs("received", settings.received, "position")
        self.bounds = spark.createDataFrame([], schemas.BOUNDS)
        self.log: DataFrame | None = None
        if settings.topics:
            self._read_topics(bar)
        self.committed = self._commits()
        self.served: DataFrame | None = None
        if settings.trace_files or settings.is_traced:
            self._read_trace()

    @staticmethod
    def sides_of(settings: AuditSettings) -> Sides:
        return Sides(bool(settings.ledgers), bool(settings.topics), bool(settings.received))

    def extents(self) -> list[DataFrame]:
        """From where to where each input goes."""
        from pyspark.sql import functions as F

        inside = self.bounds.select(
            "topic", "partition", F.col("log_start").alias("start_offset"), F.col("log_end").alias("end_offset")
        )
        return [each for each in (self.ledger, self.received, inside) if each is not None]

    def layers(self, ranges: DataFrame) -> list[DataFrame]:
        """What they say of the offsets in these ranges."""
        from chronik.pipeline.transforms import audit

        layers = []
        if self.ledger is not None:
            layers.append(audit.layer(self.ledger, LEDGER))
        if self.received is not None:
            layers.append(audit.layer(self.received, RECEIVED))
        if self.served is not None:
            known = ranges.select("topic", "partition")
            layers.append(audit.layer(self.served.join(known, ["topic", "partition"], "left_semi"), SERVED))
        if self.log is not None:
            layers += [audit.layers_of_log(self.log), audit.layers_of_bounds(self.bounds, ranges)]
        if self.log is not None and self.received is not None and self._settings.is_still_reading:
            layers.append(audit.layer_of_waiting(self.received, self.bounds))
        return layers

    def _runs(self, name: str, paths: Sequence[str], position: str) -> DataFrame | None:
        from pyspark.sql import functions as F

        from chronik.pipeline.inputs import read_table
        from chronik.pipeline.transforms import audit, runs

        frames = []
        for path in paths:
            frame = read_table(self._spark, path)
            if missing := runs.missing_columns(frame.columns):
                raise JobCannotRun(f"{path} has no column {' and no '.join(missing)}", "see docs/pipeline-audit.md")
            frames.append(runs.runs_of(frame, position))
        if not frames:
            return None
        everything = audit.union(frames)
        if self._settings.topics:
            everything = everything.where(F.col("topic").isNull() | F.col("topic").isin(*self._settings.topics))
        kept = keep(self._kept, everything)
        self._check(name, kept)
        return kept

    def _check(self, name: str, frame: DataFrame) -> None:
        from pyspark.sql import functions as F

        from chronik.pipeline.transforms.runs import rules
        from chronik.pipeline.values.checks import reason

        why = reason(rules())
        (row,) = frame.agg(
            F.count("position").alias("ordered"),
            F.count(why).alias("bad"),
            F.first(why, ignorenulls=True).alias("reason"),
        ).collect()
        if row["bad"]:
            raise JobCannotRun(f"{row['bad']:,} rows of what is given as {name} make no sense: {row['reason']}")
        self.is_order_known |= row["ordered"] > 0

    def _read_topics(self, bar: ProgressBar) -> None:
        from chronik.pipeline.topics.client import ReadPartition, TopicClient
        from chronik.pipeline.topics.holdings import bounds_of, log_starts
        from chronik.pipeline.topics.options import cluster_options
        from chronik.pipeline.transforms.log import log_of

        with TopicClient(cluster_options(self._settings.kafka)) as cluster:
            bounds = bounds_of(cluster, self._settings.topics)
            bar.show(partitions=len(bounds))
            self.log = keep(self._kept, log_of(self._batches(bounds)))
            self.log.count()  # reads it all
            # What was deleted for its age while it was read is not lost.
            starts = log_starts(cluster, [ReadPartition(each.topic, each.partition) for each in bounds])
        last = [
            each._replace(
                log_start=min(max(each.log_start, starts[ReadPartition(each.topic, each.partition)]), each.log_end)
            )
            for each in bounds
        ]
        self.bounds = self._spark.createDataFrame(last, schemas.BOUNDS)

    def _batches(self, bounds: Sequence[Bounds]) -> DataFrame:
        def places(name: str) -> str:
            offsets: dict[str, dict[str, int]] = {}
            for each in bounds:
                offsets.setdefault(each.topic, {})[str(each.partition)] = getattr(each, name)
            return json.dumps(offsets)

        options = {
            **self._settings.kafka,
            "subscribe": ",".join(self._settings.topics),
            "chronik.read": "batches",
            "startingOffsets": places("log_start"),
            "endingOffsets": places("log_end"),
            "failOnDataLoss": "false",
            "minPartitions": str(cores_of(self._spark) * TASKS_A_CORE),
        }
        return self._spark.read.format("chronik").options(**options).load()

    def _read_trace(self) -> None:
        from chronik.pipeline.inputs import for_reading
        from chronik.pipeline.topics.holdings import check_traced
        from chronik.pipeline.transforms import audit, trace

        settings = self._settings
        if settings.trace_files:
            lines = trace.lines_of_files(self._spark.read.text([for_reading(path) for path in settings.trace_files]))
        else:
            check_traced(settings.kafka)
            options = {**settings.kafka, "subscribe": TRACE_TOPIC}
            lines = trace.lines_of_records(self._spark.read.format("chronik").options(**options).load())
        events = trace.of_topics(trace.events_of(lines), settings.topics)
        events = keep(self._kept, events.where("kind in ('fetch_answered', 'committed')").drop("line"))
        self.served = audit.served(events)
        said = audit.commits_of_trace(events)
        if self.committed is None:
            self.committed = said
        else:  # what the cluster says now is newer
            older = said.join(self.committed, ["topic", "partition", "group"], "left_anti")
            self.committed = self.committed.unionByName(older)

    def _commits(self) -> DataFrame | None:
        from chronik.pipeline.topics.client import TopicClient
        from chronik.pipeline.topics.holdings import commits_of, groups_of
        from chronik.pipeline.topics.options import cluster_options

        if self._settings.groups is not None and not self._settings.groups:
            return None
        with TopicClient(cluster_options(self._settings.kafka)) as cluster:
            groups = groups_of(cluster) if self._settings.groups is None else self._settings.groups
            commits = [each for group in groups for each in commits_of(cluster, group, self._settings.topics)]
        return self._spark.createDataFrame(commits, schemas.COMMITTED)
