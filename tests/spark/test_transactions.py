"""Transactions of a Chronik node as Spark sees them: open, aborted and committed, by the source and by the audit."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import Producer

from chronik.testing import RunningNode
from tests.spark.support import WAIT_S, new_topic, options

pytest.importorskip("pyspark", reason="pyspark is not installed: pip install 'chronik[spark]'")
pytest.importorskip("deltalake", reason="deltalake is not installed: pip install 'chronik[spark]'")
pytest.importorskip("numba", reason="numba is not installed: pip install 'chronik[spark]'")

from chronik.pipeline.jobs import audit

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.timeout(300)  # the first test of a run waits for Java

COMMITTED_ONLY = {"kafka.isolation.level": "read_committed"}
EACH = 5


class Written:
    """Partition 0 of a topic: committed records, aborted ones, and a transaction that is open, with records behind it
    that are in none."""

    def __init__(self, bootstrap: str) -> None:
        self.topic = new_topic(bootstrap, 1)
        self._bootstrap = bootstrap
        for kind in ("committed", "aborted"):
            producer = self._transaction(kind)
            producer.commit_transaction(WAIT_S) if kind == "committed" else producer.abort_transaction(WAIT_S)
        self.open = self._transaction("open")
        behind = Producer({"bootstrap.servers": bootstrap, "log_level": 0})
        behind.produce(self.topic, b"behind", partition=0)
        assert behind.flush(WAIT_S) == 0

    def _transaction(self, kind: str) -> Producer:
        name = f"{self.topic}-{kind}"
        producer = Producer({"bootstrap.servers": self._bootstrap, "transactional.id": name, "log_level": 0})
        producer.init_transactions(WAIT_S)
        producer.begin_transaction()
        for number in range(EACH):
            producer.produce(self.topic, b"%s %d" % (kind.encode(), number), partition=0)
        assert producer.flush(WAIT_S) == 0
        return producer


@pytest.fixture
def written(chronik_node: RunningNode) -> Iterator[Written]:
    made = Written(chronik_node.bootstrap)
    yield made
    made.open.purge()


def values(spark: SparkSession, said: dict[str, str]) -> list[str]:
    rows = spark.read.format("chronik").options(**said).load().orderBy("offset").collect()
    return [bytes(row["value"]).decode() for row in rows]


def numbered(kind: str) -> list[str]:
    return [f"{kind} {number}" for number in range(EACH)]


def test_read_committed_ends_before_an_open_transaction_and_skips_what_was_aborted(
    spark: SparkSession, chronik_node: RunningNode, written: Written
) -> None:
    said = options(chronik_node.bootstrap, written.topic)
    assert values(spark, said) == [*numbered("committed"), *numbered("aborted"), *numbered("open"), "behind"]
    assert values(spark, said | COMMITTED_ONLY) == numbered("committed")

    written.open.commit_transaction(WAIT_S)
    assert values(spark, said | COMMITTED_ONLY) == [*numbered("committed"), *numbered("open"), "behind"]


def test_a_stream_with_read_committed_goes_on_when_the_transaction_has_ended(
    spark: SparkSession, chronik_node: RunningNode, written: Written, tmp_path: Path
) -> None:
    table, said = tmp_path / "rows", options(chronik_node.bootstrap, written.topic, startingOffsets="earliest")

    def run() -> list[str]:
        source = spark.readStream.format("chronik").options(**said | COMMITTED_ONLY).load()
        sink = source.selectExpr("cast(value as string) as value", "offset").writeStream.format("json")
        at = {"path": str(table), "checkpointLocation": str(tmp_path / "checkpoint")}
        sink.options(**at).trigger(availableNow=True).start().awaitTermination()
        rows = [json.loads(line) for file in table.glob("*.json") for line in file.read_text().splitlines()]
        return [row["value"] for row in sorted(rows, key=lambda row: int(row["offset"]))]

    assert run() == numbered("committed")
    written.open.abort_transaction(WAIT_S)
    assert run() == [*numbered("committed"), "behind"]


def test_an_audit_says_what_is_open_and_what_was_aborted_and_calls_neither_lost(
    spark: SparkSession, chronik_node: RunningNode, written: Written, tmp_path: Path
) -> None:
    """The ledger has all that was acknowledged: a batch of a transaction is, long before the transaction ends."""
    ledger, received = tmp_path / "ledger.json", tmp_path / "received.json"
    place = {"topic": written.topic, "partition": 0}
    runs = [(0, EACH), (EACH + 1, 2 * EACH + 1), (2 * EACH + 2, 3 * EACH + 3)]
    ledger.write_text("".join(json.dumps(place | {"start_offset": a, "end_offset": b}) + "\n" for a, b in runs))
    received.write_text(json.dumps(place | {"start_offset": 0, "end_offset": EACH}) + "\n")
    settings = audit.AuditSettings(
        options(chronik_node.bootstrap), ledgers=[str(ledger)], received=[str(received)], topics=[written.topic]
    )

    found = audit.run(spark, settings)
    explained = {name: count for name, count in found.explained_by.items() if count}
    assert (found.totals["lost"], explained.get("aborted"), explained.get("open")) == (1, EACH, EACH), found
    assert [row["start_offset"] for row in found.findings if row["finding"] == "lost"] == [3 * EACH + 2], "'behind'"
