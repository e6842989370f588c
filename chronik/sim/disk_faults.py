"""What goes wrong with disks: full, slow, failing, bits that turn over, pages that were never written."""

from __future__ import annotations

import contextlib
import errno
from collections.abc import Callable
from typing import TYPE_CHECKING

from chronik.core.errors import Corrupt
from chronik.core.log.scan import headers
from chronik.core.types import TopicPartition
from chronik.node.replication.checkpoints import SYNCED, decode
from chronik.sim.chance import SimChance
from chronik.sim.host import Host
from chronik.sim.memory_files import MemoryFiles

if TYPE_CHECKING:
    from chronik.sim.world import World


class DiskFaults:
    """Each method is one kind of fault, and sees to its end."""

    def __init__(self, world: World, chance: SimChance) -> None:
        self._world = world
        self._chance = chance

    def _tell(self, what: str) -> None:
        self._world.story.tell("faults", what)

    def _later(self, low_s: float, high_s: float, action: Callable[[], None]) -> None:
        self._world.loop.outside(self._chance.between(low_s, high_s), action)

    def full(self, host: Host) -> None:
        used = sum(len(content.written) for content in host.disk.contents.values())
        host.disk.room_bytes = used + self._chance.below(2_000)
        self._tell(f"{host.name}'s disk is nearly full")
        self._later(0.5, 4.0, lambda: self._room_again(host))

    def _room_again(self, host: Host) -> None:
        host.disk.room_bytes = None
        self._tell(f"{host.name}'s disk has room again")

    def slow_sync(self, host: Host) -> None:
        slow = self._chance.between(0.2, 5.0)
        host.disk.mood.sync_s = (slow / 2, slow)
        self._tell(f"{host.name}'s disk takes up to {slow:.1f} s for a sync")
        self._later(0.5, 6.0, lambda: setattr(host.disk, "mood", type(host.disk.mood)()))

    def sync_error(self, host: Host) -> None:
        self._error(host, "sync")

    def write_error(self, host: Host) -> None:
        self._error(host, "write")

    def _error(self, host: Host, what: str) -> None:
        """For a short while; a replica that it hit is offline until its node is started again."""
        ending = self._chance.one_of((".log", *(f"{n}/{0:020}.log" for n in self._world.names)))
        host.disk.failures[f"{what}:{ending}"] = OSError(errno.EIO, "Input/output error")
        self._tell(f"{host.name}'s disk fails: {what} of {ending}")
        self._later(0.02, 0.5, host.disk.failures.clear)
        self._later(1.0, 4.0, host.kill)

    def flip(self, host: Host) -> None:
        """Bits turn over while the machine is off, where that can be distinguished from a torn write."""
        host.power_cut()
        name = self._chance.one_of(self._world.names)
        paths = [path for path in host.disk.paths() if path.startswith(f"{name}/") and self._may_be_flipped(path)]
        if paths:
            path = self._chance.one_of(paths)
            size = self._synced_bytes(host, name, path)
            if size:
                self._world.judge.damaged(name, host.node_id)
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
        looked_at = MemoryFiles()  # not through the node's door, which may be in trouble
        looked_at.contents = host.disk.contents
        file = looked_at.open(path)
        if not path.endswith(".log"):
            return file.size()
        content = host.disk.contents.get(SYNCED)
        safe_offset = decode(SYNCED, bytes(content.written)).get(name, 0) if content is not None else 0
        safe_bytes = 0
        with contextlib.suppress(Corrupt):  # a torn tail
            for _, header in headers(file, 0, file.size()):
                safe_bytes += header.size_bytes if header.next_offset <= safe_offset else 0
        return safe_bytes

    def lost_page(self, host: Host) -> None:
        """A power cut that had written a later page and not an earlier one."""
        name = self._chance.one_of(self._world.names)
        paths = [path for path in host.disk.paths(".log") if path.startswith(f"{name}/")]
        lost = [path for path in paths if host.disk.lose_page(path)]
        if lost:
            self._world.judge.damaged(name, host.node_id)
            self._tell(f"pages of {', '.join(lost)} on {host.name} are not written")
        host.power_cut()
        self._later(0.2, 3.0, host.start)
