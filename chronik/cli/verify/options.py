"""The options of `chronik verify`, each said once."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from chronik.verify.settings import MESSAGES_MAX, VALUE_BYTES_MIN
from chronik.verify.settings import ClientName as ClientNameOf
from chronik.verify.settings import Spread as SpreadOf
from chronik.verify.settings import VerifyAcks as AcksOf

Messages = Annotated[int, typer.Option(min=1, max=MESSAGES_MAX, metavar="N", help="How many to send.")]
Partitions = Annotated[int, typer.Option(min=1, max=100_000, metavar="N", help="Of the topic.")]
Replication = Annotated[
    int | None,
    typer.Option(min=1, max=10_000, metavar="N", help="Of the topic; else 3, or as many as there are nodes."),
]
Acks = Annotated[AcksOf, typer.Option(help="Who must have a message before it counts.")]
Client = Annotated[ClientNameOf, typer.Option(help="The client library to do it with.")]
Timeout = Annotated[float, typer.Option(min=0.001, max=86_400, metavar="S", help="For consuming, all in all.")]
MaxPollRecords = Annotated[
    int, typer.Option(min=1, max=1_000_000, metavar="N", help="The consumer takes no more at once.")
]
ValueBytes = Annotated[
    int, typer.Option(min=VALUE_BYTES_MIN, max=900_000, metavar="N", help="The size of each message.")
]
Idempotent = Annotated[
    bool | None, typer.Option("--idempotent/--no-idempotent", help="Whether the producer is; else with --acks all.")
]
SendTimeout = Annotated[
    float, typer.Option(min=0.1, max=86_400, metavar="S", help="For one message to be acknowledged.")
]
Topic = Annotated[
    str | None,
    typer.Option(metavar="TOPIC", help="This one, made if it does not exist, never deleted; else a fresh one."),
]
Group = Annotated[str | None, typer.Option(metavar="GROUP", help="To consume in; else a fresh one.")]
Assign = Annotated[bool, typer.Option("--assign", help="Consume without a group.")]
Spread = Annotated[SpreadOf, typer.Option(help="Who says where a message goes: all partitions in turn, or the client.")]
Transactional = Annotated[
    bool, typer.Option("--transactional", help="In transactions; some of them are aborted, and must not be read.")
]
Copy = Annotated[
    bool,
    typer.Option("--copy", help="Also copy the topic in transactions, offsets included: output must equal input."),
]
AbortRate = Annotated[
    float, typer.Option("--abort-rate", min=0.0, max=0.9, metavar="R", help="The share of transactions to abort.")
]
TransactionSize = Annotated[
    int, typer.Option("--transaction-size", min=1, max=1_000_000, metavar="N", help="Messages in each transaction.")
]
Keep = Annotated[bool, typer.Option("--keep", help="Keep the topic even if all went well.")]
Compare = Annotated[
    str | None, typer.Option("--compare", metavar="RUN", help="Show what differs from that run; 'last' is one.")
]
Note = Annotated[str, typer.Option(metavar="TEXT", help="What you changed; shown in the history.")]
HistoryFile = Annotated[
    Path | None,
    typer.Option(
        "--history",
        envvar="CHRONIK_VERIFY_HISTORY",
        metavar="FILE",
        dir_okay=False,
        help="Where runs are kept; else in your state directory.",
    ),
]
LedgerFile = Annotated[
    Path | None,
    typer.Option(
        "--ledger",
        metavar="FILE",
        dir_okay=False,
        help="Write down what was acknowledged, for `chronik pipeline audit`; the topic is kept then.",
    ),
]
ReceivedFile = Annotated[
    Path | None, typer.Option("--received", metavar="FILE", dir_okay=False, help="The same for what was consumed.")
]
