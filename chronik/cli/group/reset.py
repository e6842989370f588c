"""`chronik group reset`: moves a group's committed offsets. It shows what would change, and does it with --execute."""

from __future__ import annotations

from typing import Annotated

import typer

from chronik.cli.options import DEFAULT_BOOTSTRAP, AsJson, Bootstrap, example
from chronik.cli.output import print_json, print_line, print_table
from chronik.cli.values import parse_topic_partitions
from chronik.client.admin import ClusterAdmin, Partition
from chronik.client.current_topics import Unsure
from chronik.client.errors import ChronikError
from chronik.inspect.group_offsets import Move, Target, described_or_none, plan_all, refuse_live_members
from chronik.inspect.times import parse_time_ms

EXAMPLE = example(
    "chronik group reset billing --to-earliest --topic orders",
    "chronik group reset billing --to-datetime 2026-01-31T12:30:00 --execute",
)


def reset(
    name: Annotated[str, typer.Argument(metavar="GROUP")],
    to_earliest: Annotated[bool, typer.Option("--to-earliest", help="To the oldest message there is.")] = False,
    to_latest: Annotated[bool, typer.Option("--to-latest", help="To the end: only what comes from now on.")] = False,
    to_offset: Annotated[int | None, typer.Option(min=0, metavar="N", help="To this offset.")] = None,
    to_datetime: Annotated[
        str | None, typer.Option(metavar="TIME", help="To the first message at or after an ISO 8601 time.")
    ] = None,
    shift_by: Annotated[
        int | None, typer.Option(metavar="N", help="By so many messages: forward, or back with -N.")
    ] = None,
    topic: Annotated[
        list[str] | None,
        typer.Option(metavar="TOPIC[:P,P]", help="Only these; all that the group has committed if not given."),
    ] = None,
    execute: Annotated[
        bool, typer.Option("--execute/--dry-run", help="Do it, or only show what would change.")
    ] = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    as_json: AsJson = False,
) -> None:
    """Move the committed offsets of a group that has no members. Only shows the change unless --execute is given."""
    given = [to_earliest, to_latest, to_offset is not None, to_datetime is not None, shift_by is not None]
    if sum(given) != 1:
        raise ChronikError(
            "say where to, once", "one of --to-earliest, --to-latest, --to-offset, --to-datetime and --shift-by"
        )
    time_ms = None if to_datetime is None else parse_time_ms(to_datetime)
    target = Target(to_earliest, to_latest, to_offset, time_ms, shift_by)
    cluster = ClusterAdmin(bootstrap)
    group = described_or_none(cluster, name)
    if group is not None:
        refuse_live_members(group, "reset")
    elif isinstance(doubt := cluster.unknown_group(name), Unsure):
        raise doubt
    committed = cluster.committed(name)
    partitions = _chosen(cluster, topic, committed)
    if not partitions:
        raise ChronikError(f"group {name} has committed nothing", "say which topic with --topic")
    moves = plan_all(cluster, partitions, committed, target)
    if execute:
        cluster.commit(name, {move.partition: move.after for move in moves})
    _print_moves(name, moves, execute, as_json)


def _chosen(cluster: ClusterAdmin, topics: list[str] | None, committed: dict[Partition, int]) -> list[Partition]:
    if not topics:
        return sorted(committed)
    chosen: set[Partition] = set()
    for text in topics:
        topic, numbers = parse_topic_partitions(text)
        known = [partition.partition for partition in cluster.topic(topic).partitions]
        for number in known if numbers is None else numbers:
            if number not in known:
                raise ChronikError(f"topic {topic} has no partition {number}", f"it has 0 to {len(known) - 1}")
            chosen.add((topic, number))
    return sorted(chosen)


def _print_moves(name: str, moves: list[Move], is_done: bool, as_json: bool) -> None:
    if as_json:
        rows = [
            {"topic": made.partition[0], "partition": made.partition[1], "before": made.before, "after": made.after}
            for made in moves
        ]
        print_json({"group": name, "executed": is_done, "partitions": rows})
        return
    columns = ["topic", "partition", "before", "after", "change"]
    if any(made.note for made in moves):
        columns.append("note")
    rows_shown = [
        (
            *made.partition,
            made.before,
            made.after,
            None if made.before is None else f"{made.after - made.before:+,}",
            made.note,
        )
        for made in moves
    ]
    print_table(columns, [row[: len(columns)] for row in rows_shown])
    print_line(f"group {name} was reset" if is_done else "nothing changed yet; add --execute to do it")
