"""Watermark stands still: there are records that no consumer may read yet, and it goes on.

Known from state alone: the same watermark at two times, with more behind it, has not moved in between. Under load there
is always more behind it, but it moves. Who holds it: an in-sync follower that has nothing above it; the leader, whose
own log is not synced further; or all of them, when fewer are in sync than `min.insync.replicas`. A follower that is not
in sync holds nothing. Too few in sync also means that acks=all is refused, with no gap at all to be seen.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from chronik.trace.events import FollowerSeen, PartitionSeen, RefusedEvent
from chronik.trace.stalls.history import EventHistory, PartitionPast
from chronik.trace.stalls.limits import Limits
from chronik.trace.stalls.words import clock, counted, listed, seconds, times
from chronik.trace.verdicts import Cause, Verdict

NOT_ENOUGH_REPLICAS = (19, 20)


def find(history: EventHistory, limits: Limits) -> Iterator[Verdict]:
    for past, seen in history.sights(limits.fresh_ms):
        since_us = _stands_since_us(past)
        refusals = _refusals(past, seen, history, limits)
        if since_us is not None and seen.at_us - since_us >= limits.stand_still_ms * 1000:
            yield _verdict(past, seen, since_us, refusals)
        elif refusals:
            yield _verdict(past, seen, refusals[0].at_us, refusals)


def _stands_since_us(past: PartitionPast) -> int | None:
    """Since when it is known to stand where it stands, with records behind it."""
    last = past.seen[-1]
    since_us = None
    for seen in reversed(past.seen):
        if seen.watermark != last.watermark or seen.next_offset <= seen.watermark:
            break
        since_us = seen.at_us
    return since_us


def _refusals(past: PartitionPast, seen: PartitionSeen, history: EventHistory, limits: Limits) -> list[RefusedEvent]:
    """Of producers with acks=all, for want of replicas in sync, if they go on."""
    if len(seen.in_sync) >= seen.in_sync_min:
        return []
    refusals = [refusal for refusal in past.refusals if refusal.code in NOT_ENOUGH_REPLICAS]
    if len(refusals) < limits.refusals or not history.is_within(refusals[-1].at_us, limits.fresh_ms):
        return []
    return refusals if refusals[-1].at_us - refusals[0].at_us >= limits.stand_still_ms * 1000 else []


def _verdict(past: PartitionPast, seen: PartitionSeen, since_us: int, refusals: list[RefusedEvent]) -> Verdict:
    blame, advice, node = _blame(seen)
    gap = seen.next_offset - seen.watermark
    evidence = [
        f"at {clock(seen.at_us)} its leader, node {seen.node} (epoch {seen.leader_epoch}), has records below "
        f"{seen.next_offset:,}, safe on its own disk below {seen.durable_end_offset:,}; "
        f"the watermark is {seen.watermark:,}",
        f"in sync are {listed(sorted(seen.in_sync))}; min.insync.replicas is {seen.in_sync_min}",
        *(_told(follower) for follower in seen.followers),
    ]
    if gap:
        evidence.insert(1, f"at {clock(since_us)} the watermark was {seen.watermark:,} already, with records behind it")
    if refusals:
        codes = Counter(refusal.error for refusal in refusals)
        evidence.append(
            f"producers were refused {listed(f'{code} {times(count)}' for code, count in codes.items())} "
            f"from {clock(refusals[0].at_us)} to {clock(refusals[-1].at_us)}"
        )
    what = f"hides {counted(gap, 'record')} above {seen.watermark:,}" if gap else "takes nothing with acks=all"
    return Verdict(
        Cause.WATERMARK_STANDS_STILL,
        f"{past.name} {what} since {clock(since_us)} ({seconds(seen.at_us - since_us)}): {blame}",
        tuple(evidence),
        advice,
        since_us,
        past.topic,
        past.partition,
        node=node,
    )


def _blame(seen: PartitionSeen) -> tuple[str, str, int]:
    """Who holds the watermark, what to do about it, and the node to look at."""
    in_sync = [follower for follower in seen.followers if follower.node in seen.in_sync]
    holders = [follower for follower in in_sync if follower.durable_end_offset <= seen.watermark]
    if len(seen.in_sync) < seen.in_sync_min:
        missing = [follower.node for follower in seen.followers if follower.node not in seen.in_sync]
        return (
            f"only {listed(sorted(seen.in_sync))} in sync, {seen.in_sync_min} wanted",
            f"start node {listed(missing)} or see why it does not catch up; or lower min.insync.replicas of the topic",
            missing[0] if missing else seen.node,
        )
    if seen.durable_end_offset <= seen.watermark:
        return (
            f"its leader, node {seen.node}, does not get its own log to disk",
            f"look at the disk of node {seen.node} (full, slow, failing), or move the leadership away from it",
            seen.node,
        )
    if not holders:  # one that has just caught up counts before it is called in sync
        holders = [follower for follower in seen.followers if 0 <= follower.durable_end_offset <= seen.watermark]
    if holders:
        names = listed(follower.node for follower in holders)
        noun = "follower" if len(holders) == 1 else "followers"
        return (
            f"{noun} {names} {'has' if len(holders) == 1 else 'have'} nothing above it",
            f"see whether node {names} runs and reaches node {seen.node}: restart it, or stop it for good; it then "
            "leaves the in-sync set, after replica.lag.time.max.ms at the latest",
            holders[0].node,
        )
    return (
        "everyone in sync has more, and yet it does not move",
        f"this is a fault of the leader: move the leadership away from node {seen.node} or restart it, and report it",
        seen.node,
    )


def _told(follower: FollowerSeen) -> str:
    where = (
        f"has everything below {follower.durable_end_offset:,}"
        if follower.durable_end_offset >= 0
        else "has not been heard of"
    )
    behind = f", {counted(follower.lag_records, 'record')} behind" if follower.lag_records else ""
    behind += f" for {follower.lag_ms / 1000:.1f} s" if behind and follower.lag_ms > 0 else ""
    heard = f", last fetch {follower.silent_ms / 1000:.1f} s ago" if follower.silent_ms >= 0 else ""
    state = "in sync" if follower.is_in_sync else "not in sync"
    return f"follower {follower.node} ({state}) {where}{behind}{heard}"
