"""What goes wrong in a simulated world, and when: a schedule drawn from the seed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

from chronik.sim.coverage import register
from chronik.sim.disk_faults import DiskFaults
from chronik.sim.door_faults import BREAKING, DoorFaults
from chronik.sim.host import Host
from chronik.sim.voters import VoterChanges
from chronik.sim.wire_faults import WireFaults

if TYPE_CHECKING:
    from chronik.sim.world import World

SKEW_MAX_MS = 50 * 60_000  # within what `message.timestamp.after.max.ms` takes by default
ROLLED_S = 15.0  # how long a rolling restart waits for one node before it goes on to the next

# How often each happens, among all faults. Those of the second table only where a write is safe once it is synced.
ANY_DURABILITY = {
    "kill": 10,
    "stop": 6,
    "pause": 6,
    "full": 5,
    "slow_sync": 6,
    "reset": 10,
    "cut": 8,
    "slow_wire": 5,
    "lossy_wire": 4,
    "clock": 5,
}
# Once in a world, and only where all replicas have everything.
ONCE = {"wipe": 3}
SYNCED_ONLY = {"power": 14, "sync_error": 4, "write_error": 3, "flip": 5, "lost_page": 2}
AMONG_NODES = {"kill_leader": 12, "pause_leader": 5, "isolate": 12, "split": 12, "rolling": 5}
OF_LEADERS = ("kill_leader", "pause_leader")  # that hit one that others depend on
register(*ANY_DURABILITY, *SYNCED_ONLY, *AMONG_NODES, *ONCE)


class Faults:
    """Makes things go wrong, one after the other."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._chance = world.chance.other("faults")
        self._loop = world.loop
        self._is_over = False
        self._wiped: Host | None = None  # it lost its disk
        self.counts: dict[str, int] = {}
        disks, wires = DiskFaults(world, self._chance), WireFaults(world, self._chance)
        self._doors = DoorFaults(world, self.counts)
        self.kinds: dict[str, Callable[[Host], None]] = {}
        for kind in (*ANY_DURABILITY, *SYNCED_ONLY, *AMONG_NODES, *ONCE):
            place = next(place for place in (self, disks, wires) if hasattr(place, kind))
            self.kinds[kind] = getattr(place, kind)

    async def run(self, seconds: float) -> None:
        """For so long; each fault ends by itself, or by `heal`."""
        weights = dict(ANY_DURABILITY)
        if self._world.is_synced:
            weights.update(SYNCED_ONLY)
        if self._world.node_count > 1:
            weights.update(AMONG_NODES | ONCE)
        # Not every world has every fault: few kinds at once go deeper into what each of them does.
        kinds = {kind: weight for kind, weight in weights.items() if self._chance.happens(0.6)} or weights
        gap_s = self._chance.between(0.3, 2.5)
        until = self._loop.time() + seconds
        self._loop.create_task(self._doors.run())
        while True:
            await asyncio.sleep(self._chance.between(0.1, 2 * gap_s))
            if self._loop.time() >= until:
                return
            if self._wiped is not None and not self._world.inspector.has_all(self._wiped):
                continue  # one more now, and what was safe may be nowhere: no promise covers that
            kind = self._chance.weighted(kinds)
            self.counts[kind] = self.counts.get(kind, 0) + 1
            host = self._chance.one_of(self._world.hosts)
            if kind in OF_LEADERS:
                host = self._leader(host)
            self._world.coverage.met(kind, host)
            self.kinds[kind](host)
            if kind in ONCE:
                kinds[kind] = 0

    def heal(self) -> None:
        """The bad days are over: everything that is down comes up, and nothing goes wrong any more."""
        self._is_over = True
        self._world.story.tell("faults", "are over")
        self._world.wires.heal()
        self._doors.end()
        for host in self._world.hosts:
            host.disk.failures.clear()
            host.disk.room_bytes = None
            host.disk.mood = type(host.disk.mood)()
            host.resume()
            host.start()

    def _later(self, low_s: float, high_s: float, action: Callable[[], None]) -> None:
        self._loop.outside(self._chance.between(low_s, high_s), action)

    def _leader(self, host: Host) -> Host:
        """A node that others depend on: one that leads a partition or the quorum; this one when there is none."""
        found = self._world.inspector.leaders()
        return self._chance.one_of(found) if found else host

    def kill(self, host: Host) -> None:
        host.kill()

    def kill_leader(self, host: Host) -> None:
        host.kill()

    def stop(self, host: Host) -> None:
        host.stop(lambda: self._later(0.1, 2.0, host.start))

    def power(self, host: Host) -> None:
        host.power_cut()
        self._later(0.2, 3.0, host.start)

    def wipe(self, host: Host) -> None:
        is_calm = all(other.is_up and not other.disk.is_troubled for other in self._world.hosts)
        is_calm = (
            is_calm
            and "sync_error" not in self.counts
            and "write_error" not in self.counts
            and not any(kind in self.counts for kind in BREAKING)
        )  # their kills come
        votes = [client for client in self._world.population.clients if isinstance(client, VoterChanges)]
        is_calm = is_calm and not any(client.is_under_way for client in votes)
        if is_calm and self._world.inspector.is_calm():
            self._wiped = host
            host.lose_disk()
            self._world.inspector.copies.lost_disk(host.node_id)
            self._later(0.2, 3.0, host.start)

    def pause(self, host: Host) -> None:
        host.pause()
        self._later(0.1, 9.0, host.resume)

    def pause_leader(self, host: Host) -> None:
        self.pause(host)

    def clock(self, host: Host) -> None:
        host.clock.skew_ms = round(self._chance.between(-SKEW_MAX_MS, SKEW_MAX_MS))
        self._world.story.tell("faults", f"{host.name}'s clock is off by {host.clock.skew_ms} ms")

    def rolling(self, host: Host) -> None:
        """All nodes, one after the other, in order."""
        self._world.story.tell("faults", "a rolling restart begins")
        self._loop.create_task(self._roll())

    async def _roll(self) -> None:
        for host in self._world.hosts:
            host.stop(host.start)
            until = self._loop.time() + ROLLED_S
            while self._loop.time() < until:
                await asyncio.sleep(0.2)
                if self._is_over:
                    return
                if host.is_up:
                    break
