"""A Files door in memory, with a disk that can fail: bytes that were not synced are lost in a crash, writes tear, the
disk is full or breaks. What nothing asks for does not happen; `files` has the one where things happen by chance."""

from __future__ import annotations

import errno
from collections.abc import Awaitable, Callable, Sequence

from chronik.core.ports import File
from chronik.core.types import Buffer


class Content:
    """The bytes of one file: all that was written, and what a power cut would leave."""

    __slots__ = ("cut_bytes", "durable", "overhang", "poisoned", "written")

    def __init__(self, written: bytes = b"") -> None:
        self.written = bytearray(written)
        self.cut_bytes: int | None = None  # the least that was left of it by truncations since the last sync
        self.durable: bytes | None = None  # None: not even the name is on disk yet
        self.overhang = b""  # left behind its end by a write that failed; the process that wrote does not see it
        # From where to where a failed sync left bytes that the system takes for written, and that are not.
        self.poisoned: tuple[int, int] | None = None

    def poison(self, start: int, end: int) -> None:
        """A sync of these bytes failed."""
        if self.poisoned is not None:
            start, end = min(start, self.poisoned[0]), max(end, self.poisoned[1])
        self.poisoned = (start, end) if start < end else None

    def heal(self, start: int, end: int) -> None:
        """These bytes were written again, or cut off."""
        if self.poisoned is not None:
            first, last = self.poisoned
            if start <= first:
                first = max(first, end)
            elif end >= last:
                last = min(last, start)
            self.poisoned = (first, last) if first < last else None


class MemoryFile:
    """One file of a `MemoryFiles`."""

    def __init__(self, door: MemoryFiles, path: str) -> None:
        self._door = door
        self.path = path
        self._is_retired = False

    def _content(self) -> Content | None:
        return self._door.contents.get(self.path)

    def size(self) -> int:
        content = self._content()
        return len(content.written) if content is not None else 0

    def append(self, chunks: Sequence[Buffer]) -> None:
        added = b"".join(bytes(chunk) for chunk in chunks)
        self._door.before_write(self.path, len(added))
        self._door.appends += 1
        self._door.contents.setdefault(self.path, Content()).written += added

    def read(self, position: int, length: int) -> bytes:
        if self._is_retired:
            raise OSError(errno.ESTALE, "it was removed or replaced", self.path)
        self._door.before_read(self.path)
        self._door.reads += 1
        content = self._content()
        return bytes(content.written[position : position + length]) if content is not None else b""

    def read_cached(self, position: int, length: int) -> bytes | None:
        return self.read(position, length) if self._door.is_cached else None

    def is_in_memory(self, position: int) -> bool:
        return False

    def send(self, socket: int, position: int, length: int) -> int:
        raise NotImplementedError("a file in memory has nothing the kernel could send")

    def truncate(self, size: int) -> None:
        content = self._content()
        if content is not None and size < len(content.written):
            del content.written[size:]
            content.heal(size, 2**63)
            content.cut_bytes = size if content.cut_bytes is None else min(size, content.cut_bytes)

    def write_again(self, position: int, content: Buffer) -> None:
        self._door.before_write(self.path, 0)
        held = self._content()
        assert held is not None
        assert held.written[position : position + len(content)] == content  # nothing else may come in its place
        held.heal(position, position + len(content))

    def sync(self) -> None:
        self._door.before_sync(self.path)
        content = self._content()
        if content is not None:
            content.durable = bytes(content.written)

    def close(self) -> None:
        pass

    def retire(self) -> None:
        self._is_retired = True


class MemoryFiles:
    """A tree of files. `crash` is a power cut, `room_bytes` a full disk, `failures` a broken one."""

    def __init__(self, room_bytes: int | None = None) -> None:
        self.contents: dict[str, Content] = {}
        self.room_bytes = room_bytes  # None: as much as one likes
        self.failures: dict[str, OSError] = {}  # 'write', 'read', 'sync' or any of them with ':' and the end of a path
        self.is_cached = True
        self.appends = 0
        self.reads = 0
        self.listings = 0

    # --- what a test does to the disk

    def crash(self, torn: Callable[[str, bytes, bytes], bytes] | None = None) -> None:
        """A power cut: each file is as it was synced, or as `torn(path, durable, written)` makes it."""
        for path, content in list(self.contents.items()):
            durable, written = content.durable or b"", bytes(content.written)
            left = torn(path, durable, written) if torn is not None else durable
            if content.durable is None and not left:
                del self.contents[path]
            else:
                self.contents[path] = survivor = Content(left)
                survivor.durable = left

    def kill(self) -> None:
        """The process dies, the machine goes on: everything written is there."""

    def flip(self, path: str, bit: int) -> None:
        """Turn one bit of a file over."""
        self.contents[path].written[bit // 8] ^= 1 << (bit % 8)

    def copy(self) -> MemoryFiles:
        """Another disk with the same files."""
        other = MemoryFiles(self.room_bytes)
        for path, content in self.contents.items():
            other.contents[path] = Content(bytes(content.written))
            other.contents[path].durable = content.durable
        return other

    def paths(self, suffix: str = "") -> list[str]:
        return sorted(path for path in self.contents if path.endswith(suffix))

    # --- failing

    def before_write(self, path: str, size: int) -> None:
        self._fail("write", path)
        if self.room_bytes is not None and self.disk_bytes()[1] < size:
            raise OSError(errno.ENOSPC, "No space left on device", path)

    def before_read(self, path: str) -> None:
        self._fail("read", path)

    def before_sync(self, path: str) -> None:
        self._fail("sync", path)

    def _fail(self, what: str, path: str) -> None:
        for where, failure in self.failures.items():
            kind, _, ending = where.partition(":")
            if kind == what and path.endswith(ending):
                raise failure

    # --- the door

    def open(self, path: str) -> MemoryFile:
        return MemoryFile(self, path)

    def exists(self, path: str) -> bool:
        return path in self.contents or any(name.startswith(path + "/") for name in self.contents)

    def names(self, path: str) -> list[str]:
        self.listings += 1
        prefix = path + "/" if path else ""
        return sorted({name[len(prefix) :].partition("/")[0] for name in self.contents if name.startswith(prefix)})

    def read_all(self, path: str) -> bytes:
        self.before_read(path)
        if path not in self.contents:
            raise FileNotFoundError(errno.ENOENT, "No such file", path)
        self.reads += 1
        return bytes(self.contents[path].written)

    def replace(self, path: str, content: Buffer, sync: bool = True) -> None:
        self.before_write(path, len(content))
        before = self.contents.get(path)
        self.contents[path] = after = Content(bytes(content))
        after.durable = bytes(content) if sync else (before.durable if before is not None else None)

    def rename(self, old: str, new: str) -> None:
        if not self.exists(old):
            raise FileNotFoundError(errno.ENOENT, "No such file or directory", old)
        for path in [path for path in self.contents if path == old or path.startswith(old + "/")]:
            self.contents[new + path[len(old) :]] = self.contents.pop(path)

    def remove(self, path: str) -> None:
        for name in [name for name in self.contents if name == path or name.startswith(path + "/")]:
            del self.contents[name]

    async def _replace(self, path: str, content: Buffer, is_wanted: Callable[[], bool] | None) -> None:
        if is_wanted is None or is_wanted():
            self.replace(path, content)

    def replace_later(self, path: str, content: Buffer, is_wanted: Callable[[], bool] | None = None) -> Awaitable[None]:
        return self._replace(path, content, is_wanted)

    async def _remove(self, path: str) -> None:
        self.remove(path)

    def remove_later(self, path: str) -> Awaitable[None]:
        return self._remove(path)

    def disk_bytes(self) -> tuple[int, int]:
        used = sum(len(content.written) for content in self.contents.values())
        total = 2**40 if self.room_bytes is None else self.room_bytes
        return total, max(total - used, 0)

    async def _sync_all(self, files: Sequence[File]) -> list[OSError | None]:
        outcomes: list[OSError | None] = []
        for file in files:
            try:
                file.sync()
                outcomes.append(None)
            except OSError as problem:
                outcomes.append(problem)
        return outcomes

    def sync_later(self, files: Sequence[File]) -> Awaitable[list[OSError | None]]:
        return self._sync_all(files)

    async def _read(self, file: File, position: int, length: int) -> bytes:
        return file.read(position, length)

    def read_later(self, file: File, position: int, length: int) -> Awaitable[bytes]:
        return self._read(file, position, length)

    def run_later(self, work: Callable[[], None]) -> Awaitable[None]:
        return self._run(work)

    async def _run(self, work: Callable[[], None]) -> None:
        work()
