"""Topics to tables, each record once, through any kill and restart of driver and workers.

Spark's checkpoint says which offsets a batch has; the table says which batches it has.
"""

from __future__ import annotations

import fcntl
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any

from chronik.pipeline.problems import JobCannotRun
from chronik.pipeline.progress import ProgressBar, lag_of
from chronik.pipeline.tables.delta import DeltaTable
from chronik.pipeline.tables.filling import Filling
from chronik.pipeline.tables.iceberg import IcebergTable
from chronik.pipeline.tables.kinds import Table, check_folder, for_spark
from chronik.pipeline.tables.parquet import ParquetTable
from chronik.pipeline.tables.writers import Writer
from chronik.pipeline.topics.client import TopicClient
from chronik.pipeline.topics.options import read_options
from chronik.pipeline.topics.places import find_topics
from chronik.pipeline.values.forms import Form

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming import StreamingQuery

LOOK_EVERY_S = 0.5


class Format(StrEnum):
    DELTA = "delta"
    PARQUET = "parquet"
    ICEBERG = "iceberg"


TABLES: dict[Format, Callable[[Path], Table]] = {
    Format.DELTA: DeltaTable,
    Format.PARQUET: ParquetTable,
    Format.ICEBERG: IcebergTable,
}


@dataclass(frozen=True)
class IngestSettings:
    source: Mapping[str, str]
    """Options of `format("chronik")`: which topics of which cluster, from where."""
    table: Path
    form: Form = field(default_factory=Form)
    format: Format = Format.DELTA
    quarantine: Path | None = None
    """Beside the table, unless it is said."""
    checkpoint: Path | None = None
    is_once: bool = True
    every_s: float = 10.0
    is_compacted: bool = False

    def beside(self, given: Path | None, suffix: str) -> Path:
        place = self.table.resolve()
        return given if given is not None else place.with_name(f"{place.name}-{suffix}")


@dataclass(frozen=True)
class IngestOutcome:
    """What this run has done; a restart begins to count anew."""

    table: str
    quarantine: str
    rows: int
    quarantined: int
    batches: int
    skipped: int
    """Batches that were in the table already, since the run before died before it could note that."""
    compacted: int

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def run(
    spark: SparkSession,
    settings: IngestSettings,
    bar: ProgressBar | None = None,
    is_ending: Callable[[], bool] = lambda: False,
) -> IngestOutcome:
    """Until all that is there now is in the table, or until `is_ending`. Raises JobCannotRun and Spark's errors."""
    if settings.is_compacted and settings.format != Format.DELTA:
        raise JobCannotRun("only tables of Delta can be compacted", "use --format delta for that")
    source = {"startingOffsets": "earliest", **settings.source, "includeHeaders": "true"}
    options = read_options(source, is_streaming=True)
    with TopicClient(options.client) as cluster:
        topics = find_topics(cluster, options.topics)  # before anything is written
    checkpoint = settings.beside(settings.checkpoint, "checkpoint").resolve()
    with _only_one(checkpoint):
        kind = TABLES[settings.format]
        table, quarantine = kind(settings.table), kind(settings.beside(settings.quarantine, "quarantine"))
        writer = Writer(checkpoint, table)
        filling = Filling(table, quarantine, settings.form, writer, settings.is_compacted)
        filling.check()
        writer.check(topics)  # and again with each batch: a pattern may take in more
        for each in (table, quarantine):
            each.clean(writer.name)
        # Delta's times are microseconds; Spark would write its own old form.
        spark.conf.set("spark.sql.parquet.outputTimestampType", "TIMESTAMP_MICROS")
        when: dict[str, Any] = {"availableNow": True} if settings.is_once else {"processingTime": _span(settings)}
        query = (
            spark.readStream.format("chronik").options(**source).load()
            .writeStream.foreachBatch(filling.write).trigger(**when)
            .option("checkpointLocation", for_spark(checkpoint)).start()
        )  # fmt: skip
        _follow(query, filling, bar or ProgressBar(), is_ending)
        done = writer.counts()
        if settings.is_compacted:
            done.compacted += filling.compact()
    return IngestOutcome(str(table.path), str(quarantine.path), **asdict(done))


def _span(settings: IngestSettings) -> str:
    return f"{max(round(settings.every_s * 1000), 1)} milliseconds"


def _follow(query: StreamingQuery, filling: Filling, bar: ProgressBar, is_ending: Callable[[], bool]) -> None:
    try:
        while not query.awaitTermination(LOOK_EVERY_S):
            if is_ending():
                query.stop()  # a batch that is under way is done again the next time
                return
            last = query.lastProgress
            lag, partitions = lag_of(last["sources"][0]) if last else (None, None)
            done = filling.writer.counts()
            bar.show(rows=done.rows + done.quarantined, lag=lag, partitions=partitions)
    except Exception:
        if isinstance(filling.problem, Exception):
            raise filling.problem from None
        raise
    finally:
        query.stop()


@contextmanager
def _only_one(checkpoint: Path) -> Iterator[None]:
    """Two jobs with one checkpoint would be one writer twice. The lock goes with the process, however it ends."""
    check_folder(checkpoint)
    with open(checkpoint / ".chronik-lock", "w", encoding="utf-8") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as problem:
            raise JobCannotRun(f"another job is running with the checkpoint {checkpoint}") from problem
        yield
