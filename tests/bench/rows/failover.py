"""How long nobody can produce when the leader of a partition is killed, as delivered and with fast settings.

The partition's leader is the controller as well, or not, as it happens. The clients have their defaults. kafka-python
looks for the new leader at once, so its gap is the cluster's own. librdkafka looks for it on a timer of one second that
no setting changes, and looks twice when the dead broker is no longer listed: its gap is its own, whatever the cluster
takes, and the fast settings are not for it.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from tests.bench.ratios import OURS
from tests.bench.row import Bench, Figure, Row, Samples, at_most, one_line

TOPIC = "watched"
REPLICAS = 3
STEADY = 50
KILLS_OF_PEER = 1  # a round: each takes it longer than all of ours
FAST = {
    "broker_heartbeat_interval_ms": "100",
    "broker_session_timeout_ms": "500",
    "controller_quorum_election_timeout_ms": "100",
    "controller_quorum_fetch_timeout_ms": "300",
    "controller_quorum_election_backoff_max_ms": "100",
}


def failover(bench: Bench, client: str, settings: dict[str, str]) -> Samples:
    gaps: list[float] = []
    with bench.cluster(**settings) as cluster:
        bench.client.ask("create_topics", bootstrap=cluster.bootstrap, topics={TOPIC: 1}, replicas=REPLICAS)
        for _ in range(bench.scale.kills if bench.system.name == OURS else KILLS_OF_PEER):
            leader = cluster.wait_until_in_sync(TOPIC)
            killed = {"pid": cluster.pids[leader], "steady": STEADY}
            gaps.append(
                bench.client.ask(f"gap_of_{client}", bootstrap=cluster.bootstrap, topic=TOPIC, **killed)["gap_s"]
            )
            cluster.start()
    return {"p50_s": gaps, "p99_s": gaps}


def _row(
    name: str, title: str, goal_s: float, clients: Mapping[str, str], settings: dict[str, str], code: str = ""
) -> Row:
    return Row(
        name,
        f"{title}: the gap in producing when a leader is killed, acks=all; 4 kills a round (the peer, quick runs: 1)",
        (
            Figure("p50_s", "p50 s", at_most(goal_s), digits=2, ratio_goal=at_most(1.0), moonshot=at_most(0.3)),
            Figure(
                "p99_s",
                "p99 s, the longest",
                at_most(goal_s),
                digits=2,
                ratio_goal=at_most(1.0),
                moonshot=at_most(0.3),
                is_longest=True,
            ),
        ),
        tuple(
            one_line(shown, partial(failover, client=job, settings=settings), is_quick=shown in EAGER)
            for shown, job in clients.items()
        ),
        code=code,
    )


EAGER = {"kafka-python": "kafka_python"}
ON_A_TIMER = {"librdkafka": "librdkafka"}

ROW = _row("failover", "Failover with the settings as delivered", 3.0, EAGER | ON_A_TIMER, {}, code="B11")
FAST_ROW = _row("failover-fast", "Failover with fast settings", 1.0, EAGER, FAST)
