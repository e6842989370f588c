"""The names on a simulated disk: which of them a power cut leaves.

A name that was made, renamed or removed is on disk once its directory has been synced; before that, each change is
there or not by chance. A file whose directory's own name is not on disk is lost with it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from chronik.sim.memory_files import Content


class Change(NamedTuple):
    """`gone` is not there any more, and `content` stands at `path`; either may be missing."""

    gone: str | None
    path: str | None
    content: Content | None


def directory_of(path: str) -> str:
    return path.rpartition("/")[0]


class Names:
    """Of one disk. Directories stand in the data directory, files in it or in one of them."""

    def __init__(self) -> None:
        self._on_disk: dict[str, Content] = {}
        self._changes: dict[str, list[Change]] = {}  # since the last sync, by directory
        self._new: set[str] = set()  # directories whose own names are not on disk

    def made(self, path: str, content: Content) -> None:
        """There is a file, or another one than before."""
        directory = directory_of(path)
        if directory and not any(directory_of(name) == directory for name in self._on_disk):
            self._new.add(directory)
        self._changes.setdefault(directory, []).append(Change(None, path, content))

    def removed(self, path: str) -> None:
        self._changes.setdefault(directory_of(path), []).append(Change(path, None, None))

    def renamed(self, old: str, new: str, content: Content) -> None:
        self._changes.setdefault(directory_of(new), []).append(Change(old, new, content))

    def directory_renamed(self, old: str, new: str) -> None:
        """At once also on disk, as far as it was."""

        def moved(path: str | None) -> str | None:
            return new + path[len(old) :] if path is not None and directory_of(path) == old else path

        self._on_disk = {moved(path) or path: content for path, content in self._on_disk.items()}
        changes = [Change(moved(c.gone), moved(c.path), c.content) for c in self._changes.pop(old, [])]
        if changes:
            self._changes[new] = changes
        if old in self._new:
            self._new.discard(old)
            self._new.add(new)

    def synced(self, path: str) -> None:
        """The directory of this file, and the data directory above it."""
        for directory in {directory_of(path), ""}:
            for change in self._changes.pop(directory, ()):
                self._apply(change)
        self._new.discard(directory_of(path))

    def _apply(self, change: Change) -> None:
        if change.gone is not None:
            self._on_disk.pop(change.gone, None)
        if change.path is not None and change.content is not None:
            self._on_disk[change.path] = change.content

    def left(self, happens: Callable[[], bool]) -> dict[str, Content]:
        """What a power cut leaves; from now on that is all there is."""
        for directory in sorted(self._changes):
            for change in self._changes[directory]:
                if happens():
                    self._apply(change)
        lost = {directory for directory in sorted(self._new) if not happens()}
        left = {path: content for path, content in self._on_disk.items() if directory_of(path) not in lost}
        self.clear()
        return left

    def put(self, path: str, content: Content) -> None:
        """It is there, on disk."""
        self._on_disk[path] = content

    def clear(self) -> None:
        self._on_disk, self._changes, self._new = {}, {}, set()
