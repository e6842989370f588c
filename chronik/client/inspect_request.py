"""Looks at nodes: what each of them sees, asked over the Kafka port with a request of our own (decision 0017).

Any one address is enough: the node there passes a look on to the others. So it works where all nodes have one single
address, and where only one of them can be reached. Like `asking`, it blocks: for programs around a node.
"""

from __future__ import annotations

import struct
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from functools import partial
from typing import Any, TypeVar

import msgspec

from chronik.client.request import (
    ANSWER_BYTES_MAX,
    CLIENT_ID,
    CORRELATION_ID,
    Address,
    NoAnswer,
    NotKafka,
    ask,
    connect,
    receive,
    written,
)
from chronik.client.security import Security
from chronik.trace.inspections import CLUSTER, EVENTS, STATE, ClusterStateView, EventsView, NodeSeen, StateView
from chronik.wire.versions import INSPECT, NODE_SOFTWARE

TIMEOUT_S = 5.0
DIRECT_AFTER_S = 0.5  # that a node does not answer by way of another, it is asked itself as well
DIRECT_TIMEOUT_S = 1.0
AT_ONCE_MAX = 16

_HEAD = struct.Struct(">ihhih")
_LENGTH = struct.Struct(">i")
_REFUSAL = b'{"error":'

_decoders: dict[Any, msgspec.json.Decoder[Any]] = {}
_making_decoders = threading.Lock()

T = TypeVar("T")


class NotChronik(NoAnswer):
    """There is some other Kafka there, or a chronik that does not know looks yet."""


class InspectRefused(NoAnswer):
    """The node says why it cannot answer: an unknown view, a bad argument, a node it cannot reach."""


class NotAllowed(InspectRefused):
    """This principal may not look into nodes: that takes ALTER on the cluster."""


CANNOT_LOOK = (NotChronik, NotAllowed)
"""Where no node says more than what a node answers to any client."""


class Inspections(dict[int, T]):
    """Answers by node, in the order of their ids. `silent` names the others of the cluster, each with the reason."""

    def __init__(self, answers: Mapping[int, T], silent: Mapping[int, str]) -> None:
        super().__init__(answers)
        self.silent = dict(silent)


# --- at one node


def inspect_node(
    kind: type[T],
    address: Address,
    view: str,
    timeout_s: float = TIMEOUT_S,
    security: Security | None = None,
    **arguments: Any,
) -> T:
    """What the node at this address answers, as one of the answers in trace/inspections.py; with `node=N`, what node N
    answers, by way of this one. Raises NoAnswer, NotChronik, InspectRefused."""
    payload = _ask(address, {"view": view, **arguments}, timeout_s, security)
    try:
        if payload.startswith(_REFUSAL):
            raise _refusal(address, msgspec.json.decode(payload))
        return _decoder(kind).decode(payload)
    except msgspec.DecodeError as problem:
        raise NotChronik(f"{written(address)} answered what cannot be read: {problem}") from problem


def _refusal(address: Address, told: Mapping[str, Any]) -> InspectRefused:
    words = f"{written(address)}: {told['error']}"
    if told.get("is_forbidden"):
        return NotAllowed(f"{words} Looking into nodes takes ALTER on the cluster")
    return InspectRefused(words)


def _decoder(kind: type[T]) -> msgspec.json.Decoder[T]:
    """One for each kind, made by one thread at a time: two that look at a type for the first time crash in msgspec."""
    with _making_decoders:
        if kind not in _decoders:
            _decoders[kind] = msgspec.json.Decoder(kind)
        return _decoders[kind]


def _ask(address: Address, arguments: dict[str, Any], timeout_s: float, security: Security | None) -> bytes:
    """Raises NoAnswer, NotChronik."""
    body = msgspec.json.encode(arguments)
    size = _HEAD.size - _LENGTH.size + len(CLIENT_ID) + _LENGTH.size + len(body)
    frame = _HEAD.pack(size, INSPECT, 0, CORRELATION_ID, len(CLIENT_ID)) + CLIENT_ID + _LENGTH.pack(len(body)) + body
    deadline = time.monotonic() + timeout_s
    try:
        with connect(address, timeout_s, security) as connection:
            try:
                connection.sendall(frame)
                head = receive(connection, 3 * _LENGTH.size, deadline)
            except ConnectionError as problem:  # as every Kafka does with a request it does not know
                raise _hung_up(address, timeout_s, security) from problem
            size, correlation_id, length = struct.unpack(">iii", head)
            if correlation_id != CORRELATION_ID or not 0 <= length == size - 2 * _LENGTH.size <= ANSWER_BYTES_MAX:
                raise NotChronik(f"what answers at {written(address)} is no chronik")
            return receive(connection, length, deadline)
    except TimeoutError as problem:
        raise NoAnswer(f"{written(address)} does not answer in {timeout_s:g} s") from problem
    except OSError as problem:
        raise NoAnswer(f"{written(address)} does not answer: {problem.strerror or problem}") from problem


def _hung_up(address: Address, timeout_s: float, security: Security | None) -> NoAnswer:
    """A node that is being stopped hangs up as well, and so does a network in between: what is there is asked what it
    can be asked, and only its own word makes it no chronik."""
    from kio.schema.api_versions.v3.request import ApiVersionsRequest

    request = ApiVersionsRequest(client_software_name=NODE_SOFTWARE, client_software_version="1")
    try:
        spoken = ask(address, request, timeout_s, security=security).api_keys
    except NotKafka as problem:
        return NotChronik(str(problem))
    except NoAnswer as problem:
        return NoAnswer(f"{written(address)} hung up: {problem}")
    if any(api.api_key == INSPECT for api in spoken):
        return NoAnswer(f"{written(address)} hung up before it answered")
    return NotChronik(f"what answers at {written(address)} is no chronik, or one that cannot be looked at yet")


# --- at all of them


def inspect_everywhere(
    kind: type[T],
    addresses: Sequence[Address],
    view: str,
    timeout_s: float,
    arguments_for: Callable[[int], Mapping[str, Any]],
    security: Security | None = None,
) -> Inspections[T]:
    """What every node answers that can be reached at or by way of one of these, asked with arguments of its own. Raises
    NoAnswer when none of them answers at all, NotChronik when what is there is no chronik."""
    via, known = _first_to_answer(addresses, timeout_s, security)

    def ask(node: NodeSeen, address: Address, limit_s: float) -> T | NoAnswer:
        try:
            return inspect_node(kind, address, view, limit_s, security, **arguments_for(node.id), node=node.id)
        except NoAnswer as problem:
            return problem

    def ask_both_ways(node: NodeSeen) -> T | NoAnswer:
        # Who does not take part any more, as the controller says, is hardly going to answer.
        is_expected = node.is_alive or node.id == known.node
        by_way = others.submit(ask, node, via, timeout_s if is_expected else min(timeout_s, DIRECT_TIMEOUT_S))
        if node.id != known.node and (not wait([by_way], DIRECT_AFTER_S).done or isinstance(by_way.result(), NoAnswer)):
            # The two may not reach each other, and yet both be reached from here.
            own = ask(node, (node.host, node.port), min(timeout_s, DIRECT_TIMEOUT_S))
            if not isinstance(own, NoAnswer):
                return own
        return by_way.result()

    at_once = min(len(known.nodes), AT_ONCE_MAX) or 1
    with ThreadPoolExecutor(at_once) as others, ThreadPoolExecutor(at_once) as threads:
        replies = dict(zip((node.id for node in known.nodes), threads.map(ask_both_ways, known.nodes), strict=True))
    answers = {node_id: each for node_id, each in replies.items() if not isinstance(each, NoAnswer)}
    silent = {node_id: str(each) for node_id, each in replies.items() if isinstance(each, NoAnswer)}
    return Inspections(answers, silent)


def _first_to_answer(
    addresses: Sequence[Address], timeout_s: float, security: Security | None = None
) -> tuple[Address, ClusterStateView]:
    """Raises NoAnswer, NotChronik."""
    problem = NoAnswer("there is no address to look at")
    for address in addresses:
        try:
            return address, inspect_node(ClusterStateView, address, CLUSTER, timeout_s, security)
        except NoAnswer as met:
            problem = met
    raise problem


def cluster(addresses: Sequence[Address], timeout_s: float = TIMEOUT_S) -> ClusterStateView:
    """Who is there, as the first of these knows that answers. Raises as `inspect_everywhere`."""
    return _first_to_answer(addresses, timeout_s)[1]


def states(
    addresses: Sequence[Address],
    timeout_s: float = TIMEOUT_S,
    topics: Sequence[str] | None = None,
    is_sure: bool = False,
    security: Security | None = None,
) -> Inspections[StateView]:
    """How things stand on every node; of these topics only, if any are given. If it is to be sure, each node says
    whether it was in touch with the cluster just now, which takes one that was not a moment. Raises as
    `inspect_everywhere`."""
    arguments: dict[str, Any] = {} if topics is None else {"topics": list(topics)}
    if is_sure:
        arguments["is_sure"] = True
    return inspect_everywhere(StateView, addresses, STATE, timeout_s, lambda node_id: arguments, security)


def events(
    addresses: Sequence[Address],
    timeout_s: float = TIMEOUT_S,
    topics: Sequence[str] | None = None,
    cursors: Mapping[int, int] | None = None,
    **arguments: Any,
) -> Inspections[EventsView]:
    """What every node has traced since its own cursor (of the look before). Where `is_more`, look again. Further
    arguments are those of the view. Raises as `inspect_everywhere`."""
    if topics is not None:
        arguments["topics"] = list(topics)
    arguments_for = partial(_with_cursor, arguments, cursors or {})
    return inspect_everywhere(EventsView, addresses, EVENTS, timeout_s, arguments_for)


def _with_cursor(arguments: Mapping[str, Any], cursors: Mapping[int, int], node_id: int) -> Mapping[str, Any]:
    return {**arguments, "cursor": cursors.get(node_id, 0)}
