"""The faults themselves: each replaces a method of the node that is about to start, and nothing else.

This is the only place where that is done. Product code has no switch for it: a fault that could be switched on could
be switched on by mistake. Each fault begins after so many records of a partition (`AFTER_RECORDS`), so that it can be
seen how all was well before, and touches topics of users alone.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import replace
from typing import Any

from chronik.api import fetch, metadata, produce
from chronik.api.authorization import Gate
from chronik.api.context import Caller, PartitionBatch, PendingProduce, RequestContext
from chronik.core.errors import Code
from chronik.core.machines.metadata.image import MetadataImage
from chronik.core.machines.metadata.names import is_internal
from chronik.core.machines.metadata.partition import Partition
from chronik.core.replica.replica import Replica
from chronik.node.coordinators import transaction_markers
from chronik.node.net.peers import Peers, Unreachable
from chronik.node.replication import fetchers
from chronik.node.routing.forwarded_batch import refuse
from chronik.node.routing.forwarding import Forwarding

AFTER_RECORDS = 300
STARVED_PARTITION = 1
# Programs of ours look at the cluster by this name (client/request.py): they get true answers, to see what is wrong.
LOOKING = "chronik-cli"


def _put(owner: Any, name: str, replacement: Any) -> None:
    if not hasattr(owner, name):
        raise AttributeError(f"{owner} has no {name} any more: the fault has to be built in elsewhere")
    setattr(owner, name, replacement)


def follower_stops_fetching() -> None:
    """This node asks its leaders for nothing more of partitions that have so many records. They wait for it."""
    join = fetchers._Stream.join

    def join_or_leave(stream: fetchers._Stream, replica: Replica) -> None:
        if not is_internal(replica.topic) and replica.log.end_offset >= AFTER_RECORDS:
            stream.leave(replica)
        else:
            join(stream, replica)

    _put(fetchers._Stream, "join", join_or_leave)


def watermark_stands_still() -> None:
    """A leader's watermark moves no further, whatever its followers have."""
    advance = Replica._advance

    def advance_or_not(replica: Replica) -> bool:
        is_stuck = replica.is_leader and not is_internal(replica.topic) and replica.high_watermark >= AFTER_RECORDS
        return False if is_stuck else advance(replica)

    _put(Replica, "_advance", advance_or_not)


def fetch_hangs() -> None:
    """A consumer that has come so far is not answered any more, whatever there is for it."""
    _give_no_more(lambda replica: True)  # or one answer might hold everything, and nothing would be left to hang
    plan, time_is_up = fetch._Fetch._plan, fetch._Fetch._time_is_up

    def plan_nothing(waiting: fetch._Fetch) -> fetch.Plan:
        planned = plan(waiting)
        if not _hangs(waiting):
            return planned
        return fetch.Plan([part._replace(slice=None) for part in planned.parts], 0, False)

    def wait_on(waiting: fetch._Fetch) -> None:
        if not _hangs(waiting):
            time_is_up(waiting)

    _put(fetch._Fetch, "_plan", plan_nothing)
    _put(fetch._Fetch, "_time_is_up", wait_on)


def _hangs(waiting: fetch._Fetch) -> bool:
    return any(
        asked.fetch_offset >= AFTER_RECORDS and not _is_ours(waiting._context.metadata.image, asked.key[0])
        for asked in waiting._partitions
    )


def _is_ours(image: MetadataImage, topic: str | bytes) -> bool:
    known = image.topic_by_name_or_id(topic)
    return known is None or known.is_internal


def partition_starved() -> None:
    """Consumers get nothing more of partition 1, while all others go on."""
    _give_no_more(lambda replica: replica.partition == STARVED_PARTITION)


def _give_no_more(is_meant: Callable[[Replica], bool]) -> None:
    """Answers to fetches hold nothing of these partitions from so many records on. The watermark is reported as it
    is."""
    plan, readable_bound = fetch._Fetch._plan, Replica.readable_bound
    is_planning = False

    def plan_with_hunger(waiting: fetch._Fetch) -> fetch.Plan:
        nonlocal is_planning
        is_planning = True
        try:
            return plan(waiting)
        finally:
            is_planning = False

    def bound(replica: Replica, isolation_level: int) -> int:
        true_bound = readable_bound(replica, isolation_level)
        is_hungry = is_planning and not is_internal(replica.topic) and is_meant(replica)
        return min(true_bound, AFTER_RECORDS) if is_hungry else true_bound

    _put(fetch._Fetch, "_plan", plan_with_hunger)
    _put(Replica, "readable_bound", bound)


# Which node answers a Metadata request falsely now; None while it is answered truly.
_liar: ContextVar[int | None] = ContextVar("liar", default=None)


def metadata_lists_one_node() -> None:
    """Every node says that it is the only one and leads everything; what it does not lead it refuses and does not send
    on, nor does it say which node leads. So it was with the broker that this project began with."""
    handle, brokers, partition = metadata.handle, metadata._brokers, metadata._partition
    view_of = metadata._view

    async def handle_falsely(request: Any, caller: Caller, context: RequestContext) -> Any:
        token = _liar.set(None if caller.client_id == LOOKING else context.node_id)
        try:
            return await handle(request, caller, context)
        finally:
            _liar.reset(token)

    def brokers_but_one(image: MetadataImage, listener: str) -> tuple[Any, ...]:
        return tuple(each for each in brokers(image, listener) if _liar.get() in (None, each.node_id))

    def alone(image: MetadataImage, request: Any, caller: Caller, gate: Gate | None = None) -> metadata.MetadataView:
        view, node_id = view_of(image, request, caller, gate), _liar.get()
        return view if node_id is None else view._replace(live={node_id: None}, reached=frozenset((node_id,)))

    def led_here(number: int, placed: Partition, view: metadata.MetadataView) -> Any:
        node_id = _liar.get()
        return partition(number, placed if node_id is None else replace(placed, leader=node_id), view)

    _put(metadata, "handle", handle_falsely)
    _put(metadata, "_brokers", brokers_but_one)
    _put(metadata, "_view", alone)
    _put(metadata, "_partition", led_here)
    _put(Forwarding, "produce", _refuse_all)
    _put(produce._Pending, "_name_leaders", _name_nobody)


def _refuse_all(forwarding: Forwarding, pending: PendingProduce, batches: list[PartitionBatch]) -> None:
    for batch in batches:
        refuse(pending, batch, Code.NOT_LEADER_OR_FOLLOWER)


def _name_nobody(pending: produce._Pending) -> Sequence[Any]:
    return ()


UNREACHED_NODE = 3


class _CutLink:
    """A link over which nothing gets through."""

    def ask(self, api_key: int, request: object, *, timeout_ms: int) -> asyncio.Future[Any]:
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        answer.set_exception(Unreachable(f"node {UNREACHED_NODE} cannot be reached from here"))
        return answer


def coordinator_cannot_reach_a_partition() -> None:
    """Markers of transactions that this node coordinates do not get to node 3; everything else does."""
    link = Peers.link

    def link_or_none(peers: Peers, node_id: int, purpose: str) -> Any:
        is_cut = node_id == UNREACHED_NODE and purpose == transaction_markers.PURPOSE
        return _CutLink() if is_cut else link(peers, node_id, purpose)

    _put(Peers, "link", link_or_none)


FAULTS: Mapping[str, Callable[[], None]] = {
    "follower-stops-fetching": follower_stops_fetching,
    "watermark-stands-still": watermark_stands_still,
    "fetch-hangs": fetch_hangs,
    "partition-starved": partition_starved,
    "metadata-lists-one-node": metadata_lists_one_node,
    "coordinator-cannot-reach-a-partition": coordinator_cannot_reach_a_partition,
}
