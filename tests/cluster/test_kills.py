"""SIGKILL of leaders, controllers and anybody under load, again and again: nothing acknowledged is lost or doubled."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Iterator
from itertools import cycle

import pytest

from chronik.testing import RunningCluster
from chronik.testing import cluster as start_cluster
from tests.cluster.load import GIVE_UP_S, ConfluentLoad, Load, check_producers, under_load
from tests.cluster.replicas import wait_until_replicas_agree
from tests.cluster.support import (
    PARTITIONS,
    check_logs,
    controller_of,
    create_topic,
    leader_of,
    wait_until_in_sync,
    wait_until_told_truly,
)
from tests.recovery.ledger import Ledger, check_delivered, check_dense, consume_all, end_offsets

CYCLES = int(os.environ.get("CHRONIK_KILL_CYCLES", "10"))
SEED = int(os.environ.get("CHRONIK_KILL_SEED", "1"))
LIVE_S = (0.2, 1.0)  # how long all nodes live between two kills
PATIENT = {"message.timeout.ms": int(GIVE_UP_S * 1000), "reconnect.backoff.max.ms": 500}


@pytest.fixture(scope="module")
def kill_cluster() -> Iterator[RunningCluster]:
    """Segments are small, so that kills also meet closed ones."""
    with start_cluster(nodes=3, settings={"log.segment.bytes": "262144"}) as running:
        yield running
        check_logs(running)


def victim(cluster: RunningCluster, kind: str, topic: str, dice: random.Random) -> int:
    match kind:
        case "leader":
            return leader_of(cluster, topic, dice.randrange(PARTITIONS))
        case "controller":
            return controller_of(cluster)
        case _:
            return dice.choice(sorted(cluster.nodes))


@pytest.mark.timeout(180 + 30 * CYCLES)
def test_killed_again_and_again_under_load_nothing_acknowledged_is_lost(kill_cluster: RunningCluster) -> None:
    cluster, dice, ledger = kill_cluster, random.Random(SEED), Ledger()
    topic = create_topic(cluster.bootstrap)
    loads: list[Load] = [
        ConfluentLoad("idempotent-1", cluster.bootstrap, topic, ledger, {"enable.idempotence": True, **PATIENT}),
        ConfluentLoad(
            "idempotent-2",
            cluster.nodes[2].bootstrap,
            topic,
            ledger,
            {"enable.idempotence": True, "linger.ms": 20, "compression.type": "lz4", **PATIENT},
        ),
        ConfluentLoad("acks-all", cluster.nodes[1].bootstrap, topic, ledger, {"acks": "all", **PATIENT}),
    ]
    with under_load(*loads):
        for _, kind in zip(range(CYCLES), cycle(("leader", "controller", "anybody")), strict=False):
            kill_once(cluster, topic, kind, dice)

    delivered = consume_all(cluster.bootstrap, topic, PARTITIONS)
    check_delivered(ledger, delivered, topic, *(node.data_dir for node in cluster.nodes.values()))
    check_dense(delivered)
    check_producers(loads, delivered.values())
    wait_until_replicas_agree(cluster, topic, PARTITIONS)


def kill_once(cluster: RunningCluster, topic: str, kind: str, dice: random.Random) -> None:
    """Kill one, see the others go on, start it again: no watermark has fallen, and every node tells the truth."""
    time.sleep(dice.uniform(*LIVE_S))
    node_id = victim(cluster, kind, topic, dice)
    survivors = ",".join(node.bootstrap for other, node in cluster.nodes.items() if other != node_id)
    ends_before = end_offsets(survivors, topic, PARTITIONS)
    cluster.kill(node_id)
    if dice.random() < 0.7:  # otherwise it is back before anybody else leads
        ends_without = end_offsets(survivors, topic, PARTITIONS)
        assert_never_back(ends_before, ends_without)
        wait_until_told_truly(cluster, topic)
    cluster.nodes[node_id].start()
    wait_until_in_sync(cluster, topic)
    wait_until_told_truly(cluster, topic)
    assert_never_back(ends_before, end_offsets(cluster.bootstrap, topic, PARTITIONS))


def assert_never_back(before: list[int], after: list[int]) -> None:
    assert all(old <= new for old, new in zip(before, after, strict=True)), (before, after)
