"""The console over Apache Kafka: what its protocol tells is shown, and what it does not tell is said."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from tests.clients.apache_kafka import apache_kafka
from tests.clients.jvm import jars_of
from tests.cluster.console_process import ConsoleProcess, console


@pytest.fixture(scope="module")
def bootstrap(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with apache_kafka(jars_of("tools"), tmp_path_factory.mktemp("kafka"), {}) as address:
        yield address


@pytest.fixture(scope="module")
def shown(bootstrap: str) -> Iterator[ConsoleProcess]:
    with console(bootstrap) as running:
        running.post("/topics", "/topics", name="orders", partitions="2")
        producer = Producer({"bootstrap.servers": bootstrap})
        for number in range(100):
            producer.produce("orders", f"value {number}".encode(), key=b"k", partition=number % 2)
        assert producer.flush(30) == 0
        yield running


def test_every_page_is_there_and_says_what_is_not_known(bootstrap: str, shown: ConsoleProcess) -> None:
    member = Consumer({"bootstrap.servers": bootstrap, "group.id": "billing", "enable.auto.commit": False})
    member.commit(offsets=[TopicPartition("orders", 0, 20)], asynchronous=False)
    member.close()

    overview = shown.model("/")
    topic = shown.model("/topics/orders")
    record = shown.model("/topics/orders/1/7")
    settings = shown.model("/settings")

    assert overview["frame"]["is_chronik"] is False
    assert overview["stalls_words"].startswith("Not known")
    assert any("only Chronik tells" in line for line in overview["unknown"])
    assert [row["leader"] for row in topic["partitions"]] == [1, 1]
    assert record["place"] == "here"
    assert record["value"]["text"] == "value 15"
    assert record["unknown"] != []
    assert shown.model("/group?name=billing")["lag"] == 30
    assert settings["quorum"]["leader"] == 1
    assert settings["configs"] != []


def test_a_search_covers_what_it_says(shown: ConsoleProcess) -> None:
    found = shown.model("/topics/orders/messages?from=oldest&text=value+42")

    assert [(row["partition"], row["offset"]) for row in found["rows"]] == [(0, 21)]
    assert found["coverage"] == "partitions 0-1, offsets 0 to 49 read: 100 records, 1 found"


def test_a_topic_is_changed_and_deleted(shown: ConsoleProcess) -> None:
    shown.post("/topics", "/topics", name="gone", partitions="1")
    shown.post("/topics/gone/partitions", "/topics/gone", partitions="3")
    shown.post("/topics/gone/configs", "/topics/gone", key="retention.ms", value="1000")
    page = shown.model("/topics/gone")
    assert len(page["partitions"]) == 3
    assert {config["name"]: config["value"] for config in page["configs"]}["retention.ms"] == "1000"

    shown.post("/topics/gone/delete", "/topics/gone", confirm="gone")

    assert "gone" not in [topic["name"] for topic in shown.model("/topics")["rows"]]
