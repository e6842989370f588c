"""Answers clients that reach the cluster by one address alone: behind a tunnel, a port-forward, a balancer.

All nodes advertise the same host and port, so a client that means a leader or a coordinator is connected to any node.
Here its requests go where they belong: as they are when all of one belongs to one node; cut up by node, and the answers
put together in the order of the request, when not.

Fetches have no sessions here: the next request of the client may reach another node, which knows of none.
"""

from __future__ import annotations

import asyncio
import datetime
import struct
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from kio.index import load_request_schema, load_response_schema

from chronik.api.call import Call
from chronik.api.table import PLACES, Destination
from chronik.core.errors import Code, Refused
from chronik.core.machines.metadata.commands import ResourceType
from chronik.core.machines.metadata.image import MetadataImage
from chronik.core.ports import Outgoing
from chronik.node.coordinators.group_coordinator import GroupCoordinator
from chronik.node.coordinators.transaction_coordinator import TransactionCoordinator
from chronik.node.net.peers import Unreachable
from chronik.node.routing.asked import Asked, Relayed
from chronik.wire import fetch as wire_fetch
from chronik.wire.codec import decode_request, decode_response, encode_request, encode_response
from chronik.wire.fetch import FetchAnswer
from chronik.wire.framing import SIZE_BYTES, RequestHeader, read_header
from chronik.wire.versions import FETCH

SLACK_MS = 10_000
ANSWER_MS = 60_000  # for what does not say itself how long it may take
NO_TIMEOUT = -1
# A fetch that several leaders share waits no longer: the one that has something waits for those that have nothing.
SHARED_WAIT = datetime.timedelta(milliseconds=100)
NO_SESSION, NO_SESSION_EPOCH = 0, -1
_SESSION = struct.Struct(">ii")
_LIMITS_BYTES = 13  # what stands before the session in a fetch: waiting time, sizes, isolation level

# By name of the request: where the things stand in it that may belong to different nodes, and where in the response.
_LISTS = {
    "offset_fetch": ("groups", "groups"),
    "describe_groups": ("groups", "groups"),
    "delete_groups": ("groups_names", "results"),
    "consumer_group_describe": ("group_ids", "groups"),
    "describe_configs": ("resources", "results"),
    "describe_transactions": ("transactional_ids", "transaction_states"),
}
# The same for partitions below topics: a topic's name, its partitions, a partition's number ("" when it is one).
_TOPICS = {
    "list_offsets": ("name", "partitions", "partition_index"),
    "offset_for_leader_epoch": ("topic", "partitions", "partition"),
    "delete_records": ("name", "partitions", "partition_index"),
    "describe_producers": ("name", "partition_indexes", ""),
}
_WHOLE = {"list_groups": "groups", "list_transactions": "transaction_states"}  # what every node has a part of
_MANY_GROUPS_FROM = {"offset_fetch": 8}
_WAITS_FOR_OTHERS = ("join_group", "sync_group")  # as long as the slowest member takes
_UNREACHED = {
    Destination.LEADER: Code.NOT_LEADER_OR_FOLLOWER,
    Destination.COORDINATOR: Code.NOT_COORDINATOR,
    Destination.TRANSACTION_COORDINATOR: Code.NOT_COORDINATOR,
    Destination.NAMED: Code.BROKER_NOT_AVAILABLE,
    Destination.ALL: Code.COORDINATOR_NOT_AVAILABLE,
}


class OneAddress:
    """Finds out where a request belongs, and brings it there."""

    def __init__(
        self, node_id: int, image: MetadataImage, groups: GroupCoordinator, transactions: TransactionCoordinator
    ) -> None:
        self._node_id = node_id
        self._image = image
        self._groups = groups
        self._transactions = transactions

    @property
    def is_in_use(self) -> bool:
        """Whether live nodes share an address."""
        addresses = [(broker.host, broker.port) for broker in self._image.live_brokers()]
        return len(set(addresses)) < len(addresses)

    async def handle(self, asked: Asked, request: Any) -> Any:
        if PLACES[asked.header.api_key] is Destination.ALL:
            return await self._of_all(asked, request)
        if asked.name == "delete_groups":  # which answers once for a group that is named twice
            request = replace(request, groups_names=tuple(dict.fromkeys(request.groups_names)))
        nodes = self._nodes(asked, request)
        targets = list(dict.fromkeys(nodes))
        if len(targets) > 1:
            return await self._of_several(asked, request, nodes, targets)
        if not targets or targets[0] == self._node_id:
            return await asked.here(request)
        try:
            return Relayed(await asked.route.ask(targets[0], (asked.call.frame,), _timeout_ms(asked)))
        except Unreachable as problem:
            raise Refused(_UNREACHED[PLACES[asked.header.api_key]], str(problem)) from problem

    # --- where it belongs

    def _nodes(self, asked: Asked, request: Any) -> list[int]:
        """For each thing the request names, in its order, the node it belongs to."""
        place = PLACES[asked.header.api_key]
        if place is Destination.LEADER:
            name, partitions, number = _TOPICS[asked.name]
            return [
                self._leader(getattr(topic, name), getattr(one, number) if number else one)
                for topic in request.topics
                for one in getattr(topic, partitions)
            ]
        if place is Destination.COORDINATOR and not _is_list(asked):
            return [self._coordinator(request.group_id)]
        if place is Destination.TRANSACTION_COORDINATOR:
            if _is_list(asked):
                return [self._transaction_coordinator(one) for one in request.transactional_ids]
            return [self._transaction_coordinator(_transactional_id(request))]
        things = getattr(request, _LISTS[asked.name][0])
        if place is Destination.COORDINATOR:
            return [self._coordinator(one if isinstance(one, str) else one.group_id) for one in things]
        return [self._broker(one) for one in things]

    def _leader(self, topic: str | bytes, number: int) -> int:
        """This node when there is none: it knows what to answer then."""
        placed = self._image.partition(topic, number)
        return placed.leader if placed is not None and placed.has_leader else self._node_id

    def _coordinator(self, group_id: str) -> int:
        broker = self._groups.coordinator_now(group_id)
        return self._node_id if broker is None else broker.id

    def _transaction_coordinator(self, transactional_id: str | None) -> int:
        """This node for a producer without transactions: any node has ids for those."""
        broker = self._transactions.coordinator_now(transactional_id) if transactional_id else None
        return self._node_id if broker is None else broker.id

    def _broker(self, resource: Any) -> int:
        if (
            resource.resource_type in (ResourceType.BROKER, ResourceType.BROKER_LOGGER)
            and resource.resource_name.isdecimal()
        ):
            broker = self._image.brokers.get(int(resource.resource_name))
            if broker is not None and not broker.is_fenced:
                return broker.id
        return self._node_id

    # --- cut up and put together

    async def _of_several(self, asked: Asked, request: Any, nodes: list[int], targets: list[int]) -> Any:
        is_list = _is_list(asked)
        parts = [
            (_some_of_list if is_list else _some_of_topics)(asked.name, request, nodes, target) for target in targets
        ]
        answers = await asyncio.gather(*map(partial(self._part, asked), targets, parts))
        if is_list:
            return _whole_list(asked.name, nodes, targets, answers)
        return _whole_topics(asked.name, request, nodes, targets, answers)

    async def _part(self, asked: Asked, target: int, request: Any) -> Any:
        """A part's response; what cannot be had is refused in it, and the others have theirs all the same."""
        module, header = asked.module, asked.header
        try:
            if target == self._node_id:
                return await asked.here(request)
            frame = encode_request(header.api_key, header.version, 0, header.client_id, request)
            answer = await asked.route.ask(target, (frame[SIZE_BYTES:],), _timeout_ms(asked))
            return decode_response(header.api_key, header.version, answer, module.RESPONSE)
        except Unreachable as problem:
            return module.refuse(request, _UNREACHED[PLACES[header.api_key]], str(problem))
        except Refused as refusal:
            return module.refuse(request, refusal.code, refusal.message)

    async def _of_all(self, asked: Asked, request: Any) -> Any:
        """What every live node has. One that fails is named: a list that lacks some looks as if they were gone."""
        field = _WHOLE[asked.name]
        targets = [broker.id for broker in self._image.live_brokers()]
        answers = await asyncio.gather(*(self._part(asked, target, request) for target in targets))
        for answer in answers:
            if answer.error_code:
                return replace(answer, **{field: ()})
        return replace(answers[0], **{field: tuple(one for answer in answers for one in getattr(answer, field))})

    # --- fetch

    def fetch(self, asked: Asked) -> Callable[[], None] | None:
        """As api.fetch's `start`."""
        call, header = asked.call, asked.header
        request = wire_fetch.parse(call.frame, header.body, header.version)
        if request.replica_id >= 0:  # nodes reach each other by themselves: it is a client that says so
            return _start_here(asked, call)
        if request.session_id != NO_SESSION and request.session_epoch != NO_SESSION_EPOCH:
            code = Code.FETCH_SESSION_ID_NOT_FOUND  # made by a node that had an address of its own
            call.answer(wire_fetch.encode(header.version, header.correlation_id, code, NO_SESSION, []))
            return None
        _leave_session(call.frame, header)
        nodes = [self._leader(part.topic, part.partition) for part in request.partitions]
        targets = list(dict.fromkeys(nodes))
        if not targets or targets == [self._node_id]:
            return _start_here(asked, call)
        if len(targets) == 1:
            asking: Awaitable[Sequence[Outgoing]] = self._relayed_fetch(
                asked.route.ask(targets[0], (call.frame,), request.max_wait_ms + SLACK_MS)
            )
        else:
            asking = self._shared_fetch(asked, nodes, targets)
        asked.context.start(self._answer_fetch(asking, request, call))
        return None

    @staticmethod
    async def _relayed_fetch(asking: asyncio.Future[memoryview]) -> Sequence[Outgoing]:
        return Relayed(await asking).buffers

    @staticmethod
    async def _answer_fetch(
        asking: Awaitable[Sequence[Outgoing]], request: wire_fetch.FetchRequest, call: Call
    ) -> None:
        try:
            call.answer(await asking)
        except Unreachable:
            code = Code.NOT_LEADER_OR_FOLLOWER
            refused = [FetchAnswer(one.topic, one.partition, code, -1, -1, -1) for one in request.partitions]
            call.answer(wire_fetch.encode(call.header.version, call.header.correlation_id, 0, NO_SESSION, refused))
        except Exception:
            call.answer(None)
            raise

    async def _shared_fetch(self, asked: Asked, nodes: list[int], targets: list[int]) -> Sequence[Outgoing]:
        """Clients ask each leader by itself, so this happens only while their metadata are old: it may copy."""
        header = asked.header
        version = header.version
        request = decode_request(FETCH, version, asked.call.frame, header.body, load_request_schema(FETCH, version))
        parts = []
        for target in targets:
            some = _some_of_topics("fetch", request, nodes, target)
            some = replace(some, max_wait=min(request.max_wait, SHARED_WAIT))
            sent = encode_request(FETCH, version, header.correlation_id, header.client_id, some)
            parts.append(self._fetched(asked, target, memoryview(bytearray(sent))[SIZE_BYTES:]))
        kind = load_response_schema(FETCH, version)
        answers = [decode_response(FETCH, version, one, kind) for one in await asyncio.gather(*parts)]
        topics: dict[Any, Any] = {}
        for topic in (topic for answer in answers for topic in answer.responses):
            key = topic.topic_id if version >= wire_fetch.TOPIC_IDS_FROM else topic.topic
            known = topics.get(key)
            topics[key] = topic if known is None else replace(known, partitions=known.partitions + topic.partitions)
        whole = replace(answers[0], responses=tuple(topics.values()))
        return (encode_response(FETCH, version, header.correlation_id, whole),)

    async def _fetched(self, asked: Asked, target: int, frame: memoryview) -> memoryview:
        """A part's whole answer, without its size."""
        if target != self._node_id:
            return await asked.route.ask(target, (frame,), SLACK_MS)
        local = _LocalAnswer()
        _start_here(asked, Call(frame, read_header(frame), asked.call.peer, local))
        buffers = await local.wait_for_buffers()
        if buffers is None:
            raise Unreachable("a fault on this node")  # which has been logged and counted where it was
        return memoryview(b"".join(bytes(piece) for piece in buffers))[SIZE_BYTES:]


class _LocalAnswer:
    """Where this node's own part of a fetch goes."""

    def __init__(self) -> None:
        self.on_abandoned: Callable[[], None] | None = None
        self._buffers: asyncio.Future[Sequence[Outgoing] | None] = asyncio.get_running_loop().create_future()

    def __call__(self, buffers: Sequence[Outgoing] | None) -> None:
        self._buffers.set_result(buffers)

    async def wait_for_buffers(self) -> Sequence[Outgoing] | None:
        return await self._buffers


def _start_here(asked: Asked, call: Call) -> Callable[[], None] | None:
    on_abandoned: Callable[[], None] | None = asked.module.start(call, asked.context)
    return on_abandoned


def _timeout_ms(asked: Asked) -> int:
    return NO_TIMEOUT if asked.name in _WAITS_FOR_OTHERS else ANSWER_MS


def _leave_session(frame: memoryview, header: RequestHeader) -> None:
    """Make it a fetch that wants no session, where it lies."""
    if header.version >= wire_fetch.SESSIONS_FROM:
        replica_id_bytes = 4 if header.version <= wire_fetch.REPLICA_ID_UNTIL else 0
        _SESSION.pack_into(frame, header.body + replica_id_bytes + _LIMITS_BYTES, NO_SESSION, NO_SESSION_EPOCH)


def _is_list(asked: Asked) -> bool:
    return asked.name in _LISTS and asked.header.version >= _MANY_GROUPS_FROM.get(asked.name, 0)


def _transactional_id(request: Any) -> str | None:
    found: str | None = getattr(request, "transactional_id", None)
    return found or getattr(request, "v3_and_below_transactional_id", None)


def _some_of_list(name: str, request: Any, nodes: list[int], target: int) -> Any:
    """The request with only what belongs to one node."""
    field = _LISTS[name][0]
    things = getattr(request, field)
    return replace(request, **{field: tuple(one for one, node in zip(things, nodes, strict=True) if node == target)})


def _whole_list(name: str, nodes: list[int], targets: list[int], answers: list[Any]) -> Any:
    field = _LISTS[name][1]
    results = {target: iter(getattr(answer, field)) for target, answer in zip(targets, answers, strict=True)}
    return replace(answers[0], **{field: tuple(next(results[node]) for node in nodes)})


def _some_of_topics(name: str, request: Any, nodes: list[int], target: int) -> Any:
    field = "partitions" if name == "fetch" else _TOPICS[name][1]
    of_node = iter(nodes)
    topics = []
    for topic in request.topics:
        own = tuple(one for one in getattr(topic, field) if next(of_node) == target)
        if own:
            topics.append(replace(topic, **{field: own}))
    return replace(request, topics=tuple(topics))


def _whole_topics(name: str, request: Any, nodes: list[int], targets: list[int], answers: list[Any]) -> Any:
    """Each node has answered for its partitions in the order in which they were named."""
    field = _TOPICS[name][1]
    results = {
        target: iter([(topic, one) for topic in answer.topics for one in topic.partitions])
        for target, answer in zip(targets, answers, strict=True)
    }
    of_node = iter(nodes)
    topics = []
    for asked in request.topics:
        parts = [next(results[next(of_node)]) for _ in getattr(asked, field)]
        if parts:
            topics.append(replace(parts[0][0], partitions=tuple(one for _, one in parts)))
    return replace(answers[0], topics=tuple(topics))
