"""Ingest, audit and replay against Apache Kafka itself: every codec, headers, nulls, transactions that were aborted."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Producer

from tests.clients.apache_kafka import apache_kafka
from tests.clients.jvm import jars_of
from tests.clients.support import CODECS, needs
from tests.spark.support import WAIT_S, Sent, new_topic, options, received, send

pytest.importorskip("pyspark", reason="pyspark is not installed: pip install 'chronik[spark]'")
pytest.importorskip("deltalake", reason="deltalake is not installed: pip install 'chronik[spark]'")
pytest.importorskip("numba", reason="numba is not installed: pip install 'chronik[spark]'")

import deltalake

from chronik.pipeline.exactly_once import NAME, commit_batch
from chronik.pipeline.jobs import audit, diagnose, ingest, replay
from chronik.pipeline.problems import JobCannotRun
from chronik.pipeline.topics.client import ReadPartition, TopicClient
from chronik.pipeline.topics.options import write_options
from chronik.pipeline.topics.transactions import WriterTransaction
from tests.spark import exactly_once_driver as driver

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.timeout(300)  # the first test of a run waits for Java

START_MS = 1_700_000_000_000
IN_A_TRANSACTION = 7
COMMITTED_ONLY = {"kafka.isolation.level": "read_committed"}


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    needs("kafka tools")
    with apache_kafka(jars_of("tools"), tmp_path_factory.mktemp("kafka"), {}) as bootstrap:
        yield bootstrap


def varied(codec: str, count: int) -> list[Sent]:
    """Nulls and emptiness wherever a record may have them."""
    return [
        Sent(
            0,
            None if number % 3 == 0 else b"" if number % 5 == 0 else b"key %d" % number,
            None if number % 4 == 0 else b"" if number % 7 == 0 else codec.encode() * number,
            START_MS + number,
            (("codec", codec.encode()), ("empty", b""), ("null", None), ("codec", b"again")) if number % 2 else (),
        )
        for number in range(count)
    ]


def send_in_transactions(bootstrap: str, topic: str, outcomes: Sequence[bool], codec: str = "none") -> None:
    """Into partition 1, a transaction for each outcome: whether it is committed."""
    producer = Producer(
        {"bootstrap.servers": bootstrap, "transactional.id": f"t-{codec}", "compression.type": codec, "log_level": 0}
    )
    producer.init_transactions(WAIT_S)
    for turn, is_committed in enumerate(outcomes):
        producer.begin_transaction()
        for number in range(IN_A_TRANSACTION):
            producer.produce(topic, b"%s %d %d %d" % (codec.encode(), turn, number, is_committed), partition=1)
        # Without it, what was to be aborted might never have been sent.
        assert producer.flush(WAIT_S) == 0
        producer.commit_transaction(WAIT_S) if is_committed else producer.abort_transaction(WAIT_S)


@pytest.fixture(scope="module")
def topic(kafka: str) -> str:
    """Partition 0 has all kinds of records, partition 1 is of transactions, partition 2 is empty."""
    name = new_topic(kafka, 3)
    for codec in CODECS:
        send(kafka, name, varied(codec, 30), codec)
    send_in_transactions(kafka, name, [True, False, True, False])
    send_in_transactions(kafka, name, [False, True], "lz4")
    return name


COMMITTED = 3 * IN_A_TRANSACTION
ABORTED = 3 * IN_A_TRANSACTION
MARKERS = 6
RECORDS = 30 * len(CODECS) + COMMITTED


def as_consumed(bootstrap: str, topic: str, count: int) -> dict[tuple[int, int], tuple[Any, ...]]:
    """By a client that is not ours, which leaves out what was aborted."""
    return {
        (each.partition(), each.offset()): (each.key(), each.value(), each.timestamp()[1], tuple(each.headers() or ()))
        for each in received(bootstrap, topic, count)
    }


def as_filled(table: Path) -> dict[tuple[int, int], tuple[Any, ...]]:
    rows = deltalake.DeltaTable(str(table)).to_pyarrow_table().to_pylist()
    found = {
        (row["partition"], row["offset"]): (
            row["key"],
            row["value"],
            round(row["timestamp"].timestamp() * 1000),
            tuple((header["key"], header["value"]) for header in row["headers"]),
        )
        for row in rows
    }
    assert len(found) == len(rows), "no record is there twice"
    return found


def test_a_table_of_apache_kafka_has_what_its_consumers_get_and_the_audit_says_so(
    spark: SparkSession, kafka: str, topic: str, tmp_path: Path
) -> None:
    table = tmp_path / "table"

    filled = ingest.run(
        spark, ingest.IngestSettings(options(kafka, topic, maxOffsetsPerTrigger="60") | COMMITTED_ONLY, table)
    )
    found = audit.run(spark, audit.AuditSettings(options(kafka), topics=[topic], received=[str(table)]))

    assert (filled.rows, filled.quarantined) == (RECORDS, 0)
    assert filled.batches > 2
    assert as_filled(table) == as_consumed(kafka, topic, RECORDS)
    assert [found.totals[name] for name in ("expected", "found", "lost", "duplicated")] == [RECORDS, RECORDS, 0, 0]
    assert {name: count for name, count in found.explained_by.items() if count} == {
        "aborted": ABORTED,
        "marker": MARKERS,
    }
    assert (found.sequences["lost"], found.sequences["duplicated"]) == (0, 0)


def test_what_is_missing_in_a_table_of_apache_kafka_is_lost(
    spark: SparkSession, kafka: str, topic: str, tmp_path: Path
) -> None:
    received_rows = tmp_path / "received.csv"
    missing = {(0, 3), (0, 77), (1, 2)}
    there = sorted(as_consumed(kafka, topic, RECORDS).keys() - missing)
    lines = [f"{topic},{partition},{offset}\n" for partition, offset in there]
    received_rows.write_text("topic,partition,offset\n" + "".join(lines))

    found = audit.run(spark, audit.AuditSettings(options(kafka), topics=[topic], received=[str(received_rows)]))

    lost = [row for row in found.findings if row["finding"] == "lost"]
    assert {(row["partition"], row["start_offset"]) for row in lost} == missing
    assert {row["end_offset"] - row["start_offset"] for row in lost} == {1}


def test_a_topic_of_apache_kafka_comes_back_as_it_was(spark: SparkSession, kafka: str, topic: str) -> None:
    target = new_topic(kafka, 3)

    done = replay.run(
        spark, replay.ReplaySettings(options(kafka) | COMMITTED_ONLY, target, from_topic=topic, run_id="again")
    )
    again = replay.run(
        spark, replay.ReplaySettings(options(kafka) | COMMITTED_ONLY, target, from_topic=topic, run_id="again")
    )

    assert done.rows == again.rows == RECORDS
    written = as_consumed(kafka, target, RECORDS)
    given = as_consumed(kafka, topic, RECORDS)
    assert [written[place] for place in sorted(written)] == [given[place] for place in sorted(given)]


def test_that_apache_kafka_has_no_trace_is_said(spark: SparkSession, kafka: str, topic: str) -> None:
    with pytest.raises(JobCannotRun, match="nothing was ever traced in this cluster; switch it on"):
        audit.run(spark, audit.AuditSettings(options(kafka), topics=[topic], is_traced=True))
    with pytest.raises(JobCannotRun, match="nothing was ever traced in this cluster; switch it on"):
        diagnose.run(spark, diagnose.DiagnoseSettings(options(kafka)))


def test_a_micro_batch_is_one_transaction_on_apache_kafka_too(kafka: str) -> None:
    """The driver's part: written once, found to be there when it is run again, and after another that was left open."""
    topic = new_topic(kafka, driver.PARTITIONS)
    said = write_options({**options(kafka), "topic": topic, "exactlyOnce": "true"})
    assert commit_batch(driver.packed(0, said, topic), said, 0)
    assert not commit_batch(driver.packed(0, said, topic), said, 0)
    with TopicClient(said.client) as client:
        left_open = WriterTransaction(client, NAME + topic, 60_000)
        left_open.begin()
        left_open.add([ReadPartition(topic, 0)])
    assert commit_batch(driver.packed(1, said, topic), said, 1)

    found = [each.value() for each in received(kafka, topic, 2 * driver.TASKS * driver.ROWS)]
    assert sorted(found) == sorted(driver.values(0) + driver.values(1))
