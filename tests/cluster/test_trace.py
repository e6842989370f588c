"""The trace topic of real nodes, read by a real client: what happened is in it, from every node, and after restarts."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import TypeVar

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource

from chronik.testing import RunningCluster, RunningNode, cluster, node
from chronik.trace.events import (
    AnyEvent,
    Committed,
    FetchAnswered,
    GroupJoined,
    GroupSeen,
    PartitionSeen,
    ProduceAnswered,
    ProduceAppended,
    Replicated,
    WatermarkMoved,
)
from chronik.trace.lines import SCHEMA_VERSION, from_lines
from tests.cluster.support import WAIT_S, create_topic, new_name, wait_until

E = TypeVar("E")
TRACE = "__chronik_trace"
ON = {"chronik.trace": "true"}


def produce(bootstrap: str, topic: str, count: int) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "acks": "all", "enable.idempotence": True})
    for number in range(count):
        producer.produce(topic, f"{number}".encode(), partition=0)
        assert producer.flush(WAIT_S) == 0


def consume(bootstrap: str, topic: str, count: int, group: str) -> None:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group, "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    read = 0
    deadline = time.monotonic() + WAIT_S
    while read < count and time.monotonic() < deadline:
        read += len(consumer.consume(count - read, timeout=1))
    assert read == count
    consumer.commit(asynchronous=False)
    consumer.close()


def stored(bootstrap: str) -> list[AnyEvent]:
    """All that is in the trace topic now."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": new_name(), "enable.auto.commit": False})
    topic = consumer.list_topics(TRACE, timeout=WAIT_S).topics[TRACE]
    partitions = [] if topic.error else [TopicPartition(TRACE, number, 0) for number in topic.partitions]
    ends = {part.partition: consumer.get_watermark_offsets(part, WAIT_S)[1] for part in partitions}
    events: list[AnyEvent] = []
    for part in partitions:
        consumer.assign([part])
        at = 0
        while at < ends[part.partition]:
            message = consumer.poll(WAIT_S)
            assert message is not None
            assert message.error() is None
            assert message.headers() == [("schema", str(SCHEMA_VERSION).encode())]
            came = from_lines(message.value() or b"")
            assert {str(event.node).encode() for event in came} == {message.key()}
            events += came
            at = (message.offset() or 0) + 1
    consumer.close()
    return sorted(events, key=lambda event: event.at_us)


def of(events: list[AnyEvent], kind: type[E], topic: str) -> list[E]:
    return [event for event in events if isinstance(event, kind) and getattr(event, "topic", None) == topic]


@pytest.fixture
def traced_node(tmp_path: object) -> Iterator[RunningNode]:
    with node({**ON, "auto.create.topics.enable": "true"}, data_dir=str(tmp_path)) as running:
        yield running


@pytest.fixture(scope="module")
def traced_cluster() -> Iterator[RunningCluster]:
    with cluster(nodes=3, settings=ON) as running:
        yield running


def test_what_clients_did_is_in_the_topic(traced_node: RunningNode) -> None:
    topic, group = new_name(), new_name("g")
    produce(traced_node.bootstrap, topic, 10)
    consume(traced_node.bootstrap, topic, 10, group)

    events: list[AnyEvent] = []

    def is_all_there() -> bool:
        events[:] = stored(traced_node.bootstrap)
        is_group_seen = any(isinstance(event, GroupSeen) and event.group == group for event in events)
        return is_group_seen and bool(of(events, Committed, topic))

    wait_until(is_all_there, "the group and what it committed")
    assert [event.base_offset for event in of(events, ProduceAppended, topic)] == list(range(10))
    assert [event.to_offset for event in of(events, ProduceAnswered, topic)] == list(range(1, 11))
    assert of(events, WatermarkMoved, topic)[-1].watermark == 10
    given = of(events, FetchAnswered, topic)
    assert max(event.to_offset for event in given) == 10
    assert {event.group for event in given} == {group}
    assert of(events, Committed, topic)[-1].offset == 10
    assert of(events, PartitionSeen, topic)
    assert [event.group for event in events if isinstance(event, GroupJoined)] == [group]


def test_it_goes_on_after_a_restart_and_ends_when_it_is_switched_off(traced_node: RunningNode) -> None:
    topic = new_name()
    produce(traced_node.bootstrap, topic, 2)
    traced_node.stop()  # which stores what there is
    traced_node.start()
    produce(traced_node.bootstrap, topic, 1)
    set_trace(traced_node.bootstrap, "false")
    produce(traced_node.bootstrap, topic, 1)

    events = stored(traced_node.bootstrap)

    assert [event.base_offset for event in of(events, ProduceAppended, topic)] == [0, 1, 2]


def set_trace(bootstrap: str, value: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    entry = ConfigEntry("chronik.trace", value, incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ConfigResource.Type.BROKER, "1", incremental_configs=[entry])
    admin.incremental_alter_configs([resource])[resource].result(WAIT_S)


def test_nobody_but_nodes_writes_to_it(traced_node: RunningNode) -> None:
    produce(traced_node.bootstrap, new_name(), 1)
    wait_until(lambda: bool(stored(traced_node.bootstrap)), "the trace topic")
    refused: list[bool] = []
    producer = Producer({"bootstrap.servers": traced_node.bootstrap})
    producer.produce(TRACE, b"a lie", on_delivery=lambda error, message: refused.append(error is not None))
    producer.flush(WAIT_S)

    assert refused == [True]
    admin = AdminClient({"bootstrap.servers": traced_node.bootstrap})  # which must live until it is answered
    with pytest.raises(KafkaException):
        admin.delete_topics([TRACE])[TRACE].result(WAIT_S)


def test_each_node_of_a_cluster_has_its_part_in_it(traced_cluster: RunningCluster) -> None:
    topic = create_topic(traced_cluster.bootstrap)
    produce(traced_cluster.bootstrap, topic, 5)

    events: list[AnyEvent] = []

    def is_all_there() -> bool:
        events[:] = stored(traced_cluster.bootstrap)
        moved = {event.node for event in of(events, WatermarkMoved, topic) if event.watermark == 5}
        return moved == {1, 2, 3}

    wait_until(is_all_there, lambda: [event for event in events if isinstance(event, WatermarkMoved)])
    (leader,) = {event.node for event in of(events, ProduceAppended, topic)}
    replicated = of(events, Replicated, topic)
    assert {event.follower for event in replicated if event.to_offset == 5} == {1, 2, 3} - {leader}
    assert [event.to_offset for event in of(events, ProduceAnswered, topic)] == [1, 2, 3, 4, 5]
