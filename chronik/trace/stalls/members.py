"""Partitions that a member of a group was given to read, that have more, and that it does not ask for.

A fetch does not say for which group it is, so members are known again by their client id; hosts may differ, where nodes
pass fetches on. Somebody else of that name who asks is taken for the member: better no verdict than a wrong one.

A consumer may well not ask for a while because it still has what it was given. So: when the group has committed all
that was given, it should ask soon. When not, it is given more time, and a commit counts as a sign of life. One that
never commits is not judged.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import TypeAlias

from chronik.trace.events import FetchAnswered, GroupSeen, MemberSeen
from chronik.trace.stalls.history import History, Partition
from chronik.trace.stalls.limits import Limits

PACE_COMMITS = 5  # so many make a pace
PACE_FACTOR = 10

Waiting: TypeAlias = frozenset[tuple[str, Partition]]


@dataclass(frozen=True, slots=True)
class Unasked:
    """A partition that its reader does not ask for."""

    partition: Partition
    since_us: int
    asked_us: int | None  # when it last did
    given: int | None  # it was given everything below this
    committed: int | None
    watermark: int
    leader: int

    @property
    def name(self) -> str:
        return f"{self.partition[0]}:{self.partition[1]}"


@dataclass(frozen=True, slots=True)
class Reading:
    """What a member does with what it was given to read."""

    group: str
    member: MemberSeen
    unasked: list[Unasked]
    asked: list[Partition]  # lately, or waits for an answer right now


def readings(history: History, limits: Limits) -> Iterator[Reading]:
    """Of every member of a group that is stable."""
    waiting = frozenset(
        (wait.client_id, partition) for waits in history.waiting.values() for partition, wait in waits.items()
    )
    for group, past in history.groups.items():
        if not past.seen or not history.is_within(past.seen[-1].at_us, limits.fresh_ms):
            continue
        last = past.seen[-1]
        if last.state != "Stable":
            continue
        for member in last.members:
            yield _reading(group, member, past.seen, waiting, history, limits)


def _reading(
    group: str, member: MemberSeen, seen: list[GroupSeen], waiting: Waiting, history: History, limits: Limits
) -> Reading:
    unasked: list[Unasked] = []
    asked: list[Partition] = []
    for partition in member.assigned:
        asked_us = _last_asked_us(history, member.client_id, partition, waiting)
        if asked_us is not None and history.is_within(asked_us, limits.fresh_ms):
            asked.append(partition)
            continue
        found = _unasked(group, member, partition, asked_us, _given_since_us(seen, member, partition), history, limits)
        if found is not None:
            unasked.append(found)
    return Reading(group, member, unasked, asked)


def _given_since_us(seen: list[GroupSeen], member: MemberSeen, partition: Partition) -> int:
    """Since when the partition is known to be this member's, with the group stable."""
    since_us = seen[-1].at_us
    for each in reversed(seen):
        is_its = any(who.member_id == member.member_id and partition in who.assigned for who in each.members)
        if each.state != "Stable" or not is_its:
            break
        since_us = each.at_us
    return since_us


def _last_asked_us(history: History, client_id: str, partition: Partition, waiting: Waiting) -> int | None:
    if (client_id, partition) in waiting:
        return history.now_us
    fetches = history.fetches_by_name.get((client_id, partition))
    return fetches[-1].at_us if fetches else None


def _unasked(
    group: str,
    member: MemberSeen,
    partition: Partition,
    asked_us: int | None,
    given_since_us: int,
    history: History,
    limits: Limits,
) -> Unasked | None:
    past = history.partitions.get(partition)
    known_us = None if past is None else history.known_since_us(past)
    if past is None or known_us is None or not history.is_within(past.seen[-1].at_us, limits.fresh_ms):
        return None
    seen = past.seen[-1]
    given = _given_up_to(history, member.client_id, partition)
    commit = history.committed(group, partition)
    position = max((offset for offset in (given, commit and commit.offset) if offset is not None), default=None)
    # The last stable offset bounds both kinds of reader; a partition nobody has a position in may be read from its end.
    if position is None or position >= seen.last_stable_offset:
        return None
    since_us = max(known_us, given_since_us, asked_us or 0)
    allowed_ms = limits.unasked_ms
    if given is None or commit is None or commit.offset < given:
        commits_us = [each.at_us for each in history.commits.get((group, partition), ())]
        if not commits_us:
            return None  # it keeps its own books: nobody can tell whether it still works
        since_us = max(since_us, commits_us[-1])
        allowed_ms = _patience_ms(commits_us, limits)
    if seen.at_us - since_us < allowed_ms * 1000:
        return None
    return Unasked(partition, since_us, asked_us, given, commit.offset if commit else None, seen.watermark, seen.node)


def _given_up_to(history: History, client_id: str, partition: Partition) -> int | None:
    fetches = history.fetches_by_name.get((client_id, partition), ())
    return max((fetch.to_offset for fetch in fetches if isinstance(fetch, FetchAnswered)), default=None)


def _patience_ms(commits_us: list[int], limits: Limits) -> int:
    """One that committed every half second and stops is gone sooner than one that takes its time."""
    if len(commits_us) < PACE_COMMITS:
        return limits.unworked_ms
    longest_ms = max(later - earlier for earlier, later in pairwise(commits_us)) // 1000
    return min(max(PACE_FACTOR * longest_ms, limits.unasked_ms), limits.unworked_ms)
