"""What happens before the clock runs, alike for all: a JVM is slow until it has compiled what it does often."""

from __future__ import annotations

from collections.abc import Sequence

from tests.bench.row import Bench

TOPIC = "warm-up"
VALUE_BYTES = 1_000
PARTITIONS = 12


def warm_up(bench: Bench, bootstrap: str, node_pids: Sequence[int], *, replicas: int = 1, acks: str = "1") -> None:
    """Messages in and out of a topic that nothing looks at."""
    messages = max(bench.scale.warm_up_bytes // VALUE_BYTES, 1)
    bench.client.ask("create_topics", bootstrap=bootstrap, topics={TOPIC: PARTITIONS}, replicas=replicas)
    stream = {"topic": TOPIC, "messages": messages, "value_bytes": VALUE_BYTES, "node_pids": list(node_pids)}
    bench.client.ask("produce", bootstrap=bootstrap, **stream, acks=acks)
    bench.client.ask("consume", bootstrap=bootstrap, **stream)
