"""From the moment a message is handed to the producer until the consumer has it, at a steady 5,000 a second."""

from __future__ import annotations

from tests.bench.client_link import Client
from tests.bench.row import Bench, Case, Figure, Figures, Goal, Row, at_most, one_line
from tests.bench.systems.system import bootstrap

TOPIC = "paced"
MESSAGES_S = 5_000
VALUE_BYTES = 1_000


def paced(bench: Bench, address: str, acks: str) -> Figures:
    """Producer and consumer are two processes, which share the monotonic clock."""
    counts = {
        "count": max(int(MESSAGES_S * bench.scale.paced_s), 1),
        "warm_up": int(MESSAGES_S * bench.scale.paced_warm_up_s),
    }
    with Client() as consumer:
        consumer.begin("receive_paced", bootstrap=address, topic=TOPIC, count=counts["count"])
        pace = {"messages_s": MESSAGES_S, "value_bytes": VALUE_BYTES, "acks": acks}
        bench.client.ask("send_paced", bootstrap=address, topic=TOPIC, **counts, **pace)
        return consumer.wait_for_figures()


def one_node(bench: Bench) -> Figures:
    with bench.server(durability="os") as server:
        bench.client.ask("create_topics", bootstrap=bootstrap(server), topics={TOPIC: 1})
        return paced(bench, bootstrap(server), acks="1")


def by_kafkas_tool(bench: Bench) -> Figures:
    """One message after the other, in whole milliseconds: Kafka's tool knows no more."""
    with bench.server(durability="os") as server:
        bench.client.ask("create_topics", bootstrap=bootstrap(server), topics={TOPIC: 1})
        return bench.client.ask(
            "end_to_end_by_tool",
            bootstrap=bootstrap(server),
            topic=TOPIC,
            count=bench.scale.latencies,
            value_bytes=VALUE_BYTES,
        )


def latencies(goal: Goal, moonshot: Goal) -> tuple[Figure, ...]:
    """The figures of `paced`."""
    labels = {"p50_ms": "p50 ms", "p99_ms": "p99 ms"}
    with_goals = (Figure(name, label, digits=2, ratio_goal=goal, moonshot=moonshot) for name, label in labels.items())
    return (*with_goals, Figure("p999_ms", "p99.9 ms", digits=2))


ROW = Row(
    "end-to-end",
    "End-to-end latency of 1 KB messages at 5,000 a second, acks=1, page cache, librdkafka without linger",
    latencies(at_most(1.0), at_most(0.5)),
    (
        one_line("one node", one_node),
        Case(
            "Kafka's own client, one at a time",
            lambda bench: {"Kafka's own client, one at a time": by_kafkas_tool(bench)},
            is_quick=False,
            is_of_peer=True,
        ),
    ),
    code="B4",
)
