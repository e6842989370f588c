"""The Files door: files below one data directory, with a bounded number of them open.

A file is opened when it is first read or written and closed again when too many are open, so 10,000 partitions need
no more descriptors than the busiest few. Syncs, and reads that would wait for the disk, run on threads of this door.
Where the process has no descriptor left, the files used least give up theirs, and what needs one is tried once more.
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
from functools import partial
from typing import Any, TypeVar

from chronik.core.errors import SyncFailed
from chronik.core.ports import File
from chronik.core.types import Buffer
from chronik.shell.entries import Entries, sync_directory

OPEN_FILES_MAX = 512
THREADS = 4
FREED_AT_ONCE = 8  # descriptors, when there are none left: some calls need two
OUT_OF_DESCRIPTORS = (errno.EMFILE, errno.ENFILE)
# A file system, or a kernel, that cannot say what is in memory. Anything else is the problem of that one read.
NOT_SUPPORTED = (errno.EOPNOTSUPP, errno.EINVAL, errno.ENOSYS)
# What this process wrote is taken to be in memory still until it has written so much more.
RECENT_BYTES = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 8

T = TypeVar("T")


class RealFile:
    """One file, written at its end only."""

    __slots__ = (
        "_absolute",
        "_door",
        "_has_overhang",
        "_is_retired",
        "_size",
        "_written_at",
        "descriptor",
        "is_closing",
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
        self._has_overhang = False  # a write failed, and what it left behind the end could not be cut off
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
        if self._has_overhang:
            self._cut(descriptor, before)
        wanted = sum(map(len, chunks))
        try:
            written = os.pwritev(descriptor, chunks, before)
            if written < wanted:
                self._write_rest(descriptor, b"".join(chunks), before, written)
        except OSError:
            self._has_overhang = True  # until it is cut off; the size we remember is what counts meanwhile
            with contextlib.suppress(OSError):
                self._cut(descriptor, before)
            raise
        self._size = before + wanted
        self._door.written_bytes += wanted
        self._written_at = self._door.written_bytes

    def _write_rest(self, descriptor: int, content: bytes, before: int, written: int) -> None:
        while written < len(content):
            written += os.pwrite(descriptor, memoryview(content)[written:], before + written)

    def read(self, position: int, length: int) -> bytes:
        if self.size() == 0 and not is_there(self._absolute):
            return b""
        return read_from(self._door.opened(self), length, position)

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
            got = self._door.read_now(self._door.opened(self), content, position)
        except BlockingIOError:
            return None
        except OSError as problem:
            if problem.errno not in NOT_SUPPORTED:
                raise
            self._door.can_ask_for_cached = False  # from now on plain reads
            return self.read(position, length)
        return content if got == length else None

    def truncate(self, size: int) -> None:
        if self.size() != size or self._has_overhang:
            self._cut(self._door.opened(self, create=True), size)

    def _cut(self, descriptor: int, size: int) -> None:
        os.ftruncate(descriptor, size)
        self._size, self._has_overhang = size, False

    def write_again(self, position: int, content: Buffer) -> None:
        descriptor, view, written = self._door.opened(self), memoryview(content), 0
        while written < len(view):
            written += os.pwrite(descriptor, view[written:], position + written)

    def sync(self) -> None:
        if self._size < 0 and not is_there(self._absolute):
            return
        sync_content(self._door.opened(self))
        for directory in self.unsynced_directories():
            self._door.with_descriptors(partial(self._door.entries.sync, directory))

    def sync_pinned(self) -> OSError | None:
        """The file itself, not its directories. Called on a thread, with the descriptor pinned open."""
        return _problem_with(sync_content, self.descriptor)

    def unsynced_directories(self) -> list[str]:
        """Those that must be synced before this file can be found by its name after a power cut."""
        return self._door.entries.unsynced(os.path.dirname(self._absolute))

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
            directory = os.path.dirname(self._absolute)
            self._door.entries.make(directory)
            descriptor = os.open(self._absolute, os.O_RDWR | os.O_CREAT, 0o644)
            self._door.entries.changed(directory)
            self._size = 0
            return descriptor


def is_there(path: str) -> bool:
    """As os.path.exists, which takes whatever keeps it from looking for a no."""
    try:
        os.stat(path)
    except (FileNotFoundError, NotADirectoryError):
        return False
    return True


def read_from(descriptor: int, length: int, position: int) -> bytes:
    """So many bytes; fewer only where the file ends."""
    content = os.pread(descriptor, length, position)
    while len(content) < length:
        more = os.pread(descriptor, length - len(content), position + len(content))
        if not more:
            break
        content += more
    return content


def flush(descriptor: int) -> None:
    """Make the bytes of a file survive a power cut."""
    if sys.platform == "darwin":  # there, fsync leaves them in the drive's own memory
        fcntl.fcntl(descriptor, fcntl.F_FULLFSYNC)
    else:
        os.fdatasync(descriptor)


def sync_content(descriptor: int) -> None:
    """As `flush`, of a file that stays as it is when this fails. Raises SyncFailed."""
    try:
        flush(descriptor)
    except OSError as problem:
        raise SyncFailed(problem.errno, problem.strerror) from problem


class RealFiles:
    """The files below one directory."""

    def __init__(
        self,
        root: str,
        open_files_max: int = OPEN_FILES_MAX,
        sync_names: Callable[[str], None] = sync_directory,
    ) -> None:
        self._root = os.path.abspath(root)
        self._open_files_max = open_files_max
        self._open: OrderedDict[RealFile, None] = OrderedDict()  # least recently used first
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="files")
        self._placing = threading.Lock()  # held from asking whether a file is still wanted until it is in its place
        self.entries = Entries(self._root, sync_names)
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
        file.descriptor = self.with_descriptors(partial(file.open_descriptor, create=create))
        self._open[file] = None
        return file.descriptor

    def _close_least_used(self) -> bool:
        for file in self._open:
            if file.pins == 0:
                self.closed(file)
                return True
        return False

    def with_descriptors(self, action: Callable[[], T]) -> T:
        """Do what needs a descriptor or two. Not on a thread, which must not close what the loop is about to use."""
        try:
            return action()
        except OSError as problem:
            if not self._can_free(problem):
                raise
        return action()

    def _can_free(self, problem: OSError) -> bool:
        """Whether it was for want of descriptors, and there are some now that were not there before."""
        if problem.errno not in OUT_OF_DESCRIPTORS:
            return False
        freed = 0
        while freed < FREED_AT_ONCE and self._close_least_used():
            freed += 1
        return freed > 0

    def read_now(self, descriptor: int, content: bytearray, position: int) -> int:
        """Fill `content` from memory. Raises OSError: BlockingIOError where that would have to wait for the disk."""
        return os.preadv(descriptor, [content], position, os.RWF_NOWAIT)

    async def _on_thread(self, action: Callable[[], T]) -> T:
        """As `with_descriptors`, for what is done on a thread."""
        loop = asyncio.get_running_loop()
        try:
            return await loop.run_in_executor(self._threads, action)
        except OSError as problem:
            if not self._can_free(problem):
                raise
        return await loop.run_in_executor(self._threads, action)

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
        return is_there(self._absolute(path))

    def names(self, path: str) -> list[str]:
        try:
            return sorted(self.with_descriptors(partial(os.listdir, self._absolute(path))))
        except FileNotFoundError:
            return []

    def read_all(self, path: str) -> bytes:
        return self.with_descriptors(partial(_read_all, self._absolute(path)))

    def replace(self, path: str, content: Buffer, sync: bool = True) -> None:
        self.with_descriptors(partial(self._replace, path, content, ".tmp", sync))

    def _replace(
        self, path: str, content: Buffer, suffix: str, sync: bool, is_wanted: Callable[[], bool] | None = None
    ) -> None:
        absolute = self._absolute(path)
        directory, beside = os.path.dirname(absolute), absolute + suffix
        self.entries.make(directory)
        with open(beside, "wb") as target:
            target.write(content)
            target.flush()
            if sync:
                flush(target.fileno())  # should it fail, all of it is written anew the next time
        with self._placing:
            is_placed = is_wanted is None or is_wanted()
            if is_placed:
                os.replace(beside, absolute)
                self.entries.changed(directory)
        if not is_placed:
            os.unlink(beside)
        elif sync:
            for unsynced in self.entries.unsynced(directory):
                self.entries.sync(unsynced)

    def rename(self, old: str, new: str) -> None:
        before, after = self._absolute(old), self._absolute(new)
        # Without a descriptor for the syncs it fails before anything has happened.
        os.close(self.with_descriptors(partial(os.open, os.path.dirname(after), os.O_RDONLY)))
        os.rename(before, after)
        self.entries.forget(before)  # in case they are directories
        self.entries.forget(after)
        directories = dict.fromkeys((os.path.dirname(before), os.path.dirname(after)))
        for directory in directories:
            self.entries.changed(directory)
        for directory in directories:
            for unsynced in self.entries.unsynced(directory):
                self.with_descriptors(partial(self.entries.sync, unsynced))

    def remove(self, path: str) -> None:
        self.with_descriptors(partial(self._remove, path))

    def _remove(self, path: str) -> None:
        absolute = self._absolute(path)
        try:
            if os.path.isdir(absolute):
                shutil.rmtree(absolute)
                self.entries.forget(absolute)
            else:
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(absolute)
        finally:
            self.entries.changed(os.path.dirname(absolute))

    def disk_bytes(self) -> tuple[int, int]:
        usage = shutil.disk_usage(self._root)
        return usage.total, usage.free

    def sync_later(self, files: Sequence[File]) -> Awaitable[list[OSError | None]]:
        return self._sync_in_turn([file for file in files if isinstance(file, RealFile)])

    async def _sync_in_turn(self, files: list[RealFile]) -> list[OSError | None]:
        """So many at a time as can be open at the same time with others."""
        at_once = max(self._open_files_max // 2, 1)
        outcomes: list[OSError | None] = []
        for start in range(0, len(files), at_once):
            outcomes += await self._sync_pinned(files[start : start + at_once])
        return outcomes

    async def _sync_pinned(self, files: list[RealFile]) -> list[OSError | None]:
        unopened: dict[RealFile, OSError] = {}
        for file in files:
            try:
                self.opened(file)
                file.pins += 1
            except OSError as problem:
                unopened[file] = problem
        opened = [file for file in files if file not in unopened]
        try:
            synced = iter(await self._sync_on_threads(opened))
        finally:
            for file in opened:
                self._unpin(file)
        return [unopened[file] if file in unopened else next(synced) for file in files]

    async def _sync_on_threads(self, files: list[RealFile]) -> list[OSError | None]:
        loop = asyncio.get_running_loop()
        if len(files) < THREADS:
            return await loop.run_in_executor(self._threads, _sync_all, self.entries, files)
        # Several syncs at once share the file system's journal commits.
        parts = [files[start::THREADS] for start in range(THREADS)]
        syncs = [loop.run_in_executor(self._threads, _sync_all, self.entries, part) for part in parts]
        done = await asyncio.gather(*syncs)
        outcomes: list[OSError | None] = [None] * len(files)
        for start, part_outcomes in enumerate(done):
            outcomes[start::THREADS] = part_outcomes
        return outcomes

    def replace_later(self, path: str, content: Buffer, is_wanted: Callable[[], bool] | None = None) -> Awaitable[None]:
        # Not the name that `replace` uses: the two may meet.
        return self._on_thread(partial(self._replace, path, content, ".later.tmp", True, is_wanted))

    def remove_later(self, path: str) -> Awaitable[None]:
        return self._on_thread(partial(self._remove, path))

    def read_later(self, file: File, position: int, length: int) -> Awaitable[bytes]:
        assert isinstance(file, RealFile)  # every file of this door is one
        return self._read_pinned(file, position, length)

    async def _read_pinned(self, file: RealFile, position: int, length: int) -> bytes:
        descriptor = self.opened(file)
        file.pins += 1
        try:
            return await asyncio.get_running_loop().run_in_executor(
                self._threads, read_from, descriptor, length, position
            )
        finally:
            self._unpin(file)

    def run_later(self, work: Callable[[], None]) -> Awaitable[None]:
        return asyncio.get_running_loop().run_in_executor(self._threads, work)

    def close(self) -> None:
        self._threads.shutdown(wait=True)
        for file in list(self._open):
            file.pins = 0
            self.closed(file)


def _sync_all(entries: Entries, files: list[RealFile]) -> list[OSError | None]:
    """Called on a thread, with the descriptors pinned open. A directory with many new files is synced once."""
    outcomes: list[OSError | None] = []
    unsynced: list[list[str]] = []
    directories: dict[str, OSError | None] = {}
    for file in files:
        outcomes.append(file.sync_pinned())
        unsynced.append(file.unsynced_directories())
        directories.update(dict.fromkeys(unsynced[-1]))
    for directory in directories:
        directories[directory] = _problem_with(entries.sync, directory)
    for index, needed in enumerate(unsynced):
        problems = [directories[directory] for directory in needed]
        outcomes[index] = next((problem for problem in (outcomes[index], *problems) if problem is not None), None)
    return outcomes


def _problem_with(sync: Callable[[Any], None], target: Any) -> OSError | None:
    try:
        sync(target)
    except OSError as problem:
        return problem
    return None


def _read_all(path: str) -> bytes:
    with open(path, "rb") as source:
        return source.read()
