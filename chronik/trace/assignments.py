"""Which group a fetch was probably for. A fetch does not say; it is inferred, from which member had the partition then.

Pure, over events of coordinators. A member counts from when its group became stable with that assignment, or from when
it was first seen with it, up to when it left, its group was dealt out anew, or it was last seen with it. A reader
without a group that has a member's client id and host looks the same while that member has the partition: so what
comes of it is called inferred wherever it is shown.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from chronik.trace.events import AnyEvent, GroupChanged, GroupLeft, GroupSeen

STABLE = "Stable"


class Assignment(NamedTuple):
    """A member of a group had the partition, from then until then; both are included."""

    group: str
    member_id: str
    client_id: str
    host: str
    from_us: int
    to_us: int


def assignments_of(events: Iterable[AnyEvent], topic: str, partition: int) -> list[Assignment]:
    """Of one partition, by all groups that these events tell of."""
    by_group: dict[str, list[GroupSeen | GroupLeft | GroupChanged]] = {}
    for event in events:
        if isinstance(event, GroupSeen | GroupLeft | GroupChanged):
            by_group.setdefault(event.group, []).append(event)
    found: list[Assignment] = []
    for told in by_group.values():
        found += _of_group(sorted(told, key=lambda event: event.at_us), (topic, partition))
    return found


def _of_group(events: Sequence[GroupSeen | GroupLeft | GroupChanged], place: tuple[str, int]) -> list[Assignment]:
    ended: list[Assignment] = []
    held: dict[str, Assignment] = {}
    stable_us: dict[int, int] = {}  # by generation: when it was dealt out
    generation, dealt_anew_us = -1, None
    for event in events:
        match event:
            case GroupChanged():
                if event.state == STABLE:
                    stable_us.setdefault(event.generation, event.at_us)
                dealt_anew_us = dealt_anew_us or event.at_us
            case GroupLeft():
                if event.member_id in held:
                    ended.append(held.pop(event.member_id)._replace(to_us=event.at_us))
            case GroupSeen():
                is_new = event.generation != generation
                now = {one.member_id: one for one in event.members if place in one.assigned}
                for member_id in [each for each in held if is_new or each not in now]:
                    before = held.pop(member_id)
                    ended.append(before if dealt_anew_us is None else before._replace(to_us=dealt_anew_us))
                for member_id, one in now.items():
                    since_us = stable_us.get(event.generation, event.at_us) if is_new else event.at_us
                    new = Assignment(event.group, member_id, one.client_id, one.host, since_us, event.at_us)
                    held[member_id] = held.get(member_id, new)._replace(to_us=event.at_us)
                generation, dealt_anew_us = event.generation, None
    return [*ended, *held.values()]


def group_of(assignments: Iterable[Assignment], client_id: str, host: str, at_us: int) -> str | None:
    """The only group of which a member of this name, on this host, had the partition at that time."""
    groups = {
        each.group
        for each in assignments
        if (each.client_id, each.host) == (client_id, host) and each.from_us <= at_us <= each.to_us
    }
    return next(iter(groups)) if len(groups) == 1 else None
