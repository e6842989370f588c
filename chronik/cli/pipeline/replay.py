"""`chronik pipeline replay`: tables, or a span of a topic's time, back to a topic."""

from __future__ import annotations

import uuid
from pathlib import Path
from typing import Annotated

import typer

from chronik.cli.options import DEFAULT_BOOTSTRAP, AsJson, Bootstrap, example
from chronik.cli.output import counted, print_json, print_line, print_note
from chronik.cli.pipeline.options import (
    COMMITTED_ONLY,
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
from chronik.cli.values import local
from chronik.client.connecting import check_reachable, complete_topic
from chronik.client.errors import ChronikError
from chronik.inspect.times import parse_time_ms

EXAMPLE = example(
    "chronik pipeline replay --table tables/orders --to orders-again",
    "chronik pipeline replay --topic orders --since 2026-11-16T08:00Z --until 2026-11-16T09:00Z --to orders-again",
    "chronik pipeline replay --table tables/orders --to orders-again --rate 1000",
)
Table = Annotated[
    Path | None,
    typer.Option("--table", metavar="FOLDER", callback=local, help="From this one: of ingest, any Delta, any Parquet."),
]
Topic = Annotated[
    str | None, typer.Option("--topic", metavar="TOPIC", autocompletion=complete_topic, help="From this one.")
]
OnlyTopics = Annotated[
    list[str] | None, typer.Option("--only", metavar="TOPIC", help="Of a table that has several; may be repeated.")
]
To = Annotated[
    str, typer.Option("--to", metavar="TOPIC", autocompletion=complete_topic, help="Written to; it must be there.")
]
Since = Annotated[str | None, typer.Option("--since", metavar="TIME", help="Records from then on.")]
Until = Annotated[str | None, typer.Option("--until", metavar="TIME", help="Records before then.")]
Rate = Annotated[
    int | None, typer.Option("--rate", min=1, metavar="N", help="Records a second, in the order of their time.")
]
ByKey = Annotated[bool, typer.Option("--by-key", help="Partitions by key, not those the records were in.")]
Now = Annotated[bool, typer.Option("--now", help="The time of writing, not the records' own.")]
RunId = Annotated[
    str | None, typer.Option("--run-id", metavar="ID", help="Of a replay that was cut off: write only what is missing.")
]


def replay(
    to: To,
    table: Table = None,
    topic: Topic = None,
    only: OnlyTopics = None,
    since: Since = None,
    until: Until = None,
    rate: Rate = None,
    by_key: ByKey = False,
    now: Now = False,
    run_id: RunId = None,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    kafka: KafkaSettings = None,
    master: Master = DEFAULT_MASTER,
    remote: Remote = None,
    driver_memory: DriverMemory = DEFAULT_MEMORY,
    spark: SparkSettings = None,
    as_json: AsJson = False,
) -> None:
    """Write a table, or a span of a topic's time, to a topic: with keys, headers, timestamps and partitions."""
    cluster = COMMITTED_ONLY | kafka_options(bootstrap, kafka)
    since_ms = None if since is None else parse_time_ms(since)
    until_ms = None if until is None else parse_time_ms(until)
    if since_ms is not None and until_ms is not None and since_ms >= until_ms:
        raise ChronikError("--since is not before --until")
    if (table is None) == (topic is None):
        raise ChronikError("replay from where?", "give --table or --topic, one of the two")
    check_reachable(bootstrap)
    name = run_id or uuid.uuid4().hex[:12]
    with spark_session("replay", master, driver_memory, spark, remote) as session:
        from chronik.pipeline.jobs.replay import ReplaySettings, run
        from chronik.pipeline.progress import progress

        settings = ReplaySettings(
            cluster, to, table, topic, None, tuple(only or ()), since_ms, until_ms, rate, not by_key, not now, name
        )
        print_note(f"if it is cut off, `--run-id {name}` writes what is missing")
        with progress(session, "replay", is_wanted=not as_json) as bar:
            outcome = run(session, settings, bar)
    if as_json:
        print_json(outcome.to_json())
    else:
        print_line(f"{counted(outcome.rows, 'record')} to {outcome.topic}")
