"""Secured nodes for other people's tests: let in as the administrator with every client, and nothing else is."""

from __future__ import annotations

import confluent_kafka

from chronik.client.cluster_view import view_of
from chronik.client.request import NoAnswer
from chronik.testing import RunningNode
from tests.clients.support import needs

needs("kafka")
from kafka import KafkaConsumer  # noqa: E402

WAIT_S = 30.0


def test_clients_are_let_in_with_the_settings_that_it_gives(chronik_secure_node: RunningNode) -> None:
    node = chronik_secure_node
    producer = confluent_kafka.Producer(node.for_confluent() | {"log_level": 0})
    producer.produce("secured", b"one")
    assert producer.flush(WAIT_S) == 0

    consumer = KafkaConsumer("secured", auto_offset_reset="earliest", **node.for_kafka_python())
    try:
        assert next(iter(consumer)).value == b"one"
    finally:
        consumer.close()


def test_what_does_not_log_in_is_told_nothing(chronik_secure_node: RunningNode) -> None:
    try:
        view_of((chronik_secure_node.host, chronik_secure_node.port))
    except NoAnswer:
        return
    raise AssertionError("it answered")
