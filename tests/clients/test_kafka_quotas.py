"""Quotas of clients: Kafka's kafka-configs sets and shows them, and a real client is held to its rate."""

from __future__ import annotations

import os
import time
from collections.abc import Callable

import confluent_kafka
import pytest
from confluent_kafka import ThrottleEvent

from tests.clients.kafka_tools import Tool
from tests.clients.support import needs

needs("kafka tools")

RATE = 200_000  # bytes in a second
# On an idle machine it is 0.85 here. Apache Kafka, with windows this short, keeps its clients well
# below what they may take.
LEAST = RATE * 0.4
SECONDS = float(os.environ.get("CHRONIK_QUOTA_SECONDS", "3"))


@pytest.fixture(scope="module")
def tool(bootstrap: str, tmp_path_factory: pytest.TempPathFactory) -> Tool:
    return Tool(bootstrap, tmp_path_factory.mktemp("archive"))


def test_kafka_configs_sets_shows_and_deletes_quotas(tool: Tool, name: str) -> None:
    user, client = ("--entity-type", "users"), ("--entity-type", "clients")
    tool("kafka-configs", "--alter", *user, "--entity-name", name, *client, "--entity-default", "--add-config",
         "producer_byte_rate=1024,consumer_byte_rate=2048")  # fmt: skip
    tool("kafka-configs", "--alter", *client, "--entity-name", name, "--add-config", "request_percentage=12.5")
    tool("kafka-configs", "--alter", "--entity-type", "ips", "--entity-name", "192.0.2.7", "--add-config",
         "connection_creation_rate=7")  # fmt: skip

    both = tool("kafka-configs", "--describe", *user, "--entity-name", name, *client, "--entity-default")
    assert "producer_byte_rate=1024.0" in both
    assert "consumer_byte_rate=2048.0" in both
    assert f"user-principal '{name}', the default client-id" in both
    assert "request_percentage=12.5" in tool("kafka-configs", "--describe", *client, "--entity-name", name)
    by_address = tool("kafka-configs", "--describe", "--entity-type", "ips", "--entity-name", "192.0.2.7")
    assert "connection_creation_rate=7.0" in by_address

    tool("kafka-configs", "--alter", *client, "--entity-name", name, "--delete-config", "request_percentage")
    assert "request_percentage" not in tool("kafka-configs", "--describe", *client, "--entity-name", name)


def test_what_makes_no_sense_is_refused(tool: Tool, name: str) -> None:
    with pytest.raises(RuntimeError, match="must be greater than 0"):
        tool("kafka-configs", "--alter", "--entity-type", "users", "--entity-name", name, "--add-config",
             "producer_byte_rate=0")  # fmt: skip
    with pytest.raises(RuntimeError, match="producer_byte_rate cannot be a fractional value"):
        tool("kafka-configs", "--alter", "--entity-type", "users", "--entity-name", name, "--add-config",
             "producer_byte_rate=1.5")  # fmt: skip


def test_a_real_client_is_held_to_its_rate_and_sees_that_it_waits(
    tool: Tool, bootstrap: str, name: str, make_topic: Callable[..., str]
) -> None:
    topic = make_topic(1)
    tool("kafka-configs", "--alter", "--entity-type", "clients", "--entity-name", name, "--add-config",
         f"producer_byte_rate={RATE},consumer_byte_rate={RATE}")  # fmt: skip
    waits: list[ThrottleEvent] = []
    config = {"bootstrap.servers": bootstrap, "client.id": name, "throttle_cb": waits.append}

    written = _rate(lambda count: _produce({**config, "linger.ms": 5, "batch.size": 20_000}, topic, count))
    assert LEAST < written < RATE * 1.15
    assert any(event.throttle_time > 0 for event in waits)

    waits.clear()
    read = _rate(lambda count: _consume({**config, "fetch.message.max.bytes": 20_000}, topic, count))
    assert LEAST < read < RATE * 1.15
    assert any(event.throttle_time > 0 for event in waits)


def _rate(transfer: Callable[[Callable[[int], bool]], None]) -> float:
    """Bytes in a second, when what may be taken at once has been taken."""
    began, taken, start, last = time.monotonic(), 0, (0.0, 0), (0.0, 0)

    def count(size: int) -> bool:
        nonlocal taken, start, last
        taken += size
        now = time.monotonic() - began
        if now < 2.0:
            start = now, taken
        last = now, taken
        return now < 2.0 + SECONDS

    transfer(count)
    return (last[1] - start[1]) / (last[0] - start[0])


def _produce(config: dict[str, object], topic: str, count: Callable[[int], bool]) -> None:
    is_going_on = True
    producer = confluent_kafka.Producer({**config, "queue.buffering.max.messages": 300})

    def acknowledged(problem: object, message: confluent_kafka.Message) -> None:
        nonlocal is_going_on
        assert problem is None
        is_going_on = count(1000) and is_going_on

    while is_going_on:
        try:
            producer.produce(topic, os.urandom(1000), on_delivery=acknowledged)
        except BufferError:
            producer.poll(0.05)
        producer.poll(0)
    producer.purge()


def _consume(config: dict[str, object], topic: str, count: Callable[[int], bool]) -> None:
    settings = {"group.id": topic, "queued.max.messages.kbytes": 20}
    consumer = confluent_kafka.Consumer({**config, **settings})
    consumer.assign([confluent_kafka.TopicPartition(topic, 0, 0)])
    is_going_on = True
    while is_going_on:
        message = consumer.poll(0.1)
        if message is not None and message.error() is None:
            is_going_on = count(1000)
            if (message.offset() or 0) >= 900:  # there is no end to it
                consumer.seek(confluent_kafka.TopicPartition(topic, 0, 0))
    consumer.close()
