"""Rows to topics: whole, in order, and each once though tasks and micro-batches are run again."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from chronik.shell.ports import free_ports
from chronik.testing import RunningNode
from tests.spark.support import new_topic, options, received, send, simple

pytest.importorskip("pyspark", reason="pyspark is not installed: pip install 'chronik[spark]'")
pytest.importorskip("pyarrow", reason="pyarrow is not installed: pip install 'chronik[spark]'")
pytest.importorskip("numba", reason="numba is not installed: pip install 'chronik[spark]'")

import pyarrow as pa

from chronik.core.records.batch import COMPRESSION_NAMES
from chronik.pipeline.sink import BATCHES_REMEMBERED, Numbers, write_rows
from chronik.pipeline.topics.client import Failed, Partition
from chronik.pipeline.topics.options import WriteOptions, write_options

pytestmark = pytest.mark.timeout(300)  # the first test of a run waits for Java

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def to_topic(bootstrap: str, topic: str | None, **more: str) -> dict[str, str]:
    named = {} if topic is None else {"topic": topic}
    return {**options(bootstrap), **named, **more}


def write(frame: DataFrame, said: dict[str, str]) -> None:
    frame.write.format("chronik").options(**said).mode("append").save()


def test_a_frame_becomes_messages_that_any_client_reads(spark: SparkSession, chronik_node: RunningNode) -> None:
    topic = new_topic(chronik_node.bootstrap, 3)
    at = datetime.datetime(2024, 5, 6, 7, 8, 9, 123000, tzinfo=datetime.UTC)
    rows = [
        (b"k", b"one", topic, 2, at, [("a", b"1"), ("b", None)]),
        (None, None, topic, 2, at, []),
        (b"", b"", topic, 0, at, None),
    ]
    schema = (
        "key binary, value binary, topic string, partition int, timestamp timestamp, "
        "headers array<struct<key: string, value: binary>>"
    )

    write(spark.createDataFrame(rows, schema).coalesce(1), to_topic(chronik_node.bootstrap, None))

    found = sorted(
        received(chronik_node.bootstrap, topic, 3), key=lambda message: (-message.partition(), message.offset())
    )
    assert [(each.partition(), each.key(), each.value()) for each in found] == [
        (2, b"k", b"one"),
        (2, None, None),
        (0, b"", b""),
    ]
    assert found[0].headers() == [("a", b"1"), ("b", None)]
    assert {each.timestamp()[1] for each in found} == {int(at.timestamp() * 1000)}


@pytest.mark.timeout(600)  # it moves real amounts, beside whatever else the machine does
def test_a_million_rows_go_out_and_come_back(spark: SparkSession, chronik_node: RunningNode) -> None:
    topic = new_topic(chronik_node.bootstrap, 2)
    count = 1_000_000
    frame = spark.range(count, numPartitions=2).selectExpr("cast(id as string) as key", "repeat('x', 50) as value")

    write(frame, to_topic(chronik_node.bootstrap, topic, **{"kafka.compression.type": "lz4"}))

    back = spark.read.format("chronik").options(**options(chronik_node.bootstrap, topic, minPartitions="4")).load()
    row = back.selectExpr(
        "count(*) as rows", "sum(cast(cast(key as string) as bigint)) as total", "max(length(value)) as longest"
    ).first()
    assert row is not None
    assert (row.rows, row.total, row.longest) == (count, count * (count - 1) // 2, 50)


@pytest.mark.parametrize("codec", COMPRESSION_NAMES)
def test_a_task_that_runs_again_writes_nothing_twice(chronik_node: RunningNode, codec: str) -> None:
    topic = new_topic(chronik_node.bootstrap)
    said = to_topic(chronik_node.bootstrap, topic, batchBytes="1024", **{"kafka.compression.type": codec})
    rows = [pa.record_batch({"value": [f"{number:050d}" for number in range(500)]})]

    for _ in range(2):
        write_rows(iter(rows), write_options(said), Numbers("query", 0, 7))
    again = received(chronik_node.bootstrap, topic, 500)
    write_rows(iter(rows), write_options(said), Numbers("query", 0, 8))

    assert [int(each.value()) for each in again] == list(range(500))
    assert len(received(chronik_node.bootstrap, topic, 1000)) == 1000


def test_a_task_that_died_halfway_is_finished_by_its_next_attempt(chronik_node: RunningNode) -> None:
    topic = new_topic(chronik_node.bootstrap)
    said = write_options(to_topic(chronik_node.bootstrap, topic, batchBytes="1024"))
    rows = [pa.record_batch({"value": [f"{number:050d}" for number in range(500)]})]
    half = [rows[0].slice(0, 17 * 14)]  # whole batches: 17 rows fill one

    write_rows(iter(half), said, Numbers("query", 0, 0))
    write_rows(iter(rows), said, Numbers("query", 0, 0))

    assert [int(each.value()) for each in received(chronik_node.bootstrap, topic, 500)] == list(range(500))


def test_a_task_of_an_earlier_micro_batch_is_shut_out(chronik_node: RunningNode) -> None:
    topic = new_topic(chronik_node.bootstrap)
    said = write_options(to_topic(chronik_node.bootstrap, topic))
    rows = [pa.record_batch({"value": ["v"]})]
    write_rows(iter(rows), said, Numbers("query", 0, 5))

    with pytest.raises(Failed, match="INVALID_PRODUCER_EPOCH"):
        write_rows(iter(rows), said, Numbers("query", 0, 4))


def test_numbers_follow_from_what_is_written_and_from_nothing_else() -> None:
    def taken(numbers: Numbers) -> list[tuple[int, int, int]]:
        batches = [numbers.take(Partition("t", 0), 10) for _ in range(BATCHES_REMEMBERED + 1)]
        return [(each.producer_id, each.producer_epoch, each.base_sequence) for each in batches]

    first = taken(Numbers("query", 3, 40_000))

    assert first == taken(Numbers("query", 3, 40_000))
    assert [each[1:] for each in first] == [(7232, 0), (7232, 10), (7232, 20), (7232, 30), (7232, 40), (7232, 0)]
    assert len({each[0] for each in first}) == 2
    others = [Numbers("query", 4, 40_000), Numbers("other", 3, 40_000), Numbers("query", 3, 7232)]
    assert all(taken(other)[0][0] != first[0][0] for other in others)


def test_a_micro_batch_that_is_run_again_is_written_once(
    spark: SparkSession, chronik_node: RunningNode, tmp_path: Path
) -> None:
    source, target = new_topic(chronik_node.bootstrap, 2), new_topic(chronik_node.bootstrap, 2)
    send(chronik_node.bootstrap, source, simple(100) + simple(100, 1, 100))

    def run() -> None:
        said = options(chronik_node.bootstrap, source, startingOffsets="earliest", maxOffsetsPerTrigger="120")
        query = (
            spark.readStream.format("chronik")
            .options(**said)
            .load()
            .select("key", "value", "timestamp", "partition")
            .writeStream.format("chronik")
            .options(**to_topic(chronik_node.bootstrap, target))
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()

    run()
    # As if the driver had died after the write, and before it had noted that the batch was done.
    commits = tmp_path / "checkpoint" / "commits"
    (commits / "1").unlink()
    (commits / ".1.crc").unlink(missing_ok=True)
    run()

    assert (commits / "1").exists()
    messages = received(chronik_node.bootstrap, target, 200)
    assert sorted(int(each.value()) for each in messages) == list(range(200))


def test_what_cannot_be_written_is_refused_before_a_task_starts(spark: SparkSession, chronik_node: RunningNode) -> None:
    here = chronik_node.bootstrap
    frame = spark.sql("select 'v' as value")

    with pytest.raises(Exception, match="which topic"):
        write(frame, to_topic(here, None))
    with pytest.raises(Exception, match="no column 'value'"):
        write(spark.sql("select 1 as valeu"), to_topic(here, "t"))
    with pytest.raises(Exception, match="column 'value' is of type integer"):
        write(spark.sql("select 1 as value"), to_topic(here, "t"))
    with pytest.raises(Exception, match="cannot be overwritten"):
        frame.write.format("chronik").options(**to_topic(here, "t")).mode("overwrite").save()
    nobody = to_topic(f"127.0.0.1:{free_ports(1)[0]}", "t") | {"kafka.request.timeout.ms": "500"}
    for words, said in {"there is no topic 'nowhere'": to_topic(here, "nowhere"), "no node answers": nobody}.items():
        with pytest.raises(Exception, match=words) as raised:
            write(frame, said)
        assert len(str(raised.value).splitlines()) < 25, str(raised.value)


def test_a_topic_that_is_not_there_is_not_made(chronik_node: RunningNode) -> None:
    said: WriteOptions = write_options(to_topic(chronik_node.bootstrap, "nowhere"))

    with pytest.raises(Failed, match="there is no topic 'nowhere'"):
        write_rows(iter([pa.record_batch({"value": ["v"]})]), said, Numbers("query", 0, 0))
