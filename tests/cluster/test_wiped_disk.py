"""A node whose disk was lost comes back empty: it catches up, joins the in-sync sets, and never leads what it lost."""

from __future__ import annotations

import shutil
import time
from pathlib import Path

import pytest

from chronik.testing import RunningCluster, RunningNode
from tests.cluster.load import ConfluentLoad, check_producers, under_load
from tests.cluster.replicas import log_on_disk, wait_until_replicas_agree
from tests.cluster.support import (
    PARTITIONS,
    controller_of,
    create_topic,
    leader_of,
    told_by,
    wait_until_in_sync,
    wait_until_told_truly,
)
from tests.recovery.ledger import Ledger, check_delivered, check_dense, consume_all


def wipe(node: RunningNode) -> None:
    """Everything but what it printed."""
    for path in Path(node.data_dir).iterdir():
        if path.is_dir():
            shutil.rmtree(path)
        elif path.name != Path(node.log_path).name:
            path.unlink()


@pytest.mark.timeout(180)
@pytest.mark.parametrize("who", ["leader", "controller"])
def test_a_node_that_lost_its_disk_catches_up_and_nothing_is_lost(cluster: RunningCluster, who: str) -> None:
    topic, ledger = create_topic(cluster.bootstrap), Ledger()
    load = ConfluentLoad("idempotent", cluster.bootstrap, topic, ledger, {"enable.idempotence": True})
    with under_load(load):
        time.sleep(1)
        lost = leader_of(cluster, topic) if who == "leader" else controller_of(cluster)
        cluster.kill(lost)
        wipe(cluster.nodes[lost])
        cluster.nodes[lost].start()
        wait_until_in_sync(cluster, topic)
        time.sleep(0.5)

    wait_until_told_truly(cluster, topic)
    delivered = consume_all(cluster.bootstrap, topic, PARTITIONS)
    check_delivered(ledger, delivered, topic, *(node.data_dir for node in cluster.nodes.values()))
    check_dense(delivered)
    check_producers([load], delivered.values())
    wait_until_replicas_agree(cluster, topic, PARTITIONS)


@pytest.mark.timeout(180)
def test_what_a_wiped_node_got_back_it_can_lead(cluster: RunningCluster) -> None:
    topic, ledger = create_topic(cluster.bootstrap, partitions=PARTITIONS), Ledger()
    with under_load(ConfluentLoad("first", cluster.bootstrap, topic, ledger, {"enable.idempotence": True})):
        time.sleep(0.5)
    lost = leader_of(cluster, topic)
    cluster.kill(lost)
    wipe(cluster.nodes[lost])
    cluster.nodes[lost].start()
    wait_until_in_sync(cluster, topic)

    # One of the others goes: the two that are left, one of them the wiped one, have everything.
    other = next(node_id for node_id in cluster.nodes if node_id != lost)
    cluster.kill(other)
    wait_until_told_truly(cluster, topic)
    assert len(log_on_disk(cluster.nodes[lost].data_dir, topic, 0)) > 0
    delivered = consume_all(cluster.nodes[lost].bootstrap, topic, PARTITIONS)
    check_delivered(ledger, delivered, topic, *(node.data_dir for node in cluster.nodes.values()))
    cluster.nodes[other].start()
    wait_until_in_sync(cluster, topic)


def test_a_wiped_node_and_one_other_wait_for_the_third_and_nothing_is_lost(own_cluster: RunningCluster) -> None:
    """All were down. The two are a majority, but what was safe may have been so with the help of the disk that is gone:
    decision 0014 says why they do not go on without the third."""
    topic, ledger = create_topic(own_cluster.bootstrap), Ledger()
    load = ConfluentLoad("first", own_cluster.bootstrap, topic, ledger, {"enable.idempotence": True})
    with under_load(load):
        time.sleep(0.3)
    leader = leader_of(own_cluster, topic)
    wiped, other = (node_id for node_id in own_cluster.nodes if node_id != leader)
    own_cluster.kill_all()
    wipe(own_cluster.nodes[wiped])

    own_cluster.nodes[wiped].launch()
    own_cluster.nodes[other].launch()
    time.sleep(3)
    for node_id in (wiped, other):
        told = told_by(own_cluster.nodes[node_id], [topic])
        assert told is None or topic not in {name for name, _ in told.leaders}, f"node {node_id} answers {told}"

    own_cluster.nodes[leader].start()
    wait_until_in_sync(own_cluster, topic)
    delivered = consume_all(own_cluster.bootstrap, topic, PARTITIONS)
    check_delivered(ledger, delivered, topic, *(node.data_dir for node in own_cluster.nodes.values()))
    check_producers([load], delivered.values())
    wait_until_replicas_agree(own_cluster, topic, PARTITIONS)
