"""What was seen of a cluster at one time: nodes, partitions, groups, stalls. Pages are made of it alone.

Of Chronik the nodes tell all of it. Of another Kafka it is what its protocol says, and `unknown` says what it does not.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from chronik.inspect.live_model import ClusterSnapshot, LiveTotals, LiveView, Row
from chronik.trace.events import GroupSeen
from chronik.trace.inspections import ClusterStateView
from chronik.trace.verdicts import Verdict

Partition = tuple[str, int]


@dataclass(frozen=True)
class NodeSight:
    """None is not known."""

    id: int
    address: str
    is_controller: bool
    answers: bool
    reason: str | None = None
    """Why it does not answer."""
    version: str | None = None
    leads: int | None = None
    copies: int | None = None
    offline: int | None = None
    size_bytes: int | None = None
    traces: bool | None = None


@dataclass(frozen=True)
class MemberSight:
    member_id: str
    client_id: str
    host: str
    assigned: tuple[Partition, ...]


@dataclass(frozen=True)
class GroupSight:
    name: str
    state: str
    kind: str
    members: tuple[MemberSight, ...] | None
    """None: this list does not say."""
    lag: int | None
    """Of all that it has committed; None where that is not known of one of them, or nothing is committed."""
    committed: Mapping[Partition, int]
    lags: tuple[float, ...] = ()
    state_ms: int | None = None

    @property
    def topics(self) -> list[str]:
        assigned = {topic for member in self.members or () for topic, _ in member.assigned}
        return sorted(assigned | {topic for topic, _ in self.committed})


@dataclass(frozen=True)
class TopicSight:
    """A topic, added up from its partitions. A sum is None where it is not known of one of them."""

    name: str
    is_internal: bool
    partitions: int
    replication: int
    messages: int | None
    size_bytes: int | None
    in_per_s: float | None
    under_replicated: int
    leaderless: int
    gap: int | None
    lag_records: int | None
    leaders: tuple[int, ...]
    """How many partitions each of the nodes leads that lead any, most first."""

    @property
    def is_troubled(self) -> bool:
        return bool(self.under_replicated or self.leaderless)

    @property
    def is_unbalanced(self) -> bool:
        """One node leads two partitions or more above another's share."""
        return len(self.leaders) > 0 and self.leaders[0] - self.leaders[-1] > 1


@dataclass(frozen=True)
class Sight:
    """One look at a cluster."""

    number: int
    at_ms: int
    is_chronik: bool
    cluster_id: str
    nodes: tuple[NodeSight, ...]
    rows: tuple[Row, ...]
    groups: tuple[GroupSight, ...]
    totals: LiveTotals
    verdicts: tuple[Verdict, ...] = ()
    known_s: float | None = None
    """How far back all is known that clients did; None: as far as the stall rules look."""
    took_s: float = 0.0
    unknown: tuple[str, ...] = ()

    @cached_property
    def by_topic(self) -> dict[str, tuple[Row, ...]]:
        found: dict[str, list[Row]] = {}
        for row in self.rows:
            found.setdefault(row.topic, []).append(row)
        return {name: tuple(rows) for name, rows in sorted(found.items())}

    @cached_property
    def topics(self) -> dict[str, TopicSight]:
        return {name: topic_of(name, rows) for name, rows in self.by_topic.items()}

    @cached_property
    def watermarks(self) -> dict[Partition, int]:
        return {(row.topic, row.partition): row.watermark for row in self.rows if row.watermark is not None}

    def group(self, name: str) -> GroupSight | None:
        return next((group for group in self.groups if group.name == name), None)

    @property
    def silent(self) -> tuple[NodeSight, ...]:
        return tuple(node for node in self.nodes if not node.answers)


def topic_of(name: str, rows: Sequence[Row]) -> TopicSight:
    led: dict[int, int] = {}
    for row in rows:
        if row.leader is not None:
            led[row.leader] = led.get(row.leader, 0) + 1
    replicas = {node for row in rows for node in row.replicas}
    return TopicSight(
        name,
        name.startswith("__"),
        len(rows),
        max((len(row.replicas) for row in rows), default=0),
        _all(None if row.watermark is None or row.log_start is None else row.watermark - row.log_start for row in rows),
        _all(None if row.size_bytes < 0 else row.size_bytes for row in rows),
        _some(row.in_per_s for row in rows),
        sum(bool(row.out_of_sync) for row in rows),
        sum(not row.is_heard and not row.is_leader_unsure for row in rows),
        max((row.gap for row in rows if row.gap is not None), default=None),
        max((row.lag_records for row in rows if row.lag_records is not None), default=None),
        tuple(sorted((led.get(node, 0) for node in replicas), reverse=True)),
    )


def _all(values: Iterable[int | None]) -> int | None:
    total = 0
    for value in values:
        if value is None:
            return None
        total += value
    return total


def _some(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) if known else None


def of_chronik(
    number: int, at_ms: int, cluster: ClusterStateView, snapshot: ClusterSnapshot, view: LiveView, took_s: float
) -> Sight:
    lags = {group.group: group for group in view.groups}
    groups = []
    for seen in _newest_groups(snapshot):
        row = lags[seen.group]
        members = tuple(
            MemberSight(member.member_id, member.client_id, member.host, tuple(member.assigned))
            for member in seen.members
        )
        groups.append(
            GroupSight(
                seen.group, seen.state, seen.type, members, row.lag, row.committed, row.lags, seen.state_ms
            )
        )  # fmt: skip
    unknown = tuple(
        f"what node {node} has: it does not answer ({reason})" for node, reason in sorted(snapshot.silent.items())
    )
    return Sight(
        number, at_ms, True, cluster.cluster_id, _nodes(cluster, snapshot), view.rows, tuple(groups), view.totals,
        view.verdicts, view.known_s, took_s, unknown,
    )  # fmt: skip


def _newest_groups(snapshot: ClusterSnapshot) -> list[GroupSeen]:
    """One of each name: two nodes may take themselves for its coordinator, and the later generation is right."""
    found: dict[str, GroupSeen] = {}
    for state in snapshot.states.values():
        for group in state.groups:
            if group.group not in found or found[group.group].generation < group.generation:
                found[group.group] = group
    return [group for _, group in sorted(found.items())]


def _nodes(cluster: ClusterStateView, snapshot: ClusterSnapshot) -> tuple[NodeSight, ...]:
    found = []
    for node in cluster.nodes:
        address = f"{node.host}:{node.port}"
        is_controller = node.id == cluster.controller
        state = snapshot.states.get(node.id)
        if state is None:
            reason = snapshot.silent.get(node.id, "it was not asked")
            found.append(NodeSight(node.id, address, is_controller, answers=False, reason=reason))
            continue
        found.append(
            NodeSight(
                node.id, address, is_controller, answers=True, version=state.version, leads=state.totals.led,
                copies=len(state.copies), offline=state.totals.offline,
                size_bytes=sum(copy.size_bytes for copy in state.copies), traces=state.traces.is_on,
            )
        )  # fmt: skip
    return tuple(found)
