"""Spark's own `format("kafka")`, unchanged, against our nodes; and our source beside it, on the same records."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Producer

from chronik.core.records.batch import COMPRESSION_NAMES
from chronik.testing import RunningCluster, RunningNode
from tests.clients.support import needs, wait_until
from tests.spark.support import WAIT_S, Sent, new_topic, received, send, simple

pytest.importorskip("pyspark", reason="pyspark is not installed: pip install 'chronik[spark]'")
needs("spark connector")

pytestmark = pytest.mark.timeout(300)  # the first test of a run waits for Java

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery


def said(bootstrap: str, topic: str, **more: str) -> dict[str, str]:
    return {"kafka.bootstrap.servers": bootstrap, "subscribe": topic, **more}


def load(spark: SparkSession, kind: str, options: dict[str, str]) -> DataFrame:
    return spark.read.format(kind).options(**options).load()


def stream(spark: SparkSession, kind: str, options: dict[str, str], folder: Path, **trigger: Any) -> StreamingQuery:
    """A query that writes what it reads to Parquet; once is enough to say what is wrong."""
    return (
        spark.readStream.format(kind)
        .options(startingOffsets="earliest", **options)
        .load()
        .writeStream.format("parquet")
        .option("checkpointLocation", str(folder / kind / "checkpoint"))
        .option("path", str(folder / kind / "table"))
        .trigger(**trigger)
        .start()
    )


def table(spark: SparkSession, folder: Path, kind: str) -> list[int]:
    return sorted(int(row.value) for row in spark.read.parquet(str(folder / kind / "table")).select("value").collect())


def test_a_batch_read_has_every_record_and_our_source_has_the_same(
    spark: SparkSession, chronik_node: RunningNode
) -> None:
    topic = new_topic(chronik_node.bootstrap, 2)
    for codec in COMPRESSION_NAMES:
        some = [
            Sent(number % 2, b"k" if number % 3 else None, None if number % 7 == 0 else b"%d" % number, headers=headers)
            for number in range(200)
            for headers in [(("a", b"1"), ("b", None)) if number % 5 == 0 else ()]
        ]
        send(chronik_node.bootstrap, topic, some, codec)
    options = said(chronik_node.bootstrap, topic, includeHeaders="true")

    theirs = load(spark, "kafka", options)
    ours = load(spark, "chronik", options)

    assert theirs.schema == ours.schema
    assert theirs.count() == 1_000
    # No headers are null to the connector, and an empty list to us.
    columns = [*theirs.columns[:-1], "coalesce(headers, array()) as headers"]
    assert sorted(theirs.selectExpr(*columns).collect(), key=by_place) == sorted(ours.collect(), key=by_place)


def by_place(row: Any) -> tuple[int, int]:
    return row.partition, row.offset


def test_offsets_and_times_bound_a_batch_read(spark: SparkSession, chronik_node: RunningNode) -> None:
    topic = new_topic(chronik_node.bootstrap)
    send(chronik_node.bootstrap, topic, simple(100))
    by_offset = {"startingOffsets": json.dumps({topic: {"0": 20}}), "endingOffsets": json.dumps({topic: {"0": 60}})}
    by_time = {"startingTimestamp": "1700000000020", "endingTimestamp": "1700000000060"}

    for bounds in (by_offset, by_time):
        for kind in ("kafka", "chronik"):
            rows = load(spark, kind, said(chronik_node.bootstrap, topic, minPartitions="3", **bounds)).collect()
            assert sorted(row.offset for row in rows) == list(range(20, 60)), (kind, bounds)


def test_rows_are_written_and_read_by_any_client(spark: SparkSession, chronik_node: RunningNode) -> None:
    topic = new_topic(chronik_node.bootstrap, 2)
    frame = spark.range(1_000).selectExpr("cast(id as string) as key", "cast(id as string) as value")

    options = {"kafka.bootstrap.servers": chronik_node.bootstrap, "topic": topic}
    frame.write.format("kafka").options(**options).save()

    found = received(chronik_node.bootstrap, topic, 1_000)
    assert sorted(int(message.value()) for message in found) == list(range(1_000))


def test_available_now_reads_what_there_is_and_goes_on_from_its_checkpoint(
    spark: SparkSession, chronik_node: RunningNode, tmp_path: Path
) -> None:
    topic = new_topic(chronik_node.bootstrap, 2)
    send(chronik_node.bootstrap, topic, simple(100) + simple(50, 1, 100))
    options = said(chronik_node.bootstrap, topic, maxOffsetsPerTrigger="60")
    rows = []

    for more in ([], simple(10, 0, 150)):
        send(chronik_node.bootstrap, topic, more)
        query = stream(spark, "kafka", options, tmp_path, availableNow=True)
        query.awaitTermination()
        rows.append([each.numInputRows for each in query.recentProgress if each.numInputRows])

    assert [sum(each) for each in rows] == [150, 10]
    assert max(rows[0]) <= 60
    assert table(spark, tmp_path, "kafka") == list(range(160))


@contextmanager
def a_producer(bootstrap: str, topic: str, partitions: int) -> Iterator[Acknowledged]:
    """Sends numbers to all partitions in turn until the block ends; by then all of them are acknowledged."""
    acknowledged = Acknowledged()
    settings = {"bootstrap.servers": bootstrap, "enable.idempotence": True, "linger.ms": 5, "log_level": 0}
    producer = Producer(settings)
    is_over = threading.Event()

    def run() -> None:
        number = 0
        while not is_over.wait(0.005):
            for _ in range(20):
                value = b"%d" % number
                producer.produce(topic, value, partition=number % partitions, on_delivery=acknowledged.take)
                number += 1
            producer.poll(0)
        producer.flush(WAIT_S)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield acknowledged
    finally:
        is_over.set()
        thread.join()


class Acknowledged:
    """The numbers that were acknowledged, and what went wrong with others."""

    def __init__(self) -> None:
        self.numbers: list[int] = []
        self.problems: list[Any] = []

    def take(self, problem: Any, message: Any) -> None:
        if problem is not None:
            self.problems.append(problem)
        else:
            self.numbers.append(int(message.value()))


def test_streams_lose_nothing_when_a_leader_is_killed(
    spark: SparkSession, chronik_cluster_factory: Callable[..., RunningCluster], tmp_path: Path
) -> None:
    """Streams lose nothing when a leader is killed and their latest never moves back."""
    cluster = chronik_cluster_factory(nodes=3)
    topic = new_topic(cluster.bootstrap, 3)
    options = said(cluster.bootstrap, topic)  # failOnDataLoss is on: an end that moved back is an error to both
    queries = {}

    with a_producer(cluster.bootstrap, topic, 3) as acknowledged:
        for kind in ("kafka", "chronik"):
            queries[kind] = stream(spark, kind, options, tmp_path, processingTime="200 milliseconds")
        for query in queries.values():
            wait_for_rows(query, 1)
        cluster.kill(cluster.view(1).replicas[topic, 0][0])
        seen = len(acknowledged.numbers)
        for query in queries.values():
            wait_for_rows(query, seen + 1_000)
    for query in queries.values():
        query.processAllAvailable()
        query.stop()

    assert acknowledged.problems == []
    for kind, query in queries.items():
        assert table(spark, tmp_path, kind) == sorted(acknowledged.numbers), kind
        assert_never_back(query, topic)


def wait_for_rows(query: StreamingQuery, count: int) -> None:
    def are_there() -> bool:
        if not query.isActive:
            query.awaitTermination(0)  # says what ended it
        return sum(progress.numInputRows for progress in query.recentProgress) >= count

    wait_until(are_there, lambda: f"{count} rows: {query.status}", 3 * WAIT_S)


def assert_never_back(query: StreamingQuery, topic: str) -> None:
    latest = []
    for progress in query.recentProgress:
        said_by_source = json.loads(progress.sources[0].latestOffset)[topic]
        latest.append({int(number): offset for number, offset in said_by_source.get("offsets", said_by_source).items()})
    assert len(latest) > 1
    for before, after in pairwise(latest):
        assert all(after[number] >= offset for number, offset in before.items()), (query.name, latest)


@pytest.mark.parametrize("kind", ["kafka", "chronik"])
def test_a_batch_read_goes_on_when_a_leader_is_killed(
    spark: SparkSession, chronik_cluster_factory: Callable[..., RunningCluster], kind: str
) -> None:
    cluster = chronik_cluster_factory(nodes=3)
    topic = new_topic(cluster.bootstrap, 2)
    send(cluster.bootstrap, topic, simple(2_000) + simple(2_000, 1, 2_000))

    # One partition after the other, so that the second is read, as planned before, from a leader that is new by then.
    rows = load(spark, kind, said(cluster.bootstrap, topic)).toLocalIterator()
    read = [next(rows)]
    other = 1 - read[0].partition
    cluster.kill(cluster.view(1).replicas[topic, other][0])
    read += rows

    assert sorted(int(row.value) for row in read) == list(range(4_000))
