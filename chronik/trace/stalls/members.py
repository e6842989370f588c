"""What members of groups do with the partitions that are theirs to read: which they ask for, and which not.

A fetch does not say for which group it is, so members are known again by their client id; hosts may differ, where nodes
pass fetches on. Another client of that name is taken for the member: better no verdict than a wrong one.

That a partition is not asked for says little: a consumer that still has records does not ask for more, and some clients
ask for nothing as long as they have records of any partition. How long is too long is for the rules to say.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeAlias

from chronik.trace.events import FetchAnswered, GroupSeen, MemberSeen
from chronik.trace.stalls.history import CommitSeen, EventHistory, Partition
from chronik.trace.stalls.limits import Limits

Waiting: TypeAlias = frozenset[tuple[str, Partition]]


@dataclass(frozen=True, slots=True)
class Unasked:
    """A partition that its reader does not ask for now, although there is more in it."""

    partition: Partition
    since_us: int  # and everything is known that was asked from then on
    until_us: int  # when it was last seen
    asked_us: int | None  # when it was last asked for
    given: int | None  # everything below this
    committed: int | None
    watermark: int
    leader: int

    @property
    def name(self) -> str:
        return f"{self.partition[0]}:{self.partition[1]}"


@dataclass(frozen=True, slots=True)
class MemberReading:
    """What a member does with what it was given to read."""

    group: str
    member: MemberSeen
    asked: list[Partition]  # lately, or it waits for an answer right now
    unasked: list[Unasked]
    commits_us: list[int]  # when its work was seen to go on
    is_done: bool  # all that it was given, of all its partitions, is committed; as far as is known


def readings(history: EventHistory, limits: Limits) -> Iterator[MemberReading]:
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
    group: str, member: MemberSeen, seen: list[GroupSeen], waiting: Waiting, history: EventHistory, limits: Limits
) -> MemberReading:
    unasked: list[Unasked] = []
    asked: list[Partition] = []
    commits_us: list[int] = []
    is_done = True
    for partition in member.assigned:
        commits = history.commits.get((group, partition), [])
        commits_us += [commit.at_us for commit in commits]
        given = _given(history, member.client_id, partition)
        is_done = is_done and given is not None and bool(commits) and commits[-1].offset >= given
        asked_us = _last_asked_us(history, member.client_id, partition, waiting)
        if asked_us is not None and history.is_within(asked_us, limits.fresh_ms):
            asked.append(partition)
            continue
        since_us = max(_assigned_since_us(seen, member, partition), asked_us or 0)
        found = _unasked(partition, since_us, asked_us, given, commits[-1:], history, limits)
        if found is not None:
            unasked.append(found)
    return MemberReading(group, member, asked, unasked, sorted(commits_us), is_done)


def _assigned_since_us(seen: list[GroupSeen], member: MemberSeen, partition: Partition) -> int:
    """Since when the partition is known to be this member's, with the group stable."""
    since_us = seen[-1].at_us
    for each in reversed(seen):
        is_its = any(who.member_id == member.member_id and partition in who.assigned for who in each.members)
        if each.state != "Stable" or not is_its:
            break
        since_us = each.at_us
    return since_us


def _last_asked_us(history: EventHistory, client_id: str, partition: Partition, waiting: Waiting) -> int | None:
    if (client_id, partition) in waiting:
        return history.now_us
    fetches = history.fetches_by_name.get((client_id, partition))
    return fetches[-1].at_us if fetches else None


def _given(history: EventHistory, client_id: str, partition: Partition) -> int | None:
    fetches = history.fetches_by_name.get((client_id, partition), ())
    return max((fetch.to_offset for fetch in fetches if isinstance(fetch, FetchAnswered)), default=None)


def _unasked(
    partition: Partition,
    since_us: int,
    asked_us: int | None,
    given: int | None,
    commits: list[CommitSeen],
    history: EventHistory,
    limits: Limits,
) -> Unasked | None:
    past = history.partitions.get(partition)
    known_us = None if past is None else history.known_since_us(past)
    if past is None or known_us is None or not history.is_within(past.seen[-1].at_us, limits.fresh_ms):
        return None
    seen = past.seen[-1]
    committed = commits[-1].offset if commits else None
    position = max((offset for offset in (given, committed) if offset is not None), default=None)
    # The last stable offset bounds both kinds of reader; a partition without a position may be read from its end.
    if position is None or position >= seen.last_stable_offset:
        return None
    since_us = max(known_us, since_us)
    return Unasked(partition, since_us, seen.at_us, asked_us, given, committed, seen.watermark, seen.node)
