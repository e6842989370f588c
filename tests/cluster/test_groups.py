"""Groups live through the death of their coordinator: members go on, and what was committed stays committed."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer, ConsumerGroupType, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient
from kafka import KafkaConsumer
from kafka.structs import TopicPartition as KafkaPythonPartition

from chronik.testing import RunningCluster
from tests.clients.group_members import COOPERATIVE, Group, Load
from tests.clients.support import KAFKA_PYTHON_POLL_MS, wait_until
from tests.cluster.support import PARTITIONS, WAIT_S, create_topic, new_name, wait_until_in_sync, wait_until_told_truly
from tests.recovery.ledger import send

BEFORE, AFTER = 30, 20


def coordinator_of(cluster: RunningCluster, group: str) -> int:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    coordinator = admin.describe_consumer_groups([group])[group].result(WAIT_S).coordinator
    assert coordinator is not None
    return int(coordinator.id)


@pytest.fixture
def topic(cluster: RunningCluster) -> str:
    """With messages in partition 0."""
    name = create_topic(cluster.bootstrap)
    # kafka-python asks a node that does not know the topic yet only once in minutes.
    wait_until_told_truly(cluster, name)
    send(cluster.bootstrap, name, *(b"before %d" % number for number in range(BEFORE)))
    return name


@pytest.fixture
def revived(cluster: RunningCluster) -> Iterator[None]:
    """All nodes run again when the test is over."""
    yield
    for node in cluster.nodes.values():
        if not node.is_running:
            node.start()
    wait_until_in_sync(cluster, "__consumer_offsets")


def read_confluent(consumer: Consumer, count: int) -> list[bytes]:
    found: list[bytes] = []
    deadline = time.monotonic() + WAIT_S
    while len(found) < count and time.monotonic() < deadline:
        for message in consumer.consume(count - len(found), timeout=0.2):
            error = message.error()
            if error is not None and not error.retriable():
                raise KafkaException(error)
            if error is None:
                found.append(bytes(message.value() or b""))
    return found


@pytest.mark.timeout(180)
@pytest.mark.usefixtures("revived")
@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_confluent_group_goes_on_after_its_coordinator_was_killed(
    cluster: RunningCluster, topic: str, protocol: str
) -> None:
    group = new_name("g")
    settings = {
        "bootstrap.servers": cluster.bootstrap,
        "group.id": group,
        "group.protocol": protocol,
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
        "log_level": 0,
    }
    consumer = Consumer(settings)
    consumer.subscribe([topic])
    assert len(read_confluent(consumer, BEFORE)) == BEFORE
    consumer.commit(asynchronous=False)

    cluster.kill(coordinator_of(cluster, group))
    wait_until_told_truly(cluster, topic, "__consumer_offsets")

    place = TopicPartition(topic, 0)
    assert [found.offset for found in committed(consumer, place)] == [BEFORE]
    send(cluster.bootstrap, topic, *(b"after %d" % number for number in range(AFTER)))
    assert read_confluent(consumer, AFTER) == [b"after %d" % number for number in range(AFTER)]
    commit(consumer)
    assert [found.offset for found in committed(consumer, place)] == [BEFORE + AFTER]
    consumer.close()


def committed(consumer: Consumer, place: TopicPartition) -> list[TopicPartition]:
    deadline = time.monotonic() + WAIT_S
    while True:
        try:
            return consumer.committed([place], timeout=5)
        except KafkaException:  # the client has not found the new coordinator yet
            if time.monotonic() > deadline:
                raise


def commit(consumer: Consumer) -> None:
    """Again while the group is finding itself; a commit is the same however often it is done."""
    deadline = time.monotonic() + WAIT_S
    while True:
        try:
            consumer.commit(asynchronous=False)
            return
        except KafkaException:
            if time.monotonic() > deadline:
                raise
            consumer.poll(0.1)


@pytest.mark.timeout(180)
@pytest.mark.usefixtures("revived")
def test_a_kafka_python_group_goes_on_after_its_coordinator_was_killed(cluster: RunningCluster, topic: str) -> None:
    group = new_name("g")
    consumer = KafkaConsumer(
        topic,
        bootstrap_servers=cluster.bootstrap.split(","),
        group_id=group,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
    )
    assert len(read_kafka_python(consumer, BEFORE)) == BEFORE
    consumer.commit()

    cluster.kill(coordinator_of(cluster, group))
    wait_until_told_truly(cluster, topic, "__consumer_offsets")

    place = KafkaPythonPartition(topic, 0)
    assert consumer.committed(place) == BEFORE
    send(cluster.bootstrap, topic, *(b"after %d" % number for number in range(AFTER)))
    assert read_kafka_python(consumer, AFTER) == [b"after %d" % number for number in range(AFTER)]
    consumer.commit()
    assert consumer.committed(place) == BEFORE + AFTER
    consumer.close()


def read_kafka_python(consumer: KafkaConsumer, count: int) -> list[bytes]:
    found: list[bytes] = []
    deadline = time.monotonic() + WAIT_S
    while len(found) < count and time.monotonic() < deadline:
        for records in consumer.poll(timeout_ms=KAFKA_PYTHON_POLL_MS).values():
            found += [record.value for record in records]
    return found


@pytest.mark.timeout(180)
@pytest.mark.usefixtures("revived")
def test_offsets_of_many_groups_are_kept_through_the_death_of_every_node_in_turn(cluster: RunningCluster) -> None:
    topic = create_topic(cluster.bootstrap)
    groups = {new_name("g"): number for number in range(1, 11)}
    for group, offset in groups.items():
        consumer = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": group, "log_level": 0})
        places = [TopicPartition(topic, partition, offset) for partition in range(PARTITIONS)]
        consumer.commit(offsets=places, asynchronous=False)
        consumer.close()

    for node_id, node in cluster.nodes.items():
        cluster.kill(node_id)
        wait_until_told_truly(cluster, topic, "__consumer_offsets")
        check_committed(cluster, topic, groups)
        node.start()
        wait_until_in_sync(cluster, topic, "__consumer_offsets")
    check_committed(cluster, topic, groups)


def check_committed(cluster: RunningCluster, topic: str, groups: dict[str, int]) -> None:
    bootstrap = ",".join(node.bootstrap for node in cluster.running().values())
    for group, offset in groups.items():
        consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group, "log_level": 0})
        found = [committed(consumer, TopicPartition(topic, partition))[0].offset for partition in range(PARTITIONS)]
        consumer.close()
        assert found == [offset] * PARTITIONS, f"group {group}"


@pytest.mark.timeout(300)
@pytest.mark.usefixtures("revived")
def test_a_group_goes_on_moving_to_the_consumer_protocol(
    cluster: RunningCluster,
) -> None:
    """A group goes on moving to the consumer protocol after its coordinator was killed."""
    topic = create_topic(cluster.bootstrap)
    group, load = Group(cluster.bootstrap, topic, PARTITIONS), Load(cluster.bootstrap, topic, PARTITIONS)
    try:
        for assignor in (COOPERATIVE, None):
            group.join("librdkafka", assignor)
        group.wait_until_shared()
        assert group.type() == ConsumerGroupType.CONSUMER

        cluster.kill(coordinator_of(cluster, topic))
        wait_until_told_truly(cluster, topic, "__consumer_offsets")
        group.wait_until_it_reads()
        group.join("librdkafka", None)
        group.wait_until_shared()
        group.leave()  # the classic one
        group.wait_until_shared()
        group.wait_until_it_reads()
        assert group.type() == ConsumerGroupType.CONSUMER
    finally:
        sent = load.stop()
    wait_until(lambda: group.ledger.positions() == sent, "all is read and committed", WAIT_S)
    group.close()
    group.ledger.check(sent)
