"""Three nodes: how soon they are one cluster, what each costs, how fast acks=all is, and how soon followers know."""

from __future__ import annotations

import time
from collections.abc import Iterable
from functools import partial

from tests.bench.row import Bench, Case, Figure, Figures, Lines, Row, at_least, at_most, one_line
from tests.bench.rows import end_to_end
from tests.bench.rows.warm_up import warm_up
from tests.bench.systems.system import Cluster, idle_cpu_percent, memory_megabytes

TOPIC = "stream"
REPLICAS = 3
VALUE_BYTES = 1_000
CPU_TICK_S = 0.01
ROUNDS_OF_OURS = 3  # of what is measured without a peer


def streams(bench: Bench, durability: str) -> Lines:
    """Produce with acks=all, then consume what was produced; a cluster that is warm serves several topics."""
    messages = min(bench.scale.stream_bytes // 4 // VALUE_BYTES, bench.scale.stream_messages_max)
    lines: dict[str, Figures] = {}
    with bench.cluster(durability=durability) as cluster:
        warm_up(bench, cluster.bootstrap, list(cluster.pids.values()), replicas=REPLICAS, acks="all")
        for partitions in (12,) if bench.scale.is_quick else (1, 12):
            topic = f"{TOPIC}-{partitions}"
            _create_topic(bench, cluster, topic, partitions)
            for job, settings in {"produce": {"acks": "all"}, "consume": {}}.items():
                measured = _stream(bench, cluster, job, topic, messages, settings)
                lines[f"{job} 1 KB x {partitions}, {durability}"] = {
                    "messages_s": measured["messages_s"],
                    "megabytes_s": measured["megabytes_s"],
                    "nodes_cpu_gb": measured["node_cpu_s"] / (messages * VALUE_BYTES / 1e9),
                    "cpu_ratio": measured["node_cpu_s"] / max(measured["client_cpu_s"], CPU_TICK_S),
                }
        if durability == "os":
            _create_topic(bench, cluster, end_to_end.TOPIC, 1)
            lines["three nodes"] = end_to_end.paced(bench, cluster.bootstrap, acks="all")
    return lines


def _create_topic(bench: Bench, cluster: Cluster, topic: str, partitions: int) -> None:
    """Three replicas, of which two must have a message before it is acknowledged."""
    safe = {"replicas": REPLICAS, "config": {"min.insync.replicas": "2"}}
    bench.client.ask("create_topics", bootstrap=cluster.bootstrap, topics={topic: partitions}, **safe)
    cluster.wait_until_in_sync(topic)


def _stream(
    bench: Bench, cluster: Cluster, job: str, topic: str, messages: int, settings: dict[str, str]
) -> dict[str, float]:
    pids = list(cluster.pids.values())
    about = {"bootstrap": cluster.bootstrap, "node_pids": pids, "topic": topic}
    return bench.client.ask(job, **about, messages=messages, value_bytes=VALUE_BYTES, **settings)


def cost(bench: Bench) -> Figures:
    """Of the node that needs most, each time."""
    began = time.monotonic()
    with bench.cluster() as cluster:
        start_s = time.monotonic() - began
        time.sleep(bench.scale.settle_s)
        idle_mb = _most_memory(cluster.pids.values())
        idle_cpu = idle_cpu_percent(cluster.pids.values(), bench.scale.idle_s)
        _create_topic(bench, cluster, TOPIC, 12)
        messages = bench.scale.memory_bytes // 4 // VALUE_BYTES
        _stream(bench, cluster, "produce", TOPIC, messages, {"acks": "all"})
        _stream(bench, cluster, "consume", TOPIC, messages, {})
        used_mb = _most_memory(cluster.pids.values())
        stopping = time.monotonic()
    return {
        "start_s": start_s,
        "idle_mb": idle_mb,
        "idle_cpu_percent": idle_cpu,
        "used_mb": used_mb,
        "stop_s": time.monotonic() - stopping,
    }


def _most_memory(pids: Iterable[int]) -> float:
    return max(memory_megabytes(pid)[0] for pid in pids)


def watermark(bench: Bench, durability: str) -> Figures:
    with bench.cluster(durability=durability) as cluster:
        bench.client.ask("create_topics", bootstrap=cluster.bootstrap, topics={TOPIC: 1}, replicas=REPLICAS)
        leader = cluster.wait_until_in_sync(TOPIC)
        follower = next(node_id for node_id in cluster.ports if node_id != leader)
        ports = {"leader": cluster.ports[leader], "follower": cluster.ports[follower]}
        delays = bench.client.ask("watermark_delay", topic=TOPIC, count=bench.scale.latencies // 4 + 2, **ports)
        latency = bench.client.ask(
            "one_at_a_time",
            port=cluster.ports[leader],
            topic=TOPIC,
            count=bench.scale.latencies,
            value_bytes=VALUE_BYTES,
        )
    return {**delays, "latency_p50_ms": latency["p50_us"] / 1e3, "latency_p99_ms": latency["p99_us"] / 1e3}


_CASES = tuple(
    Case(f"three nodes, {durability}", partial(streams, durability=durability), is_quick=durability == "os")
    for durability in ("os", "sync")
)
THROUGHPUT = Row(
    "cluster-throughput",
    "Three nodes, 3 replicas, acks=all, min.insync.replicas=2: produce and consume; value size x partitions",
    (
        Figure("messages_s", "msg/s", ratio_goal=at_least(0.7), moonshot=at_least(1.2)),
        Figure("megabytes_s", "MB/s"),
        Figure("nodes_cpu_gb", "CPU of all nodes s/GB", digits=2),
        Figure("cpu_ratio", "nodes/client CPU", digits=2),
    ),
    _CASES,
    code="B5",
)
LATENCY = Row(
    "cluster-latency",
    "Three nodes, 3 replicas, acks=all, min.insync.replicas=2: end-to-end latency at 5,000 a second",
    end_to_end.latencies(at_most(round(1 / 0.7, 2)), at_most(round(1 / 1.2, 2))),
    _CASES,
    code="B5",
)
COST = Row(
    "cluster-cost",
    "Three nodes: start until they are one cluster, and what a node costs (250 MB in and out; a quick run: 50 MB)",
    (
        Figure("start_s", "start, s", at_most(3), digits=2),
        Figure("idle_mb", "memory of an idle node, RSS MB", at_most(70)),
        Figure("idle_cpu_percent", "CPU of an idle node, % of a core", digits=1),
        Figure("used_mb", "memory of a used node, RSS MB"),
        Figure("stop_s", "stop, s", digits=2),
    ),
    (one_line("3 nodes", cost, rounds_max=ROUNDS_OF_OURS),),
)
WATERMARK = Row(
    "cluster-watermark",
    "Three nodes: from an acknowledgement until a consumer at a follower has the message; latency of acks=all",
    (
        Figure("p50_ms", "at the follower after, p50 ms", at_most(10), digits=2),
        Figure("p99_ms", "p99 ms", digits=2),
        Figure("latency_p50_ms", "acks=all, p50 ms", digits=2),
        Figure("latency_p99_ms", "p99 ms", digits=2),
    ),
    tuple(
        one_line(durability, partial(watermark, durability=durability), rounds_max=ROUNDS_OF_OURS)
        for durability in ("sync", "os")
    ),
)
