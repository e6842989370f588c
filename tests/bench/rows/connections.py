"""One client among very many connections: what they cost it, and the node's memory."""

from __future__ import annotations

from functools import partial

from tests.bench.row import Bench, Case, Figure, Figures, Row, at_most, one_line
from tests.bench.systems.system import bootstrap

TOPIC = "crowd"
TINY_SHARE = 100  # a tiny run has one in so many
# Kafka takes memory for a whole request when its size has come: 200 of these fit into its heap of 1 GB. Twenty of the
# large ones do not: it answers nobody any more.
PROMISED_BYTES, LARGE_PROMISED_BYTES = 1024 * 1024, 90 * 1024 * 1024


def crowd(bench: Bench, idle: int, active: int, slow: int, promised_bytes: int) -> Figures:
    share = TINY_SHARE if bench.scale.name == "tiny" else 1
    with bench.server(durability="os") as server:
        bench.client.ask("create_topics", bootstrap=bootstrap(server), topics={TOPIC: 1})
        return bench.client.ask(
            "among_others",
            port=server.port,
            node_pid=server.pid,
            topic=TOPIC,
            count=bench.scale.latencies,
            idle=idle // share,
            active=active // share,
            slow=slow // share,
            promised_bytes=promised_bytes,
        )


def case(
    name: str,
    *,
    idle: int = 0,
    active: int = 0,
    slow: int = 0,
    promised_bytes: int = PROMISED_BYTES,
    is_quick: bool = True,
    is_ours_only: bool = False,
) -> Case:
    measure = partial(crowd, idle=idle, active=active, slow=slow, promised_bytes=promised_bytes)
    return one_line(name, measure, is_quick=is_quick, is_ours_only=is_ours_only)


ROW = Row(
    "connections",
    "One-record requests of one client, one at a time, among the connections of others; durability=os",
    (
        Figure("quiet_p99_us", "p99 alone, µs"),
        Figure("p99_us", "p99 among them, µs"),
        Figure("p99_ratio", "of alone", at_most(2), digits=2),
        Figure("resident_mb", "RSS, MB", ratio_goal=at_most(0.2)),
    ),
    (
        case("1 idle", idle=1),
        case("100 idle", idle=100),
        case("2,000 idle", idle=2_000),
        case("10,000 idle", idle=10_000, is_quick=False),
        case("100 active", active=100),
        case("2,000 active", active=2_000),
        case("10,000 active", active=10_000, is_quick=False),
        case("2,000 idle and 200 slow", idle=2_000, slow=200),
        case(
            "2,000 idle and 200 slow of 90 MB",
            idle=2_000,
            slow=200,
            promised_bytes=LARGE_PROMISED_BYTES,
            is_ours_only=True,
        ),
    ),
    code="B17",
)
