"""`chronik where` in a real cluster: before and after a failover, in a lagging replica, above the watermark, gone."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from chronik.inspect.trace_topic import stored_events
from chronik.lab.clients import create_topic as create_lab_topic
from chronik.lab.faults import AFTER_RECORDS
from chronik.lab.gallery import GALLERY
from chronik.lab.loads import TOPIC as LAB_TOPIC
from chronik.lab.run import LabRun
from chronik.testing import RunningCluster
from chronik.testing import cluster as start_cluster
from chronik.trace.events import ProduceAnswered
from tests.cluster.support import (
    check_logs,
    create_topic,
    followers_of,
    leader_of,
    new_name,
    wait_until,
    wait_until_in_sync,
)

ANSWER_S = 30.0
COMMAND_S = 60.0
LOOK_EVERY_MS = "200"
TRACE_PARTITIONS = 3


@pytest.fixture(scope="module")
def traced() -> Iterator[RunningCluster]:
    """Three nodes that trace everything, and look for old segments all the time."""
    settings = {
        "chronik.trace": "true",
        "log.retention.check.interval.ms": LOOK_EVERY_MS,
    }
    with start_cluster(nodes=3, settings=settings) as running:
        yield running
        check_logs(running)


def is_answer_stored(running: RunningCluster, topic: str) -> bool:
    """Readers see what all in-sync replicas have, so it outlives any node."""
    events = stored_events(running.bootstrap, TRACE_PARTITIONS, 0, [topic.encode()])
    return any(isinstance(event, ProduceAnswered) and event.topic == topic for event in list(events))


def run(bootstrap: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "chronik", "where", *arguments, "--bootstrap", bootstrap]
    return subprocess.run(command, capture_output=True, text=True, timeout=COMMAND_S, check=False)


def where(bootstrap: str, *arguments: object) -> Any:
    done = run(bootstrap, *map(str, arguments), "--json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def produce(bootstrap: str, topic: str, values: list[bytes], partition: int = 0, **settings: Any) -> None:
    """Every message in a request of its own, and acknowledged when this returns."""
    given = {"linger.ms": 0, "client.id": "shop", "log_level": 0, **settings}
    producer = Producer({"bootstrap.servers": bootstrap, **given})
    failed: list[object] = []

    def told(error: object, _: object) -> None:
        if error is not None:
            failed.append(error)

    for value in values:
        producer.produce(topic, value, key=value[:1], partition=partition, on_delivery=told)
        assert producer.flush(ANSWER_S) == 0
    assert failed == []


def consume(bootstrap: str, topic: str, group: str, count: int) -> None:
    """As a member of a group, that commits."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "client.id": f"{group}-1",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "log_level": 0,
        }
    )
    consumer.subscribe([topic])
    messages = consumer.consume(count, ANSWER_S)
    assert len(messages) == count
    consumer.commit(asynchronous=False)
    consumer.close()


def replica(story: Any, node: int) -> Any:
    return next(copy for copy in story["copies"] if copy["node"] == node)


def test_a_record_is_followed_from_its_producer_to_the_group_that_committed_it(traced: RunningCluster) -> None:
    topic = create_topic(traced.bootstrap, partitions=1)
    wait_until_in_sync(traced, topic)
    produce(traced.bootstrap, topic, [b"a", b"b", b"c"], **{"enable.idempotence": True})
    group = new_name("billing")
    consume(traced.bootstrap, topic, group, 3)

    story = where(traced.nodes[1].bootstrap, topic, 0, 1)

    leader = leader_of(traced, topic)
    assert (story["place"], story["is_below_watermark"], story["unknown"]) == ("here", True, [])
    assert (story["batch"]["base_sequence"], story["batch"]["leader_epoch"], story["written_by"]) == (1, 0, leader)
    told = story["acknowledged"]
    assert (told["client_id"], told["acks"], told["node"], sorted(told["in_sync"])) == ("shop", -1, leader, [1, 2, 3])
    given_us = story["delivered"][0]["at_us"]
    assert told["appended_us"] <= told["answered_us"] <= given_us
    assert told["appended_us"] <= story["visible_us"] <= given_us
    assert [copy["is_synced"] for copy in story["copies"]] == [True, True, True]
    assert {each["client_id"] for each in story["delivered"]} == {f"{group}-1"}
    assert [(each["group"], each["offset"], each["has_it"]) for each in story["committed"]] == [(group, 3, True)]
    assert story["record"]["value"] == "b"
    assert "In the log and below the watermark" in run(traced.nodes[1].bootstrap, topic, "0", "1").stdout


def test_a_record_is_found_by_its_key_and_by_its_producers_number(traced: RunningCluster) -> None:
    topic = create_topic(traced.bootstrap, partitions=2)
    produce(traced.bootstrap, topic, [b"a1", b"b1", b"a2"], partition=1, **{"enable.idempotence": True})

    (newest,) = where(traced.bootstrap, topic, "--key", "a")
    both = where(traced.bootstrap, topic, "--key", "a", "--newest", 5)
    producer_id = newest["batch"]["producer_id"]
    (numbered,) = where(traced.bootstrap, topic, "--producer-id", producer_id, "--sequence", 1)

    assert (newest["partition"], newest["offset"], newest["record"]["value"]) == (1, 2, "a2")
    assert [story["offset"] for story in both] == [2, 0]
    assert (numbered["partition"], numbered["offset"], numbered["record"]["value"]) == (1, 1, "b1")
    assert run(traced.bootstrap, topic, "--key", "nobody").returncode == 2


def test_what_is_not_there_is_an_error_or_has_its_own_words(traced: RunningCluster) -> None:
    topic = create_topic(traced.bootstrap, partitions=1)
    produce(traced.bootstrap, topic, [b"a"])

    assert where(traced.bootstrap, topic, 0, 1)["summary"] == "Not written yet: the log ends at offset 1."
    no_partition, no_topic = run(traced.bootstrap, topic, "1", "0"), run(traced.bootstrap, "no-such-topic", "0", "0")
    assert (no_partition.returncode, no_topic.returncode) == (2, 2)
    assert "has no partition 1" in no_partition.stderr
    assert "Traceback" not in no_partition.stderr + no_topic.stderr


def test_a_record_that_retention_let_go_is_said_to_be_deleted(traced: RunningCluster) -> None:
    settings = {"retention.ms": "500", "segment.ms": "500"}
    topic = create_topic(traced.bootstrap, partitions=1, config=settings)
    produce(traced.bootstrap, topic, [b"a", b"b"])

    wait_until(lambda: where(traced.bootstrap, topic, 0, 0)["place"] == "deleted", "retention lets go of it")

    story = where(traced.bootstrap, topic, 0, 0)
    assert story["summary"].startswith("Deleted: the log starts at offset 2. By retention (retention.ms=500")
    assert story["acknowledged"]["client_id"] == "shop"  # the trace still knows
    assert story["record"] is None


def test_a_record_that_somebody_had_deleted_is_told_apart_from_that(traced: RunningCluster) -> None:
    topic = create_topic(traced.bootstrap, partitions=1)
    produce(traced.bootstrap, topic, [b"a", b"b", b"c"])
    admin = AdminClient({"bootstrap.servers": traced.bootstrap})
    for future in admin.delete_records([TopicPartition(topic, 0, 2)]).values():
        future.result(ANSWER_S)

    assert "DeleteRecords" in where(traced.bootstrap, topic, 0, 1)["summary"]
    assert where(traced.bootstrap, topic, 0, 2)["place"] == "here"


def test_a_record_above_the_watermark_names_who_is_waited_for(traced: RunningCluster) -> None:
    topic = create_topic(traced.bootstrap, partitions=1)
    wait_until_in_sync(traced, topic)
    produce(traced.bootstrap, topic, [b"a"])
    leader, slow = leader_of(traced, topic), followers_of(traced, topic)[0]
    bootstrap = traced.nodes[leader].bootstrap
    traced.pause(slow)
    try:
        produce(bootstrap, topic, [b"b"], acks=1)
        story = where(bootstrap, topic, 0, 1)
    finally:
        traced.resume(slow)

    assert (story["place"], story["is_below_watermark"], story["watermark"]) == ("here", False, 1)
    assert "above the watermark (1)" in story["summary"]
    assert (story["acknowledged"]["acks"], story["visible_us"], story["delivered"]) == (1, None, [])
    assert replica(story, slow)["words"].startswith("does not answer")
    groups = [line for line in story["unknown"] if line.startswith("what all groups have committed")]
    assert groups[0].endswith(f"node {slow} may coordinate groups, and does not answer")
    assert [line for line in story["unknown"] if line not in groups] == [f"what node {slow} has: no answer"]
    wait_until(lambda: where(bootstrap, topic, 0, 1)["is_below_watermark"], "it is visible once the follower has it")


def test_records_before_and_after_a_failover_name_the_leader_that_wrote_them(traced: RunningCluster) -> None:
    topic = create_topic(traced.bootstrap, partitions=1)
    wait_until_in_sync(traced, topic)
    first = leader_of(traced, topic)
    produce(traced.bootstrap, topic, [b"before"])
    wait_until(lambda: is_answer_stored(traced, topic), "the trace topic has it that the record was acknowledged")
    traced.kill(first)
    try:
        second = leader_of(traced, topic)
        bootstrap = traced.nodes[second].bootstrap
        produce(bootstrap, topic, [b"after"])
        before, after = where(bootstrap, topic, 0, 0), where(bootstrap, topic, 0, 1)
    finally:
        traced.restart(first)
    wait_until_in_sync(traced, topic)

    assert (before["batch"]["leader_epoch"], before["written_by"], before["record"]["value"]) == (0, first, "before")
    assert (after["written_by"], after["acknowledged"]["node"]) == (second, second)
    assert after["batch"]["leader_epoch"] > 0
    assert before["is_below_watermark"]
    assert after["is_below_watermark"]
    assert replica(before, first)["words"].startswith("does not answer")
    # The node that acknowledged it is gone, and with it what it had in memory: the trace topic has it.
    assert (before["acknowledged"]["node"], before["acknowledged"]["client_id"]) == (first, "shop")
    # What it did in its last moments was not stored any more.
    unknown = [line for line in before["unknown"] if not line.startswith("what all groups have committed")]
    assert unknown == [
        f"what node {first} has: no answer",
        f"all fetch answers that had it: not all that node {first} did after it was written is surely in the trace",
    ]
    again = where(bootstrap, topic, 0, 1)
    assert [copy["is_synced"] for copy in again["copies"]] == [True, True, True]


def test_what_no_leader_can_tell_is_not_said_to_be_nowhere(cluster: RunningCluster) -> None:
    topic = create_topic(cluster.bootstrap, partitions=3, replicas=1)
    for partition in (0, 1):
        settings = {"enable.idempotence": True, "client.id": f"shop-{partition}"}
        produce(cluster.bootstrap, topic, [f"{partition}".encode()], partition=partition, **settings)
    (there,) = where(cluster.bootstrap, topic, "--key", "0")
    gone, alive = leader_of(cluster, topic, 0), leader_of(cluster, topic, 1)
    assert gone != alive
    producer = "--producer-id", str(there["batch"]["producer_id"]), "--sequence", "0"
    bootstrap = cluster.nodes[alive].bootstrap
    cluster.kill(gone)
    try:
        by_key, by_number = run(bootstrap, topic, "--key", "0"), run(bootstrap, topic, *producer)
        (other,) = where(bootstrap, topic, "--key", "1")
        shown = run(bootstrap, topic, "--key", "1").stdout
    finally:
        cluster.restart(gone)
    wait_until(lambda: run(bootstrap, topic, "--key", "0").returncode == 0, "it is found again")

    for refused in (by_key, by_number):
        assert refused.returncode == 2
        assert "is not known: partition 0" in refused.stderr
        assert "never accepted" not in refused.stderr
    assert other["unknown"][-1].startswith("whether there are others: partition 0 cannot be read now")
    assert "not known: whether there are others: partition 0 cannot" in " ".join(shown.split())
    assert where(bootstrap, topic, *producer)[0]["offset"] == 0


def test_who_was_given_a_record_while_the_trace_was_off_is_not_known(cluster: RunningCluster) -> None:
    topic = create_topic(cluster.bootstrap, partitions=1)
    wait_until_in_sync(cluster, topic)
    switch(cluster, topic, "on")
    produce(cluster.bootstrap, topic, [b"a"])
    traced_all_along = where(cluster.bootstrap, topic, 0, 0)
    switch(cluster, topic, "off")
    consume(cluster.bootstrap, topic, group := new_name("billing"), 1)
    switch(cluster, topic, "on")
    story = where(cluster.bootstrap, topic, 0, 0)
    switch(cluster, topic, "off")

    assert traced_all_along["unknown"] == []
    assert story["acknowledged"]["client_id"] == "shop"
    assert {each["client_id"] for each in story["delivered"]} == {"chronik-cli"}  # as we read it ourselves
    assert [(each["group"], each["has_it"], each["at_us"]) for each in story["committed"]] == [(group, True, None)]
    assert story["unknown"] == [
        "all fetch answers that had it: not all that node 1, 2, 3 did after it was written is surely in the trace"
    ]


def switch(cluster: RunningCluster, topic: str, state: str) -> None:
    command = [sys.executable, "-m", "chronik", "trace", state, "--topic", topic, "--bootstrap", cluster.bootstrap]
    subprocess.run(command, capture_output=True, timeout=COMMAND_S, check=True)


def test_a_replica_that_lags_says_where_its_log_ends(tmp_path: Path) -> None:
    lab = LabRun(GALLERY["follower-stops-fetching"], str(tmp_path / "lab"), port=0, is_loaded=False)
    lab.open()
    try:
        create_lab_topic(lab.cluster.bootstrap, LAB_TOPIC)
        bootstrap = lab.cluster.bootstrap
        partition = next(number for number in range(3) if lab_leader(lab, number) != 3)
        many = [b"x"] * (AFTER_RECORDS + 50)
        produce_at_once(bootstrap, many, partition)
        # Only from there on it stops: a follower that is slower than the producer would still fetch the last record.
        wait_until(
            lambda: has_come_to(bootstrap, partition, AFTER_RECORDS), "the follower has the records before its fault"
        )
        produce(bootstrap, LAB_TOPIC, [b"last"], partition, acks=1)

        story = where(bootstrap, LAB_TOPIC, partition, len(many))
    finally:
        lab.close()

    lagging = replica(story, 3)
    assert (story["place"], story["is_below_watermark"]) == ("here", False)
    assert (lagging["place"], lagging["is_synced"], lagging["is_in_sync"]) == ("beyond the end", False, True)
    assert lagging["words"].startswith("does not have it yet: its log ends at")
    assert "it waits for node 3" in story["summary"]
    assert sum(copy["is_synced"] for copy in story["copies"]) == 2


def has_come_to(bootstrap: str, partition: int, end_offset: int) -> bool:
    return replica(where(bootstrap, LAB_TOPIC, partition, end_offset - 1), 3)["place"] == "here"


def lab_leader(lab: LabRun, partition: int) -> int:
    from chronik.client.inspect_request import states

    led: dict[int, int] = {}

    def is_led() -> bool:
        seen = states([node.address for node in lab.cluster.nodes.values()], topics=[LAB_TOPIC])
        led.update({part.partition: node for node, look in seen.items() for part in look.partitions})
        return partition in led

    wait_until(is_led, "it is led")
    return led[partition]


def produce_at_once(bootstrap: str, values: list[bytes], partition: int) -> None:
    """With acks=1: with one replica that does not follow, all would never be acknowledged."""
    producer = Producer({"bootstrap.servers": bootstrap, "acks": 1, "log_level": 0})
    for value in values:
        producer.produce(LAB_TOPIC, value, partition=partition)
    assert producer.flush(ANSWER_S) == 0


def test_without_a_trace_it_is_said_what_is_not_known(cluster: RunningCluster) -> None:
    topic = create_topic(cluster.bootstrap, partitions=1)
    produce(cluster.bootstrap, topic, [b"a"])
    consume(cluster.bootstrap, topic, group := new_name("billing"), 1)

    story = where(cluster.bootstrap, topic, 0, 0)

    assert (story["acknowledged"], story["delivered"]) == (None, [])
    assert story["unknown"] == [
        "when it was acknowledged, and with which acks: the topic is not traced",
        "all fetch answers that had it: the topic is not traced",
    ]
    assert [(each["group"], each["has_it"]) for each in story["committed"]] == [(group, True)]
