"""The data directory: made if need be, and locked while a node uses it."""

from __future__ import annotations

import fcntl
import os

from chronik.shell.errors import StartError

LOCK = ".lock"


class DataDirLock:
    """Held until `release`; the operating system lets it go when the process dies, however it dies."""

    def __init__(self, path: str) -> None:
        try:
            os.makedirs(path, exist_ok=True)
            self._descriptor = os.open(os.path.join(path, LOCK), os.O_RDWR | os.O_CREAT, 0o644)
        except OSError as problem:
            raise StartError(
                f"the data directory {path} cannot be used: {problem.strerror}",
                "give another one with --data-dir, or make it writable",
            ) from problem
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as problem:
            os.close(self._descriptor)
            raise StartError(
                f"the data directory {path} is in use by another node",
                "stop that node, or give this one its own with --data-dir",
            ) from problem

    def release(self) -> None:
        os.close(self._descriptor)
