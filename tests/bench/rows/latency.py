"""Latency of one durable message after the other, beside that of a bare file on the same disk."""

from __future__ import annotations

import os
import statistics
import time
from functools import partial

from tests.bench.row import Bench, Figure, Figures, Row, one_line
from tests.bench.systems.system import bootstrap

TOPIC = "latency"
VALUE_BYTES = 1_000


def node_latency(bench: Bench, durability: str) -> Figures:
    with bench.server(durability=durability) as server:
        bench.client.ask("create_topics", bootstrap=bootstrap(server), topics={TOPIC: 1})
        return bench.client.ask(
            "one_at_a_time", port=server.port, topic=TOPIC, count=bench.scale.latencies, value_bytes=VALUE_BYTES
        )


def disk_latency(bench: Bench) -> Figures:
    """Append and sync without any node: no durable answer can come sooner."""
    value = os.urandom(VALUE_BYTES)
    sync = getattr(os, "fdatasync", os.fsync)  # the contents are what counts, where the system can tell them apart
    latencies = []
    with (bench.directory / "file").open("wb", buffering=0) as file:
        for _ in range(bench.scale.latencies):
            started = time.perf_counter()
            file.write(value)
            sync(file.fileno())
            latencies.append(1e6 * (time.perf_counter() - started))
    hundredths = statistics.quantiles(latencies, n=100, method="inclusive")
    return {"p50_us": hundredths[49], "p99_us": hundredths[98]}


ROW = Row(
    "latency",
    "Latency of 1 KB messages sent one at a time, acks=all",
    (Figure("p50_us", "p50 µs"), Figure("p99_us", "p99 µs")),
    (
        one_line("sync", partial(node_latency, durability="sync")),
        one_line("os", partial(node_latency, durability="os")),
        one_line("a bare file, written and synced", disk_latency),
    ),
)
