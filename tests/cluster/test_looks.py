"""Looks at the nodes of a real cluster: any one of them is enough, and each tells what it sees, traced or not."""

from __future__ import annotations

import time

import pytest
from confluent_kafka import Consumer, Producer
from kafka import KafkaConsumer, KafkaProducer

from chronik.client import inspect_request
from chronik.client.inspect_request import InspectRefused, inspect_node
from chronik.client.request import Address, NoAnswer, ask
from chronik.testing import RunningCluster
from chronik.trace.inspections import StateView
from chronik.wire.versions import INSPECT
from tests.cluster.port_forward import port_forward
from tests.cluster.support import (
    WAIT_S,
    create_topic,
    followers_of,
    leader_of,
    new_name,
    wait_until,
    wait_until_in_sync,
)

MESSAGES = 300


def address_of(cluster: RunningCluster, node_id: int) -> Address:
    node = cluster.nodes[node_id]
    return node.host, node.port


def produce(bootstrap: str, topic: str, count: int = MESSAGES) -> None:
    producer = Producer({"bootstrap.servers": bootstrap})
    for number in range(count):
        producer.produce(topic, b"%d" % number, partition=0)
    assert producer.flush(WAIT_S) == 0


@pytest.mark.parametrize("entrance", [1, 2, 3])
def test_through_any_one_node_all_of_them_tell_the_same_partition(cluster: RunningCluster, entrance: int) -> None:
    topic = create_topic(cluster.bootstrap)
    wait_until_in_sync(cluster, topic)
    produce(cluster.bootstrap, topic)
    leader_id = leader_of(cluster, topic)
    seen: inspect_request.Inspections[StateView] = inspect_request.states(
        [address_of(cluster, entrance)], topics=[topic]
    )

    def is_everywhere() -> bool:
        nonlocal seen
        seen = inspect_request.states([address_of(cluster, entrance)], topics=[topic])
        copies = [copy for state in seen.values() for copy in state.copies if copy.partition == 0]
        return [copy.watermark for copy in copies] == [MESSAGES] * 3

    wait_until(is_everywhere, lambda: f"every copy has its watermark at {MESSAGES}: {seen}", 10.0)
    assert (list(seen), seen.silent) == ([1, 2, 3], {})
    (partition,) = [each for each in seen[leader_id].partitions if each.partition == 0]
    assert (partition.watermark, partition.next_offset, sorted(partition.in_sync)) == (MESSAGES, MESSAGES, [1, 2, 3])
    assert sorted(each.node for each in partition.followers) == sorted({1, 2, 3} - {leader_id})
    assert {each.lag_records for each in partition.followers} == {0}
    copies = {state.node: copy for state in seen.values() for copy in state.copies if copy.partition == 0}
    assert {node_id for node_id, copy in copies.items() if copy.is_leader} == {leader_id}
    assert all(
        copy.leader == leader_id and copy.durable_end_offset == copy.next_offset == MESSAGES for copy in copies.values()
    )


def test_a_group_is_told_by_its_coordinator_with_its_members_and_offsets(cluster: RunningCluster) -> None:
    topic, group = create_topic(cluster.bootstrap, partitions=1), new_name("g")
    produce(cluster.bootstrap, topic, 10)
    settings = {"bootstrap.servers": cluster.bootstrap, "group.id": group, "auto.offset.reset": "earliest"}
    consumer = Consumer(settings)
    consumer.subscribe([topic])
    assert len(consumer.consume(10, WAIT_S)) == 10
    consumer.commit(asynchronous=False)

    seen = inspect_request.states([address_of(cluster, 1)])
    consumer.close()

    (told,) = [each for state in seen.values() for each in state.groups if each.group == group]
    assert told.state == "Stable"
    assert [member.assigned for member in told.members] == [((topic, 0),)]
    assert [(each.topic, each.partition, each.offset) for each in told.offsets] == [(topic, 0, 10)]


def test_a_follower_that_is_gone_is_named_silent_and_its_lag_is_told(cluster: RunningCluster) -> None:
    topic = create_topic(cluster.bootstrap)
    wait_until_in_sync(cluster, topic)
    leader_id, gone = leader_of(cluster, topic), followers_of(cluster, topic)[0]
    cluster.kill(gone)
    try:
        produce(cluster.nodes[leader_id].bootstrap, topic)
        began = time.monotonic()
        seen = inspect_request.states([address_of(cluster, leader_id)], topics=[topic])
        took_s = time.monotonic() - began
    finally:
        cluster.nodes[gone].start()
    wait_until_in_sync(cluster, topic)

    assert list(seen.silent) == [gone]
    assert took_s < 4.0
    (partition,) = [each for each in seen[leader_id].partitions if each.partition == 0]
    (late,) = [each for each in partition.followers if each.node == gone]
    assert late.lag_records == MESSAGES
    assert seen[leader_id].totals.lag_records_largest >= MESSAGES


def test_one_single_address_is_enough_though_it_is_that_of_every_node(cluster: RunningCluster) -> None:
    """As behind a tunnel that leads to one node, whatever the addresses that the nodes tell."""
    with port_forward(lambda: address_of(cluster, 2)) as forward:
        host, _, port = forward.address.rpartition(":")
        seen = inspect_request.states([(host, int(port))], topics=[])

    assert (list(seen), seen.silent) == ([1, 2, 3], {})


def test_a_question_that_makes_no_sense_is_answered_and_ends_no_connection(cluster: RunningCluster) -> None:
    for arguments in ({"node": 77}, {"node": "two"}, {"topics": 5}):
        with pytest.raises(InspectRefused):
            inspect_node(dict, address_of(cluster, 1), "state", **arguments)
    with pytest.raises(InspectRefused, match="no view 'nonsense'"):
        inspect_node(dict, address_of(cluster, 1), "nonsense", node=3)


def test_clients_are_told_nothing_of_it(cluster: RunningCluster) -> None:
    from kio.schema.api_versions.v3.request import ApiVersionsRequest

    for node in cluster.nodes.values():
        told = ask((node.host, node.port), ApiVersionsRequest(client_software_name="me", client_software_version="1"))
        assert INSPECT not in {each.api_key for each in told.api_keys}


def test_clients_work_on_while_their_cluster_is_looked_at(cluster: RunningCluster) -> None:
    topic = create_topic(cluster.bootstrap, partitions=1)
    producer = KafkaProducer(bootstrap_servers=cluster.bootstrap)
    for number in range(20):
        producer.send(topic, b"%d" % number)
        inspect_request.states([address_of(cluster, 1 + number % 3)])
    producer.flush(WAIT_S)
    consumer = KafkaConsumer(topic, bootstrap_servers=cluster.bootstrap, auto_offset_reset="earliest")
    found = [next(consumer).value for _ in range(20)]
    producer.close()
    consumer.close()

    assert found == [b"%d" % number for number in range(20)]


def test_a_node_that_waits_for_the_others_tells_what_it_can(own_cluster: RunningCluster) -> None:
    topic = create_topic(own_cluster.bootstrap)
    wait_until_in_sync(own_cluster, topic)
    produce(own_cluster.bootstrap, topic)
    for node_id in own_cluster.nodes:
        own_cluster.kill(node_id)
    address = address_of(own_cluster, 1)

    own_cluster.nodes[1].launch()
    wait_until(lambda: is_answered(address), "a node that is not ready is looked at")
    seen = inspect_request.states([address])
    known = inspect_request.cluster([address])

    assert not known.is_ready
    assert [each.id for each in known.nodes] == [1, 2, 3]
    assert (list(seen), sorted(seen.silent)) == ([1], [2, 3])
    assert not seen[1].is_ready
    own_cluster.start()
    assert list(inspect_request.states([address])) == [1, 2, 3]


def is_answered(address: Address) -> bool:
    try:
        inspect_node(dict, address, "cluster", timeout_s=1.0)
    except NoAnswer:
        return False
    return True
