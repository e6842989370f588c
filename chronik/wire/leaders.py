"""Where a partition is led, sent with a refusal, so that a client need not ask for metadata first (KIP-951)."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import NamedTuple

from chronik.core.records.schema import write_uvarint

_LEADER = struct.Struct(">iib")
_INT32 = struct.Struct(">i")


class CurrentLeader(NamedTuple):
    """-1 stands for an unknown leader."""

    leader_id: int
    leader_epoch: int


class NodeEndpoint(NamedTuple):
    """Where a leader that was named can be reached."""

    node_id: int
    host: str
    port: int
    rack: str | None = None


def write_leader(out: bytearray, tag: int, leader: CurrentLeader) -> None:
    """A leader as a tagged field."""
    out.append(tag)
    out.append(_LEADER.size)
    out += _LEADER.pack(leader.leader_id, leader.leader_epoch, 0)


def write_endpoints(out: bytearray, tag: int, endpoints: Sequence[NodeEndpoint]) -> None:
    """Endpoints as a tagged field."""
    body = bytearray()
    write_uvarint(body, len(endpoints) + 1)
    for node_id, host, port, rack in endpoints:
        body += _INT32.pack(node_id)
        write_text(body, host)
        body += _INT32.pack(port)
        write_text(body, rack)
        body.append(0)
    out.append(tag)
    write_uvarint(out, len(body))
    out += body


def write_text(out: bytearray, text: str | None) -> None:
    """A compact string, or null."""
    if text is None:
        out.append(0)
        return
    content = text.encode()
    write_uvarint(out, len(content) + 1)
    out += content
