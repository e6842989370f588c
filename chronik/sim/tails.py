"""Following a log on a simulated disk batch by batch, by its bytes and not through the node that writes it."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import NamedTuple

from chronik.core.records.batch import HEADER_BYTES, BatchHeader, read_header
from chronik.sim.memory_files import MemoryFiles


class TailPlace(NamedTuple):
    """Between two batches."""

    path: str
    position: int
    offset: int  # of the batch that comes here


class Standing(NamedTuple):
    """A batch in a file."""

    place: TailPlace
    header: BatchHeader

    @property
    def after(self) -> TailPlace:
        header = self.header
        return TailPlace(self.place.path, self.place.position + header.size_bytes, header.next_offset)


class LogTail:
    """How far the log of one process has been read, and what of that is not safe yet."""

    def __init__(self, disk: MemoryFiles, directory: str, start_offset: int = 0) -> None:
        self._disk = disk
        self._directory = directory
        bases = [int(path[-24:-4]) for path in disk.paths(".log") if path.rpartition("/")[0] == directory]
        # A power cut brings some of the segments back that were deleted, and others not: they are below the start.
        below = [base for base in bases if base <= start_offset]
        first = below[-1] if below else bases[0] if bases else 0
        self._safe = TailPlace("", 0, first)  # behind the last batch that is safe
        self._unsafe: deque[Standing] = deque()

    @property
    def offset(self) -> int:
        """All below was read."""
        return self._place.offset

    @property
    def _place(self) -> TailPlace:
        return self._unsafe[-1].after if self._unsafe else self._safe

    def grown(self, end_offset: int) -> Iterator[BatchHeader]:
        """The batches that have come to the log, once what was cut off it is forgotten."""
        while self._unsafe and not self._stands(self._unsafe[-1], end_offset):
            self._unsafe.pop()
        while self._place.offset < end_offset and (standing := self._next()) is not None:
            self._unsafe.append(standing)
            yield standing.header

    def passed(self, watermark: int) -> Iterator[tuple[BatchHeader, bool]]:
        """The batches that the watermark has passed, and whether a power cut would leave them."""
        while self._unsafe and self._unsafe[0].header.next_offset <= watermark:
            standing = self._unsafe.popleft()
            self._safe = standing.after
            yield standing.header, self._is_durable(standing.after)

    def _is_durable(self, end: TailPlace) -> bool:
        content = self._disk.contents.get(end.path)
        if content is None:
            return True  # retention has taken it: nothing is left to be lost
        return content.durable is not None and len(content.durable) >= end.position

    def _stands(self, standing: Standing, end_offset: int) -> bool:
        """Whether it is still there, and not another in its place."""
        return standing.header.next_offset <= end_offset and self._at(standing.place) == standing.header

    def _next(self) -> Standing | None:
        place = self._place
        for candidate in (place, TailPlace(f"{self._directory}/{place.offset:020}.log", 0, place.offset)):
            header = self._at(candidate)
            if header is not None:
                return Standing(candidate, header)
        return None

    def _at(self, place: TailPlace) -> BatchHeader | None:
        content = self._disk.contents.get(place.path)
        if content is None or len(content.written) < place.position + HEADER_BYTES:
            return None
        return read_header(content.written, place.position)
