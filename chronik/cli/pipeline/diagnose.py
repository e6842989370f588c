"""`chronik pipeline diagnose`: what stalled in a stored trace, and why, by the rules of `chronik stalls`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from chronik.cli.options import DEFAULT_BOOTSTRAP, AsJson, Bootstrap, example
from chronik.cli.output import counted, print_json, print_line, print_note, print_table
from chronik.cli.pipeline.options import (
    DEFAULT_MASTER,
    DEFAULT_MEMORY,
    DriverMemory,
    KafkaSettings,
    Master,
    Remote,
    SparkSettings,
    kafka_options,
    spark_session,
)
from chronik.cli.stalls import EXIT_STALLS, Topics, tell_one
from chronik.cli.values import local
from chronik.client.connecting import check_reachable
from chronik.client.errors import ChronikError
from chronik.inspect.times import parse_time_ms

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from chronik.pipeline.jobs.diagnose import DiagnoseOutcome, DiagnoseSettings

EXAMPLE = example(
    "chronik pipeline diagnose",
    "chronik pipeline diagnose --since 2026-11-16T07:00:00Z --topic orders",
    "chronik pipeline diagnose --trace incident.ndjson --out tables/incident --json",
    "chronik pipeline diagnose --follow --to stalls --checkpoint checkpoints/stalls",
)
SHOWN_MAX = 10

TraceFiles = Annotated[
    list[str] | None,
    typer.Option(
        "--trace", metavar="FILE", help="Events from files, one JSON object a line, in place of the trace topic."
    ),
]
Since = Annotated[
    str | None, typer.Option("--since", metavar="TIME", help="Not before: ISO 8601, or milliseconds since 1970.")
]
Until = Annotated[str | None, typer.Option("--until", metavar="TIME", help="Nothing from then on.")]


def diagnose(
    trace: TraceFiles = None,
    topic: Topics = None,
    since: Since = None,
    until: Until = None,
    every: Annotated[float, typer.Option("--every", min=0.1, metavar="S", help="Ask the rules so often.")] = 1.0,
    out: Annotated[
        str | None, typer.Option("--out", metavar="DIR", callback=local, help="Write all tables there, as Parquet.")
    ] = None,
    follow: Annotated[bool, typer.Option("--follow", help="Go on: write what begins to stall to a topic.")] = False,
    to: Annotated[str | None, typer.Option("--to", metavar="TOPIC", help="With --follow: which topic.")] = None,
    checkpoint: Annotated[
        str | None, typer.Option("--checkpoint", metavar="DIR", help="With --follow: where to remember how far it is.")
    ] = None,
    from_beginning: Annotated[
        bool, typer.Option("--from-beginning", help="With --follow: also what the trace has already.")
    ] = False,
    once: Annotated[bool, typer.Option("--once", help="With --follow: what is there now, then end.")] = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    kafka: KafkaSettings = None,
    master: Master = DEFAULT_MASTER,
    remote: Remote = None,
    driver_memory: DriverMemory = DEFAULT_MEMORY,
    spark: SparkSettings = None,
    as_json: AsJson = False,
) -> None:
    """Find what stalled and why in a stored trace: the topic that `chronik trace on` fills, or files of it.

    The rules are those of `chronik stalls`, asked once for every second of the trace. Also tells which partitions were
    slowest, who was refused, and which groups rebalanced. Ends with 0 when nothing stalled, with 1 when something did.
    """
    options = kafka_options(bootstrap, kafka)
    if follow:
        _check_follow(trace, to, checkpoint)
    if not trace:
        check_reachable(bootstrap)  # before Spark is started for nothing
    if follow:
        with spark_session("diagnose", master, driver_memory, spark, remote) as session:
            _follow(session, options, str(to), str(checkpoint), from_beginning, once, round(every * 1e6))
        return
    from chronik.pipeline.progress import progress

    with spark_session("diagnose", master, driver_memory, spark, remote) as session:
        from chronik.pipeline.jobs.diagnose import run

        wish = settings(trace, topic, since, until, options, every, out)
        with progress(session, "diagnose", is_wanted=not as_json) as bar:
            outcome = run(session, wish, bar)
    if as_json:
        print_json(asdict(outcome))
    else:
        tell(outcome)
    if outcome.stalls_count:
        raise typer.Exit(EXIT_STALLS)


def settings(
    trace: Sequence[str] | None,
    topics: Sequence[str] | None,
    since: str | None,
    until: str | None,
    options: dict[str, str],
    every: float = 1.0,
    out: str | None = None,
) -> DiagnoseSettings:
    """Where the trace is, of the options that several jobs share."""
    from chronik.pipeline.jobs.diagnose import DiagnoseSettings

    return DiagnoseSettings(
        options,
        tuple(trace or ()),
        tuple(topics or ()),
        None if since is None else parse_time_ms(since) * 1000,
        None if until is None else parse_time_ms(until) * 1000,
        round(every * 1e6),
        out,
    )


def _check_follow(trace: Sequence[str] | None, to: str | None, checkpoint: str | None) -> None:
    if trace:
        raise ChronikError("files do not go on: --follow and --trace contradict each other", "leave one of them out")
    if to is None or checkpoint is None:
        raise ChronikError("--follow needs to know where to", "say --to TOPIC and --checkpoint DIR")


def _follow(
    session: SparkSession,
    options: dict[str, str],
    to: str,
    checkpoint: str,
    from_beginning: bool,
    once: bool,
    every_us: int,
) -> None:
    from chronik.pipeline.jobs.raising import RaiseSettings, start

    query = start(session, RaiseSettings(options, to, checkpoint, from_beginning, once, every_us))
    print_note(f"what begins to stall, and what is over, goes to topic {to}{'' if once else '; Ctrl-C ends it'}")
    try:
        query.awaitTermination()
    finally:
        query.stop()


# --- for people


def tell(outcome: DiagnoseOutcome) -> None:
    from chronik.pipeline.stall_rows import clock_time

    _tell_stalls(outcome)
    _tell_partitions(outcome.partitions)
    if outcome.refusals:
        print_line()
        print_table(
            ["client", "host", "asked", "refused with", "topic", "times", "by nodes", "first", "last"],
            [
                (
                    *(row[name] for name in ("client_id", "host", "api", "error", "topic", "times", "nodes")),
                    clock_time(row["first_us"]),
                    clock_time(row["last_us"]),
                )
                for row in outcome.refusals[:SHOWN_MAX]
            ],
            "refusals",
        )
    if outcome.rebalances:
        print_line()
        print_table(
            ["group", "rebalances", "joined", "left", "expired", "not at rest", "state"],
            [
                (
                    *(row[name] for name in ("group", "rebalances", "joined", "left", "expired")),
                    f"{(row['restless_us'] or 0) / 1e6:.1f} s",
                    row["state"],
                )
                for row in outcome.rebalances[:SHOWN_MAX]
            ],
            "groups",
        )
    if outcome.out is not None:
        print_note(f"all tables are in {outcome.out}")


def _tell_stalls(outcome: DiagnoseOutcome) -> None:
    from chronik.pipeline.stall_rows import alike_of, moment, verdict_of, when_of

    totals = outcome.totals
    span = (
        f"{counted(totals['events'], 'event')} of {counted(len(totals['nodes']), 'node')}, "
        f"{moment(totals['from_us'])} to {moment(totals['to_us'])}"
    )
    if totals["lines"] > totals["events"]:
        print_note(f"{counted(totals['lines'] - totals['events'], 'line')} of the trace could not be read")
    if totals["events_lost"]:
        print_note(f"{counted(totals['events_lost'], 'event')} never came into the trace: there it cannot tell")
    if not outcome.stalls_count:
        print_line(f"nothing stalled: {span}")
        return
    print_line(f"{counted(outcome.stalls_count, 'stall')} in {span}")
    found = alike_of(outcome.stalls)
    for alike in found[:SHOWN_MAX]:
        print_line()
        tell_one([verdict_of(row) for row in alike], when_of(alike[0], totals["to_us"]))
    if len(found) > SHOWN_MAX:
        print_line()
        print_line(f"and {len(found) - SHOWN_MAX} more: --json has them")


def _tell_partitions(rows: Sequence[dict[str, Any]]) -> None:
    if not rows:
        return
    from chronik.pipeline.stall_rows import milliseconds

    print_line()
    print_table(
        [
            "topic",
            "partition",
            "in",
            "out",
            "not visible",
            "not read",
            "largest gap",
            "refusals",
            "produce p99",
            "fetch p99",
        ],
        [
            (
                *(row[name] for name in ("topic", "partition", "records_in", "records_out")),
                (row["next_offset"] or 0) - (row["watermark"] or 0),
                *(row[name] for name in ("unread", "gap_max", "refusals")),
                milliseconds(row["produce_us"]),
                milliseconds(row["fetch_us"]),
            )
            for row in rows[:SHOWN_MAX]
        ],
        f"slowest partitions{f', {SHOWN_MAX} of {len(rows)}' if len(rows) > SHOWN_MAX else ''}",
    )
