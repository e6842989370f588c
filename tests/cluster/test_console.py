"""The console over a real cluster of three nodes: every page, every action, a node that dies while it is looked at."""

from __future__ import annotations

import time
from collections.abc import Iterator
from urllib.request import urlopen

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from chronik.testing import RunningCluster
from tests.cluster.console_process import ConsoleProcess, console

WAIT_S = 40.0
HOSTILE = b"<script>alert(1)</script>\xe2\x80\xae"


@pytest.fixture(scope="module")
def shown(cluster: RunningCluster) -> Iterator[ConsoleProcess]:
    with console(cluster.bootstrap) as running:
        yield running


@pytest.fixture(scope="module")
def orders(cluster: RunningCluster, shown: ConsoleProcess) -> str:
    """A topic made in the console, with 600 records and a needle."""
    made = shown.post("/topics", "/topics", name="orders", partitions="3", configs="retention.ms=86400000")
    assert "orders" in made
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "client.id": "shop"})
    for number in range(600):
        producer.produce(
            "orders", f'{{"order": {{"id": {number}}}}}'.encode(), key=f"k{number % 7}", partition=number % 3
        )
    producer.produce("orders", b"needle", key=HOSTILE, partition=1, headers=[("<b>", HOSTILE)])
    assert producer.flush(30) == 0
    return "orders"


def test_the_overview_says_that_all_is_whole(shown: ConsoleProcess, orders: str) -> None:
    page = shown.model("/")

    assert [node["answers"] for node in page["nodes"]] == [True, True, True]
    assert (page["under_replicated"], page["leaderless"]) == (0, 0)
    assert page["frame"]["is_chronik"] is True


def test_a_topic_has_its_partitions_offsets_and_configs(shown: ConsoleProcess, orders: str) -> None:
    page = shown.model("/topics/orders")

    assert len(page["partitions"]) == 3
    assert {config["name"]: config["value"] for config in page["configs"]}["retention.ms"] == "86400000"


def test_a_search_finds_what_was_planted_and_says_what_it_read(shown: ConsoleProcess, orders: str) -> None:
    found = shown.model("/topics/orders/messages?from=oldest&text=needle")
    nothing = shown.model("/topics/orders/messages?from=oldest&text=haystack")
    by_path = shown.model("/topics/orders/messages?from=oldest&path=order.id+%3E%3D+598")

    assert [(row["partition"], row["offset"]) for row in found["rows"]] == [(1, 200)]
    assert found["coverage"] == "partitions 0-2, offsets 0 to 200 read: 601 records, 1 found"
    assert (nothing["status"], nothing["is_whole"], nothing["found"]) == ("finished", True, 0)
    assert by_path["found"] == 2


def test_a_record_has_its_story_and_is_harmless(shown: ConsoleProcess, orders: str) -> None:
    page = shown.page("/topics/orders/1/200")
    model = shown.model("/topics/orders/1/200")

    assert "<script>alert" not in page
    assert "&lt;script&gt;alert(1)&lt;/script&gt;\\u202e" in page
    assert len(model["copies"]) == 3
    assert model["unknown"] != []  # the topic is not traced, and that is said


def test_a_topic_is_changed_and_deleted(shown: ConsoleProcess, orders: str) -> None:
    shown.post("/topics", "/topics", name="short-lived", partitions="1")
    shown.post("/topics/short-lived/partitions", "/topics/short-lived", partitions="4")
    shown.post("/topics/short-lived/configs", "/topics/short-lived", key="retention.ms", value="1000")
    page = shown.model("/topics/short-lived")
    assert len(page["partitions"]) == 4
    assert {config["name"]: config["value"] for config in page["configs"]}["retention.ms"] == "1000"

    refused = shown.post("/topics/short-lived/delete", "/topics/short-lived", confirm="short")
    assert refused.startswith("400 ")
    shown.post("/topics/short-lived/delete", "/topics/short-lived", confirm="short-lived")

    assert "short-lived" not in [topic["name"] for topic in shown.model("/topics")["rows"]]


def test_a_message_is_produced_sent_again_and_deleted(shown: ConsoleProcess, orders: str) -> None:
    shown.post("/topics", "/topics", name="by-hand", partitions="1")
    made = shown.post(
        "/topics/by-hand/messages", "/topics/by-hand/messages", key="k", value='{"a": 1}', headers="source=console"
    )
    assert "source" in made
    shown.post("/topics/by-hand/0/0/again", "/topics/by-hand/0/0", to="by-hand")
    shown.post("/topics/by-hand/messages", "/topics/by-hand/messages", key="k", tombstone="1")

    found = shown.model("/topics/by-hand/messages?from=oldest")["rows"]
    assert [(row["offset"], row["key"]["text"], row["value"]["kind"]) for row in found] == [
        (0, "k", "json"), (1, "k", "json"), (2, "k", "null")
    ]  # fmt: skip
    nowhere = shown.post("/topics/by-hand/0/0/again", "/topics/by-hand/0/0", to="by-hnad")
    assert nowhere.startswith("400 "), "a topic that is not there is not made"

    shown.post("/topics/by-hand/clear", "/topics/by-hand", confirm="by-hand", partition="0", before="2")
    assert [row["offset"] for row in shown.model("/topics/by-hand/messages?from=oldest")["rows"]] == [2]
    shown.post("/topics/by-hand/elect", "/topics/by-hand")


def test_an_open_transaction_is_listed_and_aborted(cluster: RunningCluster, shown: ConsoleProcess, orders: str) -> None:
    shown.post("/topics", "/topics", name="tills", partitions="1")
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "transactional.id": "till"})
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce("tills", b"open", partition=0)
    assert producer.flush(30) == 0

    assert "till" in [row["transactional_id"] for row in shown.model("/transactions")["rows"]]
    page = shown.model("/transaction?id=till")
    assert (page["state"], page["partitions"][0]["topic"]) == ("Ongoing", "tills")
    assert page["partitions"][0]["stable_offset"] == 0

    refused = shown.post("/transaction/abort", "/transaction?id=till", id="till", confirm="till2")
    assert refused.startswith("400 ")
    shown.post("/transaction/abort", "/transaction?id=till", id="till", confirm="till")
    assert shown.model("/transaction?id=till")["can_be_aborted"] is False
    assert "till" not in [row["transactional_id"] for row in shown.model("/transactions")["rows"]]


def test_the_trace_is_switched_followed_and_counts_refusals(
    cluster: RunningCluster, shown: ConsoleProcess, orders: str
) -> None:
    assert "Nothing is traced" in shown.page("/trace")
    shown.post("/topics", "/topics", name="traced", partitions="1")
    shown.post("/trace", "/trace", topic="traced", is_on="1")
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "client.id": "traced-shop"})
    producer.produce("traced", b"traced", partition=0)
    assert producer.flush(30) == 0

    page = shown.model("/trace?topic=traced&client=traced-shop")
    assert page["topics"] == ["traced"]
    assert {"produce_appended", "produce_answered"} <= {event["kind"] for event in page["events"]}
    assert [(row["step"], row["count"]) for row in page["times"]] == [("produce answered", 1)]
    only = shown.model("/trace?topic=traced&kind=produce_appended")
    assert {event["kind"] for event in only["events"]} == {"produce_appended"}

    shown.post("/trace", "/trace", topic="traced", is_on="")
    assert shown.model("/trace")["is_on"] is False


def test_a_config_of_a_node_is_changed_and_put_back(shown: ConsoleProcess, orders: str) -> None:
    def value() -> str:
        configs = shown.model("/settings?node=2&every=1&q=log.cleaner.backoff.ms")["configs"]
        return {config["name"]: config["value"] for config in configs}["log.cleaner.backoff.ms"]

    before = value()
    shown.post("/settings", "/settings?node=2", node="2", key="log.cleaner.backoff.ms", value="12345")
    assert value() == "12345"
    shown.post("/settings", "/settings?node=2", node="2", key="log.cleaner.backoff.ms", reset="1")
    assert value() == before

    refused = shown.post("/settings", "/settings?node=2", node="2", key="node.id", value="9")
    assert "cannot be changed while the node runs" in refused


def test_a_group_is_shown_reset_after_a_preview_and_deleted(
    cluster: RunningCluster, shown: ConsoleProcess, orders: str
) -> None:
    member = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": "billing", "enable.auto.commit": False})
    member.commit(offsets=[TopicPartition("orders", 0, 150)], asynchronous=False)
    member.close()

    before = shown.model("/group?name=billing")
    preview = shown.model("/group/reset?name=billing&way=shift&at=-50")
    assert (before["lag"], preview["moves"][0]["after"]) == (50, 100)

    stale = shown.post(
        "/group/reset", "/group?name=billing", name="billing", way="shift", at="-50", topic="", shown="99"
    )
    assert "since the preview" in stale
    shown.post(
        "/group/reset", "/group?name=billing", name="billing", way="shift", at="-50", topic="", shown=preview["shown"]
    )
    assert shown.model("/group?name=billing")["lag"] == 100

    shown.post("/group/delete", "/group?name=billing", name="billing", confirm="billing")
    assert "billing" not in [group["name"] for group in shown.model("/groups")["rows"]]


def test_settings_have_the_quorum_features_and_configs(shown: ConsoleProcess, orders: str) -> None:
    page = shown.model("/settings?node=2")

    assert page["problems"] == []
    assert sorted(voter["node"] for voter in page["quorum"]["voters"]) == [1, 2, 3]
    assert "metadata.version" in [feature["name"] for feature in page["features"]]
    assert page["configs"] != []


def test_a_node_that_dies_is_told_of_and_its_return_too(
    cluster: RunningCluster, shown: ConsoleProcess, orders: str
) -> None:
    cluster.kill(3)
    try:
        _wait_for(shown, lambda page: [node["id"] for node in page["nodes"] if not node["answers"]] == [3])
        assert "node 3:" in shown.page("/notices")
    finally:
        cluster.restart(3)

    _wait_for(shown, lambda page: all(node["answers"] for node in page["nodes"]) and not page["under_replicated"])
    assert "node 3:" not in shown.page("/notices")


def _wait_for(shown: ConsoleProcess, is_so: object) -> None:
    assert callable(is_so)
    deadline = time.monotonic() + WAIT_S
    while not is_so(page := shown.model("/")):
        assert time.monotonic() < deadline, page
        time.sleep(0.2)


def test_it_ends_at_once_though_a_page_is_open(cluster: RunningCluster) -> None:
    with console(cluster.bootstrap) as running, urlopen(running.url + "live", timeout=20) as live:
        lines = [live.readline() for _ in range(3)]
        running.terminate()
        rest = live.read()  # to its end: the console has hung up in order

    assert lines[0] == b"retry: 2000\n"
    assert b"event: tick" in b"".join([*lines, rest])
