"""`chronik pipeline audit`: what was promised, what is there, what was received; every offset accounted for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from chronik.cli.options import DEFAULT_BOOTSTRAP, AsJson, Bootstrap, example
from chronik.cli.output import print_json, print_line, print_note, print_table
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
from chronik.cli.values import local
from chronik.client.connecting import check_reachable
from chronik.client.errors import ChronikError
from chronik.pipeline.audit_rows import finding_cells, offset_range, place, sequence_range, verdict

if TYPE_CHECKING:
    from chronik.pipeline.jobs.audit import AuditOutcome

EXIT_LOST = 1
SHOWN_MAX = 20
EXAMPLE = example(
    "chronik pipeline audit --topic orders",
    "chronik pipeline audit --ledger sent.jsonl --topic orders",
    "chronik pipeline audit --topic orders --received tables/orders --received tables/orders-quarantine",
    "chronik pipeline audit --ledger sent.jsonl --received got.csv --out tables/audit --json",
)

Topics = Annotated[
    list[str] | None, typer.Option("--topic", metavar="TOPIC", help="Look at what this topic holds; several are fine.")
]
Ledgers = Annotated[
    list[str] | None,
    typer.Option("--ledger", metavar="PATH", help="What producers got acknowledged: Parquet, Delta, .jsonl or .csv."),
]
Received = Annotated[
    list[str] | None,
    typer.Option("--received", metavar="PATH", help="What came out: consumed records, or a table filled by ingest."),
]
TraceFiles = Annotated[
    list[str] | None, typer.Option("--trace", metavar="FILE", help="What was served, from files of the trace.")
]
WithTrace = Annotated[bool, typer.Option("--with-trace", help="What was served, from the cluster's trace topic.")]
Groups = Annotated[
    list[str] | None, typer.Option("--group", metavar="GROUP", help="What this group committed; several are fine.")
]
AllGroups = Annotated[bool, typer.Option("--all-groups", help="What every group of the cluster committed.")]
StillReading = Annotated[
    bool, typer.Option("--still-reading", help="What the log has behind the last that was received may still come.")
]
Out = Annotated[
    str | None,
    typer.Option("--out", metavar="DIR", callback=local, help="Write all tables there, as Parquet; it must be new."),
]


def audit(
    topic: Topics = None,
    ledger: Ledgers = None,
    received: Received = None,
    trace: TraceFiles = None,
    with_trace: WithTrace = False,
    group: Groups = None,
    all_groups: AllGroups = False,
    still_reading: StillReading = False,
    out: Out = None,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    kafka: KafkaSettings = None,
    master: Master = DEFAULT_MASTER,
    remote: Remote = None,
    driver_memory: DriverMemory = DEFAULT_MEMORY,
    spark: SparkSettings = None,
    as_json: AsJson = False,
) -> None:
    """Compare what was acknowledged to producers, what topics hold and what receivers got, and account for every
    offset.

    Give two of these three: a ledger, topics, what was received; or topics alone, to look for gaps. Ends with 0 when
    nothing is lost, with 1 when something is.
    """
    if not topic and not received:
        raise ChronikError("there is nothing to compare", "name a --topic, or give what was --received")
    options = kafka_options(bootstrap, kafka)
    if topic or with_trace or group or all_groups:
        check_reachable(bootstrap)  # before Spark is started for nothing
    with spark_session("audit", master, driver_memory, spark, remote) as session:
        from chronik.pipeline.jobs.audit import AuditSettings, run
        from chronik.pipeline.progress import progress

        settings = AuditSettings(
            kafka=options,
            topics=tuple(dict.fromkeys(topic or ())),
            ledgers=tuple(ledger or ()),
            received=tuple(received or ()),
            is_traced=with_trace,
            trace_files=tuple(trace or ()),
            groups=None if all_groups else tuple(group or ()),
            is_still_reading=still_reading,
            out=out,
        )
        with progress(session, "audit", is_wanted=not as_json) as bar:
            outcome = run(session, settings, bar)
    if as_json:
        print_json(outcome.to_json())
    else:
        tell(outcome)
    if outcome.lost:
        raise typer.Exit(EXIT_LOST)


def tell(outcome: AuditOutcome) -> None:
    """For a person: the verdict, the partitions, what was found, and by whom it was seen."""
    print_line(verdict(outcome))
    print_line()
    names = ("expected", "found", "lost", "duplicated", "reordered", "unexpected", "explained", "unknown")
    print_table(
        ["partition", "offsets", *names],
        [[place(row), offset_range(row), *(row[name] for name in names)] for row in outcome.partitions[:SHOWN_MAX]],
        "Partitions",
    )
    _tell_more(outcome.partitions_count, "partitions", outcome.out)
    if outcome.findings:
        columns = ["finding", "partition", "offsets", "count", "why or where", "producer", "committed by"]
        print_line()
        print_table(columns, [finding_cells(row) for row in outcome.findings[:SHOWN_MAX]], "Findings")
        _tell_more(outcome.findings_count, "findings", outcome.out)
    _tell_producers(outcome)
    _tell_readers(outcome)
    if not outcome.is_order_known:
        print_note("in which order records were sent or given is not known here: nothing can be found reordered")
    if outcome.out is not None:
        print_note(f"all tables are in {outcome.out}")


def _tell_producers(outcome: AuditOutcome) -> None:
    names = ("expected", "found", "lost", "duplicated", "reordered")
    if outcome.producers:
        rows = [[row["producer"], place(row), *(row[name] for name in names)] for row in outcome.producers[:SHOWN_MAX]]
        print_line()
        print_table(["producer", "partition", *names], rows, "Producers, as the ledger has them")
    if outcome.sequence_findings:
        rows = [
            [row["finding"], place(row), row["producer_id"], row["producer_epoch"], sequence_range(row), row["reason"]]
            for row in outcome.sequence_findings[:SHOWN_MAX]
        ]
        print_line()
        print_table(
            ["finding", "partition", "producer id", "epoch", "sequences", "why"], rows, "Producers' own numbers"
        )


def _tell_readers(outcome: AuditOutcome) -> None:
    if outcome.served:
        rows = [
            [
                place(row),
                offset_range(row),
                row["client_id"],
                row["host"],
                row["group"],
                str(row["first_at"]),
                row["answers"],
            ]
            for row in outcome.served[:SHOWN_MAX]
        ]
        print_line()
        print_table(["partition", "offsets", "client", "host", "group", "from", "answers"], rows, "Served")
    if outcome.committed:
        rows = [[place(row), row["group"], row["offset"]] for row in outcome.committed[:SHOWN_MAX]]
        print_line()
        print_table(["partition", "group", "up to"], rows, "Committed")


def _tell_more(count: int, what: str, out: str | None) -> None:
    if count > SHOWN_MAX:
        where = "they are all in the tables" if out else "--out DIR writes them all"
        print_note(f"{SHOWN_MAX} of {count:,} {what} are shown; {where}")
