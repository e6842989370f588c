"""All rules over one history, and which verdicts remain: what another verdict explains is not reported twice."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain

from chronik.trace.events import AnyEvent
from chronik.trace.stalls import (
    behind,
    client_limits,
    fetching,
    hanging,
    leadership,
    never_produced,
    rebalancing,
    stopped,
    watermark,
)
from chronik.trace.stalls.history import EventHistory
from chronik.trace.stalls.limits import Limits
from chronik.trace.verdicts import Cause, Verdict

DEFAULT_LIMITS = Limits()

# Worst first: what concerns everyone before what concerns one client.
ORDER = (
    Cause.WATERMARK_STANDS_STILL,
    Cause.TRANSACTION_HANGS,
    Cause.FETCH_HANGS,
    Cause.REFUSED_FOR_LEADERSHIP,
    Cause.PARTITION_BEHIND,
    Cause.CLIENT_LIMIT,
    Cause.GROUP_REBALANCING,
    Cause.CONSUMER_STOPPED,
    Cause.NEVER_PRODUCED,
)
# What the former explain of the same client; of the same group; of the same topic.
OF_A_CLIENT = {
    Cause.PARTITION_BEHIND: (Cause.FETCH_HANGS, Cause.REFUSED_FOR_LEADERSHIP),
    Cause.CLIENT_LIMIT: (Cause.FETCH_HANGS,),
    Cause.CONSUMER_STOPPED: (Cause.FETCH_HANGS, Cause.REFUSED_FOR_LEADERSHIP, Cause.CLIENT_LIMIT),
}
OF_A_GROUP = {
    Cause.PARTITION_BEHIND: (Cause.GROUP_REBALANCING,),
    Cause.GROUP_REBALANCING: (Cause.CLIENT_LIMIT,),
    Cause.CONSUMER_STOPPED: (Cause.CLIENT_LIMIT, Cause.GROUP_REBALANCING),
}
OF_A_TOPIC = {Cause.NEVER_PRODUCED: (Cause.REFUSED_FOR_LEADERSHIP,)}


def find(
    events: Sequence[AnyEvent],
    now_us: int,
    limits: Limits = DEFAULT_LIMITS,
    expected: Mapping[str, int] | None = None,
) -> list[Verdict]:
    """What stalls at `now_us`, worst first; nothing where nothing does.

    `events` are those of all nodes, sorted by `at_us`, with a PartitionSeen of each partition and a GroupSeen of each
    group every second or so: what came before the first of them is not known, and nothing follows from its absence.
    `expected` is for callers that know what producers have sent: for a topic, where the sum of its partitions' next
    offsets should be. Without it nothing is called 'never produced': a topic may well be idle.
    """
    history = EventHistory(events, now_us)
    rules = (watermark, hanging, fetching, leadership, behind, client_limits, rebalancing, stopped)
    found = list(chain.from_iterable(rule.find(history, limits) for rule in rules))
    if expected:
        found += never_produced.find(history, limits, expected)
    return sorted(_unexplained(found), key=_rank)


def _unexplained(found: list[Verdict]) -> list[Verdict]:
    clients = {(verdict.cause, verdict.client_id) for verdict in found if verdict.client_id is not None}
    groups = {(verdict.cause, verdict.group) for verdict in found if verdict.group is not None}
    topics = {(verdict.cause, verdict.topic) for verdict in found if verdict.topic is not None}
    return [
        verdict
        for verdict in found
        if not any((cause, verdict.client_id) in clients for cause in OF_A_CLIENT.get(verdict.cause, ()))
        and not any((cause, verdict.group) in groups for cause in OF_A_GROUP.get(verdict.cause, ()))
        and not any((cause, verdict.topic) in topics for cause in OF_A_TOPIC.get(verdict.cause, ()))
    ]


def _rank(verdict: Verdict) -> tuple[int, str, int, str, str]:
    return (
        ORDER.index(verdict.cause),
        verdict.topic or "",
        verdict.partition,
        verdict.group or "",
        verdict.client_id or "",
    )
