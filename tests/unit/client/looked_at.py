"""Nodes that answer looks as a test wants them to."""

from __future__ import annotations

import json
import socket
import struct
from typing import Any

from chronik.client.request import Address
from chronik.wire.versions import INSPECT

NOTHING_TRACED = {"is_all": False, "exceptions": []}


def asked_in(request: bytes) -> dict[str, Any]:
    size, api_key, version, _, client_size = struct.unpack_from(">ihhih", request)
    assert (size, api_key, version) == (len(request) - 4, INSPECT, 0)
    (length,) = struct.unpack_from(">i", request, 14 + client_size)
    text = request[18 + client_size :]
    assert length == len(text)
    arguments = json.loads(text)
    assert isinstance(arguments, dict)
    return arguments


def framed(request: bytes, answer: Any) -> bytes:
    text = json.dumps(answer).encode()
    return struct.pack(">i", 8 + len(text)) + request[8:12] + struct.pack(">i", len(text)) + text


class Nodes:
    """Node 1 of a cluster, which passes looks on; `answers` by node, the others cannot be reached."""

    def __init__(self, nodes: dict[int, Address], answers: dict[int, Any], fenced: tuple[int, ...] = ()) -> None:
        self.fenced = fenced
        self.nodes = nodes
        self.answers = answers
        self.asked: list[dict[str, Any]] = []

    def __call__(self, request: bytes) -> bytes:
        arguments = asked_in(request)
        if arguments["view"] == "cluster" and "node" not in arguments:
            return framed(request, self.as_cluster())
        self.asked.append(arguments)
        node_id = arguments["node"]
        if node_id not in self.answers:
            return framed(request, {"error": f"node {node_id}: it hung up"})
        return framed(request, self.answers[node_id])

    def as_cluster(self) -> dict[str, Any]:
        nodes = [
            {"id": each, "host": host, "port": port, "is_alive": each not in self.fenced}
            for each, (host, port) in self.nodes.items()
        ]
        return {
            "node": 1, "now_us": 1, "version": "9", "cluster_id": "c", "is_ready": True, "controller": 1,
            "nodes": nodes, "traces": NOTHING_TRACED,
        }  # fmt: skip


def free_address() -> Address:
    """Where nothing listens."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        host, port = server.getsockname()[:2]
        return str(host), int(port)
