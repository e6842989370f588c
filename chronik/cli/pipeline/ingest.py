"""`chronik pipeline ingest`: topics to tables, each record once."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import typer

from chronik.cli.options import DEFAULT_BOOTSTRAP, AsJson, Bootstrap, example
from chronik.cli.output import counted, print_json, print_line, print_note
from chronik.cli.pipeline import ingest_options as given
from chronik.cli.pipeline.ingest_options import Beginning, TableFormat, ValueKind
from chronik.cli.pipeline.options import (
    COMMITTED_ONLY,
    DEFAULT_MASTER,
    DEFAULT_MEMORY,
    EXIT_INTERRUPTED,
    DriverMemory,
    KafkaSettings,
    Master,
    Remote,
    SparkSettings,
    kafka_options,
    spark_errors,
    spark_session,
)
from chronik.client.connecting import check_reachable
from chronik.client.errors import ChronikError
from chronik.shell.interrupts import Interrupts

if TYPE_CHECKING:
    from chronik.pipeline.jobs.ingest import IngestOutcome

EXAMPLE = example(
    "chronik pipeline ingest orders --to tables/orders --once",
    "chronik pipeline ingest orders --to tables/orders --value json --infer --every 30",
    "chronik pipeline ingest orders --to tables/orders --value avro --schema orders.avsc --once",
)


def ingest(
    to: given.To,
    topics: given.Topics = None,
    pattern: given.Pattern = None,
    format_: given.Format = TableFormat.DELTA,
    value: given.Value = ValueKind.RAW,
    schema: given.Schema = None,
    infer: given.Infer = False,
    schema_id: given.SchemaId = None,
    delimiter: given.Delimiter = ",",
    once: given.Once = False,
    every: given.Every = 10.0,
    beginning: given.From = Beginning.EARLIEST,
    batch_rows: given.BatchRows = 2_000_000,
    tasks: given.Tasks = None,
    allow_gaps: given.AllowGaps = False,
    compact: given.Compact = False,
    quarantine: given.Quarantine = None,
    checkpoint: given.Checkpoint = None,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    kafka: KafkaSettings = None,
    master: Master = DEFAULT_MASTER,
    remote: Remote = None,
    driver_memory: DriverMemory = DEFAULT_MEMORY,
    spark: SparkSettings = None,
    as_json: AsJson = False,
) -> None:
    """Fill a table from topics: each record once, whatever is killed and started again.

    The table is partitioned by topic and date. Values that cannot be read are in the quarantine table, with the reason.
    """
    source = {
        **COMMITTED_ONLY,
        **kafka_options(bootstrap, kafka),
        **topic_options(topics, pattern),
        "startingOffsets": beginning.value,
        "maxOffsetsPerTrigger": str(batch_rows),
        "failOnDataLoss": "false" if allow_gaps else "true",
        **({} if tasks is None else {"minPartitions": str(tasks)}),
    }
    _check_writable(format_)
    check_reachable(bootstrap)
    interrupts = Interrupts()
    with spark_session("ingest", master, driver_memory, spark, remote) as session:
        from chronik.pipeline.jobs.ingest import Format, IngestSettings, run
        from chronik.pipeline.progress import progress
        from chronik.pipeline.values.forms import Kind, read_form

        form = read_form(Kind(value.value), schema, is_inferred=infer, schema_id=schema_id, delimiter=delimiter)
        settings = IngestSettings(source, to, form, Format(format_.value), quarantine, checkpoint, once, every, compact)
        interrupts.listen()  # after Spark, which has its own idea of Ctrl-C
        with progress(session, "ingest", is_wanted=not as_json) as bar:
            outcome = run(session, settings, bar, lambda: interrupts.is_ending)
    _tell(outcome, as_json)
    if once and interrupts.is_ending:
        print_note("stopped before the end; run it again to go on")
        raise typer.Exit(EXIT_INTERRUPTED)


def _check_writable(format_: TableFormat) -> None:
    """Before Spark is started for nothing."""
    if format_ == TableFormat.ICEBERG:
        with spark_errors():
            from chronik.pipeline.tables.iceberg import check_installed

            check_installed()


def topic_options(topics: list[str] | None, pattern: str | None) -> dict[str, str]:
    if bool(topics) == (pattern is not None):
        raise ChronikError("which topics?", "name them, or give --pattern, one of the two")
    return {"subscribePattern": pattern} if pattern is not None else {"subscribe": ",".join(topics or ())}


def _tell(outcome: IngestOutcome, as_json: bool) -> None:
    if as_json:
        print_json(outcome.to_json())
        return
    print_line(f"{counted(outcome.rows, 'record')} into {_shown(outcome.table)}")
    if outcome.quarantined:
        print_line(
            f"{counted(outcome.quarantined, 'record')} into {_shown(outcome.quarantine)}: they could not be read"
        )
    if outcome.compacted:
        print_line(f"{counted(outcome.compacted, 'small file')} joined")


def _shown(path: str) -> str:
    """As a user would write it from the current directory."""
    return str(Path(path).relative_to(Path.cwd())) if Path(path).is_relative_to(Path.cwd()) else path
