"""The views of the inspect request: what a node says of itself over the Kafka port, or over HTTP.

A view is a function of the node and the request's arguments, and returns one of the answers in trace/inspections.py. It
changes nothing. One that goes through many partitions yields to the event loop now and then.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Container, Iterator
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import msgspec

from chronik import __version__
from chronik.core.errors import Code, Refused
from chronik.core.replica.replica import NO_LEADER
from chronik.http import record_views
from chronik.http.totals import totals
from chronik.node.observe.partition_states import groups_seen, partition_seen, transactions_seen
from chronik.trace.events import AnyEvent, PartitionSeen, RefusedEvent
from chronik.trace.inspections import (
    CLUSTER,
    EVENTS,
    FIND,
    RECORD,
    STATE,
    TOPICS,
    ClusterStateView,
    CopySeen,
    EventsView,
    FindView,
    NodeSeen,
    RecordView,
    StateView,
    TopicsView,
    Traces,
    UnopenedSeen,
)
from chronik.trace.recorder import Read

if TYPE_CHECKING:
    from chronik.core.replica.replica import Replica
    from chronik.node.node import Node
    from chronik.trace.recorder import Recorder

View: TypeAlias = "Callable[[Node, dict[str, Any]], Awaitable[msgspec.Struct]]"

PARTITIONS_A_TURN = 200
EVENTS_A_TURN = 500
# Figures of a node that was in touch with the others so long ago are worth showing; followers of the quorum fetch at
# least twice as often.
CONTACT_MS = 1_000
CONTACT_WAIT_MS = 1_000  # a node that is cut off says so after this
CURRENT_WAIT_MS = 1_500
EVENTS_MAX = 5_000  # a look; who wants more asks again
ONE_NODE = "what this node leads and coordinates; `chronik stalls` asks all nodes"

_T = TypeVar("_T")
_encoder = msgspec.json.Encoder()


async def answer(node: Node, view: str, arguments: dict[str, Any]) -> bytes:
    """The answer as JSON. Raises Refused."""
    look = VIEWS.get(view)
    if look is None:
        raise Refused(Code.INVALID_REQUEST, f"there is no view {view!r}; there are {', '.join(sorted(VIEWS))}")
    return _encoder.encode(await look(node, arguments))


def parse(arguments: dict[str, Any], kind: type[_T]) -> _T:
    """The arguments of a view, typed; what it does not know is left out. Raises Refused."""
    try:
        return msgspec.convert(arguments, kind)
    except msgspec.ValidationError as problem:
        raise Refused(Code.INVALID_REQUEST, str(problem)) from problem


# --- who is there


async def cluster(node: Node, arguments: dict[str, Any]) -> ClusterStateView:
    controller = node.cluster.metadata.controller_id
    return ClusterStateView(
        node.config.node_id,
        node.trace.clock.now_us(),
        __version__,
        node.identity.cluster_id,
        node.is_ready,
        -1 if controller is None else controller,
        tuple(_nodes(node)),
        traces(node),
    )


def _nodes(node: Node) -> list[NodeSeen]:
    """Those that have registered, where clients find them; before it is known who has, those of the config."""
    own_id = node.config.node_id
    seen = {own_id: NodeSeen(own_id, *node.config.address, is_alive=False)}
    for voter, (host, port) in node.config.voters.items():
        seen[voter] = NodeSeen(voter, host, port, is_alive=False)
    for broker in node.image.brokers.values():
        seen[broker.id] = NodeSeen(broker.id, broker.host, broker.port, is_alive=not broker.is_fenced)
    return [seen[node_id] for node_id in sorted(seen)]


def traces(node: Node) -> Traces:
    trace = node.trace
    return Traces(
        trace.is_all,
        tuple(sorted(trace.exceptions)),
        trace.added,
        trace.kept,
        is_stored=trace.is_stored,
    )


async def topics(node: Node, arguments: dict[str, Any]) -> TopicsView:
    """Waits until that is known for sure, but not for long."""
    is_current = await node.cluster.metadata.wait_until_current(CURRENT_WAIT_MS)
    known = {topic.name: len(topic.partitions) for topic in node.image.topics.values()}
    return TopicsView(node.config.node_id, node.trace.clock.now_us(), is_current, known)


# --- how things stand


class StateArguments(msgspec.Struct):
    """`is_sure`: the node is to make sure first that it is not cut off."""

    topics: list[str] | None = None
    is_sure: bool = False


async def state(node: Node, arguments: dict[str, Any]) -> StateView:
    asked = parse(arguments, StateArguments)
    wanted = asked.topics
    is_current = asked.is_sure and await node.cluster.metadata.wait_until_current(CONTACT_WAIT_MS, CONTACT_MS)
    clock, node_id = node.trace.clock, node.config.node_id
    held = [replica for replica in node.replicas.held() if wanted is None or replica.topic in wanted]
    partitions: list[PartitionSeen] = []
    copies: list[CopySeen] = []
    for index, replica in enumerate(held, 1):
        copies.append(copy_seen(replica))
        if replica.in_sync is not None and replica.offline is None:
            is_traced = node.trace.wants(replica.topic)
            partitions.append(partition_seen(replica, node_id, clock.now_us(), clock.monotonic_ms(), is_traced))
        if index % PARTITIONS_A_TURN == 0:
            await asyncio.sleep(0)
    known = {(copy.topic, copy.partition) for copy in copies}
    copies += [
        _not_open(topic, partition, reason)
        for (topic, partition), reason in sorted(node.replicas.partitions.offline().items())
        if (topic, partition) not in known and (wanted is None or topic in wanted)
    ]
    known.update((copy.topic, copy.partition) for copy in copies)
    return StateView(
        node_id,
        clock.now_us(),
        __version__,
        node.is_ready,
        traces(node),
        tuple(partitions),
        tuple(copies),
        tuple(groups_seen(node.groups, node.image, node_id, clock.now_us())),
        totals(node, clock.monotonic_ms()),
        tuple(_unopened(node, known, wanted)),
        is_current,
        tuple(transactions_seen(node.transactions, node.image, node_id, clock.now_us())),
    )


def _unopened(node: Node, known: Container[tuple[str, int]], wanted: Container[str] | None) -> Iterator[UnopenedSeen]:
    """What is led here stays closed until a request asks for it; what has no leader may be open nowhere."""
    for topic in node.image.topics.values():
        if wanted is not None and topic.name not in wanted:
            continue
        for number, placed in enumerate(topic.partitions):
            if placed.leader in (node.config.node_id, NO_LEADER) and (topic.name, number) not in known:
                yield UnopenedSeen(
                    topic.name,
                    number,
                    placed.leader,
                    placed.leader_epoch,
                    tuple(placed.replicas),
                    tuple(placed.in_sync),
                )


def copy_seen(replica: Replica) -> CopySeen:
    log = replica.log
    return CopySeen(
        replica.topic,
        replica.partition,
        replica.is_leader,
        replica.leader_id,
        replica.leader_epoch,
        log.start_offset,
        replica.high_watermark,
        replica.last_stable_offset,
        log.end_offset,
        replica.durable_end_offset,
        log.size_bytes(),
        replica.offline,
    )


def _not_open(topic: str, partition: int, reason: str) -> CopySeen:
    return CopySeen(topic, partition, False, -1, -1, -1, -1, -1, -1, -1, 0, reason)


# --- what was traced


class EventsArguments(msgspec.Struct):
    """`cursor` is that of the look before; 0 is all that there is. `last` instead: no more than so many, the newest."""

    cursor: int = 0
    topics: list[str] | None = None
    kinds: list[str] | None = None
    limit: int = EVENTS_MAX
    last: int | None = None


async def events(node: Node, arguments: dict[str, Any]) -> EventsView:
    """Events of no topic, such as those of groups, come whatever topics are asked for."""
    asked = parse(arguments, EventsArguments)
    limit = min(max(asked.limit, 1), EVENTS_MAX)
    if asked.last is None:
        given, cursor, lost = await _since(node.trace, asked, limit)
    else:
        given, cursor, lost = await _newest(node.trace, asked, min(max(asked.last, 0), limit))
    return EventsView(
        node.config.node_id,
        node.trace.clock.now_us(),
        traces(node),
        tuple(given),
        cursor,
        lost,
        cursor < node.trace.added and len(given) == limit,
        node.trace.began_us,
    )


async def _since(trace: Recorder, asked: EventsArguments, limit: int) -> Read:
    """What was added since the cursor and is wanted, up to a limit; and where to go on."""
    # A cursor from before the node was started anew means nothing any more: all that is there is new.
    cursor = 0 if asked.cursor > trace.added else max(asked.cursor, 0)
    given: list[AnyEvent] = []
    lost = 0
    while True:
        read = trace.read(cursor, EVENTS_A_TURN)
        lost += read.lost
        for number, event in enumerate(read.events, read.cursor - len(read.events) + 1):
            if _is_wanted(event, asked):
                given.append(event)
                if len(given) == limit:
                    return Read(given, number, lost)
        cursor = read.cursor
        if cursor >= trace.added:
            return Read(given, cursor, lost)
        await asyncio.sleep(0)


async def _newest(trace: Recorder, asked: EventsArguments, count: int) -> Read:
    """The last few that are wanted, found from the end on."""
    end = begin = trace.added
    oldest = end - trace.kept
    given: list[AnyEvent] = []
    while len(given) < count and begin > oldest:
        before, begin = begin, max(oldest, begin - EVENTS_A_TURN)
        read = trace.read(begin, before - begin)
        first = read.cursor - len(read.events)
        given = [each for each in read.events[: max(before - first, 0)] if _is_wanted(each, asked)] + given
        await asyncio.sleep(0)
    return Read(given[len(given) - count :] if count < len(given) else given, end, 0)


def _is_wanted(event: AnyEvent, asked: EventsArguments) -> bool:
    if asked.kinds is not None and event.__struct_config__.tag not in asked.kinds:
        return False
    topic = getattr(event, "topic", None)
    return asked.topics is None or topic is None or topic in asked.topics


# --- one record


class RecordArguments(msgspec.Struct):
    topic: str
    partition: int
    offset: int


async def record(node: Node, arguments: dict[str, Any]) -> RecordView:
    asked = parse(arguments, RecordArguments)
    return await record_views.record(node, asked.topic, asked.partition, asked.offset)


class FindArguments(msgspec.Struct):
    topic: str
    partition: int
    producer_id: int
    sequence: int
    from_offset: int = 0


async def find(node: Node, arguments: dict[str, Any]) -> FindView:
    asked = parse(arguments, FindArguments)
    return await record_views.find(
        node, asked.topic, asked.partition, asked.producer_id, asked.sequence, asked.from_offset
    )


# --- what stalls, as far as one node can tell


async def history(node: Node) -> tuple[list[AnyEvent], int]:
    """What this node has traced, and last how things stand now: what the stall rules read. Of partitions that it does
    not lead any more it is left out: how they went on, others know. What the ring has let go is a hole."""
    from chronik.trace.events import EventsLost  # loads msgspec: a node that nothing looks at runs without it

    let_go = node.trace.added - node.trace.kept
    gathered: list[AnyEvent] = []
    cursor, end = 0, node.trace.added
    while cursor < end:
        read = node.trace.read(cursor, EVENTS_A_TURN)
        gathered += read.events
        cursor = read.cursor
        await asyncio.sleep(0)
    now = await state(node, {})
    led = {(seen.topic, seen.partition) for seen in now.partitions}
    kept = [event for event in gathered if isinstance(event, RefusedEvent) or _is_of(event, led)]
    if let_go > 0:
        kept.insert(0, EventsLost(gathered[0].at_us if gathered else now.now_us, now.node, let_go))
    return [*kept, *now.partitions, *now.groups], now.now_us


def _is_of(event: AnyEvent, led: set[tuple[str, int]]) -> bool:
    partition = getattr(event, "partition", None)
    return partition is None or (getattr(event, "topic", ""), partition) in led


def stalls(node_id: int, is_traced: bool, events: list[AnyEvent], now_us: int) -> bytes:
    """The verdicts over a history, as JSON. Needs nothing but its arguments, so it may run on any thread."""
    from chronik.trace.stalls import find
    from chronik.trace.stalls.window import known_since_us

    since_us = known_since_us(events)
    return _encoder.encode(
        {
            "node": node_id,
            "scope": ONE_NODE,
            "now_us": now_us,
            "is_traced": is_traced,
            # How far back its memory goes: what takes longer to be called a stall is not seen. null: to its beginning.
            "known_seconds": None if since_us is None else (now_us - since_us) / 1e6,
            "stalls": find(events, now_us),
        }
    )


VIEWS: dict[str, View] = {
    CLUSTER: cluster, STATE: state, EVENTS: events, TOPICS: topics, RECORD: record, FIND: find,
}  # fmt: skip
