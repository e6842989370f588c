"""The run that all began with: 5,000 messages with kafka-python through one address of three nodes, in and out."""

from __future__ import annotations

from tests.bench.row import Bench, Figure, Figures, Row, at_least, at_most, one_line

TOPIC = "seed"
PARTITIONS = 3
REPLICAS = 3


def seed_run(bench: Bench) -> Figures:
    with bench.cluster() as cluster:
        bench.client.ask("create_topics", bootstrap=cluster.bootstrap, topics={TOPIC: PARTITIONS}, replicas=REPLICAS)
        cluster.wait_until_in_sync(TOPIC)
        # One address is enough to find all nodes.
        address = f"127.0.0.1:{cluster.ports[1]}"
        return bench.client.ask("seed_run", bootstrap=address, topic=TOPIC, messages=bench.scale.seed_messages)


ROW = Row(
    "seed-run",
    "The seed run: 5,000 messages in and out with kafka-python, acks=1, three nodes, 3 partitions, 3 replicas",
    (
        Figure("seconds", "seconds", at_most(3.0), digits=2),
        Figure("acknowledged_percent", "acknowledged, %", at_least(100.0), digits=1),
        Figure("consumed_percent", "consumed, %", at_least(100.0), digits=1),
    ),
    (one_line("three nodes", seed_run),),
    code="B12",
)
