"""How much a run does: a full one, a quick one for every day, and a tiny one that only shows that all rows run."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Scale:
    """Amounts of one run."""

    name: str
    rounds: int
    is_quick: bool
    """Whether only the cases and rows for every day are run, unless a row is asked for by its name."""
    warm_up_bytes: int
    """In and out of another topic before the clock runs: a JVM compiles what it has seen often."""
    stream_bytes: int
    """Through a topic in one throughput case, at most `stream_messages_max` messages of it."""
    stream_messages_max: int
    memory_bytes: int
    """Through the node before its memory is looked at again."""
    settle_s: float
    """After the start, before memory is looked at."""
    requests: int
    """One-record requests of one case."""
    latencies: int
    """Messages sent one at a time in one case."""
    paced_s: float
    """How long messages are sent at a steady rate, to see how long each takes."""
    paced_warm_up_s: float
    partitions: tuple[int, ...]
    """On one node, for the row with many of them; spread over ten topics."""
    kills: int
    """Of leaders in one case."""
    idle_s: float
    """How long an idle node is watched."""
    seed_messages: int
    """Of the seed run."""
    spark_rows: int
    """Of the topic that Spark reads."""
    spark_passes: int
    """How often it reads it in each way, once it is warm."""
    audited: tuple[int, int]
    """Records of two audits."""


FULL = Scale(
    "full",
    rounds=5,
    is_quick=False,
    warm_up_bytes=200_000_000,
    stream_bytes=400_000_000,
    stream_messages_max=1_000_000,
    memory_bytes=1_000_000_000,
    settle_s=5,
    requests=60_000,
    latencies=2_000,
    paced_s=10,
    paced_warm_up_s=5,
    partitions=(1_000, 10_000),
    kills=4,
    idle_s=10,
    seed_messages=5_000,
    spark_rows=4_000_000,
    spark_passes=3,
    audited=(10_000_000, 100_000_000),
)
QUICK = Scale(
    "quick",
    rounds=1,
    is_quick=True,
    warm_up_bytes=50_000_000,
    stream_bytes=100_000_000,
    stream_messages_max=250_000,
    memory_bytes=200_000_000,
    settle_s=2,
    requests=10_000,
    latencies=500,
    paced_s=3,
    paced_warm_up_s=2,
    partitions=(50, 500),
    kills=1,
    idle_s=1,
    seed_messages=5_000,
    spark_rows=1_000_000,
    spark_passes=2,
    audited=(1_000_000, 10_000_000),
)
TINY = Scale(
    "tiny",
    rounds=1,
    is_quick=False,
    warm_up_bytes=10_000,
    stream_bytes=100_000,
    stream_messages_max=500,
    memory_bytes=100_000,
    settle_s=0.01,
    requests=300,
    latencies=10,
    paced_s=0.02,
    paced_warm_up_s=0.01,
    partitions=(10, 20),
    kills=1,
    idle_s=0.05,
    seed_messages=60,
    spark_rows=500,
    spark_passes=1,
    audited=(2_000, 4_000),
)
SCALES = {scale.name: scale for scale in (FULL, QUICK, TINY)}
