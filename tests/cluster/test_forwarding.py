"""A node that is asked to write what it does not lead sends it on: in order, once, and with the leader's answer."""

from __future__ import annotations

from datetime import timedelta

import pytest
from kio.schema.init_producer_id.v4.request import InitProducerIdRequest

from chronik.core.records.batch import COMPRESSION_NAMES, read_header
from chronik.core.records.payload import walk
from chronik.testing import RunningCluster
from tests.cluster.replicas import log_on_disk, wait_until_replicas_agree
from tests.cluster.support import PARTITIONS, create_topic, followers_of, leader_of, wait_until, wait_until_in_sync
from tests.cluster.wire_client import (
    Produced,
    WireClient,
    fetch,
    produce,
    produce_request,
    produced,
    several_partitions_request,
)

NOT_LEADER, OUT_OF_ORDER, INVALID_RECORD = 6, 45, 87


@pytest.fixture(scope="module")
def topic(cluster: RunningCluster) -> str:
    return create_topic(cluster.bootstrap)


def connect(cluster: RunningCluster, node_id: int) -> WireClient:
    node = cluster.nodes[node_id]
    return WireClient(node.host, node.port)


def read_from_leader(cluster: RunningCluster, topic: str, partition: int, offset: int) -> list[bytes]:
    with connect(cluster, leader_of(cluster, topic, partition)) as client:
        return fetch(client, topic, partition, offset).values


@pytest.mark.parametrize("acks", [1, -1])
def test_what_is_produced_at_a_follower_is_acknowledged_and_readable_at_the_leader(
    cluster: RunningCluster, topic: str, acks: int
) -> None:
    for partition in range(PARTITIONS):
        for follower_id in followers_of(cluster, topic, partition):
            with connect(cluster, follower_id) as client:
                answer = produce(client, topic, partition, b"one", b"two", acks=acks)

            assert answer.code == 0
            assert read_from_leader(cluster, topic, partition, answer.base_offset)[:2] == [b"one", b"two"]


@pytest.mark.parametrize("size", [100, 300_000])  # packed at once, and off the event loop
def test_what_is_sent_on_to_a_topic_with_a_codec_is_packed_by_its_leader(cluster: RunningCluster, size: int) -> None:
    """What is sent on to a topic with a codec is packed by its leader and copied as it is."""
    topic = create_topic(cluster.bootstrap, partitions=1, config={"compression.type": "zstd"})
    follower, other = followers_of(cluster, topic)
    values = [b"%d" % number * size for number in range(3)]

    with connect(cluster, follower) as client, connect(cluster, other) as second:
        given = client.ask(InitProducerIdRequest(transactional_id=None, transaction_timeout=timedelta(minutes=1)))
        batches = [
            produce_request(topic, 0, value, producer=(int(given.producer_id), int(given.producer_epoch), sequence))
            for sequence, value in enumerate(values)
        ]
        answers = [produced(client.ask(batch)) for batch in batches]
        retried = produced(second.ask(batches[-1]))

    assert [*answers, retried] == [Produced(0, 0), Produced(0, 1), Produced(0, 2), Produced(0, 2)]
    wait_until_replicas_agree(cluster, topic, 1)
    stored = log_on_disk(cluster.nodes[other].data_dir, topic, 0)
    assert [record.value for record in walk(stored)] == values
    assert COMPRESSION_NAMES[read_header(stored).compression] == "zstd"


def test_a_message_without_answer_arrives_too(cluster: RunningCluster) -> None:
    topic = create_topic(cluster.bootstrap, partitions=1)
    with connect(cluster, followers_of(cluster, topic)[0]) as client:
        client.send(produce_request(topic, 0, b"nobody is told", acks=0))
        wait_until(lambda: read_from_leader(cluster, topic, 0, 0) == [b"nobody is told"], "it arrives")
        # The connection is still good, and its answers belong to its requests.
        assert produce(client, topic, 0, b"next") == Produced(0, 1)


def test_requests_on_one_connection_keep_their_order_through_a_follower(cluster: RunningCluster) -> None:
    topic = create_topic(cluster.bootstrap, partitions=1)
    requests = [produce_request(topic, 0, b"%d" % number) for number in range(100)]
    with connect(cluster, followers_of(cluster, topic)[0]) as client:
        for request in requests:
            client.send(request)
        answers = [produced(client.receive(request)) for request in requests]

    assert answers == [Produced(0, number) for number in range(100)]
    values: list[bytes] = []
    while len(values) < 100:
        values += read_from_leader(cluster, topic, 0, len(values))
    assert values == [b"%d" % number for number in range(100)]


def test_one_request_for_partitions_of_several_leaders_is_split_and_answered_whole(
    cluster: RunningCluster, topic: str
) -> None:
    values = {partition: b"part %d" % partition for partition in range(PARTITIONS)}
    for node_id in cluster.nodes:
        with connect(cluster, node_id) as client:
            answer = client.ask(several_partitions_request(topic, values))
        told = {each.index: each for each in answer.responses[0].partition_responses}
        assert {partition: int(each.error_code) for partition, each in told.items()} == dict.fromkeys(values, 0)
        for partition, value in values.items():
            assert read_from_leader(cluster, topic, partition, told[partition].base_offset) == [value]


def test_a_retry_through_another_node_is_no_second_copy(cluster: RunningCluster) -> None:
    topic = create_topic(cluster.bootstrap, partitions=1)
    first, second = followers_of(cluster, topic)
    with connect(cluster, first) as client:
        given = client.ask(InitProducerIdRequest(transactional_id=None, transaction_timeout=timedelta(minutes=1)))
        assert int(given.error_code) == 0
        identity = (int(given.producer_id), int(given.producer_epoch))
        batches = [produce_request(topic, 0, b"%d" % number, producer=(*identity, number)) for number in range(3)]
        assert [produced(client.ask(batch)) for batch in batches] == [Produced(0, number) for number in range(3)]

    # The answers were lost: the client sends all again, to another node, and then goes on.
    with connect(cluster, second) as client:
        assert [produced(client.ask(batch)) for batch in batches] == [Produced(0, number) for number in range(3)]
        # A gap may be one that forwarding made, when leaders change: only the leader itself tells it.
        gap = produce_request(topic, 0, b"gap", producer=(*identity, 7))
        assert produced(client.ask(gap)).code == NOT_LEADER
        with connect(cluster, leader_of(cluster, topic)) as leader:
            assert produced(leader.ask(gap)).code == OUT_OF_ORDER
        assert produced(client.ask(produce_request(topic, 0, b"3", producer=(*identity, 3)))) == Produced(0, 3)
    assert read_from_leader(cluster, topic, 0, 0)[:1] == [b"0"]


def test_the_records_at_fault_are_named_by_a_node(cluster: RunningCluster) -> None:
    """The records at fault are named by a node that does not lead as by the leader."""
    topic = create_topic(cluster.bootstrap, partitions=1, config={"cleanup.policy": "compact"})
    named = []
    for node_id in (leader_of(cluster, topic), *followers_of(cluster, topic)):
        with connect(cluster, node_id) as client:
            answer = client.ask(produce_request(topic, 0, b"none has", b"a key"))
        told = answer.responses[0].partition_responses[0]
        assert int(told.error_code) == INVALID_RECORD
        named.append([(error.batch_index, error.batch_index_error_message) for error in told.record_errors])
        assert told.error_message.startswith("2 of 2 records")

    assert named[0] == named[1] == named[2]
    assert [index for index, message in named[0] if message] == [0, 1]


@pytest.mark.timeout(180)
def test_a_connection_to_a_follower_lives_through_a_change_of_leader(cluster: RunningCluster) -> None:
    topic = create_topic(cluster.bootstrap, partitions=1)
    wait_until_in_sync(cluster, topic)
    leader_id = leader_of(cluster, topic)
    with connect(cluster, followers_of(cluster, topic)[0]) as client:
        assert produce(client, topic, 0, b"before") == Produced(0, 0)
        cluster.kill(leader_id)
        codes: list[int] = []

        def is_taken() -> bool:
            codes.append(produce(client, topic, 0, b"after").code)
            return codes[-1] == 0

        wait_until(is_taken, lambda: f"a produce is taken: {codes}")
    cluster.nodes[leader_id].start()
    wait_until_in_sync(cluster, topic)
    values: list[bytes] = []
    while b"after" not in values:
        values += read_from_leader(cluster, topic, 0, len(values))
    assert values[0] == b"before"
