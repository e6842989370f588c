"""What a node of any Kafka says about its cluster, asked by hand: nodes, leaders, in-sync sets."""

from __future__ import annotations

import time
from collections.abc import Iterable

from tests.bench.systems.system import ServerFailed
from tests.cluster.wire_client import Told, WireClient, metadata

ANSWER_TIMEOUT_S = 10.0
POLL_S = 0.02


def told_at(port: int, topics: Iterable[str]) -> Told | None:
    """None when it gives no answer just now."""
    try:
        with WireClient("127.0.0.1", port, ANSWER_TIMEOUT_S) as client:
            return metadata(client, topics)
    except OSError:
        return None


def names_all(port: int, nodes: int) -> bool:
    """Whether this node serves clients and knows of so many nodes."""
    told = told_at(port, [])
    return told is not None and len(told.brokers) == nodes


def leader_when_in_sync(ports: Iterable[int], topic: str, nodes: int, timeout_s: float) -> int:
    """Wait until every node says that partition 0 has all its replicas in sync, and names the same leader."""
    asked = list(ports)
    deadline = time.monotonic() + timeout_s
    while True:
        told = [told_at(port, [topic]) for port in asked]
        if all(each is not None and len(each.in_sync.get((topic, 0), ())) == nodes for each in told):
            leaders = {each.leaders[topic, 0] for each in told if each is not None}
            if len(leaders) == 1:
                return leaders.pop()
        if time.monotonic() > deadline:
            raise ServerFailed(f"{topic} is not in sync: {told}")
        time.sleep(POLL_S)
