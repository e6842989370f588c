"""The Files door of a simulated node: a disk that takes its time, forgets in a power cut, and fails when told to.

A power cut leaves of each file what was synced and a prefix of what was appended since; of a file put in place without
a sync either the old or some beginning of the new; and a file removed since the last sync of its directory may be back.
"""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Awaitable, Sequence
from dataclasses import dataclass

from chronik.core.ports import File
from chronik.core.types import Buffer
from chronik.sim.chance import SimChance
from chronik.sim.memory_files import Content, MemoryFile, MemoryFiles

PAGE_BYTES = 512  # what is written or not as a whole


@dataclass(slots=True)
class DiskMood:
    """How the disk is today."""

    sync_s: tuple[float, float] = (0.0005, 0.008)
    read_s: tuple[float, float] = (0.0001, 0.004)
    uncached: float = 0.1  # how often a read has to wait for the disk


class SimFile(MemoryFile):
    """A file of a `SimDisk`."""

    _door: SimDisk

    def append(self, chunks: Sequence[Buffer]) -> None:
        super().append(chunks)
        self._door.fresh.add(self.path)

    def is_in_memory(self, position: int) -> bool:
        return self.path in self._door.fresh

    def read_cached(self, position: int, length: int) -> bytes | None:
        return None if self._door.is_read_slow() else self.read(position, length)

    def sync(self) -> None:
        self._door.make_durable(self.path, self.size())


class SimDisk(MemoryFiles):
    """The disk of one node. It outlives the node's processes."""

    def __init__(self, chance: SimChance) -> None:
        super().__init__()
        self._chance = chance
        self.mood = DiskMood()
        self.fresh: set[str] = set()  # written by the process that runs now
        self._poisoned: set[str] = set()  # a sync failed: later ones report success and do nothing
        self._ghosts: dict[str, bytes] = {}  # removed, and that has not been synced yet
        self.is_liar = False  # says that it synced and did not: no node can stand that, and the judge must see it
        self.torn_across: set[str] = set()  # directories where a segment lost bytes and a later one has some

    # --- the door

    def open(self, path: str) -> SimFile:
        return SimFile(self, path)

    def is_read_slow(self) -> bool:
        return self._chance.happens(self.mood.uncached)

    def make_durable(self, path: str, size: int) -> None:
        """Sync the first `size` bytes, which is what had been written when the sync began. Raises OSError."""
        try:
            self.before_sync(path)
        except OSError:
            # The kernel forgets that these pages were to be written: whoever tries again is told all is well.
            self._poisoned.add(path)
            raise
        content = self.contents.get(path)
        if content is None or path in self._poisoned or self.is_liar:
            return
        if content.durable is None:
            self._directory_synced(path)
        content.durable, content.cut_bytes = bytes(content.written[:size]), None

    def replace(self, path: str, content: Buffer, sync: bool = True) -> None:
        super().replace(path, content, sync)
        self._poisoned.discard(path)
        if sync:
            self._directory_synced(path)

    def rename(self, old: str, new: str) -> None:
        if not self.exists(old):
            raise FileNotFoundError(errno.ENOENT, "No such file or directory", old)
        super().rename(old, new)
        self._directory_synced(new)

    def remove(self, path: str) -> None:
        for name, content in self.contents.items():
            if (name == path or name.startswith(path + "/")) and content.durable is not None:
                self._ghosts[name] = content.durable
        super().remove(path)

    def _directory_synced(self, path: str) -> None:
        directory = path.rpartition("/")[0]
        for ghost in [ghost for ghost in self._ghosts if ghost.rpartition("/")[0] == directory]:
            del self._ghosts[ghost]

    def sync_later(self, files: Sequence[File]) -> Awaitable[list[OSError | None]]:
        return self._sync_slowly([(file.path, file.size()) for file in files])

    async def _sync_slowly(self, wanted: list[tuple[str, int]]) -> list[OSError | None]:
        await asyncio.sleep(self._chance.between(*self.mood.sync_s))
        outcomes: list[OSError | None] = []
        for path, size in wanted:
            try:
                self.make_durable(path, size)
                outcomes.append(None)
            except OSError as problem:
                outcomes.append(problem)
        return outcomes

    async def _remove(self, path: str) -> None:
        await asyncio.sleep(self._chance.between(*self.mood.read_s))
        self.remove(path)

    async def _read(self, file: File, position: int, length: int) -> bytes:
        await asyncio.sleep(self._chance.between(*self.mood.read_s))
        return file.read(position, length)

    # --- what happens to it

    @property
    def is_troubled(self) -> bool:
        """Whether it is full or broken right now."""
        return self.room_bytes is not None or bool(self.failures)

    def process_died(self) -> None:
        """The machine goes on, and with it everything that was written."""
        self.fresh.clear()
        self._poisoned.clear()

    def power_cut(self, keeps: float = 0.5) -> str:
        """What was not synced is lost or torn; each file keeps some of it by chance. Returns what happened."""
        lost = torn = 0
        shortened: set[str] = set()
        for path in sorted(self.contents):
            content = self.contents[path]
            left = self._left_of(content, keeps)
            directory = path.rpartition("/")[0]
            if path.endswith(".log"):
                if left and directory in shortened:
                    self.torn_across.add(directory)
                if len(left) < len(content.written):
                    shortened.add(directory)
            lost += len(content.written) - len(left)
            torn += left != content.durable
            if content.durable is None and not left and not self._chance.happens(keeps):
                del self.contents[path]
                continue
            survivor = self.contents[path] = Content(left)
            survivor.durable = left
        back = [path for path in sorted(self._ghosts) if path not in self.contents and self._chance.happens(keeps)]
        for path in back:
            survivor = self.contents[path] = Content(self._ghosts[path])
            survivor.durable = self._ghosts[path]
        self._ghosts.clear()
        self.process_died()
        return f"{lost} unsynced bytes lost, {torn} files torn" + (f", {', '.join(back)} back" if back else "")

    def _left_of(self, content: Content, keeps: float) -> bytes:
        durable, written = content.durable or b"", bytes(content.written)
        if written == durable or not self._chance.happens(keeps):
            return durable
        if written.startswith(durable):
            return written[: len(durable) + self._chance.below(len(written) - len(durable) + 1)]
        # Cut, or put in place of the old one, and then torn. What was not cut away is still what was synced.
        kept = min(content.cut_bytes, len(durable)) if content.cut_bytes is not None else 0
        return written[: kept + self._chance.below(len(written) - kept + 1)]

    def wipe(self) -> None:
        """Somebody put in a new one."""
        self.contents.clear()
        self._ghosts.clear()
        self.torn_across.clear()
        self.process_died()

    def lose_page(self, path: str) -> bool:
        """As a power cut that wrote a later page and not an earlier one. False when there is nothing to lose."""
        content = self.contents.get(path)
        if content is None or content.durable is None:
            return False
        first, last = len(content.durable), len(content.written) - 2 * PAGE_BYTES
        if last <= first:
            return False
        start = first + self._chance.below(last - first)
        content.written[start : start + PAGE_BYTES] = bytes(PAGE_BYTES)
        content.durable = bytes(content.written)
        return True
