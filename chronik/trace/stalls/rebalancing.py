"""Group is rebalancing: nothing reads while a group deals out its partitions, and it does not come to an end.

Either it has not been stable for long, or it is dealt out anew again and again, with members coming and going, or
without any change of members at all. A group that grows or shrinks step by step is only that. Known from state alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from chronik.trace.events import GroupChanged, GroupSeen
from chronik.trace.stalls.history import EventHistory, GroupPast
from chronik.trace.stalls.limits import Limits
from chronik.trace.stalls.words import clock, counted, listed, seconds, times
from chronik.trace.verdicts import Cause, Verdict

AT_REST = frozenset({"Stable", "Empty", "Dead"})
SPAN_SHARE = 3  # rebalances are 'again and again' when they fill this part of the time


def find(history: EventHistory, limits: Limits) -> Iterator[Verdict]:
    for group, past in history.groups.items():
        if past.seen and history.is_within(past.seen[-1].at_us, limits.fresh_ms):
            found = _lasts(group, past, limits) or _again(group, past, history, limits)
            if found is not None:
                yield found


def _lasts(group: str, past: GroupPast, limits: Limits) -> Verdict | None:
    last = past.seen[-1]
    if last.state in AT_REST:
        return None
    rest_us = max((change.at_us for change in past.changed if change.state in AT_REST), default=0)
    since_us = last.at_us - max(last.state_ms, 0) * 1000
    for seen in reversed(past.seen):
        if seen.state in AT_REST or seen.at_us < rest_us:
            break
        since_us = min(since_us, seen.at_us)
    if last.at_us - since_us < limits.rebalance_ms * 1000:
        return None
    joined = {event.member_id for event in past.joined if event.at_us >= since_us}
    waited_for = [f"{who.client_id!r} on {who.host}" for who in last.members if who.member_id not in joined]
    evidence = [
        f"at {clock(last.at_us)} its coordinator, node {last.node}, has it in state {last.state}, generation "
        f"{last.generation}, with {counted(len(last.members), 'member')}",
        *(
            f"at {clock(change.at_us)} it went from {change.state_before} to {change.state}"
            for change in past.changed[-3:]
            if change.at_us >= since_us
        ),
    ]
    if joined and waited_for:
        evidence.append(f"joined again since: {counted(len(joined), 'member')}; not yet: {listed(waited_for[:5])}")
    # With KIP-848 only those partitions wait that change hands.
    effect = "partitions wait for their new readers" if last.type == "consumer" else "nothing reads"
    return Verdict(
        Cause.GROUP_REBALANCING,
        f"group {group!r} is {last.state} since {clock(since_us)} ({seconds(last.at_us - since_us)}): {effect}",
        tuple(evidence),
        "it waits for members that do not answer: see what they do between two polls, and stop those that hang; it "
        "waits no longer than max.poll.interval.ms (the rebalance timeout) of its members",
        since_us,
        group=group,
        node=last.node,
    )


def _again(group: str, past: GroupPast, history: EventHistory, limits: Limits) -> Verdict | None:
    seen = [each for each in past.seen if history.is_within(each.at_us, limits.churn_ms)]
    began = _generations(past, history, limits)
    rebalances_us = sorted(began.values())[1:]  # the first generation is the one before all that
    if len(rebalances_us) < limits.rebalances:
        return None
    first_us, last_us = rebalances_us[0], rebalances_us[-1]
    is_long = last_us - first_us >= limits.churn_ms * 1000 // SPAN_SHARE
    if not is_long or not history.is_within(last_us, limits.rebalance_ms):
        return None
    came, went = _came_and_went(seen)
    if (came, went) != (0, 0) and min(came, went) < limits.repeats:
        return None
    told: list[GroupSeen | GroupChanged] = [*seen, *past.changed]
    if any(first_us <= each.at_us <= last_us and _is_empty(each) for each in told):
        return None  # one that comes and goes alone, a job maybe, keeps no other member from reading
    last = seen[-1]
    left = [event for event in past.left if history.is_within(event.at_us, limits.churn_ms)]
    evidence = [
        f"generations {min(began)} to {max(began)} between {clock(first_us)} and {clock(last_us)}",
        f"members came {times(came)} and went {times(went)} meanwhile; there are {len(last.members):,} now",
        *(f"at {clock(event.at_us)} {event.client_id!r} on {event.host} left ({event.reason})" for event in left[-3:]),
    ]
    return Verdict(
        Cause.GROUP_REBALANCING,
        f"group {group!r} was dealt out anew {times(len(rebalances_us))} in {seconds(last_us - first_us)}: "
        "nothing reads meanwhile",
        tuple(evidence),
        "see which consumers come and go (evidence), and why: restarts, crashes, timeouts; give members a "
        "group.instance.id if they restart often",
        first_us,
        group=group,
        node=last.node,
    )


def _is_empty(told: GroupSeen | GroupChanged) -> bool:
    members = told.members if isinstance(told, GroupChanged) else len(told.members)
    return members == 0


def _generations(past: GroupPast, history: EventHistory, limits: Limits) -> dict[int, int]:
    """When each generation was first seen, within the time that counts."""
    began: dict[int, int] = {}
    told: list[GroupSeen | GroupChanged] = [*past.seen, *past.changed]
    for event in sorted(told, key=lambda each: each.at_us):
        if history.is_within(event.at_us, limits.churn_ms):
            began.setdefault(event.generation, event.at_us)
    return began


def _came_and_went(seen: list[GroupSeen]) -> tuple[int, int]:
    """How often that happened: several together are one time."""
    came = went = 0
    for before, after in pairwise(seen):
        earlier = {member.member_id for member in before.members}
        later = {member.member_id for member in after.members}
        came, went = came + bool(later - earlier), went + bool(earlier - later)
    return came, went
