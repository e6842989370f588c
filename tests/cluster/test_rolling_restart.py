"""Nodes stopped in order (SIGTERM) and started again, one after the other: no client has a failed produce."""

from __future__ import annotations

import time

import pytest

from chronik.testing import RunningCluster
from tests.cluster.load import ConfluentLoad, KafkaPythonLoad, Load, check_producers, under_load
from tests.cluster.replicas import wait_until_replicas_agree
from tests.cluster.support import (
    PARTITIONS,
    controller_of,
    create_topic,
    leader_of,
    wait_until_in_sync,
    wait_until_told_truly,
)
from tests.recovery.ledger import Ledger, check_delivered, check_dense, consume_all


@pytest.mark.timeout(240)
def test_a_rolling_restart_fails_no_produce_of_any_client(cluster: RunningCluster) -> None:
    topic, ledger = create_topic(cluster.bootstrap), Ledger()
    loads: list[Load] = [
        ConfluentLoad("confluent", cluster.bootstrap, topic, ledger, {"acks": "all"}),
        ConfluentLoad("confluent-idempotent", cluster.bootstrap, topic, ledger, {"enable.idempotence": True}),
        KafkaPythonLoad("kafka-python", cluster.bootstrap, topic, ledger, {"acks": "all"}),
    ]
    with under_load(*loads):
        for node_id, node in cluster.nodes.items():
            time.sleep(0.5)
            assert node.stop() == 0, f"node {node_id} did not stop in order"
            wait_until_told_truly(cluster, topic)
            node.start()
            wait_until_in_sync(cluster, topic)
        time.sleep(0.5)

    delivered = consume_all(cluster.bootstrap, topic, PARTITIONS)
    check_delivered(ledger, delivered, topic, *(node.data_dir for node in cluster.nodes.values()))
    check_dense(delivered)
    check_producers(loads, delivered.values())
    wait_until_replicas_agree(cluster, topic, PARTITIONS)


def test_a_node_that_stops_in_order_hands_over_before_it_goes(cluster: RunningCluster) -> None:
    topic = create_topic(cluster.bootstrap)
    wait_until_in_sync(cluster, topic)
    going = leader_of(cluster, topic)

    cluster.nodes[going].ask_to_stop()
    assert cluster.nodes[going].stop() == 0

    # No session had to run out: whatever is left knows the new leaders at once.
    wait_until_told_truly(cluster, topic)
    assert leader_of(cluster, topic) != going
    assert controller_of(cluster) != going
    cluster.nodes[going].start()
    wait_until_in_sync(cluster, topic)


def test_the_whole_cluster_stopped_and_started_has_everything(cluster: RunningCluster) -> None:
    topic, ledger = create_topic(cluster.bootstrap), Ledger()
    load = ConfluentLoad("before", cluster.bootstrap, topic, ledger, {"enable.idempotence": True})
    with under_load(load):
        time.sleep(0.5)

    cluster.stop()
    cluster.start()

    wait_until_told_truly(cluster, topic)
    delivered = consume_all(cluster.bootstrap, topic, PARTITIONS)
    check_delivered(ledger, delivered, topic, *(node.data_dir for node in cluster.nodes.values()))
    check_producers([load], delivered.values())


def test_the_whole_cluster_killed_at_once_has_everything(cluster: RunningCluster) -> None:
    topic, ledger = create_topic(cluster.bootstrap), Ledger()
    load = ConfluentLoad("survivor", cluster.bootstrap, topic, ledger, {"enable.idempotence": True})
    with under_load(load):
        time.sleep(0.5)
        cluster.kill_all()
        cluster.start()
        time.sleep(0.5)

    delivered = consume_all(cluster.bootstrap, topic, PARTITIONS)
    check_delivered(ledger, delivered, topic, *(node.data_dir for node in cluster.nodes.values()))
    check_dense(delivered)
    check_producers([load], delivered.values())
    wait_until_replicas_agree(cluster, topic, PARTITIONS)
