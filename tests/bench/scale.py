"""How much a run does: a full one, a quick one for every day, and a tiny one that only shows that all rows run."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Scale:
    """Amounts of one run."""

    name: str
    rounds: int
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
    topics: int
    """With `partitions_each` partitions, for the row with many of them."""
    partitions_each: int
    kills: int
    """Of leaders in one case."""
    idle_s: float
    """How long an idle node is watched."""


FULL = Scale(
    "full",
    rounds=3,
    stream_bytes=400_000_000,
    stream_messages_max=1_000_000,
    memory_bytes=1_000_000_000,
    settle_s=5,
    requests=60_000,
    latencies=2_000,
    topics=10,
    partitions_each=1_000,
    kills=20,
    idle_s=10,
)
QUICK = Scale(
    "quick",
    rounds=1,
    stream_bytes=100_000_000,
    stream_messages_max=250_000,
    memory_bytes=200_000_000,
    settle_s=5,
    requests=20_000,
    latencies=500,
    topics=10,
    partitions_each=100,
    kills=3,
    idle_s=5,
)
TINY = Scale(
    "tiny",
    rounds=1,
    stream_bytes=100_000,
    stream_messages_max=500,
    memory_bytes=100_000,
    settle_s=0.01,
    requests=300,
    latencies=10,
    topics=2,
    partitions_each=10,
    kills=1,
    idle_s=0.05,
)
SCALES = {scale.name: scale for scale in (FULL, QUICK, TINY)}
