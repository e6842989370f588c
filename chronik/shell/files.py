"""The Files door: files below one data directory, with a bounded number of them open.

A file is opened when it is first read or written and closed again when too many are open, so 10,000 partitions need
no more descriptors than the busiest few. Syncs, and reads that would wait for the disk, run on threads of this door.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import fcntl
import os
import shutil
import sys
import threading
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from chronik.core.ports import File
from chronik.core.types import Buffer

OPEN_FILES_MAX = 512
THREADS = 4
# What this process wrote is taken to be in memory still until it has written so much more.
RECENT_BYTES = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 8


class RealFile:
    """One file, written at its end only."""

    __slots__ = (
        "_absolute",
        "_door",
        "_is_retired",
        "_size",
        "_written_at",
        "descriptor",
        "is_closing",
        "is_new",
        "path",
        "pins",
    )

    def __init__(self, door: RealFiles, path: str, absolute: str) -> None:
        self._door = door
        self.path = path
        self._absolute = absolute
        self._size = -1  # not looked up yet
        self._written_at = -1  # the door's count of written bytes after the last append to this file
        self._is_retired = False
        self.is_new = False  # made by us and its directory entry not synced yet
        self.descriptor = -1
        self.pins = 0  # threads that use the descriptor right now: it must not be closed under them
        self.is_closing = False  # closed as soon as the last of them is done

    def size(self) -> int:
        if self._size < 0:
            try:
                self._size = os.stat(self._absolute).st_size
            except FileNotFoundError:
                return 0
        return self._size

    def append(self, chunks: Sequence[Buffer]) -> None:
        before = self.size()
        descriptor = self._door.opened(self, create=True)
        wanted = sum(map(len, chunks))
        try:
            written = os.pwritev(descriptor, chunks, before)
            if written < wanted:
                self._write_rest(descriptor, b"".join(chunks), before, written)
        except OSError:
            with contextlib.suppress(
                OSError
            ):  # the size we remember is what counts; the next append writes over the rest
                os.ftruncate(descriptor, before)
            raise
        self._size = before + wanted
        self._door.written_bytes += wanted
        self._written_at = self._door.written_bytes

    def _write_rest(self, descriptor: int, content: bytes, before: int, written: int) -> None:
        while written < len(content):
            written += os.pwrite(descriptor, memoryview(content)[written:], before + written)

    def read(self, position: int, length: int) -> bytes:
        if self.size() == 0 and not os.path.exists(self._absolute):
            return b""
        content = os.pread(self._door.opened(self), length, position)
        while len(content) < length and position + len(content) < self.size():
            more = os.pread(self._door.opened(self), length - len(content), position + len(content))
            if not more:
                break
            content += more
        return content

    def is_in_memory(self, position: int) -> bool:
        if self._written_at < 0:
            return False
        return self.size() - position + self._door.written_bytes - self._written_at < RECENT_BYTES

    def send(self, socket: int, position: int, length: int) -> int:
        sent = os.sendfile(socket, self._door.opened(self), position, length)
        if sent == 0:
            raise OSError(errno.EIO, f"nothing at {position}", self.path)
        return sent

    def read_cached(self, position: int, length: int) -> Buffer | None:
        if self.is_in_memory(position) or not self._door.can_ask_for_cached:
            return self.read(position, length)
        content = bytearray(length)
        try:
            got = os.preadv(self._door.opened(self), [content], position, os.RWF_NOWAIT)
        except BlockingIOError:
            return None
        except OSError:  # a file system that cannot tell: from now on plain reads
            self._door.can_ask_for_cached = False
            return self.read(position, length)
        return content if got == length else None

    def truncate(self, size: int) -> None:
        if self.size() != size:
            os.ftruncate(self._door.opened(self, create=True), size)
            self._size = size

    def sync(self) -> None:
        if self._size < 0 and not os.path.exists(self._absolute):
            return
        sync_content(self._door.opened(self))
        for directory in self.unsynced_directories():
            sync_directory(directory)
        self.is_new = False

    def sync_pinned(self) -> OSError | None:
        """The file itself, not its directories. Called on a thread, with the descriptor pinned open."""
        if self.descriptor < 0:
            return OSError(errno.EBADF, "it could not be opened", self.path)
        return _problem_with(sync_content, self.descriptor)

    def unsynced_directories(self) -> tuple[str, ...]:
        """Where a new file, and the directory that may have been made for it, are entered by name."""
        if not self.is_new:
            return ()
        directory = os.path.dirname(self._absolute)
        return directory, os.path.dirname(directory)

    def close(self) -> None:
        self._door.closed(self)

    def retire(self) -> None:
        self._is_retired = True
        self._door.closed(self)

    def open_descriptor(self, *, create: bool) -> int:
        """Open the file itself; only the door calls this."""
        if self._is_retired:
            raise OSError(errno.ESTALE, "it was removed or replaced", self.path)
        if not create:
            return os.open(self._absolute, os.O_RDWR)
        try:
            return os.open(self._absolute, os.O_RDWR)
        except FileNotFoundError:
            os.makedirs(os.path.dirname(self._absolute), exist_ok=True)
            descriptor = os.open(self._absolute, os.O_RDWR | os.O_CREAT, 0o644)
            self.is_new, self._size = True, 0
            return descriptor


def sync_content(descriptor: int) -> None:
    """Make the bytes of a file survive a power cut."""
    if sys.platform == "darwin":  # there, fsync leaves them in the drive's own memory
        fcntl.fcntl(descriptor, fcntl.F_FULLFSYNC)
    else:
        os.fdatasync(descriptor)


def sync_directory(path: str) -> None:
    """Make created, renamed and removed names in a directory survive a power cut."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


class RealFiles:
    """The files below one directory."""

    def __init__(self, root: str, open_files_max: int = OPEN_FILES_MAX) -> None:
        self._root = os.path.abspath(root)
        self._open_files_max = open_files_max
        self._open: OrderedDict[RealFile, None] = OrderedDict()  # least recently used first
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="files")
        self._placing = threading.Lock()  # whoever asks whether a file is still wanted, until it is in its place
        self.written_bytes = 0
        self.can_ask_for_cached = hasattr(os, "RWF_NOWAIT")

    def _absolute(self, path: str) -> str:
        return os.path.join(self._root, path)

    def open(self, path: str) -> RealFile:
        return RealFile(self, path, self._absolute(path))

    def opened(self, file: RealFile, *, create: bool = False) -> int:
        """The file's descriptor, opening it if need be and closing another if there are too many."""
        if file.descriptor >= 0:
            if len(self._open) * 2 > self._open_files_max:  # order matters only when closing is near
                self._open.move_to_end(file)
            return file.descriptor
        if len(self._open) >= self._open_files_max:
            self._close_least_used()
        file.descriptor = file.open_descriptor(create=create)
        self._open[file] = None
        return file.descriptor

    def _close_least_used(self) -> None:
        for file in self._open:
            if file.pins == 0:
                self.closed(file)
                return

    def closed(self, file: RealFile) -> None:
        """Close the file, now or when no thread uses it any more."""
        file.is_closing = file.pins > 0
        if file.descriptor >= 0 and file.pins == 0:
            del self._open[file]
            os.close(file.descriptor)
            file.descriptor = -1

    def _unpin(self, file: RealFile) -> None:
        file.pins -= 1
        if file.is_closing and file.pins == 0:
            self.closed(file)

    def exists(self, path: str) -> bool:
        return os.path.exists(self._absolute(path))

    def names(self, path: str) -> list[str]:
        try:
            return sorted(os.listdir(self._absolute(path)))
        except FileNotFoundError:
            return []

    def read_all(self, path: str) -> bytes:
        with open(self._absolute(path), "rb") as source:
            return source.read()

    def replace(self, path: str, content: Buffer, sync: bool = True) -> None:
        self._replace(path, content, ".tmp", sync)

    def _replace(
        self, path: str, content: Buffer, suffix: str, sync: bool, is_wanted: Callable[[], bool] | None = None
    ) -> None:
        absolute = self._absolute(path)
        os.makedirs(os.path.dirname(absolute), exist_ok=True)
        beside = absolute + suffix
        with open(beside, "wb") as target:
            target.write(content)
            target.flush()
            if sync:
                sync_content(target.fileno())
        with self._placing:
            is_placed = is_wanted is None or is_wanted()
            if is_placed:
                os.replace(beside, absolute)
        if not is_placed:
            os.unlink(beside)
        elif sync:
            sync_directory(os.path.dirname(absolute))

    def rename(self, old: str, new: str) -> None:
        os.rename(self._absolute(old), self._absolute(new))
        sync_directory(os.path.dirname(self._absolute(new)))

    def remove(self, path: str) -> None:
        absolute = self._absolute(path)
        if os.path.isdir(absolute):
            shutil.rmtree(absolute)
        else:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(absolute)

    def disk_bytes(self) -> tuple[int, int]:
        usage = shutil.disk_usage(self._root)
        return usage.total, usage.free

    def sync_later(self, files: Sequence[File]) -> Awaitable[list[OSError | None]]:
        return self._sync_pinned([file for file in files if isinstance(file, RealFile)])

    async def _sync_pinned(self, files: list[RealFile]) -> list[OSError | None]:
        for file in files:
            with contextlib.suppress(OSError):  # cannot be opened: the sync of it will say so
                self.opened(file)
            file.pins += 1
        try:
            return await self._sync_on_threads(files)
        finally:
            for file in files:
                self._unpin(file)

    async def _sync_on_threads(self, files: list[RealFile]) -> list[OSError | None]:
        loop = asyncio.get_running_loop()
        if len(files) < THREADS:
            return await loop.run_in_executor(self._threads, _sync_all, files)
        # Several syncs at once share the file system's journal commits.
        parts = [files[start::THREADS] for start in range(THREADS)]
        done = await asyncio.gather(*(loop.run_in_executor(self._threads, _sync_all, part) for part in parts))
        outcomes: list[OSError | None] = [None] * len(files)
        for start, part_outcomes in enumerate(done):
            outcomes[start::THREADS] = part_outcomes
        return outcomes

    def replace_later(self, path: str, content: Buffer, is_wanted: Callable[[], bool] | None = None) -> Awaitable[None]:
        # Not the name that `replace` uses: the two may meet.
        return asyncio.get_running_loop().run_in_executor(
            self._threads, self._replace, path, content, ".later.tmp", True, is_wanted
        )

    def remove_later(self, path: str) -> Awaitable[None]:
        return asyncio.get_running_loop().run_in_executor(self._threads, self.remove, path)

    def read_later(self, file: File, position: int, length: int) -> Awaitable[bytes]:
        assert isinstance(file, RealFile)  # every file of this door is one
        return self._read_pinned(file, position, length)

    async def _read_pinned(self, file: RealFile, position: int, length: int) -> bytes:
        descriptor = self.opened(file)
        file.pins += 1
        try:
            return await asyncio.get_running_loop().run_in_executor(
                self._threads, os.pread, descriptor, length, position
            )
        finally:
            self._unpin(file)

    def close(self) -> None:
        self._threads.shutdown(wait=True)
        for file in list(self._open):
            file.pins = 0
            self.closed(file)


def _sync_all(files: list[RealFile]) -> list[OSError | None]:
    """Called on a thread, with the descriptors pinned open. A directory with many new files is synced once."""
    outcomes: list[OSError | None] = []
    directories: dict[str, OSError | None] = {}
    for file in files:
        outcomes.append(file.sync_pinned())
        directories.update(dict.fromkeys(file.unsynced_directories()))
    for directory in directories:
        directories[directory] = _problem_with(sync_directory, directory)
    for index, file in enumerate(files):
        problems = [directories[directory] for directory in file.unsynced_directories()]
        outcomes[index] = next((problem for problem in (outcomes[index], *problems) if problem is not None), None)
        file.is_new = file.is_new and outcomes[index] is not None
    return outcomes


def _problem_with(sync: Callable[[Any], None], target: Any) -> OSError | None:
    try:
        sync(target)
    except OSError as problem:
        return problem
    return None
