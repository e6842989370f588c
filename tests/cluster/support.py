"""What the cluster tests ask and wait for: topics, leaders, in-sync sets, and whether every node tells the truth."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterable, Mapping

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from chronik.testing import RunningCluster, RunningNode
from tests.cluster.wire_client import Place, Told, WireClient, latest_offset, metadata

PARTITIONS = 3
REPLICAS = 3
# For what takes a second or two: far above it, so that a busy machine fails nothing.
WAIT_S = 60.0
POLL_S = 0.02
ANSWER_S = 10.0
NONE, NOT_LEADER_OR_FOLLOWER = 0, 6


def new_name(word: str = "t") -> str:
    """A name that no other test uses."""
    return f"{word}-{uuid.uuid4().hex[:10]}"


def create_topic(
    bootstrap: str,
    name: str | None = None,
    partitions: int = PARTITIONS,
    replicas: int = REPLICAS,
    config: Mapping[str, str] | None = None,
) -> str:
    """Through whichever node `bootstrap` names. Returns the topic's name."""
    topic = name or new_name()
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(topic, partitions, replicas, config=dict(config or {}))])[topic].result(WAIT_S)
    return topic


def wait_until(condition: Callable[[], bool], what: str | Callable[[], object], seconds: float = WAIT_S) -> float:
    """Polls until it is so, and returns how long that took; `what` says in the failure what was waited for."""
    began = time.monotonic()
    while not condition():
        if time.monotonic() - began > seconds:
            pytest.fail(f"not within {seconds:.0f} s: {what() if callable(what) else what}")
        time.sleep(POLL_S)
    return time.monotonic() - began


def told_by(node: RunningNode, topics: Iterable[str] | None = None) -> Told | None:
    """The node's Metadata answer; None when it gives none just now."""
    try:
        with WireClient(node.host, node.port, ANSWER_S) as client:
            return metadata(client, topics)
    except (OSError, TimeoutError):
        return None


def leader_of(cluster: RunningCluster, topic: str, partition: int = 0) -> int:
    """The leader of a partition, as soon as a running node knows a running one."""
    found: list[int] = []

    def is_led() -> bool:
        for node in cluster.running().values():
            told = told_by(node, [topic])
            leader_id = -1 if told is None else told.leaders.get((topic, partition), -1)
            if leader_id in cluster.running():
                found.append(leader_id)
                return True
        return False

    wait_until(is_led, f"{topic}-{partition} has a leader")
    return found[0]


def followers_of(cluster: RunningCluster, topic: str, partition: int = 0) -> list[int]:
    leader_id = leader_of(cluster, topic, partition)
    return [node_id for node_id in cluster.running() if node_id != leader_id]


def controller_of(cluster: RunningCluster) -> int:
    """The controller, as soon as a running node knows a running one."""
    found: list[int] = []

    def is_known() -> bool:
        told = [told_by(node, []) for node in cluster.running().values()]
        found.extend(
            each.controller_id for each in told if each is not None and each.controller_id in cluster.running()
        )
        return bool(found)

    wait_until(is_known, "there is a controller")
    return found[0]


def wait_until_in_sync(cluster: RunningCluster, *topics: str, replicas: int = REPLICAS) -> None:
    """Until all replicas of these topics are in sync, as every running node says."""

    def is_in_sync() -> bool:
        told = [told_by(node, topics) for node in cluster.running().values()]
        return all(
            each is not None and all(len(each.in_sync.get(place, ())) == replicas for place in each.leaders)
            for each in told
        )

    wait_until(is_in_sync, lambda: f"{replicas} in sync: {_described(cluster, topics)}")


def wait_until_told_truly(cluster: RunningCluster, *topics: str) -> int:
    """Until every running node names exactly the running nodes, and the true leader of each partition.

    The change itself may take an election. Returns how many times all nodes were asked between the first node that told
    it and the last: a machine with other things to do makes asking as slow as telling.
    """
    running = cluster.running()
    rounds = 0

    def is_true() -> bool:
        nonlocal rounds
        told = {node_id: told_by(node, topics) for node_id, node in running.items()}
        true = [node_id for node_id, each in told.items() if each is not None and _is_true(cluster, each)]
        if true:
            rounds += 1
        answers = [(each.leaders, each.controller_id) for each in told.values() if each is not None]
        return len(true) == len(running) and all(each == answers[0] for each in answers)

    wait_until(is_true, lambda: f"the truth from every node: {_described(cluster, topics)}")
    return rounds - 1


def _is_true(cluster: RunningCluster, told: Told) -> bool:
    """Whether the brokers are those that run, and whatever is named as leader says so itself."""
    running = cluster.running()
    addresses = {node_id: (node.host, node.port) for node_id, node in running.items()}
    if dict(told.brokers) != addresses or told.controller_id not in running or any(told.codes.values()):
        return False
    by_leader: dict[int, list[Place]] = {}
    for place, leader_id in told.leaders.items():
        by_leader.setdefault(leader_id, []).append(place)
    return set(by_leader) <= set(running) and all(
        _leads(running[leader_id], places) for leader_id, places in by_leader.items()
    )


def _leads(node: RunningNode, places: list[Place]) -> bool:
    try:
        with WireClient(node.host, node.port, ANSWER_S) as client:
            return all(latest_offset(client, *place)[0] == NONE for place in places)
    except (OSError, TimeoutError):
        return False


def _described(cluster: RunningCluster, topics: Iterable[str]) -> str:
    return "\n".join(f"node {node_id}: {told_by(node, topics)}" for node_id, node in cluster.running().items())


def check_logs(cluster: RunningCluster) -> None:
    """No node met a bug or logged an error on the way, whatever the clients saw."""
    wrong = [
        f"node {node_id}: {line}"
        for node_id, node in cluster.nodes.items()
        for line in _lines(node.log_path)
        if ("fault" in line or "ERROR" in line or "Traceback" in line) and " chronik.audit: " not in line
    ]
    assert wrong == [], "\n".join(wrong[:20])


def _lines(path: str) -> list[str]:
    with open(path, encoding="utf-8", errors="replace") as printed:
        return printed.read().splitlines()
