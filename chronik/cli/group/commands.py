"""`chronik group`: list, describe and delete consumer groups; `group_reset` moves their offsets."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from chronik.cli.group import reset
from chronik.cli.options import DEFAULT_BOOTSTRAP, AsJson, Bootstrap, Yes, example
from chronik.cli.output import count, counted, is_confirmed, print_json, print_line, print_note, print_table
from chronik.client.admin import ClusterAdmin, Partition
from chronik.client.errors import ChronikError

if TYPE_CHECKING:
    from confluent_kafka.admin import ConsumerGroupDescription, MemberDescription

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
    group, committed = _existing(cluster, name)
    members = [_member_row(member) for member in group.members]
    progress = _progress_rows(cluster, group, committed)
    lag, untold = total_lag(progress)
    if as_json:
        print_json(_summary(group) | {"members": members, "partitions": progress, "lag": None if untold else lag})
        return
    summary = _summary(group)
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
        more = f", and that of {', '.join(untold)}, whose end no leader tells now" if untold else ""
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
        group, committed = _existing(cluster, name)
        reset.refuse_live_members(group, "deleted")
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


def _existing(cluster: ClusterAdmin, name: str) -> tuple[ConsumerGroupDescription, dict[Partition, int]]:
    """A group and what it committed; one that nobody ever joined or committed to is an error with the nearest name."""
    group = reset.described_or_none(cluster, name)
    if group is None:
        raise cluster.unknown_group(name)
    return group, cluster.committed(name)


def total_lag(progress: list[dict[str, Any]]) -> tuple[int, list[str]]:
    """Of all partitions that the group has committed; and of which of them it is not known."""
    untold = [
        f"{row['topic']}:{row['partition']}"
        for row in progress
        if row["committed_offset"] is not None and row["lag"] is None
    ]
    return sum(row["lag"] or 0 for row in progress), untold


def _summary(group: ConsumerGroupDescription) -> dict[str, Any]:
    node = group.coordinator
    return {
        "group": group.group_id,
        "state": group.state.name.lower(),
        "type": group.type.name.lower(),
        "assignor": group.partition_assignor or None,
        "coordinator": f"{node.host}:{node.port}",
    }


def _member_row(member: MemberDescription) -> dict[str, Any]:
    assigned = sorted(member.assignment.topic_partitions)
    return {
        "member": member.member_id,
        "client_id": member.client_id,
        "instance_id": member.group_instance_id,
        "host": member.host.lstrip("/"),
        "partitions": [f"{partition.topic}:{partition.partition}" for partition in assigned],
    }


def _progress_rows(
    cluster: ClusterAdmin, group: ConsumerGroupDescription, committed: dict[Partition, int]
) -> list[dict[str, Any]]:
    """One row for each partition that is committed or assigned."""
    readers = {
        (assigned.topic, assigned.partition): member
        for member in group.members
        for assigned in member.assignment.topic_partitions
    }
    partitions = sorted(committed.keys() | readers.keys())
    ends = cluster.end_offsets(partitions)
    rows = []
    for partition in partitions:
        offset, end = committed.get(partition), ends.get(partition)
        reader = readers.get(partition)
        rows.append(
            {
                "topic": partition[0],
                "partition": partition[1],
                "committed_offset": offset,
                "end_offset": end,
                "lag": None if offset is None or end is None else max(end - offset, 0),
                "client_id": None if reader is None else reader.client_id,
                "member": None if reader is None else reader.member_id,
            }
        )
    return rows
