"""`chronik group reset`: moves a group's committed offsets. It shows what would change, and does it with --execute."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from chronik.cli.options import DEFAULT_BOOTSTRAP, AsJson, Bootstrap, example
from chronik.cli.output import counted, print_json, print_line, print_table
from chronik.cli.values import parse_time_ms, parse_topic_partitions
from chronik.client.admin import ClusterAdmin, Partition
from chronik.client.current_topics import Unsure
from chronik.client.errors import ChronikError, RefusedByNode

if TYPE_CHECKING:
    from confluent_kafka.admin import ConsumerGroupDescription

EXAMPLE = example(
    "chronik group reset billing --to-earliest --topic orders",
    "chronik group reset billing --to-datetime 2026-01-31T12:30:00 --execute",
)


@dataclass(frozen=True)
class Target:
    """Where to: exactly one of the five is set."""

    to_earliest: bool = False
    to_latest: bool = False
    to_offset: int | None = None
    to_time_ms: int | None = None
    shift_by: int | None = None


@dataclass(frozen=True)
class Spot:
    """Where one partition stands: committed, both ends of its log, and the offset at the time asked for."""

    partition: Partition
    before: int | None
    start: int | None
    end: int | None
    at_time: int | None = None


@dataclass(frozen=True)
class Move:
    """One partition's offset before and after; `note` says why it is not the one asked for."""

    partition: Partition
    before: int | None
    after: int
    note: str = ""


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
    moves = _planned(cluster, partitions, committed, target)
    if execute:
        cluster.commit(name, {move.partition: move.after for move in moves})
    _print_moves(name, moves, execute, as_json)


def described_or_none(cluster: ClusterAdmin, name: str) -> ConsumerGroupDescription | None:
    """The group, None when there is none: nodes say that in two ways, by an error or by describing a dead group."""
    from confluent_kafka import ConsumerGroupState, KafkaError

    try:
        group = cluster.group(name)
    except RefusedByNode as refused:
        if refused.code == KafkaError.GROUP_ID_NOT_FOUND:
            return None
        raise
    return None if group.state == ConsumerGroupState.DEAD else group


def refuse_live_members(group: ConsumerGroupDescription, what: str) -> None:
    if group.members:
        who = ", ".join(f"{member.client_id} at {member.host.lstrip('/')}" for member in group.members)
        raise ChronikError(
            f"group {group.group_id} has {counted(len(group.members), 'live member')} ({who}) and cannot be {what}",
            "stop them first",
        )


def plan(target: Target, spot: Spot) -> Move:
    """Where one partition goes, held to what its log has: an offset out of range would send readers elsewhere."""
    topic, number = spot.partition
    if spot.start is None or spot.end is None:
        raise ChronikError(f"{topic}:{number} has no leader that tells its offsets", "try again later")
    if target.shift_by is not None and spot.before is None:
        raise ChronikError(f"{topic}:{number} has no committed offset to shift", "use --to-offset")
    wanted = _wanted(target, spot, spot.start, spot.end)
    if wanted < spot.start:
        return Move(spot.partition, spot.before, spot.start, f"{wanted:,} is before the start")
    if wanted > spot.end:
        return Move(spot.partition, spot.before, spot.end, f"{wanted:,} is beyond the end")
    return Move(spot.partition, spot.before, wanted)


def _wanted(target: Target, spot: Spot, start: int, end: int) -> int:
    if target.to_earliest:
        return start
    if target.to_offset is not None:
        return target.to_offset
    if target.shift_by is not None:
        return (spot.before or 0) + target.shift_by
    if target.to_time_ms is not None and spot.at_time is not None and spot.at_time >= 0:
        return spot.at_time
    return end  # --to-latest, and a time after the last message


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


def _planned(
    cluster: ClusterAdmin, partitions: list[Partition], committed: dict[Partition, int], target: Target
) -> list[Move]:
    starts, ends = cluster.start_offsets(partitions), cluster.end_offsets(partitions)
    at_time = {} if target.to_time_ms is None else cluster.offsets(partitions, target.to_time_ms)
    return [
        plan(target, Spot(each, committed.get(each), starts.get(each), ends.get(each), at_time.get(each)))
        for each in partitions
    ]


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
