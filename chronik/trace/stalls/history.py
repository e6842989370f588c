"""Events, sorted out by whom and what they are about: one pass, and every rule finds its own at hand."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, TypeAlias

from chronik.trace.events import (
    AnyEvent,
    Committed,
    EventsLost,
    FetchAnswered,
    FetchDropped,
    FetchWaits,
    GroupChanged,
    GroupJoined,
    GroupLeft,
    GroupSeen,
    MetadataTold,
    PartitionSeen,
    ProduceAnswered,
    ProduceAppended,
    RefusedEvent,
    TraceBegan,
    TransactionCompleted,
    TransactionSeen,
    WatermarkMoved,
)

Partition: TypeAlias = tuple[str, int]
Fetch: TypeAlias = FetchWaits | FetchAnswered | FetchDropped


class TracedClient(NamedTuple):
    """A client by what it says of itself: several may use the same name."""

    client_id: str
    host: str

    def __str__(self) -> str:
        return f"client {self.client_id!r} on {self.host}"


class PartitionPast:
    """One partition, as its leaders reported it."""

    __slots__ = ("appended", "moved", "partition", "refusals", "seen", "topic")

    def __init__(self, topic: str, partition: int) -> None:
        self.topic = topic
        self.partition = partition
        self.seen: list[PartitionSeen] = []  # by the leader of that time
        self.moved: list[WatermarkMoved] = []  # reported by the leader
        self.appended: ProduceAppended | None = None  # the last
        # Of all producers, since the last response to one that asked for acks=all said that all is well.
        self.refusals: list[RefusedEvent] = []

    @property
    def name(self) -> str:
        return f"{self.topic}:{self.partition}"

    def first_beyond(self, offset: int, is_committed_only: bool, from_us: int) -> int | None:
        """When, from then on, it is first known that there was something to read at this offset."""
        times = [
            seen.at_us for seen in self.seen if seen.at_us >= from_us and _bound(seen, is_committed_only) > offset
        ][:1]
        if not is_committed_only:
            times += [move.at_us for move in self.moved if move.at_us >= from_us and move.watermark > offset][:1]
        return min(times, default=None)


class GroupPast:
    """One group, as its coordinators reported it."""

    __slots__ = ("changed", "joined", "left", "seen")

    def __init__(self) -> None:
        self.seen: list[GroupSeen] = []
        self.changed: list[GroupChanged] = []
        self.joined: list[GroupJoined] = []
        self.left: list[GroupLeft] = []


class CommitSeen(NamedTuple):
    """From `at_us` on a group had committed `offset`."""

    at_us: int
    offset: int


class EventHistory:
    """What is known at `now_us`."""

    def __init__(self, events: Sequence[AnyEvent], now_us: int) -> None:
        self.now_us = now_us
        self.partitions: dict[Partition, PartitionPast] = {}
        self.groups: defaultdict[str, GroupPast] = defaultdict(GroupPast)
        self.commits: defaultdict[tuple[str, Partition], list[CommitSeen]] = defaultdict(list)
        self.fetches: defaultdict[tuple[TracedClient, Partition], list[Fetch]] = defaultdict(list)
        self.fetches_by_name: defaultdict[tuple[str, Partition], list[Fetch]] = defaultdict(list)
        """The same by client id alone, wherever they came from."""
        self.waiting: dict[tuple[int, int], dict[Partition, FetchWaits]] = {}
        """Fetches that have not been answered, by node and connection: there is one under way on a connection."""
        self.refused: defaultdict[tuple[TracedClient, str | None, int], list[RefusedEvent]] = defaultdict(list)
        """In a row, up to now: since the client was last served there."""
        self.told: defaultdict[tuple[TracedClient, str], list[MetadataTold]] = defaultdict(list)
        self.transactions: defaultdict[str, list[TransactionSeen]] = defaultdict(list)
        """By transactional id, as their coordinators reported it."""
        self.completed_us: dict[str, int] = {}
        """When a transactional id was last said to have nothing open."""
        self.produced_us: dict[int, int] = {}
        """When each idempotent producer last wrote anything."""
        self.heard_us: dict[int, int] = {}
        """When each node last reported anything."""
        self.blind_us: dict[int, int] = {}
        """Up to when a node's trace has a hole: nothing follows from what is not in it."""
        sort_in: dict[type, Callable[[Any], None]] = {
            ProduceAppended: self._produce_appended,
            ProduceAnswered: self._produce_answered,
            WatermarkMoved: self._watermark_moved,
            FetchWaits: self._fetch_waits,
            FetchAnswered: self._fetch_over,
            FetchDropped: self._fetch_over,
            RefusedEvent: self._refused,
            MetadataTold: self._metadata_told,
            GroupJoined: self._group_joined,
            GroupLeft: self._group_left,
            GroupChanged: self._group_changed,
            Committed: self._committed,
            PartitionSeen: self._partition_seen,
            GroupSeen: self._group_seen,
            TransactionSeen: self._transaction_seen,
            TransactionCompleted: self._transaction_completed,
            TraceBegan: self._hole,
            EventsLost: self._hole,
        }
        for event in events:
            self.heard_us[event.node] = event.at_us
            put = sort_in.get(type(event))
            if put is not None:
                put(event)

    # --- questions

    def is_within(self, at_us: int, length_ms: int) -> bool:
        return self.now_us - at_us <= length_ms * 1000

    def alive(self, length_ms: int) -> tuple[int, ...]:
        """Nodes that were heard of lately."""
        return tuple(sorted(node for node, at_us in self.heard_us.items() if self.is_within(at_us, length_ms)))

    def sights(self, length_ms: int) -> Iterator[tuple[PartitionPast, PartitionSeen]]:
        """Partitions that were seen lately, with the last sight of each."""
        for past in self.partitions.values():
            if past.seen and self.is_within(past.seen[-1].at_us, length_ms):
                yield past, past.seen[-1]

    def known_since_us(self, past: PartitionPast) -> int | None:
        """From when on all is known that clients did with a partition; None when it is not."""
        since_us: int | None = None
        for seen in reversed(past.seen):
            if not seen.is_traced or seen.at_us <= self.blind_us.get(seen.node, -1):
                break
            since_us = seen.at_us
        return since_us

    def committed(self, group: str, partition: Partition) -> CommitSeen | None:
        """What a group has committed last."""
        commits = self.commits.get((group, partition))
        return commits[-1] if commits else None

    # --- sorting in

    def _past(self, topic: str, partition: int) -> PartitionPast:
        past = self.partitions.get((topic, partition))
        if past is None:
            past = self.partitions[topic, partition] = PartitionPast(topic, partition)
        return past

    def _served(self, event: ProduceAppended | ProduceAnswered | FetchWaits | FetchAnswered) -> None:
        if self.refused:  # seldom
            self.refused.pop((TracedClient(event.client_id, event.host), event.topic, event.partition), None)

    def _produce_appended(self, event: ProduceAppended) -> None:
        self._past(event.topic, event.partition).appended = event
        if event.producer_id >= 0:
            self.produced_us[event.producer_id] = event.at_us
        self._served(event)

    def _produce_answered(self, event: ProduceAnswered) -> None:
        if event.acks not in (0, 1):
            self._past(event.topic, event.partition).refusals.clear()
        self._served(event)

    def _watermark_moved(self, event: WatermarkMoved) -> None:
        if event.is_leader:
            self._past(event.topic, event.partition).moved.append(event)

    def _asked(self, event: Fetch) -> None:
        partition = (event.topic, event.partition)
        self.fetches[TracedClient(event.client_id, event.host), partition].append(event)
        self.fetches_by_name[event.client_id, partition].append(event)

    def _fetch_waits(self, event: FetchWaits) -> None:
        partition = (event.topic, event.partition)
        self._asked(event)
        waits = self.waiting.get((event.node, event.connection))
        if waits is None or partition in waits:  # the next fetch: the one before it was answered, reported or not
            waits = self.waiting[event.node, event.connection] = {}
        waits[partition] = event
        self._served(event)

    def _fetch_over(self, event: FetchAnswered | FetchDropped) -> None:
        self._asked(event)
        self.waiting.pop((event.node, event.connection), None)
        if isinstance(event, FetchAnswered):
            self._served(event)

    def _refused(self, event: RefusedEvent) -> None:
        client = TracedClient(event.client_id, event.host)
        self.waiting.pop((event.node, event.connection), None)
        self.refused[client, event.topic, event.partition].append(event)
        if event.topic is not None and event.api.lower() == "produce":
            self._past(event.topic, event.partition).refusals.append(event)

    def _metadata_told(self, event: MetadataTold) -> None:
        self.told[TracedClient(event.client_id, event.host), event.topic].append(event)

    def _group_joined(self, event: GroupJoined) -> None:
        self.groups[event.group].joined.append(event)
        self.refused.pop((TracedClient(event.client_id, event.host), None, -1), None)

    def _group_left(self, event: GroupLeft) -> None:
        self.groups[event.group].left.append(event)

    def _group_changed(self, event: GroupChanged) -> None:
        self.groups[event.group].changed.append(event)

    def _committed(self, event: Committed) -> None:
        self._commit(event.group, (event.topic, event.partition), CommitSeen(event.at_us, event.offset))
        self.refused.pop((TracedClient(event.client_id, event.host), None, -1), None)

    def _commit(self, group: str, partition: Partition, commit: CommitSeen) -> None:
        commits = self.commits[group, partition]
        if not commits or commits[-1].offset != commit.offset:
            commits.append(commit)

    def _partition_seen(self, event: PartitionSeen) -> None:
        seen = self._past(event.topic, event.partition).seen
        # A node that was cut off may still take itself for the leader.
        if not seen or event.leader_epoch >= seen[-1].leader_epoch:
            seen.append(event)

    def _group_seen(self, event: GroupSeen) -> None:
        self.groups[event.group].seen.append(event)
        for committed in event.offsets:
            self._commit(event.group, (committed.topic, committed.partition), CommitSeen(event.at_us, committed.offset))

    def _transaction_seen(self, event: TransactionSeen) -> None:
        self.transactions[event.transactional_id].append(event)

    def _transaction_completed(self, event: TransactionCompleted) -> None:
        self.completed_us[event.transactional_id] = event.at_us

    def _hole(self, event: TraceBegan | EventsLost) -> None:
        self.blind_us[event.node] = event.at_us
        for key in [key for key in self.waiting if key[0] == event.node]:
            del self.waiting[key]


def _bound(seen: PartitionSeen, is_committed_only: bool) -> int:
    return seen.last_stable_offset if is_committed_only else seen.watermark


def bound(fetch: FetchWaits | FetchAnswered) -> int:
    """Up to where this fetch may read."""
    return fetch.last_stable_offset if fetch.is_committed_only else fetch.watermark
