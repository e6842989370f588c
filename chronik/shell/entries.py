"""Which directories have all their names on disk, as far as this process knows.

A file that was synced is lost in a power cut together with its name, and with the name of any directory above it. What
an earlier process left is not known to be on disk: it may have died between making a name and syncing it.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable

from chronik.core.errors import SyncFailed


class Entries:
    """The directories from the data directory (`root`) down. Paths are absolute. Used by several threads at once."""

    def __init__(self, root: str, sync_names: Callable[[str], None]) -> None:
        self._root = root
        self._sync_names = sync_names
        self._counter = itertools.count(1)
        self._changes: dict[str, int] = {}  # by directory: the number of the latest change of its names
        self._synced: dict[str, int] = {}  # by directory: the latest change that a sync has surely seen

    def changed(self, directory: str) -> None:
        """To be called after a name in it was made, renamed or removed: a sync that began before may not have seen
        it."""
        self._changes[directory] = next(self._counter)

    def forget(self, directory: str) -> None:
        """It is gone. Another may come by that name."""
        self._changes.pop(directory, None)
        self._synced.pop(directory, None)

    def unsynced(self, directory: str) -> list[str]:
        """This directory and those above it, up to the data directory, whose names may not be on disk."""
        found: list[str] = []
        while True:
            if self._synced.get(directory, -1) != self._changes.get(directory, 0):
                found.append(directory)
            if len(directory) <= len(self._root):
                return found
            directory = os.path.dirname(directory)

    def sync(self, directory: str) -> None:
        """Make the names in it survive a power cut. Raises OSError."""
        seen = self._changes.get(directory, 0)
        self._sync_names(directory)
        self._synced[directory] = seen

    def make(self, directory: str) -> None:
        """Have this directory, and those above it. Raises OSError."""
        if os.path.isdir(directory):
            return
        if len(directory) > len(self._root):
            self.make(os.path.dirname(directory))
        os.makedirs(directory, exist_ok=True)
        self.changed(directory)
        self.changed(os.path.dirname(directory))


def sync_directory(path: str) -> None:
    """Make created, renamed and removed names in a directory survive a power cut. Raises OSError; SyncFailed when it
    had begun."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError as problem:
        raise SyncFailed(problem.errno, problem.strerror) from problem
    finally:
        os.close(descriptor)
