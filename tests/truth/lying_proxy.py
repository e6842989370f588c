"""A proxy between clients and a real cluster, one port a node, whose answers are not always true.

It reads whole frames, passes each request on to the node that the port stands for, and may change the answer: fail it,
delay it, cut the connection, say -1 for offsets, or answer what the same node answered to the same question earlier, as
a node does that has been cut off from the others since. Addresses in answers become those of the proxy, so that clients
never get around it. Everything stays on 127.0.0.1.
"""

from __future__ import annotations

import contextlib
import dataclasses
import enum
import io
import json
import socket
import struct
import threading
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from typing import Any, NamedTuple

from kio.index import load_response_schema
from kio.serial import entity_reader, entity_writer

from chronik.wire.versions import API_VERSIONS, APIS, INSPECT

LIST_OFFSETS = 2
NO_OFFSET = -1
Address = tuple[str, int]


class Lie(enum.Enum):
    """What becomes of an answer."""

    FAIL = "fail"
    LATE = "late"
    CUT = "cut"
    MINUS = "minus"  # offsets are -1, and there is no error
    STALE = "stale"  # what this node answered to the same question earlier; where it was not asked, it is cut


class Question(NamedTuple):
    """A request at one node."""

    node: int
    api_key: int
    view: str | None
    """Of a look: which, and of which node if it is to be passed on."""
    passed_to: int | None = None


class Lying(NamedTuple):
    """How to answer a question."""

    lie: Lie
    code: int = 0
    """The error code of FAIL."""
    seconds: float = 0.0
    """How late LATE is."""


Recorded = dict[tuple[int, bytes], bytes]
"""Answers as nodes gave them, by node and request."""
Liar = Callable[[Question], Lying | None]


def honest(question: Question) -> Lying | None:
    return None


class LyingProxy:
    """In front of these nodes. `liar` decides on each answer; None leaves it as it is."""

    def __init__(self, nodes: Mapping[int, Address], recorded: Recorded | None = None) -> None:
        self.liar: Liar = honest
        self.is_recording = False
        self.told: list[tuple[Question, Lying]] = []  # lies, in their order
        self._nodes = dict(nodes)
        self.recorded: Recorded = {} if recorded is None else recorded
        self._over = threading.Event()
        self._open: set[socket.socket] = set()
        self._guard = threading.Lock()
        self._listeners = {node: socket.create_server(("127.0.0.1", 0)) for node in nodes}
        self.addresses: dict[int, Address] = {
            node: listener.getsockname()[:2] for node, listener in self._listeners.items()
        }
        self._instead = {address: self.addresses[node] for node, address in self._nodes.items()}
        self._threads = [threading.Thread(target=self._accept, args=(node,), daemon=True) for node in nodes]
        for thread in self._threads:
            thread.start()

    def bootstrap(self, *nodes: int) -> str:
        return ",".join(f"{host}:{port}" for host, port in (self.addresses[node] for node in nodes or self._nodes))

    def close(self) -> None:
        self._over.set()
        for listener in self._listeners.values():
            with contextlib.suppress(OSError):
                listener.shutdown(socket.SHUT_RDWR)  # a thread that waits in accept hears of it only this way
            listener.close()
        with self._guard:
            for each in self._open:
                with contextlib.suppress(OSError):
                    each.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join()

    def _accept(self, node: int) -> None:
        while True:
            try:
                near, _ = self._listeners[node].accept()
            except OSError:
                return  # closed
            thread = threading.Thread(target=self._serve, args=(node, near), daemon=True)
            self._threads.append(thread)
            thread.start()

    def _serve(self, node: int, near: socket.socket) -> None:
        """One connection, request by request, in order, until either side or a lie ends it."""
        with contextlib.suppress(OSError), near, socket.create_connection(self._nodes[node], timeout=30) as far:
            far.settimeout(None)
            near.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            with self._guard:
                self._open |= {near, far}
            try:
                while (request := receive_frame(near)) is not None:
                    answer = self._answer(node, request, far)
                    if answer is None:
                        return
                    near.sendall(len(answer).to_bytes(4, "big") + answer)
            finally:
                with self._guard:
                    self._open -= {near, far}

    def _answer(self, node: int, request: bytes, far: socket.socket) -> bytes | None:
        """None: the connection is cut."""
        api_key, version, correlation_id = struct.unpack_from(">hhi", request)
        question = question_of(node, api_key, request)
        lying = self.liar(question)
        if lying is not None:
            self.told.append((question, lying))
        key = (node, request[:4] + request[8:])  # but for the correlation id
        if lying is not None and lying.lie in (Lie.CUT, Lie.STALE):
            before = self.recorded.get(key) if lying.lie is Lie.STALE else None
            if before is None:
                return None
            told = self._changed(api_key, version, before, None, is_cut_off=True)
            return correlation_id.to_bytes(4, "big", signed=True) + told[4:]
        far.sendall(len(request).to_bytes(4, "big") + request)
        answer = receive_frame(far)
        if answer is None:
            return None
        if lying is not None and lying.lie is Lie.LATE and self._over.wait(lying.seconds):
            return None
        if self.is_recording:
            self.recorded[key] = answer
        return self._changed(api_key, version, answer, lying)

    def _changed(
        self, api_key: int, version: int, answer: bytes, lying: Lying | None, is_cut_off: bool = False
    ) -> bytes:
        is_failing = lying is not None and lying.lie is Lie.FAIL
        if api_key == INSPECT:
            return self._changed_look(answer, is_failing, is_cut_off)
        change: Callable[[Any], Any] = self._elsewhere
        if lying is not None and is_failing:
            change = _failing(lying.code)
        elif lying is not None and lying.lie is Lie.MINUS and api_key == LIST_OFFSETS:
            change = _without_offset
        elif api_key not in (3, 10, 60):  # Metadata, FindCoordinator, DescribeCluster: these name addresses
            return answer
        head = 5 if APIS[api_key].is_flexible(version) and api_key != API_VERSIONS else 4
        read, write = _codec(api_key, version)
        out = io.BytesIO()
        out.write(answer[:head])
        write(out, rebuilt(read(answer, head)[0], change))
        return out.getvalue()

    def _changed_look(self, answer: bytes, is_failing: bool, is_cut_off: bool) -> bytes:
        told: dict[str, Any] = (
            {"error": "it will not say"} if is_failing else self._looked_elsewhere(json.loads(answer[8:]))
        )
        if is_cut_off and "is_current" in told:
            told["is_current"] = False  # as a node says that reaches no leader of the quorum
        body = json.dumps(told, separators=(",", ":")).encode()
        return answer[:4] + len(body).to_bytes(4, "big") + body

    def _looked_elsewhere(self, told: dict[str, Any]) -> dict[str, Any]:
        for each in told.get("nodes", ()) if isinstance(told.get("nodes"), list) else ():
            if isinstance(each, dict) and (each.get("host"), each.get("port")) in self._instead:
                each["host"], each["port"] = self._instead[each["host"], each["port"]]
        return told

    def _elsewhere(self, message: Any) -> Any:
        names = {field.name for field in dataclasses.fields(message)}
        if {"host", "port"} <= names and (message.host, message.port) in self._instead:
            host, port = self._instead[message.host, message.port]
            return dataclasses.replace(message, host=host, port=type(message.port)(port))
        return message


def question_of(node: int, api_key: int, request: bytes) -> Question:
    if api_key != INSPECT:
        return Question(node, api_key, None)
    (name_length,) = struct.unpack_from(">h", request, 8)
    asked = json.loads(request[10 + name_length + 4 :])
    passed_to = asked.get("node")
    return Question(node, api_key, asked["view"], None if passed_to == node else passed_to)


def rebuilt(message: Any, change: Callable[[Any], Any]) -> Any:
    """A message with all that is in it, each changed after what is inside it."""
    if isinstance(message, tuple):
        return tuple(rebuilt(each, change) for each in message)
    if not dataclasses.is_dataclass(message) or isinstance(message, type):
        return message
    inside = {field.name: getattr(message, field.name) for field in dataclasses.fields(message)}
    changed = {name: rebuilt(value, change) for name, value in inside.items() if isinstance(value, tuple)}
    return change(dataclasses.replace(message, **changed) if changed else message)


def _failing(code: int) -> Callable[[Any], Any]:
    def fail(message: Any) -> Any:
        if any(field.name == "error_code" for field in dataclasses.fields(message)):
            return dataclasses.replace(message, error_code=type(message.error_code)(code))
        return message

    return fail


def _without_offset(message: Any) -> Any:
    if any(field.name == "offset" for field in dataclasses.fields(message)):
        return dataclasses.replace(message, offset=type(message.offset)(NO_OFFSET))
    return message


@cache
def _codec(api_key: int, version: int) -> tuple[Any, Any]:
    schema = load_response_schema(api_key, version)
    return entity_reader(schema), entity_writer(schema)


def receive_frame(connection: socket.socket) -> bytes | None:
    head = _receive(connection, 4)
    return None if head is None else _receive(connection, int.from_bytes(head, "big"))


def _receive(connection: socket.socket, count: int) -> bytes | None:
    received = bytearray()
    while len(received) < count:
        piece = connection.recv(min(count - len(received), 1 << 16))
        if not piece:
            return None
        received += piece
    return bytes(received)


@contextlib.contextmanager
def lying_proxy(nodes: Mapping[int, Address], recorded: Recorded | None = None) -> Iterator[LyingProxy]:
    proxy = LyingProxy(nodes, recorded)
    try:
        yield proxy
    finally:
        proxy.close()
