"""The list of groups, one group, and what a reset of it would do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from chronik.client.errors import ChronikError
from chronik.console.pages.frame import Frame, paged, rows_words
from chronik.console.sight import GroupSight, Sight
from chronik.inspect.group_offsets import Move, Target
from chronik.inspect.times import parse_time_ms

PAGE_SIZE = 100
WAYS = ("earliest", "latest", "offset", "time", "shift")


@dataclass(frozen=True)
class GroupRowShown:
    name: str
    state: str
    kind: str
    members: int | None
    topics: tuple[str, ...]
    lag: int | None
    lags: tuple[float, ...]


@dataclass(frozen=True)
class GroupsPage:
    frame: Frame
    query: str
    rows: tuple[GroupRowShown, ...]
    total: int
    page: int
    pages: int
    words: str
    unknown: tuple[str, ...]


def groups_page(frame: Frame, sight: Sight, query: str, page: int) -> GroupsPage:
    words = query.lower().split()
    found = [group for group in sight.groups if all(word in group.name.lower() for word in words)]
    page, begin, end = paged(len(found), page, PAGE_SIZE)
    return GroupsPage(
        frame, query, tuple(_row(group) for group in found[begin:end]), len(found), page,
        max((len(found) + PAGE_SIZE - 1) // PAGE_SIZE, 1), rows_words(begin, end, len(found), "group"), sight.unknown,
    )  # fmt: skip


def _row(group: GroupSight) -> GroupRowShown:
    members = None if group.members is None else len(group.members)
    return GroupRowShown(
        group.name, group.state, group.kind, members, tuple(group.topics), group.lag, tuple(group.lags)
    )


@dataclass(frozen=True)
class GroupPage:
    """From the coordinator, asked for this page: what it says is as new as the page."""

    frame: Frame
    name: str
    state: str
    kind: str
    assignor: str | None
    coordinator: str
    members: tuple[dict[str, Any], ...]
    partitions: tuple[dict[str, Any], ...]
    lag: int
    untold: tuple[str, ...]
    """Partitions whose end is not known, so that the lag is not known."""
    lags: tuple[float, ...]
    catching_up: str | None


def group_page(
    frame: Frame,
    summary: Mapping[str, Any],
    members: Sequence[dict[str, Any]],
    partitions: Sequence[dict[str, Any]],
    lag: int,
    untold: Sequence[str],
    lags: Sequence[float],
    interval_s: float,
) -> GroupPage:
    return GroupPage(
        frame, str(summary["group"]), str(summary["state"]), str(summary["type"]), summary["assignor"],
        str(summary["coordinator"]), tuple(members), tuple(partitions), lag, tuple(untold), tuple(lags),
        catching_up(lags, interval_s),
    )  # fmt: skip


def catching_up(lags: Sequence[float], interval_s: float) -> str | None:
    """What the last minute says of the next: only where there is enough of it."""
    newest = list(lags)[-15:]
    if len(newest) < 5 or not newest[-1]:
        return None
    per_s = (newest[0] - newest[-1]) / ((len(newest) - 1) * interval_s)
    if abs(per_s) < 0.1:
        return "the lag stands still"
    if per_s < 0:
        return f"it falls behind by {-per_s:,.0f} records/s"
    return f"it catches up by {per_s:,.0f} records/s: about {newest[-1] / per_s:,.0f} s more"


@dataclass(frozen=True)
class ResetPage:
    """What a reset would change. Nothing is changed yet."""

    frame: Frame
    name: str
    way: str
    at: str
    topic: str
    moves: tuple[Move, ...]
    shown: str
    """The offsets after it, in few characters: what is carried out has to be what was shown."""
    problem: str | None


def parse_target(way: str, at: str) -> Target:
    """Raises ChronikError."""
    at = at.strip()
    if way == "earliest":
        return Target(to_earliest=True)
    if way == "latest":
        return Target(to_latest=True)
    if way == "time":
        return Target(to_time_ms=parse_time_ms(at))
    digits = at.removeprefix("-") if way == "shift" else at
    if way not in WAYS or not digits.isdecimal() or len(digits) > 18:
        raise ChronikError("where to is not said", "give an offset, a time, or a number to shift by")
    return Target(shift_by=int(at)) if way == "shift" else Target(to_offset=int(at))


def target_options(way: str, at: str) -> list[str]:
    """The same, as options of `chronik group reset`."""
    match way:
        case "earliest" | "latest":
            return [f"--to-{way}"]
        case "time":
            return ["--to-datetime", at]
        case "shift":
            return ["--shift-by", at]
    return ["--to-offset", at]


def moves_shown(moves: Sequence[Move]) -> str:
    after = [move.after for move in moves]
    return ",".join(map(str, after)) if len(after) <= 500 else f"{len(after)}:{sum(after)}"
