"""Every job by its command on a real Spark cluster: a standalone master with two workers, on loopback."""

from __future__ import annotations

from pathlib import Path

import pytest
from confluent_kafka import Consumer

pytest.importorskip("pyspark", reason="pyspark is not installed: pip install 'chronik[spark]'")
pytest.importorskip("pyarrow", reason="pyarrow is not installed: pip install 'chronik[spark]'")
pytest.importorskip("numba", reason="numba is not installed: pip install 'chronik[spark]'")
pytest.importorskip("deltalake", reason="deltalake is not installed: pip install 'chronik[spark]'")

import deltalake

from chronik.testing import RunningNode
from tests.clients.support import needs
from tests.spark.commands import Done, run_commands
from tests.spark.standalone import WORKERS, standalone
from tests.spark.support import Sent, new_topic, received, send, simple

GROUP = "readers"


def consume(bootstrap: str, topic: str, count: int) -> None:
    """As a member of a group, which commits."""
    settings = {"group.id": GROUP, "client.id": "reader", "auto.offset.reset": "earliest", "enable.auto.commit": False}
    consumer = Consumer({"bootstrap.servers": bootstrap, "log_level": 0, **settings})
    consumer.subscribe([topic])
    while count > 0:
        count -= len(consumer.consume(count, timeout=30.0))
    consumer.commit(asynchronous=False)
    consumer.close()


@pytest.mark.timeout(900)  # many Java processes, beside whatever else the machine does
def test_every_job_runs_in_the_executors_of_a_cluster(chronik_node: RunningNode, tmp_path: Path) -> None:
    needs("spark")
    here = chronik_node.bootstrap
    source, target, stalls = new_topic(here, 2, chronik_trace="true"), new_topic(here, 2), new_topic(here)
    send(here, source, simple(500) + simple(500, 1, 500))
    consume(here, source, 1_000)
    table, page, audit_file = tmp_path / "table", tmp_path / "page.html", tmp_path / "audit.out"

    with standalone(tmp_path) as cluster:
        spark = ["--master", cluster.master, "--driver-memory", "512m", "--spark", "spark.executor.memory=512m"]
        spark += ["--spark", "spark.sql.shuffle.partitions=2"]
        there = ["--bootstrap", here, *spark]
        small = ["--spark", "spark.cores.max=1"]  # each executor is a Java process to wait for
        follow = ["--follow", "--once", "--from-beginning", "--to", stalls, "--checkpoint", str(tmp_path / "seen")]
        done = run_commands(
            tmp_path,
            {
                "ingest": ["ingest", source, "--to", str(table), "--once", "--json", *there],
                "audit": ["audit", "--topic", source, "--received", str(table), "--with-trace", "--json", *there],
                "replay": ["replay", "--table", str(table), "--to", target, "--json", *there, *small],
                "diagnose": ["diagnose", "--topic", source, "--json", *there, *small],
                "follow": ["diagnose", *follow, *there, *small],
                "compare": ["compare", str(audit_file), "--json", *spark, *small],
                "report": ["report", "--audit", str(audit_file), "--out", str(page), "--json", *there, *small],
            },
            **cluster.environment,
        )
        executors = cluster.executors()

    assert {name: each.code for name, each in done.items()} == dict.fromkeys(done, 0), done
    assert len(executors) == len(done)
    assert [len(each) for each in executors[:2]] == [WORKERS, WORKERS]
    assert done["ingest"].json["rows"] == deltalake.DeltaTable(str(table)).to_pyarrow_table().num_rows == 1_000
    check_audit(done["audit"], source)
    assert done["replay"].json["rows"] == 1_000
    assert sorted(int(message.value()) for message in received(here, target, 1_000)) == list(range(1_000))
    assert done["diagnose"].json["stalls_count"] == 0
    assert {row["partition"]: row["records_in"] for row in done["diagnose"].json["partitions"]} == {0: 500, 1: 500}
    send(here, stalls, [Sent(0, None, b"behind all stalls")])
    assert [message.value() for message in received(here, stalls, 1)] == [b"behind all stalls"]
    assert [(row["runs"], row["lost"]) for row in done["compare"].json["rows"]] == [(1, 0)]
    assert done["report"].json["level"] == "good"
    assert page.read_text().startswith("<!doctype html>")


def check_audit(done: Done, topic: str) -> None:
    """What the table has, and, by the live trace, to whom it was served and who committed it."""
    found = done.json
    assert [found[name] for name in ("expected", "found", "lost", "duplicated", "unexpected")] == [
        1_000,
        1_000,
        0,
        0,
        0,
    ]
    readers = {(row["partition"], row["start_offset"], row["end_offset"]) for row in found["served"]
               if (row["client_id"], row["group"]) == ("reader", GROUP)}  # fmt: skip
    assert readers == {(0, 0, 500), (1, 0, 500)}
    assert {row["topic"] for row in found["served"]} == {topic}
    assert {(row["group"], row["partition"], row["offset"]) for row in found["committed"]} == {
        (GROUP, 0, 500),
        (GROUP, 1, 500),
    }
