"""How long nobody can produce when the leader of a partition is killed, as delivered and with fast settings.

The partition's leader is the controller as well, or not, as it happens. The client is librdkafka with its defaults.
"""

from __future__ import annotations

import statistics
from functools import partial

from tests.bench.row import Bench, Figure, Figures, Row, at_most, one_line

TOPIC = "watched"
REPLICAS = 3
STEADY = 50
FAST = {
    "broker_heartbeat_interval_ms": "100",
    "broker_session_timeout_ms": "500",
    "controller_quorum_election_timeout_ms": "100",
    "controller_quorum_fetch_timeout_ms": "300",
    "controller_quorum_election_backoff_max_ms": "100",
}


def failover(bench: Bench, settings: dict[str, str]) -> Figures:
    gaps: list[float] = []
    with bench.cluster(**settings) as cluster:
        bench.client.ask("create_topics", bootstrap=cluster.bootstrap, topics={TOPIC: 1}, replicas=REPLICAS)
        for _ in range(bench.scale.kills):
            leader = cluster.wait_until_in_sync(TOPIC)
            killed = {"pid": cluster.pids[leader], "steady": STEADY}
            gaps.append(bench.client.ask("gap_after_kill", bootstrap=cluster.bootstrap, topic=TOPIC, **killed)["gap_s"])
            cluster.start()
    # Of up to a hundred kills the p99 is the longest gap: nothing is interpolated away.
    return {"p50_s": statistics.median(gaps), "p99_s": max(gaps)}


def _row(name: str, title: str, goal_s: float, settings: dict[str, str]) -> Row:
    return Row(
        name,
        f"{title}: the gap in producing when a leader is killed, 20 kills (a quick run: 3)",
        (
            Figure("p50_s", "p50 s", at_most(goal_s), digits=2),
            Figure("p99_s", "p99 s", at_most(goal_s), digits=2),
        ),
        (one_line("3 nodes", partial(failover, settings=settings)),),
    )


ROW = _row("failover", "Failover with the settings as delivered", 3.0, {})
FAST_ROW = _row("failover-fast", "Failover with fast settings", 1.0, FAST)
