"""`chronik transaction`: list, describe and abort the transactions of a cluster."""

from __future__ import annotations

import sys
import time
from typing import Annotated, Any

import typer

from chronik.cli.options import DEFAULT_BOOTSTRAP, AsJson, Bootstrap, Yes, example
from chronik.cli.output import counted, is_confirmed, print_json, print_line, print_note, print_table
from chronik.client.admin import ClusterAdmin
from chronik.client.errors import ChronikError
from chronik.client.transactions import OPEN_STATES, TransactionAdmin, TransactionDescription, check_open

app = typer.Typer(name="transaction", help="List, describe and abort transactions.", no_args_is_help=True)

TransactionalId = Annotated[str, typer.Argument(metavar="ID", help="The transactional id of a producer.")]


@app.command("list", epilog=example("chronik transaction list --open", "chronik transaction list --longer-than 60"))
def list_transactions(
    is_open: Annotated[bool, typer.Option("--open", help="Only those that are not complete.")] = False,
    longer_than_s: Annotated[
        float | None,
        typer.Option("--longer-than", metavar="SECONDS", min=0, help="Only those open for longer than this."),
    ] = None,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    as_json: AsJson = False,
) -> None:
    """List the transactional ids with the state of their transaction, and for how long it has been open."""
    cluster = TransactionAdmin(bootstrap)
    states = OPEN_STATES if is_open or longer_than_s is not None else ()
    rows = []
    for one in cluster.listed(states):
        row: dict[str, Any] = {
            "transactional_id": one.transactional_id,
            "state": one.state,
            "open_s": None,
            "producer_id": one.producer_id,
            "coordinator": one.coordinator,
        }
        if one.state in OPEN_STATES:
            described = cluster.existing(one.transactional_id)
            open_ms = described.open_ms(_now_ms())
            row |= {"state": described.state, "open_s": None if open_ms is None else round(open_ms / 1000, 1)}
        if longer_than_s is None or (row["open_s"] is not None and row["open_s"] > longer_than_s):
            rows.append(row)
    if as_json:
        print_json(rows)
    elif rows:
        print_table(["transactional id", "state", "open s", "producer", "coordinator"], [_cells(row) for row in rows])
    else:
        print_line("no transactions")


@app.command(epilog=example("chronik transaction describe billing-1"))
def describe(name: TransactionalId, bootstrap: Bootstrap = DEFAULT_BOOTSTRAP, as_json: AsJson = False) -> None:
    """Show a producer's transaction: its state, since when, and the partitions whose readers wait for it."""
    found = TransactionAdmin(bootstrap).existing(name)
    open_ms = found.open_ms(_now_ms())
    stable = ClusterAdmin(bootstrap).stable_offsets(found.partitions)
    partitions = [
        {"topic": topic, "partition": number, "last_stable_offset": stable.get((topic, number))}
        for topic, number in found.partitions
    ]
    if as_json:
        row = {"transactional_id": name, "state": found.state, "open_s": None if open_ms is None else open_ms / 1000}
        print_json(
            row
            | {
                "timeout_s": found.timeout_ms / 1000,
                "producer_id": found.producer_id,
                "producer_epoch": found.producer_epoch,
                "coordinator": found.coordinator,
                "partitions": partitions,
            }
        )
        return
    since = "" if open_ms is None else f", open for {open_ms / 1000:.1f} s of {found.timeout_ms / 1000:g}"
    print_line(f"{name}: {found.state}{since}")
    print_line(f"producer {found.producer_id} in epoch {found.producer_epoch}, coordinated by node {found.coordinator}")
    if partitions:
        print_table(["topic", "partition", "last stable"], [list(row.values()) for row in partitions])


@app.command(epilog=example("chronik transaction abort billing-1 --yes"))
def abort(
    name: TransactionalId, yes: Yes = False, bootstrap: Bootstrap = DEFAULT_BOOTSTRAP, as_json: AsJson = False
) -> None:
    """Abort a transaction that is open, and fence its producer: that one cannot commit it any more."""
    cluster = TransactionAdmin(bootstrap)
    found = cluster.existing(name)
    check_open(found)
    if not yes:
        _confirm(found)
    cluster.abort_open(found)
    if as_json:
        print_json({"aborted": name, "partitions": len(found.partitions)})
    else:
        print_line(f"aborted the transaction of {name} in {counted(len(found.partitions), 'partition')}")


def _confirm(found: TransactionDescription) -> None:
    if not sys.stdin.isatty():
        raise ChronikError("nothing aborted: there is no terminal to ask", "say --yes")
    print_note(f"{found.transactional_id}: has written to {counted(len(found.partitions), 'partition')}")
    if not is_confirmed("Abort, and fence its producer?"):
        print_note("nothing aborted")
        raise typer.Exit(1)


def _cells(row: dict[str, Any]) -> list[object]:
    return ["-" if value is None else value for value in row.values()]


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
