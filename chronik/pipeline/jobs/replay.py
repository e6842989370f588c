"""Tables, or a span of a topic's time, back to a topic: with keys, headers, timestamps and partitions.

Each record is written once, also when tasks are tried again. A replay that was killed may be run again under the same
`run_id`: then nothing that is there already is written twice, for as long as a leader remembers producers (a day).
"""

from __future__ import annotations

import threading
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark.sql import Observation
from pyspark.sql import functions as F

from chronik.pipeline.problems import JobCannotRun
from chronik.pipeline.progress import LOOK_EVERY_S, ProgressBar
from chronik.pipeline.tables.stored import read_table
from chronik.pipeline.topics.client import Failed, ReadPartition, TopicClient
from chronik.pipeline.topics.options import LATEST, write_options
from chronik.pipeline.transforms.replay import WANTED, as_records, in_order, in_time, within

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


# Who writes a record is said by the number of its task. Run again under the same id, each must get the same records,
# on however many cores.
TASKS = 32


@dataclass(frozen=True)
class ReplaySettings:
    cluster: Mapping[str, str]
    """Options of `format("chronik")` that say how to reach the cluster that is written to."""
    to_topic: str
    table: Path | None = None
    from_topic: str | None = None
    from_cluster: Mapping[str, str] | None = None
    """The same one, unless it is said."""
    only_topics: tuple[str, ...] = ()
    """Of a table that has several."""
    since_ms: int | None = None
    until_ms: int | None = None
    rate: int | None = None
    """Records a second, in the order of their time. None: as fast as it goes, partitions side by side."""
    keeps_partition: bool = True
    keeps_timestamp: bool = True
    run_id: str = field(default_factory=lambda: uuid.uuid4().hex)


@dataclass(frozen=True)
class ReplayOutcome:
    topic: str
    rows: int
    run_id: str

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def run(spark: SparkSession, settings: ReplaySettings, bar: ProgressBar | None = None) -> ReplayOutcome:
    """Raises JobCannotRun and Spark's errors."""
    bar = bar or ProgressBar()
    partitions = _target(settings)
    spark.conf.set("spark.sql.files.minPartitionNum", TASKS)  # else files are dealt by the number of cores
    rows = within(_source(spark, settings), settings.since_ms, settings.until_ms)
    if settings.only_topics and "topic" in rows.columns:
        rows = rows.where(F.col("topic").isin(*settings.only_topics))
    if settings.keeps_partition:
        _check_partitions(rows, partitions, settings)
    records = as_records(
        in_order(rows, TASKS) if settings.rate is None else in_time(rows),
        keeps_partition=settings.keeps_partition,
        keeps_timestamp=settings.keeps_timestamp,
    )
    counted = Observation()
    said = {**settings.cluster, "topic": settings.to_topic, "writerId": f"replay-{settings.run_id}"}
    if settings.rate is not None:
        said["rowsPerSecond"] = str(settings.rate)
    observed = records.observe(counted, F.count(F.lit(1)).alias("rows"))
    bar.show(partitions=partitions)
    with _watched(settings, bar):
        observed.write.format("chronik").options(**said).mode("append").save()
    rows_written = int(counted.get["rows"])
    bar.show(rows=rows_written)
    return ReplayOutcome(settings.to_topic, rows_written, settings.run_id)


@contextmanager
def _watched(settings: ReplaySettings, bar: ProgressBar) -> Iterator[None]:
    """Spark counts rows when a task has ended, and a task may take hours: how much the topic has grown is known now."""
    ended = threading.Event()
    thread = threading.Thread(target=_watch, args=(settings, bar, ended), name="replay-progress", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def _watch(settings: ReplaySettings, bar: ProgressBar, ended: threading.Event) -> None:
    options = write_options({**settings.cluster, "topic": settings.to_topic}).client
    with TopicClient(options) as cluster, suppress(Failed):  # those that write will say what is wrong
        wanted = {ReadPartition(settings.to_topic, each): LATEST for each in cluster.topic(settings.to_topic).leaders}
        before = sum(cluster.offsets(wanted).values())
        while not ended.wait(LOOK_EVERY_S):
            bar.show(rows=sum(cluster.offsets(wanted).values()) - before)


def _target(settings: ReplaySettings) -> int:
    """How many partitions it has. Raises NoSuchTopic."""
    if (settings.table is None) == (settings.from_topic is None):
        raise JobCannotRun("replay from where?", "give a table or a topic, one of the two")
    if settings.from_topic == settings.to_topic and settings.from_cluster is None:
        raise JobCannotRun(f"{settings.to_topic} cannot be replayed into itself", "give another topic to write to")
    with TopicClient(write_options({**settings.cluster, "topic": settings.to_topic}).client) as cluster:
        return len(cluster.topic(settings.to_topic).leaders)


def _source(spark: SparkSession, settings: ReplaySettings) -> DataFrame:
    if settings.table is not None:
        return read_table(spark, settings.table, WANTED, settings.only_topics)
    # It is read to its end whatever `until_ms` is: records need not be in the order of their time.
    since = {} if settings.since_ms is None else {"startingTimestamp": str(settings.since_ms)}
    late = {"startingOffsetsByTimestampStrategy": "latest"}
    said = {**(settings.from_cluster or settings.cluster), "subscribe": str(settings.from_topic), **since, **late}
    return spark.read.format("chronik").options(**said, includeHeaders="true").load()


def _check_partitions(rows: DataFrame, partitions: int, settings: ReplaySettings) -> None:
    """Better now than when some are written."""
    if "partition" not in rows.columns:
        return
    if settings.from_topic is not None:
        said = write_options({**(settings.from_cluster or settings.cluster)})
        with TopicClient(said.client) as cluster:
            highest = max(cluster.topic(settings.from_topic).leaders)
    else:
        found = rows.agg(F.max("partition")).first()
        highest = -1 if found is None or found[0] is None else int(found[0])
    if highest >= partitions:
        raise JobCannotRun(
            f"{settings.to_topic} has {partitions} partitions, and there are records of partition {highest}",
            "add partitions, or let keys choose them: --by-key",
        )
