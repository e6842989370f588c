"""The Files door of a simulated node: a disk that takes its time, forgets in a power cut, and fails when asked to.

A power cut leaves of each file what was synced and a prefix of what was appended since; of a file put in place without
a sync either the old or some beginning of the new; and names as they were when their directory was synced, or as they
are (`names`). In a phase of trouble any call may fail, also after it has done its work (`trouble`).
"""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Awaitable, Sequence
from dataclasses import dataclass

from chronik.core.errors import SyncFailed, shortage_of
from chronik.core.ports import File
from chronik.core.types import Buffer
from chronik.sim.chance import SimChance
from chronik.sim.memory_files import Content, MemoryFile, MemoryFiles
from chronik.sim.names import Names

PAGE_BYTES = 512  # what is written or not as a whole


@dataclass(slots=True)
class DiskMood:
    """How the disk is today."""

    sync_s: tuple[float, float] = (0.0005, 0.008)
    read_s: tuple[float, float] = (0.0001, 0.004)
    uncached: float = 0.1  # how often a read has to wait for the disk


@dataclass(frozen=True, slots=True)
class Trouble:
    """What calls of the door meet: how often they fail, and how."""

    calls: frozenset[str]  # read, write, sync, make, names, rename, remove, list
    code: int
    often: float
    has_begun: bool = False  # a sync that fails had begun: what it was to write may be lost


class SimFile(MemoryFile):
    """A file of a `SimDisk`."""

    _door: SimDisk

    def append(self, chunks: Sequence[Buffer]) -> None:
        door, is_new = self._door, self.path not in self._door.contents
        if is_new:
            door.meet("make", self.path)
        try:
            super().append(chunks)
        except OSError as problem:
            door.cut_short(self.path, chunks, problem)
            raise
        content = door.contents[self.path]
        content.overhang = b""
        if is_new:
            door.entries.made(self.path, content)
        door.fresh.add(self.path)

    def truncate(self, size: int) -> None:
        super().truncate(size)
        content = self._content()
        if content is not None and content.overhang:
            self._door.before_write(self.path, 0)
            content.overhang = b""

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
        self.entries = Names()
        self._door_chance = chance.other("doors")
        self.trouble: Trouble | None = None  # what any call may meet, for a while
        self.is_liar = False  # says that it synced and did not: no node can stand that, and the judge must see it

    # --- the door

    def open(self, path: str) -> SimFile:
        return SimFile(self, path)

    def is_read_slow(self) -> bool:
        return self._chance.happens(self.mood.uncached)

    def make_durable(self, path: str, size: int) -> None:
        """Sync the first `size` bytes, which is what had been written when the sync began. Raises OSError."""
        try:
            self.before_sync(path)
        except OSError as problem:
            # The kernel forgets that these pages were to be written: a second sync says that all is well, also by
            # another process. Unless the file could not even be opened.
            if path in self.contents and shortage_of(problem) is None:
                self._poison(self.contents[path], size)
            raise
        content = self.contents.get(path)
        if content is None or self.is_liar:
            return
        if content.poisoned is not None and content.poisoned[0] < size:
            return
        content.durable, content.cut_bytes = bytes(content.written[:size]), None
        self._sync_names(path)

    @staticmethod
    def _poison(content: Content, size: int) -> None:
        durable, written = content.durable or b"", content.written
        same = len(durable) if written.startswith(durable) else content.cut_bytes or 0
        content.poison(same, size)

    def replace(self, path: str, content: Buffer, sync: bool = True) -> None:
        self.meet("make", path)  # of the file beside it, and of its directory
        if sync:
            self.before_sync(path)
        self.meet("rename", path)
        super().replace(path, content, sync)
        made = self.contents[path]
        if not sync:
            made.durable = None
        self.entries.made(path, made)
        if sync:
            self._sync_names(path)

    def rename(self, old: str, new: str) -> None:
        self.meet("rename", old)
        is_file = old in self.contents
        super().rename(old, new)
        if is_file:
            self.entries.renamed(old, new, self.contents[new])
            self._sync_names(new)
        else:
            self.entries.directory_renamed(old, new)

    def remove(self, path: str) -> None:
        self.meet("remove", path)
        for name in self.contents:
            if name == path or name.startswith(path + "/"):
                self.entries.removed(name)
        super().remove(path)

    def names(self, path: str) -> list[str]:
        self.meet("list", path)
        return super().names(path)

    def before_read(self, path: str) -> None:
        super().before_read(path)
        self.meet("read", path)

    def before_write(self, path: str, size: int) -> None:
        self.meet("write", path)
        super().before_write(path, size)

    def before_sync(self, path: str) -> None:
        super().before_sync(path)
        self.meet("sync", path)

    def _sync_names(self, path: str) -> None:
        self.meet("names", path)
        self.entries.synced(path)

    def meet(self, what: str, path: str) -> None:
        """Raises OSError in a phase of trouble, now and then."""
        trouble = self.trouble
        if trouble is not None and what in trouble.calls and self._door_chance.happens(trouble.often):
            kind = SyncFailed if trouble.has_begun and what in ("sync", "names") else OSError
            raise kind(trouble.code, f"{errno.errorcode[trouble.code]} ({what})", path)

    def cut_short(self, path: str, chunks: Sequence[Buffer], problem: OSError) -> None:
        """A disk that is full takes some of it. It is cut back, and if that fails too the next append writes over it;
        but another process finds it."""
        content, added = self.contents.get(path), b"".join(bytes(chunk) for chunk in chunks)
        if content is not None and added and problem.errno == errno.ENOSPC and self._door_chance.happens(0.3):
            content.overhang = added[: self._door_chance.below(len(added))]

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
        return self.room_bytes is not None or bool(self.failures) or self.trouble is not None

    def process_died(self) -> None:
        """The machine goes on, and with it everything that was written, and what a failed sync has left."""
        self.fresh.clear()
        for content in self.contents.values():
            if content.overhang:
                content.written += content.overhang
                content.overhang = b""

    def power_cut(self, keeps: float = 0.5) -> str:
        """What was not synced is lost or torn; each file keeps some of it by chance. Returns what happened."""
        lost = torn = 0
        named, before = self.entries.left(lambda: self._door_chance.happens(keeps)), set(self.contents)
        self.contents = {}
        for path in sorted(named):
            content = named[path]
            left = self._left_of(content, keeps)
            lost += len(content.written) - len(left)
            torn += left != content.durable
            survivor = self.contents[path] = Content(left)
            survivor.durable = left
            self.entries.put(path, survivor)
        self.process_died()
        back, gone = sorted(set(self.contents) - before), sorted(before - set(self.contents))
        words = f"{lost} unsynced bytes lost, {torn} files torn"
        return words + (f", {', '.join(back)} back" if back else "") + (f", {', '.join(gone)} gone" if gone else "")

    def _left_of(self, content: Content, keeps: float) -> bytes:
        durable, written = content.durable or b"", bytes(content.written)
        if content.poisoned is not None:
            written = written[: content.poisoned[0]]
        if written == durable or not self._chance.happens(keeps):
            return durable
        if written.startswith(durable):
            return written[: len(durable) + self._chance.below(len(written) - len(durable) + 1)]
        # Cut, or put in place of the old one, and then torn. What was not cut away is still what was synced.
        kept = min(content.cut_bytes, len(durable)) if content.cut_bytes is not None else 0
        return written[: kept + self._chance.below(len(written) - kept + 1)]

    def wipe(self) -> None:
        """A new one was put in."""
        self.contents.clear()
        self.entries.clear()
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
