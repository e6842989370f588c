"""What another Kafka tells of itself through its protocol, as a `Sight`."""

from __future__ import annotations

import time
from collections.abc import Callable

from chronik.client.admin import ClusterAdmin, Partition, PartitionState, TopicState
from chronik.client.cluster_view import ClusterView, view_of
from chronik.client.connecting import parse_addresses
from chronik.client.errors import ChronikError
from chronik.client.request import NoAnswer
from chronik.console.sight import GroupSight, NodeSight, Sight
from chronik.inspect.live_model import LiveTotals, Row

# Two questions for each partition: a large cluster is not asked about all of them for a list.
OFFSETS_MAX = 2_000
NOT_KNOWN = (
    "next offsets, gaps and followers' lags: only Chronik tells them",
    "what stalls: the rules need what Chronik's nodes trace",
    "sizes on disk, versions and load of the nodes: they are not asked for",
    "lags of groups in this list: a group's own page has them",
)


class KafkaSource:
    """Asks one cluster, again and again."""

    def __init__(self, bootstrap: str, admin: Callable[[], ClusterAdmin]) -> None:
        self._addresses = parse_addresses(bootstrap)
        self._admin = admin

    def look(self, number: int) -> Sight:
        """Raises NoAnswer, ChronikError."""
        began_s = time.monotonic()
        view = self._view()
        admin = self._admin()
        topics = admin.topics()
        places = [(topic.name, part.partition) for topic in topics for part in topic.partitions]
        unknown = list(NOT_KNOWN)
        starts: dict[Partition, int | None] = {}
        ends: dict[Partition, int | None] = {}
        if len(places) <= OFFSETS_MAX:
            starts, ends = admin.start_offsets(places), admin.end_offsets(places)
        else:
            unknown.append(f"offsets in lists: there are {len(places):,} partitions, and a topic's own page has them")
        rows = tuple(
            row_of(topic, part, starts.get((topic.name, part.partition)), ends.get((topic.name, part.partition)))
            for topic in topics
            for part in topic.partitions
        )
        groups: tuple[GroupSight, ...] = ()
        try:
            groups = tuple(_group(listed) for listed in admin.groups())
        except ChronikError as problem:
            unknown.append(f"groups: {problem}")
        nodes = tuple(
            NodeSight(node, f"{host}:{port}", node == view.controller_id, answers=True)
            for node, (host, port) in sorted(view.addresses.items())
        )
        return Sight(
            number, round(time.time() * 1000), False, view.cluster_id, nodes, rows, groups, _totals(rows),
            took_s=time.monotonic() - began_s, unknown=tuple(unknown),
        )  # fmt: skip

    def _view(self) -> ClusterView:
        problem = NoAnswer("there is no address to ask")
        for address in self._addresses:
            try:
                view = view_of(address)
            except NoAnswer as met:
                problem = met
                continue
            others = view.addresses.values()
            self._addresses = list(dict.fromkeys([address, *self._addresses, *others]))
            return view
        raise problem


def row_of(topic: TopicState, part: PartitionState, start: int | None, end: int | None) -> Row:
    """What any Kafka says of a partition: the end that consumers are given is its high watermark."""
    return Row(
        topic=topic.name,
        partition=part.partition,
        leader=part.leader,
        is_heard=part.leader is not None,
        leader_epoch=-1,
        log_start=start,
        last_stable_offset=None,
        watermark=end,
        next_offset=None,
        gap=None,
        in_sync=tuple(sorted(part.in_sync)),
        in_sync_min=0,
        followers=(),
        size_bytes=-1,
        offline=None,
        placed=tuple(part.replicas),
    )


def _group(listed: object) -> GroupSight:
    name, state, kind = (getattr(listed, field) for field in ("group_id", "state", "type"))
    return GroupSight(str(name), str(state.name).title().replace("_", ""), str(kind.name).lower(), None, None, {})


def _totals(rows: tuple[Row, ...]) -> LiveTotals:
    return LiveTotals(
        partitions=len(rows),
        lagging=0,
        under_replicated=sum(bool(row.out_of_sync) for row in rows),
        leaderless=sum(row.leader is None for row in rows),
        gap_largest=0,
        gap_largest_at=None,
        in_per_s=None,
        out_per_s=None,
    )
