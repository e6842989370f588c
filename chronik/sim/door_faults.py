"""Phases in which any call of a node's Files door may fail, with any error of a list.

Dice of their own: a world has the same other faults with them and without.
"""

from __future__ import annotations

import asyncio
import errno
from typing import TYPE_CHECKING

from chronik.sim.coverage import register
from chronik.sim.files import Trouble
from chronik.sim.host import Host

if TYPE_CHECKING:
    from chronik.sim.world import World

IN_WORLDS = 0.4  # of all
BREAKS = 0.3  # how often a phase is one of errors that do not pass
NO_ROOM = 0.25  # how many of those are of syncs that find no room
NEED_DESCRIPTORS = ("read", "write", "sync", "make", "names", "list")
NEED_ROOM = ("write", "make", "rename")
# Passes, and leaves nothing behind but a piece of what was to be written.
SHORT = {
    "EMFILE": NEED_DESCRIPTORS,
    "ENFILE": NEED_DESCRIPTORS,
    "ENOMEM": NEED_DESCRIPTORS,
    "ENOSPC": NEED_ROOM,
}
BROKEN: tuple[str, ...] = ("read", "write", "sync", "make", "names", "rename", "remove", "list")
UNSYNCED: tuple[str, ...] = ("sync", "names")
BREAKING = ("broken", "broken_ENOSPC")  # these leave copies offline
register(*(f"short_{name}" for name in SHORT), *BREAKING)


class DoorFaults:
    """Makes doors stick, one after the other."""

    def __init__(self, world: World, counts: dict[str, int], in_worlds: float = IN_WORLDS) -> None:
        self._world = world
        self._chance = world.chance.other("doors")
        self._counts = counts
        self._is_over = not self._chance.happens(in_worlds)

    async def run(self) -> None:
        """Until `end`."""
        gap_s = self._chance.between(0.5, 4.0)
        while True:
            await asyncio.sleep(self._chance.between(0.1, 2 * gap_s))
            if self._is_over:
                return
            host = self._chance.one_of(self._world.hosts)
            if host.disk.is_troubled:
                continue
            # With a disk that was lost, one more that fails may be one too many: nothing promises to survive that.
            may_break = self._world.is_synced and "wipe" not in self._counts
            if self._chance.happens(BREAKS) and may_break:
                self._break(host)
            else:
                self._run_short(host)

    def _run_short(self, host: Host) -> None:
        name = self._chance.one_of(tuple(SHORT))
        calls = [call for call in SHORT[name] if self._chance.happens(0.7)] or ["write"]
        self._begin(host, f"short_{name}", calls, getattr(errno, name), self._chance.between(0.1, 3.0))

    def _break(self, host: Host) -> None:
        """What it hit is offline until its node is started again. A file system that gives out room late says in a sync
        that there is none: the bytes are as lost as after an I/O error."""
        kind, code, kinds_of_calls = "broken", errno.EIO, BROKEN
        if self._chance.happens(NO_ROOM):
            kind, code, kinds_of_calls = "broken_ENOSPC", errno.ENOSPC, UNSYNCED
        calls = [call for call in kinds_of_calls if self._chance.happens(0.3)] or ["sync"]
        self._begin(host, kind, calls, code, self._chance.between(0.02, 0.5))
        self._world.loop.outside(self._chance.between(1.0, 4.0), host.kill)

    def _begin(self, host: Host, kind: str, calls: list[str], code: int, seconds: float) -> None:
        often = self._chance.one_of((0.02, 0.2, 1.0))
        self._counts[kind] = self._counts.get(kind, 0) + 1
        self._world.coverage.met(kind, host)
        host.disk.trouble = Trouble(frozenset(calls), code, often, has_begun=kind in BREAKING)
        self._world.story.tell(
            "faults", f"{host.name}'s door: {', '.join(calls)} fail with {errno.errorcode[code]}, {often:.0%}"
        )
        self._world.loop.outside(seconds, lambda: self._end(host))

    def _end(self, host: Host) -> None:
        host.disk.trouble = None

    def end(self) -> None:
        """Every door opens again."""
        self._is_over = True
        for host in self._world.hosts:
            host.disk.trouble = None
