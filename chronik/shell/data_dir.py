"""The data directory: made if need be, and locked while a node uses it."""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from collections.abc import Callable

from chronik.shell.entries import sync_directory
from chronik.shell.errors import StartError

LOCK = ".lock"
# `holder_of` holds the lock for an instant; a node that starts just then tries again.
TRIES = 10
BETWEEN_TRIES_S = 0.02


class DataDirLock:
    """Held until `release`; the operating system lets it go when the process dies, however it dies."""

    def __init__(self, path: str) -> None:
        try:
            make_directory(os.path.abspath(path))
            self._descriptor = os.open(os.path.join(path, LOCK), os.O_RDWR | os.O_CREAT, 0o644)
        except OSError as problem:
            raise StartError(
                f"the data directory {path} cannot be used: {problem.strerror}",
                "give another one with --data-dir, or make it writable",
            ) from problem
        if not self._is_taken():
            holder = _written_pid(self._descriptor)
            os.close(self._descriptor)
            raise StartError(
                f"the data directory {path} is in use by another node" + (f", process {holder}" if holder else ""),
                "stop that node, or give this one its own with --data-dir",
            )
        self._write_pid()

    def _is_taken(self) -> bool:
        for _ in range(TRIES):
            try:
                fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return True
            except OSError:
                time.sleep(BETWEEN_TRIES_S)
        return False

    def _write_pid(self) -> None:
        """For `holder_of`. Always the same length, so that a full disk has room for the next one where the last was."""
        with contextlib.suppress(OSError):  # a full disk, which keeps no node from starting
            os.pwrite(self._descriptor, b"%-19d\n" % os.getpid(), 0)

    def release(self) -> None:
        os.close(self._descriptor)


def make_directory(path: str, sync_names: Callable[[str], None] = sync_directory) -> None:
    """Have a directory whose name, and those of the directories made for it, survive a power cut. Raises OSError."""
    if not os.path.isdir(path):
        parent = os.path.dirname(path)
        make_directory(parent, sync_names)
        os.makedirs(path, exist_ok=True)
        sync_names(parent)


def holder_of(path: str) -> int | None:
    """The process id of the node that uses this data directory now, None when there is none. Raises OSError where it
    may not be looked at."""
    try:
        descriptor = os.open(os.path.join(path, LOCK), os.O_RDONLY)
    except (FileNotFoundError, NotADirectoryError):
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return _written_pid(descriptor)
    else:
        return None
    finally:
        os.close(descriptor)


def _written_pid(descriptor: int) -> int | None:
    text = os.pread(descriptor, 20, 0).strip()
    return int(text) if text.isdigit() else None
