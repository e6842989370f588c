"""`exactlyOnce=true`: readers of committed records see a micro-batch or a job whole or not at all, and never twice."""

from __future__ import annotations

import contextlib
import os
import random
import subprocess
import sys
import time
import uuid
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import Consumer, KafkaError, TopicPartition

from chronik.testing import RunningCluster, RunningNode, cluster
from tests.spark.support import WAIT_S, new_topic, options, send, simple

pytest.importorskip("pyspark", reason="pyspark is not installed: pip install 'chronik[spark]'")
pytest.importorskip("numba", reason="numba is not installed: pip install 'chronik[spark]'")

from chronik.pipeline.exactly_once import NAME, commit_batch
from chronik.pipeline.topics.client import ReadPartition, TopicClient
from chronik.pipeline.topics.options import write_options
from chronik.pipeline.topics.transactions import WriterTransaction
from tests.spark import exactly_once_driver as driver

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.timeout(300)  # the first test of a run waits for Java

KILLS = int(os.environ.get("CHRONIK_EXACTLY_ONCE_KILLS", "2"))
BATCHES = int(os.environ.get("CHRONIK_EXACTLY_ONCE_BATCHES", "6"))
NODE_KILLS = int(os.environ.get("CHRONIK_EXACTLY_ONCE_NODE_KILLS", "1"))
EXACTLY_ONCE = {"exactlyOnce": "true"}


def committed(bootstrap: str, topic: str, isolation: str = "read_committed") -> list[tuple[int, bytes]]:
    """Partition and value of all that such a reader is given, to the end of each partition."""
    settings = {"isolation.level": isolation, "enable.partition.eof": True, "auto.offset.reset": "earliest"}
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": uuid.uuid4().hex, "log_level": 0, **settings})
    partitions = consumer.list_topics(topic, timeout=WAIT_S).topics[topic].partitions
    consumer.assign([TopicPartition(topic, number, 0) for number in partitions])
    found: list[tuple[int, bytes]] = []
    ended: set[int | None] = set()
    deadline = time.monotonic() + WAIT_S
    while len(ended) < len(partitions):
        assert time.monotonic() < deadline, f"{len(found)} so far"
        for message in consumer.consume(1000, timeout=0.2):
            error = message.error()
            if error is None:
                found.append((message.partition() or 0, message.value() or b""))
            elif error.code() == KafkaError._PARTITION_EOF:
                ended.add(message.partition())
    consumer.close()
    return found


def write(frame: DataFrame, bootstrap: str, topic: str, **more: str) -> None:
    said = {**options(bootstrap), "topic": topic, **EXACTLY_ONCE, **more}
    frame.write.format("chronik").options(**said).mode("append").save()


# --- Spark


def test_a_job_is_seen_whole_or_not_at_all_and_once(spark: SparkSession, chronik_node: RunningNode) -> None:
    topic = new_topic(chronik_node.bootstrap, 3)
    frame = (
        spark.range(1000).selectExpr("cast(id as string) as value", "cast(id % 3 as int) as partition").repartition(4)
    )
    failing = frame.selectExpr("if(value = '777', raise_error('no'), value) as value", "partition")

    with pytest.raises(Exception, match="no"):
        write(failing, chronik_node.bootstrap, topic, writerId=topic)
    assert committed(chronik_node.bootstrap, topic, "read_uncommitted") == [], "tasks write nothing"

    for _ in range(2):  # the same writer again writes nothing
        write(frame, chronik_node.bootstrap, topic, writerId=topic)
    found = committed(chronik_node.bootstrap, topic)
    assert sorted(int(value) for _, value in found) == list(range(1000))
    assert all(int(value) % 3 == partition for partition, value in found)


def test_a_stream_whose_driver_dies_around_the_commit_writes_each_batch_once(
    spark: SparkSession, chronik_node: RunningNode, tmp_path: Path
) -> None:
    bootstrap, source = chronik_node.bootstrap, new_topic(chronik_node.bootstrap, 1)
    target, checkpoint = new_topic(bootstrap, driver.PARTITIONS), tmp_path / "checkpoint"
    said = {**options(bootstrap), "topic": target, **EXACTLY_ONCE, "checkpointLocation": str(checkpoint)}

    def run() -> None:
        rows = spark.readStream.format("chronik").options(**options(bootstrap, source, startingOffsets="earliest"))
        stream = rows.load().select("value").writeStream.format("chronik").options(**said)
        query = stream.trigger(availableNow=True).start()
        query.awaitTermination()
        names.append(NAME + str(query.id))

    names: list[str] = []
    send(bootstrap, source, simple(40))
    run()
    # As if it had been killed when the transaction was committed, and Spark had not noted it yet.
    for noted in (checkpoint / "commits").iterdir():
        noted.unlink()
    run()
    assert sorted(int(value) for _, value in committed(bootstrap, target)) == list(range(40))

    # As if the next one had been killed in the middle: its transaction is open, with records in it.
    send(bootstrap, source, simple(10, first=40))
    torn = write_options({**options(bootstrap), "topic": target, **EXACTLY_ONCE})
    with TopicClient(torn.client) as client:
        transaction = WriterTransaction(client, names[0], 60_000)
        transaction.begin()
        transaction.add([ReadPartition(target, 0)])
        batch = driver.packed(0, torn, "x")[0].batches[0][1]
        from chronik.pipeline.columns.encode import Numbered

        who = transaction.producer_id, transaction.producer_epoch
        transaction.produce({ReadPartition(target, 0): batch.batch(Numbered(*who, 0, is_transactional=True))})
    run()
    assert names[0] == names[1] == names[2], "the checkpoint keeps the query's id"
    assert sorted(int(value) for _, value in committed(bootstrap, target)) == list(range(50))


# --- the driver's part alone, with real kills


@pytest.fixture(scope="module")
def three_nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningCluster]:
    with cluster(nodes=3) as running:
        yield running


def check_whole(found: list[tuple[int, bytes]], batches: int) -> None:
    """Every micro-batch once, and in its order in each partition."""
    assert sorted(value for _, value in found) == sorted(
        value for number in range(batches) for value in driver.values(number)
    )
    by_partition: defaultdict[int, list[tuple[int, ...]]] = defaultdict(list)
    for partition, value in found:
        by_partition[partition].append(tuple(map(int, value.split())))
    assert all(places == sorted(places) for places in by_partition.values())


def test_a_driver_that_is_killed_again_and_again_writes_each_batch_once(three_nodes: RunningCluster) -> None:
    """Killed with SIGKILL at any moment, and a node with it; the next begins with the batch that was not noted."""
    bootstrap, topic, chance = three_nodes.bootstrap, f"killed-{uuid.uuid4().hex[:8]}", random.Random(17)
    new_topic(bootstrap, driver.PARTITIONS, topic)
    noted, kills = 0, 0
    deadline = time.monotonic() + 200
    while noted < BATCHES:
        assert time.monotonic() < deadline, f"{noted} batches, {kills} kills"
        arguments = [bootstrap, topic, "the-writer", str(noted), str(BATCHES)]
        running = subprocess.Popen(
            [sys.executable, "-m", "tests.spark.exactly_once_driver", *arguments], stdout=subprocess.PIPE, text=True
        )
        assert running.stdout is not None
        for line in running.stdout:
            noted = int(line) + 1
            if kills < KILLS and noted < BATCHES and chance.random() < 0.5:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    running.wait(chance.uniform(0, 0.15))  # somewhere within the next one
                running.kill()
                kills += 1
                break
        running.wait(WAIT_S)
        running.stdout.close()
    assert kills > 0
    check_whole(committed(bootstrap, topic), BATCHES)


def test_nodes_that_are_killed_do_not_break_a_batch(three_nodes: RunningCluster) -> None:
    bootstrap, topic = three_nodes.bootstrap, f"nodes-{uuid.uuid4().hex[:8]}"
    new_topic(bootstrap, driver.PARTITIONS, topic)
    said = write_options({**options(bootstrap), "topic": topic, **EXACTLY_ONCE})
    for number in range(NODE_KILLS * 2):
        messages = driver.packed(number, said, topic)
        if number % 2 == 1:
            three_nodes.kill(1 + number % 3)
        assert commit_batch(messages, said, number)
        if number % 2 == 1:
            three_nodes.restart(1 + number % 3)
        assert not commit_batch(messages, said, number), "it is there already"
    check_whole(committed(bootstrap, topic), NODE_KILLS * 2)
