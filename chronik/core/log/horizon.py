"""The tombstone horizon: below which offset a copy of a log may lack tombstones.

Compaction drops a tombstone `delete.retention.ms` after it was first met. A follower that was away meanwhile never sees
it, and would keep the value that was deleted (as it does in Kafka). So each copy remembers how far its tombstones may
be gone, and a leader tells it with the records it gives: a follower whose log ends below that begins anew.

The offset is on disk before the file without the tombstones takes the old one's place. It has a checksum: a digit that
turned into another would bring deleted keys back.
"""

from __future__ import annotations

from crc32c import crc32c

from chronik.core.ports import Files

HORIZON_NAME = "tombstone-checkpoint"
NOTHING_GONE = 0


class TombstoneHorizon:
    """That of one copy, and its file."""

    __slots__ = ("_files", "_path", "offset")

    def __init__(self, files: Files, directory: str) -> None:
        self._files = files
        self._path = f"{directory}/{HORIZON_NAME}"
        self.offset = NOTHING_GONE

    def load(self, end_offset: int) -> None:
        """As an earlier process left it. What cannot be read may have been any offset up to the log's end."""
        found = _decode(self._files.read_all(self._path))
        self.offset = end_offset if found is None else found

    def advance(self, offset: int) -> None:
        """Tombstones below `offset` may be gone from now on."""
        if offset > self.offset:
            self._store(offset)

    def cut(self, end_offset: int) -> None:
        """The log ends there now: what comes next may be another history, of whose tombstones none is gone."""
        if end_offset < self.offset:
            self._store(end_offset)

    def _store(self, offset: int) -> None:
        content = f"{offset}\n".encode()
        self._files.replace(self._path, content + b"%08x\n" % crc32c(content))
        self.offset = offset


def _decode(content: bytes) -> int | None:
    line, _, checksum = content.partition(b"\n")
    if checksum != b"%08x\n" % crc32c(line + b"\n"):
        return None
    return int(line)
