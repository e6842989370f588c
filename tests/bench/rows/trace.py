"""What it costs to trace everything and store it: one node, switched off and on in turn, so that both meet the same
machine at the same time."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from tests.bench.row import Bench, Case, Figure, Figures, Lines, Row, at_least
from tests.bench.systems.system import Server, bootstrap

PAIRS = 4  # of a part without the trace and one with
REQUEST_PAIRS = 12  # of requests, whose speed wanders by a tenth from second to second: many pairs, or chance decides
IN_FLIGHT = 100
CPU_TICK_S = 0.01
VALUE_BYTES = 1_000
PARTITIONS = 12

Part = Callable[[str, int], Figures]
"""Do so much with a topic of this name: how many a second, and the node's CPU for it."""


def in_turn(bench: Bench, server: Server, each: int, pairs: int, part: Part) -> Figures:
    """Figures of a part, with `each` of what it counts, that is done without and with the trace, a few times."""
    for is_on in (True, False):  # what is loaded and made once, the trace's topic for one, is not part of the cost
        bench.client.ask("set_trace", bootstrap=bootstrap(server), is_on=is_on)
        part(f"warm-up-{is_on}".lower(), max(each // 4, 1))
    seconds, cpu_s = {False: 0.0, True: 0.0}, {False: 0.0, True: 0.0}
    for number in range(pairs):
        order = (False, True) if number % 2 == 0 else (True, False)
        for is_on in order:
            bench.client.ask("set_trace", bootstrap=bootstrap(server), is_on=is_on)
            measured = part(f"part-{number}-{is_on}".lower(), each)
            seconds[is_on] += each / measured["a_second"]
            cpu_s[is_on] += measured["node_cpu_s"]
    return {
        "off_s": pairs * each / seconds[False],
        "on_s": pairs * each / seconds[True],
        "ratio": seconds[False] / seconds[True],
        "cpu_ratio": max(cpu_s[False], CPU_TICK_S) / max(cpu_s[True], CPU_TICK_S),
    }


def one_record_requests(bench: Bench, durability: str, name: str) -> Lines:
    with bench.server(durability=durability) as server:

        def part(topic: str, count: int) -> Figures:
            bench.client.ask("create_topics", bootstrap=bootstrap(server), topics={topic: 1})
            measured = bench.client.ask(
                "requests",
                port=server.port,
                node_pid=server.pid,
                topic=topic,
                count=count,
                connections=1,
                in_flight_each=IN_FLIGHT,
            )
            return {"a_second": measured["requests_s"], "node_cpu_s": measured["node_cpu_s"]}

        return {name: in_turn(bench, server, max(bench.scale.requests // PAIRS, 1), REQUEST_PAIRS, part)}


def stream(bench: Bench, durability: str, name: str) -> Lines:
    """Produce in turn; then read it all, in turn."""
    messages = min(bench.scale.stream_bytes // VALUE_BYTES, bench.scale.stream_messages_max)
    lines: dict[str, Figures] = {}
    with bench.server(durability=durability) as server:

        def part(job: str, topic: str, count: int) -> Figures:
            if job == "produce":
                bench.client.ask("create_topics", bootstrap=bootstrap(server), topics={topic: PARTITIONS})
            measured = bench.client.ask(
                job,
                bootstrap=bootstrap(server),
                node_pids=[server.pid],
                topic=topic,
                messages=count,
                value_bytes=VALUE_BYTES,
            )
            return {"a_second": measured["messages_s"], "node_cpu_s": measured["node_cpu_s"]}

        for job in ("produce", "consume"):
            lines[f"{job} {name}"] = in_turn(bench, server, max(messages // PAIRS, 1), PAIRS, partial(part, job))
    return lines


def _cases() -> tuple[Case, ...]:
    cases: list[Case] = []
    for durability in ("sync", "os"):
        requests, streamed = f"one-record requests, {durability}", f"1 KB x {PARTITIONS}, {durability}"
        cases.append(Case(requests, partial(one_record_requests, durability=durability, name=requests)))
        cases.append(Case(streamed, partial(stream, durability=durability, name=streamed)))
    return tuple(cases)


ROW = Row(
    "trace-cost",
    "Everything traced and stored, against nothing (acks=1)",
    (
        Figure("off_s", "off, a second"),
        Figure("on_s", "on, a second"),
        Figure("ratio", "on / off", at_least(0.9), digits=2),
        Figure("cpu_ratio", "CPU off / on", digits=2),
    ),
    _cases(),
    code="B15",
    is_alone=True,
)
