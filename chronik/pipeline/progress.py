"""How far a job is, on the terminal: rows, rate, lag, partitions, and what Spark is at. Nothing when nothing looks.

with progress(spark, "ingest", is_wanted=not as_json) as bar:
    ...                                    # the bar follows Spark's tasks of itself
    bar.show(rows=120_000, lag=3_000, partitions=6)
"""

from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from chronik.pipeline.problems import is_of_spark
from chronik.pipeline.session import is_connect
from chronik.pipeline.topics.client import ReadPartition
from chronik.pipeline.topics.plan import ReadOffsets

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LOOK_EVERY_S = 0.5


@dataclass
class ProgressBar:
    """What is known of a job's progress. Jobs say `show`; a thread draws."""

    rows: int | None = None
    lag: int | None = None
    """Records that are there and not read yet."""
    partitions: int | None = None
    step: str | None = None
    """What it is at, where a job has parts that take their time one after the other."""
    spark: SparkSession | None = None
    """Whose tasks are counted."""

    def show(
        self,
        *,
        rows: int | None = None,
        lag: int | None = None,
        partitions: int | None = None,
        step: str | None = None,
    ) -> None:
        """All of it so far; what is not given stays as it was."""
        self.step = self.step if step is None else step
        self.rows = self.rows if rows is None else rows
        self.lag = self.lag if lag is None else lag
        self.partitions = self.partitions if partitions is None else partitions

    def words(self, elapsed_s: float) -> str:
        said = [] if self.step is None else [self.step]
        if self.rows is not None:
            said.append(f"{self.rows:,} rows")
            if elapsed_s > 0:
                said.append(f"{self.rows / elapsed_s:,.0f} a second")
        if self.lag is not None:
            said.append(f"{self.lag:,} to go")
        if self.partitions is not None:
            said.append(f"{self.partitions:,} partition{'' if self.partitions == 1 else 's'}")
        return " · ".join(said)


@contextmanager
def progress(spark: SparkSession | None, job: str, *, is_wanted: bool = True) -> Iterator[ProgressBar]:
    """A bar on standard error while the block runs, if that is a terminal. With a session, given here or
    later, it counts Spark's tasks."""
    bar = ProgressBar(spark=spark)
    if not (is_wanted and sys.stderr.isatty()):
        yield bar
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(bar_width=24),
        TextColumn("{task.fields[words]}"),
        TimeElapsedColumn(),
    )
    ended = threading.Event()
    with Progress(*columns, console=Console(stderr=True), transient=True) as drawn:
        task = drawn.add_task(job, total=None, words="")

        def draw(elapsed_s: float) -> None:
            followed = bar.spark
            done, total = (0, 0) if followed is None else tasks_of(followed)
            drawn.update(task, words=bar.words(elapsed_s), completed=done, total=total or None)

        thread = threading.Thread(target=_draw_until, args=(ended, draw), name="progress", daemon=True)
        thread.start()
        try:
            yield bar
        finally:
            ended.set()
            thread.join()


def _draw_until(ended: threading.Event, draw: Callable[[float], None]) -> None:
    begin = time.monotonic()
    while not ended.wait(LOOK_EVERY_S):
        try:
            draw(time.monotonic() - begin)
        except Exception as problem:
            if not is_of_spark(problem):
                raise
            return  # Java is gone: the job meets that too, and says so


def tasks_of(spark: SparkSession) -> tuple[int, int]:
    """Done and all tasks of the stages that Spark is at. None are known of a Spark Connect server."""
    if is_connect(spark):
        return 0, 0
    tracker = spark.sparkContext.statusTracker()
    stages = [tracker.getStageInfo(each) for each in tracker.getActiveStageIds()]
    known = [each for each in stages if each is not None]
    return sum(each.numCompletedTasks for each in known), sum(each.numTasks for each in known)


def lag_of(source: Mapping[str, Any]) -> tuple[int, int]:
    """Records still to be read, and partitions, of a topic source in a streaming query's progress."""
    ends, latest = _offsets(source.get("endOffset")), _offsets(source.get("latestOffset"))
    return sum(max(offset - ends.get(each, 0), 0) for each, offset in latest.items()), len(latest or ends)


def _offsets(text: str | None) -> Mapping[ReadPartition, int]:
    found = json.loads(text) if text else None
    return ReadOffsets.from_json(found).by_partition if found else {}
