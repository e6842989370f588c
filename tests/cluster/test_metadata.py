"""Metadata is the truth: after each change every node names all live nodes and the true leader of each partition."""

from __future__ import annotations

import pytest
from confluent_kafka.admin import AdminClient, NewPartitions
from kio.schema.alter_configs.v2.request import AlterableConfig, AlterConfigsRequest, AlterConfigsResource
from kio.static.primitive import i8

from chronik.testing import RunningCluster
from tests.cluster.support import (
    WAIT_S,
    controller_of,
    create_topic,
    leader_of,
    told_by,
    wait_until_in_sync,
    wait_until_told_truly,
)
from tests.cluster.wire_client import WireClient

# How often all nodes may be asked until the last one tells what the first one told. A change reaches all nodes with the
# next fetch of the metadata, which is under way: one round or two. Where it came by a timer it would be hundreds.
SPREAD_ROUNDS = 20


@pytest.mark.parametrize("who", ["leader", "controller", "follower"])
def test_after_a_death_and_a_return_every_node_tells_the_truth(cluster: RunningCluster, who: str) -> None:
    topic = create_topic(cluster.bootstrap)
    wait_until_in_sync(cluster, topic)
    controller_id = controller_of(cluster)
    others = [node_id for node_id in cluster.nodes if node_id != controller_id]
    leader_id = leader_of(cluster, topic)
    node_id = {"leader": leader_id, "controller": controller_id, "follower": others[0]}[who]

    cluster.kill(node_id)
    assert wait_until_told_truly(cluster, topic) < SPREAD_ROUNDS
    assert leader_of(cluster, topic) != node_id

    cluster.nodes[node_id].start()
    wait_until_in_sync(cluster, topic)
    assert wait_until_told_truly(cluster, topic) < SPREAD_ROUNDS


@pytest.mark.parametrize("node_id", [1, 2, 3])
def test_a_topic_made_through_any_node_is_known_to_all(cluster: RunningCluster, node_id: int) -> None:
    bootstrap = cluster.nodes[node_id].bootstrap
    topic = create_topic(bootstrap)
    # Whoever answered has it at once, the others within a moment. The client asks that node who the controller is, and
    # then the controller.
    told = told_by(cluster.nodes[controller_of(cluster)], [topic])
    assert told is not None
    assert len(told.leaders) == 3
    assert wait_until_told_truly(cluster, topic) < SPREAD_ROUNDS

    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_partitions([NewPartitions(topic, 5)])[topic].result(WAIT_S)
    assert wait_until_told_truly(cluster, topic) < SPREAD_ROUNDS
    assert [len(found.leaders) for node in cluster.nodes.values() if (found := told_by(node, [topic]))] == [5, 5, 5]

    admin.delete_topics([topic])[topic].result(WAIT_S)
    assert wait_until_told_truly(cluster) < SPREAD_ROUNDS
    assert [found.leaders for node in cluster.nodes.values() if (found := told_by(node, [topic]))] == [{}, {}, {}]


def test_a_partition_without_any_live_replica_has_no_leader_and_is_not_guessed(cluster: RunningCluster) -> None:
    topic = create_topic(cluster.bootstrap, partitions=1, replicas=1)
    alone = leader_of(cluster, topic)

    cluster.kill(alone)
    for node in cluster.running().values():
        leaders = set()
        while -1 not in leaders:  # the tests' own time limit ends this
            told = told_by(node, [topic])
            if told is not None:
                leaders.add(told.leaders[topic, 0])
                assert leaders <= {alone, -1}, f"somebody else leads what only node {alone} has: {leaders}"
        assert told is not None
        assert told.codes[topic, 0] == 5  # LEADER_NOT_AVAILABLE

    cluster.nodes[alone].start()
    assert leader_of(cluster, topic) == alone
    assert wait_until_told_truly(cluster, topic) < SPREAD_ROUNDS


def test_alter_configs_sets_the_defaults_of_all_brokers_through_any_node(cluster: RunningCluster) -> None:
    """AlterConfigs (33) takes back what it does not name: the minimum in sync, which is among them here, it spares."""
    defaults = ("log.retention.ms", "1234567"), ("offsets.topic.compression.codec", "2")
    for node in cluster.nodes.values():
        for settings in (defaults, ()):
            configs = tuple(AlterableConfig(name=name, value=value) for name, value in settings)
            resource = AlterConfigsResource(resource_type=i8(4), resource_name="", configs=configs)
            with WireClient(node.host, node.port) as client:
                (answer,) = client.ask(AlterConfigsRequest(resources=(resource,), validate_only=False)).responses
            assert (int(answer.error_code), answer.error_message) == (0, None)
