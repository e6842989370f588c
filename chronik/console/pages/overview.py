"""The first page: is the cluster whole, and what stalls."""

from __future__ import annotations

from dataclasses import dataclass

from chronik.console.pages.frame import Frame
from chronik.console.sight import NodeSight, Sight, TopicSight
from chronik.console.words import listed, time_of
from chronik.inspect.live_model import Row
from chronik.trace.stalls import Limits
from chronik.trace.verdicts import Verdict, together

ROWS_MAX = 20
NAMED_MAX = 6


@dataclass(frozen=True)
class StallShown:
    cause: str
    summary: str
    since: str | None
    evidence: tuple[str, ...]
    advice: str
    others: str | None
    """Further partitions of the same stall."""
    topic: str | None
    partition: int | None
    group: str | None
    node: int | None


@dataclass(frozen=True)
class TroubledPartition:
    topic: str
    partition: int
    leader: int | None
    in_sync: tuple[int, ...]
    missing: tuple[int, ...]
    words: str


@dataclass(frozen=True)
class OverviewPage:
    frame: Frame
    nodes: tuple[NodeSight, ...]
    controller: int | None
    topics: int
    partitions: int
    groups: int
    under_replicated: int
    leaderless: int
    offline: int | None
    in_per_s: float | None
    largest_gap: int
    largest_gap_at: str | None
    lag: int | None
    stalls: tuple[StallShown, ...]
    stalls_words: str
    """What it means that nothing is listed."""
    troubled: tuple[TroubledPartition, ...]
    troubled_more: int
    busiest: tuple[TopicSight, ...]
    unknown: tuple[str, ...]


def overview_page(frame: Frame, sight: Sight) -> OverviewPage:
    troubled = [row for row in sight.rows if not row.is_heard or row.out_of_sync or row.offline]
    lags = [group.lag for group in sight.groups if group.lag is not None]
    controller = next((node.id for node in sight.nodes if node.is_controller), None)
    offline = [node.offline for node in sight.nodes if node.offline is not None]
    busiest = sorted(
        (topic for topic in sight.topics.values() if topic.in_per_s), key=lambda topic: -(topic.in_per_s or 0)
    )
    totals = sight.totals
    return OverviewPage(
        frame,
        sight.nodes,
        controller,
        sum(not topic.is_internal for topic in sight.topics.values()),
        totals.partitions,
        len(sight.groups),
        totals.under_replicated,
        totals.leaderless,
        sum(offline) if offline else None,
        totals.in_per_s,
        totals.gap_largest,
        totals.gap_largest_at,
        sum(lags) if lags else None,
        tuple(_stall(alike) for alike in together(sight.verdicts)),
        no_stalls_words(sight),
        tuple(_troubled(row) for row in troubled[:ROWS_MAX]),
        max(len(troubled) - ROWS_MAX, 0),
        tuple(busiest[:8]),
        sight.unknown,
    )


def no_stalls_words(sight: Sight) -> str:
    """No stall in the list is only good news where enough is known to say so."""
    if not sight.is_chronik:
        return "Not known: another Kafka does not tell what the rules for stalls need."
    is_too_little = sight.known_s is not None and sight.known_s * 1000 < Limits().stand_still_ms
    if is_too_little or sight.silent or not sight.nodes:
        return "No stall is seen, and too little is known yet to say that there is none."
    return "Nothing stalls."


def _stall(alike: list[Verdict]) -> StallShown:
    first = alike[0]
    others = [f"{each.topic}:{each.partition}" for each in alike[1:]]
    return StallShown(
        str(first.cause),
        first.summary,
        time_of(first.since_us / 1000),
        first.evidence,
        first.advice,
        listed(others, NAMED_MAX) if others else None,
        first.topic,
        first.partition if first.partition >= 0 else None,
        first.group,
        first.node if first.node >= 0 else None,
    )


def _troubled(row: Row) -> TroubledPartition:
    if row.offline:
        words = f"offline: {row.offline}"
    elif row.leader is None:
        words = "no leader"
    elif row.is_leader_unsure:
        words = f"node {row.leader} says that it leads, and may lead no more"
    elif not row.is_heard:
        words = f"its leader, node {row.leader}, does not answer"
    else:
        words = "under-replicated"
    return TroubledPartition(row.topic, row.partition, row.leader, row.in_sync, row.out_of_sync, words)
