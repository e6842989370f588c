"""1,000 and 10,000 partitions: to create, to have, to start with, and to produce beside; and how that grows."""

from __future__ import annotations

import time

from tests.bench.row import Bench, Case, Figure, Figures, Lines, Row, at_least, at_most
from tests.bench.rows.warm_up import warm_up
from tests.bench.systems.system import Server, bootstrap, idle_cpu_percent, memory_megabytes

BESIDE_BYTES = 1_000
TOPICS = 10
COSTS = ("create_s", "start_s", "start_after_kill_s", "memory_mb")
QUIET_PERCENT = 10.0
QUIET_TIMEOUT_S = 60.0


def two_sizes(bench: Bench) -> Lines:
    """The figures of few and of many, and how many times the first the second are."""
    few, many = bench.scale.partitions
    of_few, of_many = with_partitions(bench, few), with_partitions(bench, many)
    return {
        f"partitions {few:,}": of_few,
        f"partitions {many:,}": of_many,
        f"growth {few:,} to {many:,}": growth(of_few, of_many, many / few),
    }


def growth(of_few: Figures, of_many: Figures, times: float) -> Figures:
    """1 is linear growth: so many times the partitions, so many times the cost. A rate is not to fall at all."""
    costs = {name: of_many[name] / of_few[name] / times for name in COSTS}
    return costs | {"beside_s": of_many["beside_s"] / of_few["beside_s"]}


def with_partitions(bench: Bench, count: int) -> Figures:
    topics = {f"many-{number}": count // TOPICS for number in range(TOPICS)}
    figures: dict[str, float] = {}
    with bench.server(f"server-{count}") as server:
        warm_up(bench, bootstrap(server), [server.pid])
        alone = _produce_beside(bench, server, "alone")
        created = bench.client.ask("create_topics", bootstrap=bootstrap(server), topics=topics)
        figures["create_s"] = created["seconds"]
        figures["created_mb"] = memory_megabytes(server.pid)[0]
        spread = bench.client.ask(
            "produce_one_to_each", bootstrap=bootstrap(server), node_pids=[server.pid], topics=topics
        )
        figures["one_to_each_messages_s"] = spread["messages_s"]
        figures["beside_s"] = _produce_beside(bench, server, "beside")
        figures["beside_ratio"] = figures["beside_s"] / alone
        stopped = time.monotonic()
        server.stop()
        figures["stop_s"] = time.monotonic() - stopped
        figures["start_s"] = _start(server)
        figures["busy_s"] = _wait_until_quiet(server, bench.scale.idle_s)
        figures["memory_mb"] = memory_megabytes(server.pid)[0]
        figures["idle_cpu_percent"] = idle_cpu_percent([server.pid], bench.scale.idle_s)
        server.kill()
        figures["start_after_kill_s"] = _start(server)
    return figures


def _produce_beside(bench: Bench, server: Server, topic: str) -> float:
    """Messages a second to a topic of one partition."""
    bench.client.ask("create_topics", bootstrap=bootstrap(server), topics={topic: 1})
    messages = min(bench.scale.stream_bytes // BESIDE_BYTES, bench.scale.stream_messages_max) // 2
    stream = {"topic": topic, "messages": messages, "value_bytes": BESIDE_BYTES}
    return bench.client.ask("produce", bootstrap=bootstrap(server), node_pids=[server.pid], **stream)["messages_s"]


def _start(server: Server) -> float:
    started = time.monotonic()
    server.spawn()
    server.wait_until_ready()
    return time.monotonic() - started


def _wait_until_quiet(server: Server, idle_s: float) -> float:
    """What a start leaves for later is not idleness. Returns how long it took."""
    started = time.monotonic()
    look_s = min(1.0, idle_s)
    while idle_cpu_percent([server.pid], look_s) > QUIET_PERCENT and time.monotonic() < started + QUIET_TIMEOUT_S:
        continue
    return time.monotonic() - started - look_s


_CASES = (Case("few and many", two_sizes, rounds_max=2),)  # the peer takes minutes for each
ROW = Row(
    "many-partitions",
    "1,000 and 10,000 partitions on one node, each with one message (a quick run: 50 and 500)",
    (
        Figure("create_s", "create, s", digits=2),
        Figure("created_mb", "memory after creation, RSS MB"),
        Figure("one_to_each_messages_s", "one message to each, msg/s"),
        Figure("beside_s", "produce to a topic beside them, msg/s"),
        Figure("beside_ratio", "the same, against without them", digits=2),
        Figure("stop_s", "stop, s", digits=2),
        Figure("start_s", "start after a stop, s", digits=2),
        Figure("busy_s", "busy after that start, s", digits=1),
        Figure("memory_mb", "memory after the start, RSS MB"),
        Figure("idle_cpu_percent", "idle CPU, % of a core", digits=1),
        Figure("start_after_kill_s", "start after SIGKILL, s", digits=2),
    ),
    _CASES,
    code="B10",
    takes="partitions",
)
GROWTH = Row(
    "partitions-growth",
    "How that grows: 1 is ten times as much for ten times the partitions, less is better; the produce rate is to stay",
    (
        Figure("create_s", "create", at_most(1.0), digits=2),
        Figure("start_s", "start", at_most(1.0), digits=2),
        Figure("start_after_kill_s", "start after SIGKILL", at_most(1.0), digits=2),
        Figure("memory_mb", "memory", at_most(1.0), digits=2),
        Figure("beside_s", "produce rate, many/few", at_least(0.9), digits=2),
    ),
    _CASES,
    code="B10",
    takes="growth",
)
