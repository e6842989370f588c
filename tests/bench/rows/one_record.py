"""One-record requests a second with 100 of them in flight, from bare sockets: what a request itself costs the node."""

from __future__ import annotations

from functools import partial

from tests.bench.row import Bench, Case, Figure, Figures, Row, at_least, one_line
from tests.bench.systems.system import bootstrap

TOPIC = "single"
IN_FLIGHT = 100
CPU_TICK_S = 0.01
SYNCED_SHARE = 6  # of the requests that are not synced: Kafka syncs each for itself


def one_record_requests(bench: Bench, durability: str, connections: int) -> Figures:
    count = max(bench.scale.requests // (1 if durability == "os" else SYNCED_SHARE), 1)
    with bench.server(durability=durability) as server:
        for topic, requests in {"warm-up": max(count // 4, IN_FLIGHT), TOPIC: count}.items():
            bench.client.ask("create_topics", bootstrap=bootstrap(server), topics={topic: 1})
            measured = bench.client.ask(
                "requests",
                port=server.port,
                node_pid=server.pid,
                topic=topic,
                count=requests,
                connections=connections,
                in_flight_each=IN_FLIGHT // connections,
            )
    node_cpu_s = max(measured["node_cpu_s"], CPU_TICK_S)
    return {
        "requests_s": measured["requests_s"],
        "messages_s": measured["requests_s"],
        "requests_core_s": count / node_cpu_s,
        "node_us": 1e6 * node_cpu_s / count,
    }


def case(connections: int, durability: str, *, is_quick: bool = True) -> Case:
    name = f"{connections} connection{'s' * (connections > 1)} x {IN_FLIGHT // connections}, {durability}"
    return one_line(
        name, partial(one_record_requests, durability=durability, connections=connections), is_quick=is_quick
    )


ROW = Row(
    "one-record",
    "One-record produce requests, 100 B, 100 in flight, acks=1",
    (
        Figure("requests_s", "requests/s", ratio_goal=at_least(0.5), moonshot=at_least(1.0)),
        Figure("requests_core_s", "a core-second", at_least(15_000)),
        Figure("node_us", "node CPU µs", digits=1),
    ),
    (case(1, "os"), case(100, "os", is_quick=False)),
    code="B7",
)
