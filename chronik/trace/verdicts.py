"""What stalls, and why: in the same words everywhere: the command line, the console, a Spark job."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum

import msgspec


class Cause(StrEnum):
    """Why messages do not arrive."""

    WATERMARK_STANDS_STILL = "watermark stands still"
    FETCH_HANGS = "fetch hangs"
    PARTITION_BEHIND = "one partition behind"
    REFUSED_FOR_LEADERSHIP = "refused for leadership"
    CONSUMER_STOPPED = "consumer stopped asking"
    GROUP_REBALANCING = "group is rebalancing"
    CLIENT_LIMIT = "client limit or timeout"
    NEVER_PRODUCED = "never produced"
    TRANSACTION_HANGS = "transaction hangs"


class Verdict(msgspec.Struct, frozen=True):
    """One thing that stalls. There is none without evidence."""

    cause: Cause
    summary: str  # one sentence: what, which, since when
    evidence: tuple[str, ...]  # what was seen, with times, offsets and names: enough to look it up again
    advice: str  # what to do about it
    since_us: int
    topic: str | None = None
    partition: int = -1
    group: str | None = None
    client_id: str | None = None
    host: str | None = None
    node: int = -1  # the one to look at: the follower that lags, the leader that does not answer
    transactional_id: str | None = None
    producer_id: int = -1


def together(verdicts: Iterable[Verdict]) -> list[list[Verdict]]:
    """One follower that stops holds many partitions: that is one thing to read, not a hundred."""
    alike: dict[tuple[object, ...], list[Verdict]] = {}
    for verdict in verdicts:
        blame = verdict.summary.rpartition("): ")[2] if verdict.client_id is None and verdict.group is None else None
        whose = verdict.group, verdict.client_id, verdict.transactional_id
        key = (verdict.cause, verdict.topic, verdict.node, *whose, blame)
        alike.setdefault(key, []).append(verdict)
    return list(alike.values())
