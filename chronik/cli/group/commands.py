"""`chronik group`: list, describe and delete consumer groups; `group_reset` moves their offsets."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from chronik.cli.group import reset
from chronik.cli.options import DEFAULT_BOOTSTRAP, AsJson, Bootstrap, Yes, example
from chronik.cli.output import count, counted, is_confirmed, print_json, print_line, print_note, print_table
from chronik.client.admin import ClusterAdmin, Partition
from chronik.client.errors import ChronikError
from chronik.inspect.group_offsets import (
    existing_group,
    member_row,
    progress_rows,
    refuse_live_members,
    summary_row,
    total_lag,
)

app = typer.Typer(name="group", help="List, describe, reset and delete consumer groups.", no_args_is_help=True)
app.command("reset", epilog=reset.EXAMPLE)(reset.reset)

GroupName = Annotated[str, typer.Argument(metavar="GROUP")]


@app.command("list", epilog=example("chronik group list"))
def list_groups(bootstrap: Bootstrap = DEFAULT_BOOTSTRAP, as_json: AsJson = False) -> None:
    """List the consumer groups with their state."""
    cluster = ClusterAdmin(bootstrap)
    rows = [
        {"group": group.group_id, "state": group.state.name.lower(), "type": group.type.name.lower()}
        for group in cluster.groups()
    ]
    doubt = cluster.doubt()
    if doubt is not None:
        print_note(f"these may not be all, nor still there: {doubt}")
    if as_json:
        print_json(rows)
    elif rows:
        print_table(["group", "state", "type"], [list(row.values()) for row in rows])
    elif doubt is None:
        print_line("no consumer groups")


@app.command(epilog=example("chronik group describe billing"))
def describe(name: GroupName, bootstrap: Bootstrap = DEFAULT_BOOTSTRAP, as_json: AsJson = False) -> None:
    """Show a group's members with what each reads, and how far it is: committed offset, end offset, lag."""
    cluster = ClusterAdmin(bootstrap)
    group, committed = existing_group(cluster, name)
    members = [member_row(member) for member in group.members]
    progress = progress_rows(cluster, group, committed)
    lag, unknown = total_lag(progress)
    if as_json:
        print_json(summary_row(group) | {"members": members, "partitions": progress, "lag": None if unknown else lag})
        return
    summary = summary_row(group)
    print_line(
        f"group {name}: {summary['state']}, type {summary['type']}, assignor {summary['assignor'] or '-'}, "
        f"coordinator {summary['coordinator'] or '-'}"
    )
    if members:
        print_table(
            ["client", "host", "partitions", "member"],
            [(row["client_id"], row["host"], row["partitions"], row["member"]) for row in members],
        )
    else:
        print_line("no members")
    if progress:
        columns = ["topic", "partition", "committed", "end offset", "lag", "client"]
        print_table(columns, [list(row.values())[:6] for row in progress])
        more = f", and that of {', '.join(unknown)}, whose end no leader tells now" if unknown else ""
        print_line(f"lag: {count(lag)}{more}")
    else:
        print_line("nothing committed")


@app.command(epilog=example("chronik group delete billing --yes"))
def delete(
    names: Annotated[list[str], typer.Argument(metavar="GROUP...")],
    yes: Yes = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    as_json: AsJson = False,
) -> None:
    """Delete groups that have no members, with all they have committed."""
    cluster = ClusterAdmin(bootstrap)
    wanted = list(dict.fromkeys(names))
    for name in wanted:
        group, committed = existing_group(cluster, name)
        refuse_live_members(group, "deleted")
        if not yes:
            _confirm(name, committed)
    for name in wanted:
        cluster.delete_group(name)
        if not as_json:
            print_line(f"deleted group {name}")
    if as_json:
        print_json({"deleted": wanted})


def _confirm(name: str, committed: dict[Partition, int]) -> None:
    if not sys.stdin.isatty():
        raise ChronikError("nothing deleted: there is no terminal to ask", "say --yes")
    print_note(f"{name}: has committed offsets of {counted(len(committed), 'partition')}")
    if not is_confirmed("Delete for good?"):
        print_note("nothing deleted")
        raise typer.Exit(1)
