"""`chronik pipeline report`: a trace, an audit and runs of verify as one HTML page."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from chronik.cli.options import DEFAULT_BOOTSTRAP, AsJson, Bootstrap, example
from chronik.cli.output import print_json, print_line
from chronik.cli.pipeline.diagnose import Since, TraceFiles, Until, settings
from chronik.cli.pipeline.options import (
    DEFAULT_MASTER,
    DEFAULT_MEMORY,
    DriverMemory,
    KafkaSettings,
    Master,
    Remote,
    SparkSettings,
    kafka_options,
    spark_errors,
    spark_session,
)
from chronik.cli.stalls import Topics
from chronik.cli.values import local
from chronik.client.connecting import check_reachable
from chronik.client.errors import ChronikError

if TYPE_CHECKING:
    from chronik.pipeline.jobs.report import ReportOutcome, ReportSettings

EXAMPLE = example(
    "chronik pipeline report --out report.html",
    "chronik pipeline report --trace incident.ndjson --title 'Incident of 16 November'",
    "chronik pipeline audit --topic orders --json > audit.json; chronik pipeline report --audit audit.json",
)


def report(
    out: Annotated[
        str, typer.Option("--out", "-o", metavar="FILE", callback=local, help="Where the page goes.")
    ] = "report.html",
    title: Annotated[
        str, typer.Option("--title", metavar="TEXT", help="Its heading.")
    ] = "What happened to the messages",
    trace: TraceFiles = None,
    has_trace: Annotated[bool, typer.Option("--with-trace/--no-trace", help="Whether the trace is looked at.")] = True,
    topic: Topics = None,
    since: Since = None,
    until: Until = None,
    audit: Annotated[
        str | None, typer.Option("--audit", metavar="FILE", help="What `chronik pipeline audit --json` printed.")
    ] = None,
    run: Annotated[
        list[str] | None,
        typer.Option("--run", metavar="FILE", help="What `chronik verify --json` printed; repeat for more."),
    ] = None,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    kafka: KafkaSettings = None,
    master: Master = DEFAULT_MASTER,
    remote: Remote = None,
    driver_memory: DriverMemory = DEFAULT_MEMORY,
    spark: SparkSettings = None,
    as_json: AsJson = False,
) -> None:
    """One HTML page, which works offline: the verdict in words, offsets over time, gap, throughput, latency, balance,
    stalls. Of the trace, and of an audit and runs of verify where they are given."""
    if not has_trace and audit is None and not run:
        raise ChronikError("there is nothing to report", "give --audit or --run, or leave out --no-trace")
    if has_trace and not trace:
        check_reachable(bootstrap)  # before Spark is started for nothing
    with spark_errors():
        from chronik.pipeline.jobs import report as job
        from chronik.pipeline.progress import progress

        wish = _settings(out, title, audit, run)
        if has_trace:
            options = kafka_options(bootstrap, kafka)
            where = f"the trace in {', '.join(trace)}" if trace else f"the trace of {bootstrap}"
            wish = _with_trace(wish, settings(trace, topic, since, until, options), where)
        with ExitStack() as opened:
            bar = opened.enter_context(progress(None, "report", is_wanted=not as_json))

            def open_spark() -> Any:
                return opened.enter_context(spark_session("report", master, driver_memory, spark, remote))

            outcome = job.run(open_spark, wish, bar)
    tell(outcome, as_json)


def _settings(out: str, title: str, audit: str | None, runs: list[str] | None) -> ReportSettings:
    from chronik.pipeline.jobs.report import ReportSettings, read_json

    made_from = [] if audit is None else [f"the audit in {audit}"]
    read = None if audit is None else read_json(audit, "the audit")
    return ReportSettings(out, title, None, read, [read_json(each, "the run") for each in runs or []], made_from)


def _with_trace(wish: ReportSettings, trace: Any, where: str) -> ReportSettings:
    from dataclasses import replace

    return replace(wish, trace=trace, made_from=[where, *wish.made_from])


def tell(outcome: ReportOutcome, as_json: bool) -> None:
    if as_json:
        print_json(asdict(outcome))
        return
    print_line(outcome.headline)
    for line in outcome.said:
        print_line(f"  {line}")
    print_line(f"the report: {outcome.path}")
