"""Produce and consume with librdkafka and with Kafka's own clients, and the CPU that the node uses for it.

B1, B2 and B3 look at the same cases from three sides: each case is measured once for all of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from itertools import product

from tests.bench.row import Bench, Case, Figure, Lines, Row, at_least, at_most
from tests.bench.rows.warm_up import warm_up
from tests.bench.systems.system import bootstrap

TOPIC = "stream"
CPU_TICK_S = 0.01
SIZES = {"1 KB": 1_000, "100 B": 100}
QUICK = {("1 KB", 1), ("100 B", 12)}
LIBRDKAFKA = {"produce": "produce", "consume": "consume"}
KAFKAS_OWN = {"produce": "produce_by_tool", "consume": "consume_by_tool"}


def stream(
    bench: Bench, name: str, value_bytes: int, partitions: int, jobs: Mapping[str, str], durability: str = "os"
) -> Lines:
    """Produce, then consume what was produced."""
    messages = min(bench.scale.stream_bytes // value_bytes, bench.scale.stream_messages_max)
    lines: dict[str, dict[str, float]] = {}
    with bench.server(durability=durability) as server:
        warm_up(bench, bootstrap(server), [server.pid])
        bench.client.ask("create_topics", bootstrap=bootstrap(server), topics={TOPIC: partitions})
        for way, job in jobs.items():
            measured = bench.client.ask(
                job,
                bootstrap=bootstrap(server),
                node_pids=[server.pid],
                topic=TOPIC,
                messages=messages,
                value_bytes=value_bytes,
            )
            lines[f"{way} {name}"] = {
                "messages_s": measured["messages_s"],
                "megabytes_s": measured["megabytes_s"],
                # Less than a tick of CPU cannot be told from none.
                "node_cpu_gb": max(measured["node_cpu_s"], CPU_TICK_S) / (messages * value_bytes / 1e9),
                "cpu_ratio": measured["node_cpu_s"] / max(measured["client_cpu_s"], CPU_TICK_S),
            }
    return lines


def _case(size: str, partitions: int) -> Case:
    name = f"{size} x {partitions}"
    measure = partial(stream, name=name, value_bytes=SIZES[size], partitions=partitions, jobs=LIBRDKAFKA)
    return Case(name, measure, is_quick=(size, partitions) in QUICK)


def _second_opinion(size: str, partitions: int) -> Case:
    name = f"{size} x {partitions}, Kafka's own client"
    measure = partial(stream, name=name, value_bytes=SIZES[size], partitions=partitions, jobs=KAFKAS_OWN)
    return Case(name, measure, is_quick=False, is_of_peer=True)


CASES = (*(_case(*each) for each in product(SIZES, (1, 12))), *(_second_opinion(size, 12) for size in SIZES))
_RATES = (
    Figure("messages_s", "msg/s", ratio_goal=at_least(1.0), moonshot=at_least(1.5)),
    Figure("megabytes_s", "MB/s"),
)

PRODUCE = Row(
    "produce",
    "Produce with librdkafka, acks=1, page cache; value size x partitions",
    _RATES,
    CASES,
    code="B1",
    takes="produce",
)
CONSUME = Row("consume", "Consume the same; value size x partitions", _RATES, CASES, code="B2", takes="consume")
NODE_CPU = Row(
    "node-cpu",
    "CPU of the node for each GB in and out; value size x partitions",
    (
        Figure("node_cpu_gb", "node CPU s/GB", digits=2, ratio_goal=at_most(0.7), moonshot=at_most(0.4)),
        Figure("cpu_ratio", "node/client CPU", at_most(0.5), digits=2),
    ),
    CASES,
    code="B3",
)
