"""Spark reading a topic: our source and Spark's own Kafka connector, in turn, in one session."""

from __future__ import annotations

import json
import subprocess
import sys

from tests.bench.client_link import ROOT
from tests.bench.row import Bench, Case, Figure, Lines, Row, at_least
from tests.bench.systems.system import ServerFailed, bootstrap
from tests.clients.jvm import jars_of

TIMEOUT_S = 1_800.0
TOPIC = "rows"
PARTITIONS = 4
VALUE_BYTES = 100


def read_in_turn(bench: Bench) -> Lines:
    if not jars_of("connector").is_dir():
        raise ServerFailed("Spark's Kafka connector is not installed: tests/clients/setup.sh brings it from Maven")
    rows = bench.scale.spark_rows
    with bench.server() as server:
        bench.client.ask("create_topics", bootstrap=bootstrap(server), topics={TOPIC: PARTITIONS})
        bench.client.ask(
            "produce",
            bootstrap=bootstrap(server),
            node_pids=[server.pid],
            topic=TOPIC,
            messages=rows,
            value_bytes=VALUE_BYTES,
        )
        there = rows + PARTITIONS  # its warm-up is one message to each
        told = [bootstrap(server), TOPIC, str(there), str(bench.scale.spark_passes), str(bench.directory / "spark")]
        command = [sys.executable, "-m", "tests.bench.spark_read_job", *told]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    if done.returncode:
        raise ServerFailed(f"reading with Spark failed: {done.stderr.strip().splitlines()[-1:]}")
    return {
        f"{way}, 100 B x {PARTITIONS}": figures for way, figures in json.loads(done.stdout.splitlines()[-1]).items()
    }


ROW = Row(
    "spark-read",
    'Spark reading a topic on local[2], all columns, to nowhere: our source against format("kafka"), in turn',
    (
        Figure("source_s", "source, rows/s"),
        Figure("connector_s", "connector, rows/s"),
        Figure("ratio", "source / connector", at_least(1.0), digits=2),
        Figure("cpu_ratio", "CPU connector / source", digits=2),
    ),
    (Case("source and connector", read_in_turn, rounds_max=2),),  # each has several passes of both in turn
    code="B13",
    is_alone=True,
    is_on_spark=True,
)
