"""report: a trace, an audit and runs of verify as one HTML page."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING, Any

from chronik import __version__
from chronik.pipeline.jobs import diagnose
from chronik.pipeline.problems import JobCannotRun
from chronik.pipeline.progress import ProgressBar
from chronik.pipeline.report.findings import Findings
from chronik.pipeline.report.page import page
from chronik.pipeline.report.sections import DRAWN_MAX
from chronik.pipeline.report.words import verdict_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

COUNTS = ("expected", "found", "lost", "duplicated", "reordered", "unexpected", "explained", "partitions")


@dataclass(frozen=True)
class ReportSettings:
    """What is to be on the page, and where it is to be."""

    out: str
    title: str = "What happened to the messages"
    trace: diagnose.DiagnoseSettings | None = None
    audit: dict[str, Any] | None = None  # as `chronik pipeline audit --json` prints it
    runs: Sequence[dict[str, Any]] = ()  # as `chronik verify --json` prints them
    made_from: Sequence[str] = ()


@dataclass(frozen=True)
class ReportOutcome:
    """Where the page is, and what it says on top."""

    path: str
    level: str
    headline: str
    said: list[str]


def run(
    open_spark: Callable[[], SparkSession], settings: ReportSettings, bar: ProgressBar | None = None
) -> ReportOutcome:
    """Spark is opened only when there is a trace to read. Raises JobCannotRun."""
    bar = bar or ProgressBar()
    findings = Findings(
        settings.title,
        round(time.time() * 1e6),
        settings.made_from,
        __version__,
        audit=None if settings.audit is None else _checked(settings.audit),
        runs=settings.runs,
    )
    if settings.trace is not None:
        bar.show(step="starting Spark")
        bar.spark = open_spark()
        findings = with_trace(bar.spark, settings.trace, findings, bar)
        bar.spark = None  # the caller that opened it may close it now
    bar.show(step="drawing the page")
    _write(settings.out, page(findings))
    verdict = verdict_of(findings.audit, findings.runs, findings.stalls, findings.totals)
    path = os.path.abspath(settings.out)
    return ReportOutcome(path, verdict.level, verdict.headline, [each.words for each in verdict.said])


def with_trace(
    spark: SparkSession, trace: diagnose.DiagnoseSettings, findings: Findings, bar: ProgressBar | None = None
) -> Findings:
    """And what the trace has to say. Of the timelines only those that are drawn come here."""
    with diagnose.diagnosed(spark, trace, bar) as found:
        partitions = diagnose.head(found.partitions)
        stalls = diagnose.head(diagnose.ranked(found.stalls))
        return replace(
            findings,
            totals=diagnose.head(found.totals)[0],
            whole_step_us=found.whole_step_us,
            stalls=stalls,
            stalls_count=len(stalls) if len(stalls) < diagnose.ROWS_MAX else found.stalls.count(),
            partitions=partitions,
            partitions_count=len(partitions) if len(partitions) < diagnose.ROWS_MAX else found.partitions.count(),
            timeline=_timeline(found.timeline, partitions[:DRAWN_MAX]),
            whole_timeline=diagnose.head(found.whole_timeline.orderBy("from_us"), 2 * diagnose.STEPS),
            refusals=diagnose.head(found.refusals),
            rebalances=diagnose.head(found.rebalances),
        )


def _timeline(timeline: DataFrame, drawn: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    from pyspark.sql import functions as F

    if not drawn:
        return []
    is_drawn = [(F.col("topic") == row["topic"]) & (F.col("partition") == row["partition"]) for row in drawn]
    return diagnose.head(timeline.where(reduce(or_, is_drawn)), 2 * diagnose.STEPS * len(drawn))


def _checked(audit: dict[str, Any]) -> dict[str, Any]:
    missing = [name for name in COUNTS if name not in audit]
    if missing:
        raise JobCannotRun(
            f"this is no audit: it says nothing of {', '.join(missing)}",
            "give what `chronik pipeline audit --json` printed",
        )
    return audit


def _write(path: str, text: str) -> None:
    """All of it or nothing: a page that is half there would look whole."""
    folder = os.path.dirname(os.path.abspath(path))
    os.makedirs(folder, exist_ok=True)
    part = f"{path}.part"
    with open(part, "w", encoding="utf-8") as file:
        file.write(text)
    os.replace(part, path)


def read_json(path: str, what: str) -> Any:
    """Raises JobCannotRun."""
    try:
        with open(path, encoding="utf-8") as file:
            return json.load(file)
    except OSError as problem:
        raise JobCannotRun(f"{what} {path} cannot be read: {problem.strerror}") from problem
    except ValueError as problem:
        raise JobCannotRun(f"{what} {path} is no JSON: {problem}") from problem
