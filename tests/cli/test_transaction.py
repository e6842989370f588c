"""`chronik transaction` against a real node."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import pytest
from confluent_kafka import KafkaException, Producer

from tests.cli.conftest import Chronik

WAIT_S = 30.0


@pytest.fixture
def topic(make_topic: Callable[..., str]) -> str:
    return make_topic("--partitions", "2")


@pytest.fixture
def producer(bootstrap: str, name: str) -> Iterator[Producer]:
    """Has begun a transaction under the name of the test."""
    made = Producer({"bootstrap.servers": bootstrap, "transactional.id": name, "log_level": 0})
    made.init_transactions(WAIT_S)
    made.begin_transaction()
    yield made
    made.purge()


def test_an_open_transaction_is_listed_and_described(
    chronik: Chronik, topic: str, producer: Producer, name: str
) -> None:
    producer.produce(topic, b"open", partition=1)
    producer.flush(WAIT_S)

    [row] = [
        row for row in chronik.ok("transaction", "list", "--open", "--json").json if row["transactional_id"] == name
    ]
    assert (row["state"], row["coordinator"]) == ("Ongoing", 1)
    assert 0 <= row["open_s"] < WAIT_S
    assert name in chronik.ok("transaction", "list").out
    assert name not in chronik.ok("transaction", "list", "--longer-than", "1000").out
    described = chronik.ok("transaction", "describe", name, "--json").json
    assert (described["state"], described["timeout_s"]) == ("Ongoing", 60)
    assert described["partitions"] == [{"topic": topic, "partition": 1, "last_stable_offset": 0}]
    shown = chronik.ok("transaction", "describe", name).out
    assert f"{name}: Ongoing, open for" in shown
    assert [topic, "1", "0"] in [line.split() for line in shown.splitlines()]

    producer.commit_transaction(WAIT_S)
    deadline = time.monotonic() + WAIT_S
    while chronik.ok("transaction", "describe", name, "--json").json["state"] != "CompleteCommit":
        assert time.monotonic() < deadline, "it is not complete"
    [row] = [row for row in chronik.ok("transaction", "list", "--json").json if row["transactional_id"] == name]
    assert (row["state"], row["open_s"]) == ("CompleteCommit", None)


def test_a_transaction_is_aborted_and_its_producer_fenced(
    chronik: Chronik, topic: str, producer: Producer, name: str
) -> None:
    producer.produce(topic, b"aborted", partition=0)
    producer.flush(WAIT_S)
    assert "say --yes" in chronik.refused("transaction", "abort", name)

    assert (
        chronik.ok("transaction", "abort", name, "--yes").out == f"aborted the transaction of {name} in 1 partition\n"
    )

    with pytest.raises(KafkaException):
        producer.commit_transaction(WAIT_S)
    assert chronik.ok("transaction", "describe", name, "--json").json["state"] == "Empty"
    assert "has nothing to abort" in chronik.refused("transaction", "abort", name, "--yes")


def test_an_id_that_is_not_known_is_said_to_be(chronik: Chronik, name: str) -> None:
    for command in ("describe", "abort"):
        assert f"no transactional id {name}" in chronik.refused("transaction", command, name)
