"""`format("chronik")` in a real session, reading from a real node."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from chronik.core.records.batch import COMPRESSION_NAMES
from chronik.shell.ports import free_ports
from chronik.testing import RunningNode
from tests.spark.support import Sent, delete_records, delete_topic, new_topic, options, send, simple

pytest.importorskip("pyspark", reason="pyspark is not installed: pip install 'chronik[spark]'")
pytest.importorskip("pyarrow", reason="pyarrow is not installed: pip install 'chronik[spark]'")
pytest.importorskip("numba", reason="numba is not installed: pip install 'chronik[spark]'")

pytestmark = pytest.mark.timeout(300)  # the first test of a run waits for Java

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def load(spark: SparkSession, said: dict[str, str]) -> DataFrame:
    return spark.read.format("chronik").options(**said).load()


def run_once(spark: SparkSession, said: dict[str, str], folder: Path) -> list[int]:
    """A stream into Parquet that reads what there is. The rows of each of its micro-batches."""
    query = (
        spark.readStream.format("chronik")
        .options(**said)
        .load()
        .writeStream.format("parquet")
        .option("checkpointLocation", str(folder / "checkpoint"))
        .option("path", str(folder / "table"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    return [progress.numInputRows for progress in query.recentProgress if progress.numInputRows]


def table(spark: SparkSession, folder: Path) -> list[int]:
    return sorted(int(row.value) for row in spark.read.parquet(str(folder / "table")).collect())


def test_every_record_arrives_once_and_whole_in_every_codec(spark: SparkSession, chronik_node: RunningNode) -> None:
    topic = new_topic(chronik_node.bootstrap, 2)
    sent: list[Sent] = []
    for codec in COMPRESSION_NAMES:
        some = [
            Sent(
                number % 2,
                None if number % 3 else b"k%d" % number,
                None if number % 7 == 0 else b"%s %d " % (codec.encode(), number) * 20,
                1_700_000_000_000 + number,
                (("codec", codec.encode()), ("none", None)) if number % 5 == 0 else (),
            )
            for number in range(400)
        ]
        send(chronik_node.bootstrap, topic, some, codec)
        sent += some

    frame = load(spark, options(chronik_node.bootstrap, topic, includeHeaders="true"))
    rows = sorted(frame.collect(), key=lambda row: (row.partition, row.offset))

    assert {(row.topic, row.timestampType) for row in rows} == {(topic, 0)}
    for partition in (0, 1):
        mine = [row for row in rows if row.partition == partition]
        assert [row.offset for row in mine] == list(range(len(mine)))
        assert [as_sent(row) for row in mine] == [each for each in sent if each.partition == partition]


def as_sent(row: Any) -> Sent:
    headers = tuple((each.key, None if each.value is None else bytes(each.value)) for each in row.headers)
    key, value = (None if part is None else bytes(part) for part in (row.key, row.value))
    return Sent(row.partition, key, value, round(row.timestamp.timestamp() * 1000), headers)


def test_columns_and_types_are_those_of_the_kafka_connector(spark: SparkSession, chronik_node: RunningNode) -> None:
    topic = new_topic(chronik_node.bootstrap)

    frame = load(spark, options(chronik_node.bootstrap, topic))

    assert frame.schema.simpleString() == (
        "struct<key:binary,value:binary,topic:string,partition:int,offset:bigint,timestamp:timestamp,timestampType:int>"
    )
    assert frame.count() == 0


def test_one_partition_is_read_by_several_tasks(spark: SparkSession, chronik_node: RunningNode) -> None:
    topic = new_topic(chronik_node.bootstrap)
    send(chronik_node.bootstrap, topic, simple(1_000))

    frame = load(spark, options(chronik_node.bootstrap, topic, minPartitions="4"))

    assert frame.rdd.getNumPartitions() == 4
    assert sorted(int(row.value) for row in frame.collect()) == list(range(1_000))


def test_a_stream_reads_on_from_its_checkpoint(spark: SparkSession, chronik_node: RunningNode, tmp_path: Path) -> None:
    topic = new_topic(chronik_node.bootstrap, 2)
    said = options(chronik_node.bootstrap, topic, startingOffsets="earliest", maxOffsetsPerTrigger="60")
    send(chronik_node.bootstrap, topic, simple(100) + simple(50, 1, 100))

    first = run_once(spark, said, tmp_path)
    send(chronik_node.bootstrap, topic, simple(10, 0, 150))
    second = run_once(spark, said, tmp_path)

    assert first == [60, 60, 30]
    assert second == [10]
    assert table(spark, tmp_path) == list(range(160))


def test_a_first_micro_batch_that_failed_is_not_begun_elsewhere(
    spark: SparkSession, chronik_node: RunningNode, tmp_path: Path
) -> None:
    topic = new_topic(chronik_node.bootstrap)
    said = options(chronik_node.bootstrap, topic, startingOffsets="earliest")
    send(chronik_node.bootstrap, topic, simple(100))
    read: list[int] = []

    def fail(frame: DataFrame, number: int) -> None:
        raise RuntimeError(f"micro-batch {number} comes to nothing")

    def keep(frame: DataFrame, _: int) -> None:
        read.extend(int(row.value) for row in frame.collect())

    with pytest.raises(Exception, match="micro-batch 0 comes to nothing"):
        run_each(spark, said, tmp_path, fail)
    delete_records(chronik_node.bootstrap, topic, 0, 40)

    with pytest.raises(Exception, match="offsets 0 to before 40 are gone"):
        run_each(spark, said, tmp_path, keep)
    assert read == []
    send(chronik_node.bootstrap, topic, simple(5, first=100))
    run_each(spark, said | {"failOnDataLoss": "false"}, tmp_path, keep)
    assert read == list(range(40, 105))


def run_each(spark: SparkSession, said: dict[str, str], folder: Path, work: Callable[[DataFrame, int], None]) -> None:
    source = spark.readStream.format("chronik").options(**said).load().writeStream.foreachBatch(work)
    source.option("checkpointLocation", str(folder / "checkpoint")).trigger(
        availableNow=True
    ).start().awaitTermination()


def test_a_stream_does_not_go_on_in_a_topic_created_again(
    spark: SparkSession, chronik_node: RunningNode, tmp_path: Path
) -> None:
    topic = new_topic(chronik_node.bootstrap)
    said = options(chronik_node.bootstrap, topic, startingOffsets="earliest")
    send(chronik_node.bootstrap, topic, simple(10))
    run_once(spark, said, tmp_path)

    delete_topic(chronik_node.bootstrap, topic)
    new_topic(chronik_node.bootstrap, name=topic)
    send(chronik_node.bootstrap, topic, simple(20))

    with pytest.raises(Exception, match="was deleted and created again"):
        run_once(spark, said, tmp_path)
    assert table(spark, tmp_path) == list(range(10))


def test_what_is_wrong_is_said_by_spark_in_our_words_and_few(spark: SparkSession, chronik_node: RunningNode) -> None:
    here, nobody = chronik_node.bootstrap, f"127.0.0.1:{free_ports(1)[0]}"
    topic = new_topic(here)
    send(here, topic, simple(10))
    wrong = {
        "there is no topic 'nowhere'": options(here, "nowhere"),
        "is 'startingOffsets' meant": options(here, topic, startingOfsets="earliest"),
        "no node answers": options(nobody, topic) | {"kafka.request.timeout.ms": "500"},
        "has offsets 0 to before 10, and was to be read from 11": options(
            here, topic, startingOffsets=json.dumps({topic: {"0": 11}})
        ),
        "it must look like": options(here, topic, startingOffsets="yesterday"),
        "SCRAM-SHA-256 needs a name and a password": options(
            here, topic, **{"kafka.security.protocol": "SASL_PLAINTEXT", "kafka.sasl.mechanism": "SCRAM-SHA-256"}
        ),
    }
    for words, said in wrong.items():
        with pytest.raises(Exception, match=words) as raised:
            load(spark, said).count()
        # Spark's own frames are around it, ours are not.
        assert "pipeline/client.py" not in str(raised.value)
        assert len(str(raised.value).splitlines()) < 25, str(raised.value)
