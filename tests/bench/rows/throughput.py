"""Produce and consume with librdkafka, and the CPU that node and client use for the same messages."""

from __future__ import annotations

from functools import partial
from itertools import product

from tests.bench.row import Bench, Case, Figure, Lines, Row, at_most
from tests.bench.systems.system import bootstrap

TOPIC = "stream"
CPU_TICK_S = 0.01
SIZES = {"1 KB": 1_000, "100 B": 100}


def stream(bench: Bench, name: str, value_bytes: int, partitions: int, durability: str) -> Lines:
    """Produce, then consume what was produced."""
    messages = min(bench.scale.stream_bytes // value_bytes, bench.scale.stream_messages_max)
    lines: dict[str, dict[str, float]] = {}
    with bench.server(durability=durability) as server:
        bench.client.ask("create_topics", bootstrap=bootstrap(server), topics={TOPIC: partitions})
        for job in ("produce", "consume"):
            measured = bench.client.ask(
                job,
                bootstrap=bootstrap(server),
                node_pids=[server.pid],
                topic=TOPIC,
                messages=messages,
                value_bytes=value_bytes,
            )
            lines[f"{job} {name}"] = {
                "messages_s": measured["messages_s"],
                "megabytes_s": measured["megabytes_s"],
                "node_cpu_gb": measured["node_cpu_s"] / (messages * value_bytes / 1e9),
                # Less than a tick of CPU cannot be told from none.
                "cpu_ratio": measured["node_cpu_s"] / max(measured["client_cpu_s"], CPU_TICK_S),
            }
    return lines


def _case(size: str, partitions: int, durability: str) -> Case:
    name = f"{size} x {partitions}, {durability}"
    return Case(name, partial(stream, name=name, value_bytes=SIZES[size], partitions=partitions, durability=durability))


ROW = Row(
    "throughput",
    "Produce and consume with librdkafka, acks=1; value size x partitions",
    (
        Figure("messages_s", "msg/s"),
        Figure("megabytes_s", "MB/s"),
        Figure("node_cpu_gb", "node CPU s/GB", digits=2),
        Figure("cpu_ratio", "node/client CPU", at_most(0.5), digits=2),
    ),
    tuple(
        _case(size, partitions, durability) for size, partitions, durability in product(SIZES, (1, 12), ("sync", "os"))
    ),
)
