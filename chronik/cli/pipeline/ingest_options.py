"""The options of `chronik pipeline ingest`, each said once."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from chronik.cli.values import local
from chronik.client.connecting import complete_topic


class TableFormat(StrEnum):
    """As chronik.pipeline.jobs.ingest.Format, which needs Spark to be imported."""

    DELTA = "delta"
    PARQUET = "parquet"
    ICEBERG = "iceberg"


class ValueKind(StrEnum):
    """As chronik.pipeline.values.forms.Kind."""

    RAW = "raw"
    JSON = "json"
    CSV = "csv"
    AVRO = "avro"


class Beginning(StrEnum):
    EARLIEST = "earliest"
    LATEST = "latest"


Topics = Annotated[list[str] | None, typer.Argument(metavar="TOPIC", autocompletion=complete_topic, show_default=False)]
To = Annotated[
    Path, typer.Option("--to", metavar="FOLDER", callback=local, help="The table. It is made, or filled further.")
]
Pattern = Annotated[str | None, typer.Option(metavar="REGEX", help="All topics of such a name, also those to come.")]
Format = Annotated[TableFormat, typer.Option("--format", help="Of the table.")]
Value = Annotated[ValueKind, typer.Option("--value", help="What values are; raw ones stay bytes.")]
Schema = Annotated[
    Path | None, typer.Option("--schema", metavar="FILE", help="Of the values: `id bigint, name string`, or an .avsc.")
]
Infer = Annotated[bool, typer.Option("--infer", help="Find the schema of JSON or CSV in the values.")]
SchemaId = Annotated[
    int | None,
    typer.Option(min=0, metavar="ID", help="Avro values begin with a schema registry's five bytes, of this id."),
]
Delimiter = Annotated[str, typer.Option(metavar="CHAR", help="Between the fields of CSV.")]
Once = Annotated[bool, typer.Option("--once", help="What is there now, then end; else it goes on.")]
Every = Annotated[float, typer.Option(min=0.0, metavar="S", help="Without --once: from one batch to the next.")]
From = Annotated[Beginning, typer.Option("--from", help="Where the first run begins; later ones go on.")]
BatchRows = Annotated[int, typer.Option("--batch-rows", min=1, metavar="N", help="At most so many records in a batch.")]
Tasks = Annotated[
    int | None, typer.Option(min=1, metavar="N", help="Read with about so many tasks; else one a partition.")
]
AllowGaps = Annotated[
    bool, typer.Option("--allow-gaps", help="Go on where records were deleted unread (failOnDataLoss=false).")
]
Compact = Annotated[bool, typer.Option("--compact", help="Join small files, every 20 batches and at the end.")]
Quarantine = Annotated[
    Path | None,
    typer.Option(
        "--quarantine", metavar="FOLDER", callback=local, help="Table of what cannot be read; else beside the table."
    ),
]
Checkpoint = Annotated[
    Path | None,
    typer.Option("--checkpoint", metavar="FOLDER", callback=local, help="How far it is; else beside the table."),
]
