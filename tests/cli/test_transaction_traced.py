"""Transactions of a real client on a real node, as the trace and `chronik where` tell them."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from confluent_kafka import Consumer, Producer, TopicPartition

from tests.cli.conftest import Chronik

WAIT_S = 30.0


def transactional(bootstrap: str, name: str) -> Producer:
    made = Producer({"bootstrap.servers": bootstrap, "transactional.id": name, "log_level": 0})
    made.init_transactions(WAIT_S)
    return made


def write(producer: Producer, topic: str, value: bytes) -> None:
    producer.begin_transaction()
    producer.produce(topic, value, partition=0)
    assert producer.flush(WAIT_S) == 0


def events(chronik: Chronik, topic: str) -> list[dict[str, Any]]:
    return list(chronik.ok("trace", "tail", "--topic", topic, "--last", "5000", "--no-follow", "--json").json_lines)


def test_each_step_is_traced_and_each_records_fate_is_told(
    chronik: Chronik, bootstrap: str, make_topic: Callable[..., str], name: str
) -> None:
    topic = make_topic("--partitions", "1")
    chronik.ok("trace", "on", "--topic", topic)
    commits, aborts, stays_open = (transactional(bootstrap, f"{name}-{kind}") for kind in ("commits", "aborts", "open"))
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": name, "log_level": 0})
    for producer, value in ((commits, b"0"), (aborts, b"1")):
        write(producer, topic, value)
        offsets = [TopicPartition(topic, 0, 1)]
        producer.send_offsets_to_transaction(offsets, consumer.consumer_group_metadata(), WAIT_S)
    commits.commit_transaction(WAIT_S)
    aborts.abort_transaction(WAIT_S)
    write(stays_open, topic, b"4")
    deadline = time.monotonic() + WAIT_S
    while chronik.ok("topic", "describe", topic, "--json").json["partitions"][0]["end_offset"] < 5:
        assert time.monotonic() < deadline, "there are no markers"

    told = [chronik.ok("where", topic, "0", str(offset), "--json").json for offset in range(5)]
    assert [(one["transaction"]["fate"], one["is_readable_committed"]) for one in told] == [
        ("committed", True),
        ("aborted", False),
        ("committed", False),
        ("aborted", False),
        ("open", False),
    ]
    assert [one["transaction"]["transactional_id"] for one in told[:2]] == [f"{name}-commits", f"{name}-aborts"]
    assert [one["transaction"]["is_marker"] for one in told] == [False, False, True, True, False]
    assert [one["transaction"]["marker_offset"] for one in told] == [2, 3, 2, 3, -1]
    assert told[1]["transaction"]["marked_us"] is not None
    assert "consumers with read_committed are not given it" in told[1]["summary"]
    shown = chronik.ok("where", topic, "0", "4").out
    assert f"of {name}-open, open, from offset 4 on" in shown
    assert "not given to consumers" in shown

    stays_open.commit_transaction(WAIT_S)
    seen = events(chronik, topic)
    consumer.close()
    chronik.ok("trace", "off", "--topic", topic)
    own = [event for event in seen if str(event.get("transactional_id", name)).startswith(name)]
    kinds = {event["kind"] for event in own}
    assert {"transaction_begun", "transaction_partition_added", "transaction_prepared", "transaction_marked"} <= kinds
    assert {"transaction_completed", "offset_pending", "offset_dropped", "committed"} <= kinds
    prepared = {event["transactional_id"]: event for event in own if event["kind"] == "transaction_prepared"}
    assert (prepared[f"{name}-aborts"]["is_commit"], prepared[f"{name}-aborts"]["reason"]) == (False, "client")
    marked = [event for event in own if event["kind"] == "transaction_marked" and event["topic"] == topic]
    assert sorted((event["offset"], event["is_commit"]) for event in marked)[:2] == [(2, True), (3, False)]
