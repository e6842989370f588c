"""Kafka's own tools against a cluster, each told of one node, whichever it is: admin requests find the controller."""

from __future__ import annotations

import json
import os
import re
import time
from pathlib import Path

import pytest

from chronik.testing import RunningCluster, RunningNode
from tests.clients.kafka_tools import Tool, rows
from tests.clients.support import needs
from tests.cluster.replicas import log_on_disk
from tests.cluster.support import (
    controller_of,
    create_topic,
    leader_of,
    new_name,
    told_by,
    wait_until,
    wait_until_in_sync,
    wait_until_told_truly,
)
from tests.recovery.ledger import consume_all, send

needs("kafka tools")


@pytest.fixture(scope="module")
def tool(cluster: RunningCluster, tmp_path_factory: pytest.TempPathFactory) -> Tool:
    return Tool(cluster.bootstrap, tmp_path_factory.mktemp("archive"))


def test_kafka_topics_works_on_every_node(cluster: RunningCluster, tool: Tool) -> None:
    controller_id = controller_of(cluster)
    others = [node_id for node_id in cluster.nodes if node_id != controller_id]
    first, second = (tool.at(cluster.nodes[node_id].bootstrap) for node_id in others)
    name = new_name()

    first("kafka-topics", "--create", "--topic", name, "--partitions", "3", "--replication-factor", "3")
    second("kafka-topics", "--alter", "--topic", name, "--partitions", "4")
    wait_until_told_truly(cluster, name)
    described = tool.at(cluster.nodes[controller_id].bootstrap)("kafka-topics", "--describe", "--topic", name)
    assert "PartitionCount: 4\tReplicationFactor: 3" in described
    assert set(re.findall(r"Leader: (\d)", described)) <= {"1", "2", "3"}
    first("kafka-topics", "--delete", "--topic", name)
    wait_until(lambda: not any(knows(node, name) for node in cluster.nodes.values()), "no node knows it any more")


def knows(node: RunningNode, topic: str) -> bool:
    told = told_by(node, [topic])
    return told is None or bool(told.leaders)


def test_kafka_configs_set_through_one_node_are_seen_at_another(cluster: RunningCluster, tool: Tool) -> None:
    topic = create_topic(cluster.bootstrap)
    about = ["--entity-type", "topics", "--entity-name", topic]
    one, other = (tool.at(cluster.nodes[node_id].bootstrap) for node_id in (1, 3))

    one("kafka-configs", *about, "--alter", "--add-config", "retention.ms=12345")

    wait_until(lambda: "retention.ms=12345" in other("kafka-configs", *about, "--describe"), "the other node knows")


def test_kafka_metadata_quorum_describes_the_quorum(cluster: RunningCluster, tool: Tool) -> None:
    controller_id = controller_of(cluster)
    for node in cluster.nodes.values():
        status = tool.at(node.bootstrap)("kafka-metadata-quorum", "describe", "--status")
        told = dict(re.findall(r"(\w+):\s+(.*)", status))
        assert told["LeaderId"].strip() == str(controller_id)
        assert set(re.findall(r'"id": (\d)', told["CurrentVoters"])) == {"1", "2", "3"}
        assert told["ClusterId"].strip() == cluster.cluster_id
    replication = rows(tool("kafka-metadata-quorum", "describe", "--replication"))
    assert {row["NodeId"]: row["Status"] for row in replication} == {
        str(node_id): "Leader" if node_id == controller_id else "Follower" for node_id in cluster.nodes
    }


@pytest.mark.timeout(180)
def test_kafka_leader_election_gives_leadership_back_to_the_preferred(cluster: RunningCluster, tool: Tool) -> None:
    topic = create_topic(cluster.bootstrap, partitions=1)
    wait_until_in_sync(cluster, topic)
    preferred = leader_of(cluster, topic)
    cluster.kill(preferred)
    wait_until_told_truly(cluster, topic)
    cluster.nodes[preferred].start()
    wait_until_in_sync(cluster, topic)
    assert leader_of(cluster, topic) != preferred

    other = next(node for node_id, node in cluster.nodes.items() if node_id != controller_of(cluster))
    election = ["--election-type", "preferred", "--topic", topic, "--partition", "0"]
    printed = tool.at(other.bootstrap)("kafka-leader-election", *election)

    assert f"Successfully completed leader election (PREFERRED) for partitions {topic}-0" in printed
    wait_until_told_truly(cluster, topic)
    assert leader_of(cluster, topic) == preferred


@pytest.mark.timeout(180)
def test_kafka_reassign_partitions_moves_replicas_and_their_records(
    cluster: RunningCluster, tool: Tool, tmp_path: Path
) -> None:
    topic = new_name()
    tool("kafka-topics", "--create", "--topic", topic, "--replica-assignment", "1:2")
    values = [b"%d" % number for number in range(100)]
    send(cluster.bootstrap, topic, *values)
    plan = tmp_path / "plan.json"
    plan.write_text(json.dumps({"version": 1, "partitions": [{"topic": topic, "partition": 0, "replicas": [3, 2]}]}))
    other = next(node for node_id, node in cluster.nodes.items() if node_id != controller_of(cluster))
    reassign = tool.at(other.bootstrap)

    reassign("kafka-reassign-partitions", "--reassignment-json-file", str(plan), "--execute")

    deadline = time.monotonic() + 60
    while "is completed" not in (printed := verified(reassign, plan)):
        assert time.monotonic() < deadline, printed
    wait_until_told_truly(cluster, topic)
    told = told_by(cluster.nodes[1], [topic])
    assert told is not None
    assert set(told.in_sync[topic, 0]) == {2, 3}
    assert log_on_disk(cluster.nodes[3].data_dir, topic, 0) == log_on_disk(cluster.nodes[2].data_dir, topic, 0)
    assert list(consume_all(cluster.nodes[3].bootstrap, topic, 1).values()) == values
    wait_until(lambda: log_on_disk(cluster.nodes[1].data_dir, topic, 0) == b"", "node 1 has given its copy up")


RATE = 50_000  # bytes a second
BATCH_BYTES = 10_000
MOVED_BYTES = 4_000_000  # more than a minute at that rate


@pytest.mark.timeout(400)
def test_kafka_reassign_partitions_keeps_to_its_throttle_until_it_is_raised(
    cluster: RunningCluster, tool: Tool, tmp_path: Path
) -> None:
    """Kafka reassign partitions keeps to its throttle until it is raised and takes it back."""
    topic = new_name()
    tool("kafka-topics", "--create", "--topic", topic, "--replica-assignment", "1:2,1:2")
    values = [os.urandom(BATCH_BYTES) for _ in range(MOVED_BYTES // BATCH_BYTES)]
    send(cluster.bootstrap, topic, *values)
    first, second = (plan_for(tmp_path, topic, partition, [3, 2]) for partition in (0, 1))

    def copied() -> int:
        return len(log_on_disk(cluster.nodes[3].data_dir, topic, 0))

    began = time.monotonic()
    executed(tool, first, "--throttle", str(RATE))

    # What there is, is never more than the rate allows for the time that has passed; and it becomes more. (A second of
    # the rate may go at once, and the batch that crosses the line goes too.)
    has_begun = 0
    while has_begun < 4 * RATE:
        has_begun, seconds = copied(), time.monotonic() - began
        assert has_begun <= 1.15 * RATE * (seconds + 1) + 2 * BATCH_BYTES, f"{has_begun} bytes in {seconds:.1f} s"
        assert seconds < 120, f"only {has_begun} bytes in {seconds:.1f} s"
        time.sleep(0.1)
    assert "throttled.rate" in tool("kafka-configs", "--entity-type", "brokers", "--describe")
    described = tool("kafka-configs", "--entity-type", "topics", "--entity-name", topic, "--describe")
    assert "follower.replication.throttled.replicas=0:3 " in described
    assert "leader.replication.throttled.replicas=0:1,0:2 " in described

    executed(tool, second, "--additional", "--throttle", str(100 * RATE))
    for plan in (first, second):
        deadline = time.monotonic() + 120
        while "is completed" not in (printed := verified(tool, plan)):
            assert time.monotonic() < deadline, printed

    assert log_on_disk(cluster.nodes[3].data_dir, topic, 0) == log_on_disk(cluster.nodes[2].data_dir, topic, 0)
    assert list(consume_all(cluster.nodes[3].bootstrap, topic, 2).values()) == values
    assert "throttled" not in tool("kafka-configs", "--entity-type", "brokers", "--describe")
    assert "throttled" not in tool("kafka-configs", "--entity-type", "topics", "--entity-name", topic, "--describe")


def plan_for(folder: Path, topic: str, partition: int, replicas: list[int]) -> Path:
    plan = folder / f"plan-{partition}.json"
    moved = [{"topic": topic, "partition": partition, "replicas": replicas}]
    plan.write_text(json.dumps({"version": 1, "partitions": moved}))
    return plan


def executed(tool: Tool, plan: Path, *options: str) -> str:
    return tool("kafka-reassign-partitions", "--reassignment-json-file", str(plan), "--execute", *options)


def verified(tool: Tool, plan: Path) -> str:
    return tool("kafka-reassign-partitions", "--reassignment-json-file", str(plan), "--verify")
