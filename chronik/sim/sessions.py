"""Looks into coordinators for members of KIP-848 groups whose sessions have ended: they cannot know that themselves."""

from __future__ import annotations

from collections.abc import Iterable

from chronik.core.machines.groups.consumer_group import ConsumerGroup
from chronik.core.machines.groups.machine import GroupsMachine
from chronik.sim.holders import Holders


class SimSessions:
    """Compares what a coordinator has with what it had at the last look."""

    def __init__(self, holders: Holders) -> None:
        self._holders = holders
        self._seen: dict[tuple[int, int, str], tuple[GroupsMachine, dict[str, None]]] = {}
        self._ended: dict[str, dict[str, None]] = {}  # by group: the members whose session any coordinator has ended

    def look(self, node_id: int, machines: Iterable[GroupsMachine], now_ms: int) -> None:
        for machine in machines:
            for group in machine.groups.values():
                if isinstance(group, ConsumerGroup):
                    self._look_at(node_id, machine, group, now_ms)

    def _look_at(self, node_id: int, machine: GroupsMachine, group: ConsumerGroup, now_ms: int) -> None:
        place = node_id, machine.partition, group.group_id
        seen = self._seen.get(place)
        ended = self._ended.setdefault(group.group_id, {})
        if seen is not None and seen[0] is machine:
            if seen[1].keys() == group.subscribers.keys():
                return
            gone = [member_id for member_id in seen[1] if member_id not in group.subscribers]
            ended.update(dict.fromkeys(gone))
        else:
            # A coordinator that takes over knows what its log says, and has ended nothing itself. But an end that was
            # not safe when another took over, which went on with the member, may be in the log of this one (seed 59).
            gone = [member_id for member_id in ended if member_id not in group.subscribers]
        for member_id in gone:
            self._holders.ended(group.group_id, member_id, now_ms)
        self._seen[place] = machine, dict.fromkeys(group.subscribers)
