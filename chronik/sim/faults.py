"""What goes wrong in a simulated world, and when: a schedule drawn from the seed."""

from __future__ import annotations

import asyncio
import contextlib
import errno
from collections.abc import Callable
from typing import TYPE_CHECKING

from chronik.core.errors import Corrupt
from chronik.core.log.scan import headers
from chronik.core.types import TopicPartition
from chronik.node.checkpoints import SYNCED, decode
from chronik.sim.host import Host
from chronik.sim.network import WireMood

if TYPE_CHECKING:
    from chronik.sim.world import World

SKEW_MAX_MS = 50 * 60_000  # within what `message.timestamp.after.max.ms` takes by default

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
    "clock": 5,
}
SYNCED_ONLY = {"power": 14, "sync_error": 4, "write_error": 3, "flip": 5, "lost_page": 2}


class Faults:
    """Makes things go wrong, one after the other."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._chance = world.chance.other("faults")
        self._loop = world.loop
        self.counts: dict[str, int] = {}

    async def run(self, seconds: float) -> None:
        """For so long; each fault ends by itself, or by `heal`."""
        weights = dict(ANY_DURABILITY)
        if self._world.is_synced:
            weights.update(SYNCED_ONLY)
        # Not every world has every fault: few kinds at once go deeper into what each of them does.
        kinds = {kind: weight for kind, weight in weights.items() if self._chance.happens(0.6)} or weights
        gap_s = self._chance.between(0.3, 2.5)
        until = self._loop.time() + seconds
        while True:
            await asyncio.sleep(self._chance.between(0.1, 2 * gap_s))
            if self._loop.time() >= until:
                return
            kind = self._chance.weighted(kinds)
            self.counts[kind] = self.counts.get(kind, 0) + 1
            action: Callable[[Host], None] = getattr(self, f"_{kind}")
            action(self._chance.one_of(self._world.hosts))

    def heal(self) -> None:
        """The bad days are over: everything that is down comes up, and nothing goes wrong any more."""
        self._world.story.tell("faults", "are over")
        self._world.wires.heal()
        for host in self._world.hosts:
            host.disk.failures.clear()
            host.disk.room_bytes = None
            host.disk.mood = type(host.disk.mood)()
            host.resume()
            host.start()

    def _tell(self, what: str) -> None:
        self._world.story.tell("faults", what)

    def _later(self, low_s: float, high_s: float, action: Callable[[], None]) -> None:
        self._loop.outside(self._chance.between(low_s, high_s), action)

    # --- processes

    def _kill(self, host: Host) -> None:
        host.kill()

    def _stop(self, host: Host) -> None:
        host.stop(lambda: self._later(0.1, 2.0, host.start))

    def _power(self, host: Host) -> None:
        host.power_cut()
        self._later(0.2, 3.0, host.start)

    def _pause(self, host: Host) -> None:
        host.pause()
        self._later(0.1, 9.0, host.resume)

    def _clock(self, host: Host) -> None:
        host.clock.skew_ms = round(self._chance.between(-SKEW_MAX_MS, SKEW_MAX_MS))
        self._tell(f"{host.name}'s clock is off by {host.clock.skew_ms} ms")

    # --- disks

    def _full(self, host: Host) -> None:
        used = sum(len(content.written) for content in host.disk.contents.values())
        host.disk.room_bytes = used + self._chance.below(2_000)
        self._tell(f"{host.name}'s disk is nearly full")
        self._later(0.5, 4.0, lambda: self._room_again(host))

    def _room_again(self, host: Host) -> None:
        host.disk.room_bytes = None
        self._tell(f"{host.name}'s disk has room again")

    def _slow_sync(self, host: Host) -> None:
        slow = self._chance.between(0.2, 5.0)
        host.disk.mood.sync_s = (slow / 2, slow)
        self._tell(f"{host.name}'s disk takes up to {slow:.1f} s for a sync")
        self._later(0.5, 6.0, lambda: setattr(host.disk, "mood", type(host.disk.mood)()))

    def _sync_error(self, host: Host) -> None:
        self._disk_error(host, "sync")

    def _write_error(self, host: Host) -> None:
        self._disk_error(host, "write")

    def _disk_error(self, host: Host, what: str) -> None:
        """For a short while; a replica that it hit is offline until its node is started again."""
        ending = self._chance.one_of((".log", *(f"{n}/{0:020}.log" for n in self._world.names)))
        host.disk.failures[f"{what}:{ending}"] = OSError(errno.EIO, "Input/output error")
        self._tell(f"{host.name}'s disk fails: {what} of {ending}")
        self._later(0.02, 0.5, host.disk.failures.clear)
        self._later(1.0, 4.0, host.kill)

    def _flip(self, host: Host) -> None:
        """Bits turn over while the machine is off, where that can be told from a torn write."""
        host.power_cut()
        name = self._chance.one_of(self._world.names)
        paths = [path for path in host.disk.paths() if path.startswith(f"{name}/") and self._may_be_flipped(path)]
        if paths:
            path = self._chance.one_of(paths)
            size = self._synced_bytes(host, name, path)
            if size:
                self._world.judge.damaged.add(name)
                bit = self._chance.below(size * 8)
                host.disk.flip(path, bit)
                host.disk.contents[path].durable = bytes(host.disk.contents[path].written)
                self._tell(f"bit {bit} of {path} on {host.name} turns over")
        self._later(0.2, 3.0, host.start)

    @staticmethod
    def _may_be_flipped(path: str) -> bool:
        return path.endswith((".log", ".index", ".timeindex", ".snapshot"))

    def _synced_bytes(self, host: Host, name: TopicPartition, path: str) -> int:
        """How much of the file can be damaged so that it is known for damage: below the recovery checkpoint."""
        file = host.disk.open(path)
        if not path.endswith(".log"):
            return file.size()
        content = host.disk.contents.get(SYNCED)
        safe_offset = decode(SYNCED, bytes(content.written)).get(name, 0) if content is not None else 0
        safe_bytes = 0
        with contextlib.suppress(Corrupt):  # a torn tail
            for _, header in headers(file, 0, file.size()):
                safe_bytes += header.size_bytes if header.next_offset <= safe_offset else 0
        return safe_bytes

    def _lost_page(self, host: Host) -> None:
        """A power cut that had written a later page and not an earlier one."""
        name = self._chance.one_of(self._world.names)
        paths = [path for path in host.disk.paths(".log") if path.startswith(f"{name}/")]
        lost = [path for path in paths if host.disk.lose_page(path)]
        if lost:
            self._world.judge.damaged.add(name)
            self._tell(f"pages of {', '.join(lost)} on {host.name} are not written")
        host.power_cut()
        self._later(0.2, 3.0, host.start)

    # --- wires

    def _reset(self, host: Host) -> None:
        ends = [pair for pair in self._world.wires.connections if host.name in (pair[0].host, pair[1].host)]
        if ends:
            client, server = self._chance.one_of(ends)
            both = self._chance.one_of(((client, server), (client,), (server,)))
            self._tell(f"the connection of {client.host} to {server.host} is reset, {len(both)} told")
            for end in both:
                end.reset()

    def _cut(self, host: Host) -> None:
        """One way or both, with one peer or with all."""
        peers = [client.network.host for client in self._world.clients] + [
            other.name for other in self._world.hosts if other is not host
        ]
        chosen = peers if self._chance.happens(0.3) else [self._chance.one_of(peers)]
        ways = self._chance.one_of(("in", "out", "both"))
        self._tell(f"{host.name} is cut off ({ways}) from {', '.join(chosen)}")
        pairs = [(peer, host.name) for peer in chosen if ways != "out"]
        pairs += [(host.name, peer) for peer in chosen if ways != "in"]
        for pair in pairs:
            self._world.wires.mood(*pair).is_cut = True
        self._later(0.5, 8.0, lambda: self._whole_again(pairs))

    def _whole_again(self, pairs: list[tuple[str, str]]) -> None:
        self._tell("the network is whole again")
        for pair in pairs:
            self._world.wires.mood(*pair).is_cut = False
        self._world.wires.go_on()

    def _slow_wire(self, host: Host) -> None:
        wires = self._world.wires
        mood = WireMood(delay_s=(0.001, self._chance.between(0.05, 1.5)), bytes_per_s=self._chance.between(5e3, 1e6))
        self._tell(f"the wires to and from {host.name} are slow")
        pairs = [(client.network.host, host.name) for client in self._world.clients]
        pairs += [(there, here) for here, there in pairs]
        for pair in pairs:
            before = wires.mood(*pair)
            wires.moods[pair] = WireMood(mood.delay_s, mood.bytes_per_s, before.is_cut)
        self._later(0.5, 6.0, lambda: self._quick_again(pairs))

    def _quick_again(self, pairs: list[tuple[str, str]]) -> None:
        for pair in pairs:
            self._world.wires.moods[pair] = WireMood(is_cut=self._world.wires.mood(*pair).is_cut)
