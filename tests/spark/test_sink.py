"""Rows to topics: whole, in order, and each once though tasks and micro-batches are run again."""

from __future__ import annotations

import datetime
import itertools
import random
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
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
from chronik.pipeline.sink import ROW_BYTES, ChunkCutter, WriteTask, row_bytes, write_rows, write_tails
from chronik.pipeline.topics.client import Failed
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


def numbered(count: int) -> pa.RecordBatch:
    return pa.record_batch({"value": [f"{number:050d}" for number in range(count)]})


def written(rows: Iterable[pa.RecordBatch], said: WriteOptions, task: WriteTask, chunk_bytes: int = 10_000) -> None:
    """A task that succeeds, and the commit of the driver."""
    write_tails([write_rows(iter(rows), said, task, chunk_bytes)], said)


@pytest.mark.parametrize("codec", COMPRESSION_NAMES)
def test_a_task_that_runs_again_writes_nothing_twice(chronik_node: RunningNode, codec: str) -> None:
    topic = new_topic(chronik_node.bootstrap)
    more = {"batchBytes": "1024", "kafka.compression.type": codec}
    said = write_options(to_topic(chronik_node.bootstrap, topic, **more))

    for _ in range(2):
        written([numbered(500)], said, WriteTask("query", 0, 7))
    again = received(chronik_node.bootstrap, topic, 500)
    written([numbered(500)], said, WriteTask("query", 0, 8))

    assert [int(each.value()) for each in again] == list(range(500))
    assert len(received(chronik_node.bootstrap, topic, 1000)) == 1000


def test_a_task_whose_input_failed_is_finished_by_its_next_attempt(chronik_node: RunningNode) -> None:
    # Spark ends the rows of a task in the same way when its input has failed, wherever that was.
    topic = new_topic(chronik_node.bootstrap)
    said = write_options(to_topic(chronik_node.bootstrap, topic, batchBytes="1024"))
    rows = numbered(500)

    for until in (1, 238, 400):
        write_rows(iter([rows.slice(0, until)]), said, WriteTask("query", 0, 0), 10_000)
    begun = received(chronik_node.bootstrap, topic, 303)
    written([rows.slice(0, 3), rows.slice(3)], said, WriteTask("query", 0, 0))

    assert 303 <= len(begun) <= 400, "whole chunks, and no more"
    assert [int(each.value()) for each in received(chronik_node.bootstrap, topic, 500)] == list(range(500))


def test_rows_in_another_order_are_never_taken_for_those_that_were_written(chronik_node: RunningNode) -> None:
    topic = new_topic(chronik_node.bootstrap)
    said = write_options(to_topic(chronik_node.bootstrap, topic, batchBytes="1024"))
    rows = numbered(500)

    write_rows(iter([rows.slice(0, 400)]), said, WriteTask("query", 0, 0), 10_000)
    written([rows.take(pa.array(range(499, -1, -1)))], said, WriteTask("query", 0, 0))

    found = [int(each.value()) for each in received(chronik_node.bootstrap, topic, 803)]
    assert set(found) == set(range(500))


@dataclass
class Story:
    """A task's attempts by chance: cut off, begun anew, beside one another, with their rows in any order."""

    chance: random.Random

    def attempts(self, rows: pa.RecordBatch, *, is_shuffled: bool) -> Iterator[tuple[list[pa.RecordBatch], bool]]:
        """The rows of each attempt in pieces, and whether Spark takes it for done; of the last one it does."""
        for _ in range(self.chance.randrange(4)):
            until = self.chance.randrange(rows.num_rows + 1)
            yield self._pieces(self._ordered(rows, is_shuffled).slice(0, until)), False
        whole = self._ordered(rows, is_shuffled)
        for _ in range(self.chance.randrange(3)):  # run again after the driver had died, or speculated
            yield self._pieces(self._ordered(rows, is_shuffled)), self.chance.random() < 0.5
        yield self._pieces(whole), True

    def _ordered(self, rows: pa.RecordBatch, is_shuffled: bool) -> pa.RecordBatch:
        order = list(range(rows.num_rows))
        if is_shuffled:
            self.chance.shuffle(order)
        return rows.take(pa.array(order, pa.int64()))

    def _pieces(self, rows: pa.RecordBatch) -> list[pa.RecordBatch]:
        cuts = sorted(self.chance.randrange(rows.num_rows + 1) for _ in range(self.chance.randrange(5)))
        edges = [0, *cuts, rows.num_rows]
        return [rows.slice(low, high - low) for low, high in itertools.pairwise(edges)]


@pytest.mark.parametrize("is_shuffled", [False, True], ids=["same-order", "shuffled"])
def test_whatever_happens_to_tasks_no_row_is_lost(chronik_node: RunningNode, is_shuffled: bool) -> None:
    """Whatever happens to tasks no row is lost and in the same order none is doubled."""
    for seed in range(25):
        chance = random.Random(seed)
        topic = new_topic(chronik_node.bootstrap, 2)
        more = {"batchBytes": "1024", "kafka.compression.type": chance.choice(COMPRESSION_NAMES)}
        said = write_options(to_topic(chronik_node.bootstrap, topic, **more))
        values = [f"{number}/{'x' * chance.randrange(200)}" for number in range(chance.randrange(1, 300))]
        keys = [None if chance.random() < 0.3 else f"{chance.randrange(20)}" for _ in values]
        rows = pa.record_batch({"key": pa.array(keys, pa.string()), "value": values})
        task = WriteTask("query", chance.randrange(3), seed)

        for pieces, is_done in Story(chance).attempts(rows, is_shuffled=is_shuffled):
            told = write_rows(iter(pieces), said, task, 5_000)
            if is_done:
                write_tails([told], said)

        found = sorted(each.value().decode() for each in received(chronik_node.bootstrap, topic, len(values)))
        assert set(found) == set(values), seed
        assert is_shuffled or found == sorted(values), seed


def test_chunks_are_cut_by_what_is_in_the_rows_however_they_come() -> None:
    headers = pa.array(
        [[("a", b"123")], None, [], [("bb", None)]], pa.list_(pa.struct({"key": pa.string(), "value": pa.binary()}))
    )
    rows = pa.record_batch({"key": ["k", None, "kk", ""], "value": ["v" * 10, "", None, "v"], "headers": headers})

    assert list(row_bytes(rows) - ROW_BYTES) == [1 + 10 + 4 + ROW_BYTES, 0, 2, 1 + 2 + ROW_BYTES]

    rows = numbered(100)
    size = ROW_BYTES + 50
    for step in (1, 7, 100):
        cut = ChunkCutter(size * 9 + 1)
        pieces = [rows.slice(first, step) for first in range(0, 100, step)]
        assert [chunk.num_rows for chunk in cut.chunks(iter(pieces))] == [10] * 10
        assert (cut.left_rows, cut.tail()) == (0, None)
        few = ChunkCutter(size * 1000, rows_max=30)
        assert [chunk.num_rows for chunk in few.chunks(iter(pieces))] == [30] * 3
        assert few.left_rows == 10
        assert pa.ipc.open_stream(few.tail()).read_all().column("value")[0].as_py() == f"{90:050d}"


def test_an_input_that_fails_once_neither_loses_rows_nor_stops_the_query(
    chronik_node: RunningNode, spark: SparkSession, tmp_path: Path
) -> None:
    """Upstream of the sink a row fails in the first attempt: the second one is whole."""
    topic = new_topic(chronik_node.bootstrap)
    marker = str(tmp_path / "failed")

    def fail_once(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pathlib import Path as Where

        for batch in batches:
            if 7_500 in batch.column("id").to_pylist() and not Where(marker).exists():
                Where(marker).touch()
                raise ValueError("not this time")
            yield pa.record_batch({"value": pa.array([f"{each:0400d}" for each in batch.column("id").to_pylist()])})

    spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", "1000")
    try:
        frame = spark.range(0, 10_000, 1, 1).mapInArrow(fail_once, "value string")
        try:
            write(frame, to_topic(chronik_node.bootstrap, topic, writerId="once"))
        except Exception:  # where a session gives a task one attempt only, the user runs it again
            write(frame, to_topic(chronik_node.bootstrap, topic, writerId="once"))
    finally:
        spark.conf.unset("spark.sql.execution.arrow.maxRecordsPerBatch")

    assert (tmp_path / "failed").exists()
    found = [int(each.value()) for each in received(chronik_node.bootstrap, topic, 10_000)]
    assert found == list(range(10_000))


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
        written([pa.record_batch({"value": ["v"]})], said, WriteTask("query", 0, 0))
