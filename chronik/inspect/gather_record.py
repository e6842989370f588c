"""Gathers what can be known of one record: looks at every node, their events, the trace topic, the groups' offsets.

At another Kafka there is no inspect request: then it is what its protocol says.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cached_property, partial

from chronik.client.admin import ClusterAdmin, TopicState
from chronik.client.cluster_view import view_of
from chronik.client.connecting import parse_addresses, unanswered
from chronik.client.current_topics import behind, partitions_now
from chronik.client.errors import ChronikError
from chronik.client.inspect_request import Inspections, NotChronik, events, inspect_everywhere, states
from chronik.client.request import NoAnswer
from chronik.client.transactions import TransactionAdmin
from chronik.core.machines.metadata.names import OFFSETS_TOPIC, TRACE_TOPIC
from chronik.core.types import NO_EPOCH, NO_PRODUCER_ID
from chronik.inspect import read_record
from chronik.inspect.read_record import RecordReading
from chronik.inspect.reporting import Reporter, SilentReporter
from chronik.inspect.trace_reach import NEVER, Remembered, blind_until, written
from chronik.inspect.trace_topic import stored_events
from chronik.node.coordinators.runtime import partition_of
from chronik.trace.events import AnyEvent, EventsLost, GroupChanged, GroupLeft, GroupSeen, TraceBegan
from chronik.trace.inspections import (
    RECORD,
    EventsView,
    RecordPlace,
    RecordView,
    StateView,
    TransactionFate,
    TransactionView,
)
from chronik.trace.leading import sure_leaders
from chronik.trace.story import KnownRecord

LOOK_TIMEOUT_S = 2.0  # each: a node that hangs costs as much, and things move on meanwhile
# Batches have the time of their producers' clocks, events that of the nodes'.
CLOCKS_APART_MS = 60_000
NOTHING = -1  # is committed
GROUP_EVENTS = (GroupSeen, GroupChanged, GroupLeft)
KINDS = [
    "produce_appended", "produce_answered", "replicated", "watermark_moved", "fetch_answered", "leader_changed",
    "committed", "transaction_partition_added", "transaction_marked",
]  # fmt: skip
GROUP_KINDS = ["group_seen", "group_changed", "group_left"]  # which member had which partition
MARKS = ["trace_began", "events_lost"]  # where a node's trace has a hole


@dataclass
class Gatherer:
    """Asks one cluster about records of one topic. Everything that is the same for all of them is asked once."""

    cluster: ClusterAdmin
    topic: str
    reporter: Reporter = field(default_factory=SilentReporter)
    _readings: dict[tuple[int, int], RecordReading] = field(default_factory=dict)

    @cached_property
    def state(self) -> TopicState:
        """As Metadata names it. Raises ChronikError for a topic that is not there."""
        return self.cluster.topic(self.topic)

    @cached_property
    def addresses(self) -> list[tuple[str, int]]:
        return parse_addresses(self.cluster.bootstrap)

    @cached_property
    def _states(self) -> Inspections[StateView]:
        try:
            return states(self.addresses, LOOK_TIMEOUT_S, topics=[self.topic, OFFSETS_TOPIC])
        except NoAnswer as problem:
            raise unanswered(self.cluster.bootstrap, ChronikError(str(problem), "check --bootstrap")) from None

    def known(self, partition: int, offset: int) -> KnownRecord:
        try:
            looks = self._look_all_ways(partition, offset)
        except NotChronik:
            return self._told_by_protocol(partition, offset)
        if all(look.place is RecordPlace.NO_SUCH_PARTITION for look in looks.values()):
            self.refuse_unknown(partition)
        traced = [seen.traces.is_all != (self.topic in seen.traces.exceptions) for seen in self._states.values()]
        remembered = self._remembered
        stored: list[AnyEvent] | None = None
        if not remembered.has_all_of(partition, offset):
            stored = self._stored(written(remembered.events, partition, offset), looks)
        now = [group for seen in self._states.values() for group in seen.groups]
        found = _by_time(remembered.events, stored or [], now)
        committed, untold = committed_by(self._states, (self.topic, partition), self._partitions_of(OFFSETS_TOPIC))
        blind = blind_until(remembered, stored, partition, offset)
        return KnownRecord(
            looks=list(looks.values()),
            silent=looks.silent,
            events=found,
            traced_from_us=min((event.at_us for event in found if not isinstance(event, GROUP_EVENTS)), default=None),
            is_traced=any(traced) if traced else None,
            committed=committed,
            untold_groups=untold,
            # A node that tells of the record and not of what it did: the story would not know that it is silent.
            blind_until_us=blind | {node: NEVER for node in remembered.silent if node in looks},
            transactional_ids=self._transactional_ids(looks),
        )

    def _transactional_ids(self, looks: Inspections[RecordView]) -> dict[int, str]:
        """By producer id. Coordinators that hang are not waited for: the trace may know it as well."""
        names = {
            seen.producer_id: seen.transactional_id for state in self._states.values() for seen in state.transactions
        }
        wanted = {
            look.transaction.producer_id for look in looks.values() if look.transaction is not None
        } - names.keys()
        if not wanted or looks.silent or self._states.silent:
            return names
        try:
            listed = TransactionAdmin(self.cluster.bootstrap).listed(producer_ids=sorted(wanted))
        except ChronikError as problem:
            self.reporter.note(f"whose transaction it is: {problem}")
            return names
        return names | {one.producer_id: one.transactional_id for one in listed}

    def refuse_unknown(self, partition: int) -> None:
        """Raises ChronikError for a partition that the topic does not have, or where that is not sure: a node that was
        cut off may not know of it."""
        if 0 <= partition < len(self.state.partitions):
            return
        count = partitions_now(self.addresses, self.topic)
        if count is not None and 0 <= partition < count:
            raise behind(f"partition {partition} of topic {self.topic}")
        count = count or len(self.state.partitions)
        raise ChronikError(f"topic {self.topic} has no partition {partition}", f"it has 0 to {count - 1}")

    def _look_all_ways(self, partition: int, offset: int) -> Inspections[RecordView]:
        """At the record, at how things stand and at what was traced, all at once: a node that hangs is waited for once.
        Raises NotChronik."""
        with ThreadPoolExecutor(2) as threads:
            others = [threads.submit(getattr, self, name) for name in ("_states", "_remembered")]
            looks = self.look_at(partition, offset)
            for other in others:
                other.result()
        return looks

    def look_at(self, partition: int, offset: int) -> Inspections[RecordView]:
        """Raises NotChronik."""
        arguments = {"topic": self.topic, "partition": partition, "offset": offset}
        try:
            return inspect_everywhere(RecordView, self.addresses, RECORD, LOOK_TIMEOUT_S, lambda node_id: arguments)
        except NotChronik:
            raise
        except NoAnswer as problem:
            raise unanswered(self.cluster.bootstrap, ChronikError(str(problem), "check --bootstrap")) from None

    @cached_property
    def _remembered(self) -> Remembered:
        """What the nodes still have of this topic, and how far back that reaches."""
        return remember(self.topic, partial(events, self.addresses, LOOK_TIMEOUT_S))

    def _stored(self, written_us: int | None, looks: Mapping[int, RecordView]) -> list[AnyEvent] | None:
        """What the trace topic has of this topic since the record was written, and where it has holes: the nodes have
        let go of something. None: it cannot be read, or there is none."""
        partitions = self._partitions_of(TRACE_TOPIC)
        if not partitions:
            return None
        times = [look.batch.first_timestamp for look in looks.values() if look.batch is not None]
        since_ms = min(times, default=0) if written_us is None else written_us // 1000
        with self.reporter.progress("reading the trace", None, "records") as step:
            # A node that tells of a hole need not tell of this topic in the same record.
            words = [word.encode() for word in (self.topic, *MARKS, *GROUP_KINDS)]
            since_ms = max(since_ms - CLOCKS_APART_MS, 0)
            read = stored_events(self.cluster.bootstrap, partitions, since_ms, words, step)
            try:
                return [event for event in read if self._is_told(event)]
            except ChronikError as problem:  # which node leads it may be what is wrong; all else can be shown
                self.reporter.note(f"the trace topic cannot be read now: {problem}")
                return None

    def _is_told(self, event: AnyEvent) -> bool:
        if isinstance(event, TraceBegan | EventsLost | GroupSeen | GroupChanged | GroupLeft):
            return True
        return getattr(event, "topic", None) == self.topic and event.__struct_config__.tag in KINDS

    def _partitions_of(self, topic: str) -> int:
        """How many an internal topic has; 0 where there is none, or no node says."""
        return sum(name == topic for name, _ in self._placed)

    @cached_property
    def _placed(self) -> Mapping[tuple[str, int], tuple[int, ...]]:
        for address in self.addresses:
            try:
                return view_of(address, LOOK_TIMEOUT_S).replicas
            except NoAnswer:
                continue  # another may answer
        return {}

    # --- at another Kafka

    def _told_by_protocol(self, partition: int, offset: int) -> KnownRecord:
        self.refuse_unknown(partition)
        place = (self.topic, partition)
        start, end = (asked([place])[place] for asked in (self.cluster.start_offsets, self.cluster.end_offsets))
        state = self.state.partitions[partition]
        if start is None or end is None:
            where = RecordPlace.NO_COPY  # that answers: no node leads it
        else:
            where = (
                RecordPlace.DELETED
                if offset < start
                else RecordPlace.ABOVE_WATERMARK
                if offset >= end
                else RecordPlace.HERE
            )
        stable = self.cluster.stable_offsets([place])[place]
        reason = None
        transaction = None
        if where is RecordPlace.HERE:
            where, reason, transaction = self._standing(partition, offset, stable)
        leader = -1 if state.leader is None else state.leader
        told = RecordView(
            leader, 0, self.topic, partition, offset, where, reason, is_leader=True, leader=leader,
            log_start=-1 if start is None else start, watermark=-1 if end is None else end,
            last_stable_offset=-1 if stable is None else stable, in_sync=tuple(state.in_sync),
            replicas=tuple(state.replicas), transaction=transaction,
        )  # fmt: skip
        committed: dict[str, int] = {}
        untold: list[str] = []
        try:
            for group in self.cluster.groups():
                offsets = self.cluster.committed(str(group.group_id))
                if place in offsets:
                    committed[str(group.group_id)] = offsets[place]
        except ChronikError as problem:  # all else can be shown
            untold.append(str(problem))
        return KnownRecord(looks=[told], is_chronik=False, committed=committed, untold_groups=untold)

    def _standing(
        self, partition: int, offset: int, stable: int | None
    ) -> tuple[RecordPlace, str | None, TransactionView | None]:
        """Of an offset between the ends of the log: whether a record is there, and what else is known."""
        read = self.read(partition, offset)
        if read.problem is not None:
            return RecordPlace.UNREADABLE, read.problem, None
        if read.is_passed_over:
            return RecordPlace.NO_RECORD, self._why_none(), None
        if stable is None:
            return RecordPlace.HERE, None, None
        if offset >= stable:
            return (
                RecordPlace.HERE,
                "a transaction is open there or before, and who reads only what is committed waits for it",
                None,
            )
        if read_record.read(
            self.cluster.bootstrap, self.topic, partition, offset, is_committed_only=True
        ).is_passed_over:
            words = "its transaction was aborted, and who reads only what is committed is not given it"
            return RecordPlace.HERE, words, TransactionView(TransactionFate.ABORTED, NO_PRODUCER_ID, NO_EPOCH)
        return RecordPlace.HERE, None, None

    def _why_none(self) -> str:
        policy = self.cluster.configs(self.topic).get("cleanup.policy")
        if policy is None or "compact" in (policy.value or ""):
            return "compacted away, or a marker of a transaction; this cluster does not tell which"
        return "the topic is not compacted, so a marker of a transaction has it"

    # --- the record itself

    def read(self, partition: int, offset: int) -> RecordReading:
        """As any consumer gets it."""
        place = (partition, offset)
        if place not in self._readings:
            self._readings[place] = read_record.read(self.cluster.bootstrap, self.topic, partition, offset)
        return self._readings[place]


def remember(topic: str, ask: Callable[..., Inspections[EventsView]]) -> Remembered:
    """What the nodes still have of a topic, and how far back that reaches. Raises ChronikError."""
    remembered = Remembered(topic)
    try:
        is_more = True
        while is_more:
            seen = ask(topics=[topic], cursors=remembered.cursors, kinds=[*KINDS, *GROUP_KINDS, "trace_began"])
            is_more = remembered.take(seen, seen.silent)
        remembered.end(ask(limit=1) if remembered.wrapped else {})
    except NoAnswer as problem:
        raise ChronikError(str(problem), "check --bootstrap") from None
    return remembered


def _by_time(*found: Iterable[AnyEvent]) -> list[AnyEvent]:
    """What is in memory may be stored as well."""
    told = dict.fromkeys(
        event for events in found for event in events if not isinstance(event, TraceBegan | EventsLost)
    )
    return sorted(told, key=lambda event: event.at_us)


def committed_by(
    seen: Inspections[StateView], place: tuple[str, int], offsets_partitions: int
) -> tuple[dict[str, int], list[str]]:
    """What each group has committed for a partition, as its coordinator says; and why that may not be all. A node that
    was cut off may still take itself for a group's coordinator: where two differ, neither is believed, and where a node
    is silent, only one that surely leads the group's partition of the offsets topic."""
    told: dict[str, set[int]] = {}
    unsure: set[str] = set()
    sure = sure_leaders(seen, seen.silent)
    for look in seen.values():
        for group in look.groups:
            offsets = {each.offset for each in group.offsets if (each.topic, each.partition) == place}
            told.setdefault(group.group, set()).update(offsets or {NOTHING})
            number = partition_of(group.group, offsets_partitions) if offsets_partitions else -1
            leader = sure.get((OFFSETS_TOPIC, number))
            if seen.silent and (leader is None or leader.node != look.node):
                unsure.add(group.group)
    unsure |= {group for group, offsets in told.items() if len(offsets) > 1}
    untold = []
    if seen.silent:
        named = ", ".join(map(str, sorted(seen.silent)))
        untold.append(f"node {named} may coordinate groups, and does not answer")
    if unsure:
        untold.append(f"it is not sure which node coordinates {', '.join(sorted(unsure))}")
    committed = {group: next(iter(offsets)) for group, offsets in told.items() if group not in unsure}
    return {group: offset for group, offset in committed.items() if offset != NOTHING}, untold
