"""What a log's batches tell besides their records: their producers, aborted transactions, and under which leaders.

It is kept in files beside the segments, so that opening a log needs not read all of it. The files are believed as far
as they check out; what they do not know is read off the batch headers.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from chronik.core.errors import Code, Corrupt, Refused
from chronik.core.log import aborted, snapshot
from chronik.core.log.aborted import AbortedTransaction
from chronik.core.log.epochs import CHECKPOINT_NAME, Epochs
from chronik.core.log.producers import BATCHES_KEPT, Duplicate, Next, Producers, ProducerState, WrittenBatch
from chronik.core.log.scan import SCAN_BYTES, ScannedBatch, headers, read_batch
from chronik.core.log.segment import Segment
from chronik.core.log.transactions import EndedTransaction
from chronik.core.ports import File, Files
from chronik.core.records.batch import BatchHeader
from chronik.core.records.control import read_marker
from chronik.core.types import NO_EPOCH, Buffer

SNAPSHOTS_KEPT = 2  # the one in use, and one to fall back on
RECALL_BYTES = 8 * 1024 * 1024


def batches_from(segments: Sequence[Segment], offset: int) -> Iterator[tuple[Segment, ScannedBatch]]:
    """Every batch that ends at or above `offset`, in order."""
    for segment in segments:
        if segment.size == 0 or segment.end_offset <= offset:
            continue
        position = 0
        if segment.base_offset < offset:
            first = segment.locate(offset)
            position = first.position if first is not None else segment.size
        floor_offset = segment.base_offset
        for found in headers(segment.file, position, segment.size, floor_offset=floor_offset, chunk_bytes=SCAN_BYTES):
            yield segment, found


# --- producers


class Snapshots:
    """The producer snapshots in a log's directory."""

    __slots__ = ("_directory", "_files", "offsets")

    def __init__(self, files: Files, directory: str) -> None:
        self._files = files
        self._directory = directory
        self.offsets: tuple[int, ...] = ()  # of those on disk, in order

    @property
    def latest(self) -> int | None:
        return self.offsets[-1] if self.offsets else None

    def path(self, offset: int) -> str:
        return f"{self._directory}/{offset:020}{snapshot.SUFFIX}"

    def write(self, offset: int, producers: Producers) -> File:
        """Put the state as of `offset` on disk, drop what is older than needed, and say what to sync."""
        file = self._files.open(self.path(offset))
        file.truncate(0)
        file.append((snapshot.encode(producers),))
        offsets = [*(kept for kept in self.offsets if kept < offset), offset]
        self._drop(offsets[:-SNAPSHOTS_KEPT])
        self.offsets = tuple(offsets[-SNAPSHOTS_KEPT:])
        return file

    def load(self, first_offset: int, end_offset: int) -> tuple[Producers, int, list[str]]:
        """The latest sound state at or below `end_offset`, the offset it is of, and what was damaged. One of before the
        first batch that there is would refuse what follows on batches that retention has taken: rather none."""
        damaged: list[str] = []
        self.drop_above(end_offset)
        for offset in reversed([kept for kept in self.offsets if kept >= first_offset]):
            producers = snapshot.decode(self._files.read_all(self.path(offset)))
            if producers is not None:
                return producers, offset, damaged
            damaged.append(self.path(offset))
            self.drop_above(offset - 1)
        return Producers(), 0, damaged

    def state_below(self, first_offset: int, offset: int) -> tuple[Producers, int]:
        """The latest sound state at or below `offset`, and the offset it is of."""
        for kept in reversed([kept for kept in self.offsets if first_offset <= kept <= offset]):
            producers = snapshot.decode(self._files.read_all(self.path(kept)))
            if producers is not None:
                return producers, kept
        return Producers(), 0

    def drop_above(self, end_offset: int) -> None:
        """Remove the states of offsets the log does not reach."""
        self._drop([offset for offset in self.offsets if offset > end_offset])
        self.offsets = tuple(offset for offset in self.offsets if offset <= end_offset)

    def _drop(self, offsets: list[int]) -> None:
        for offset in offsets:
            self._files.remove(self.path(offset))


def replay(segments: Sequence[Segment], producers: Producers, offset: int) -> None:
    """Take the batches from `offset` on into the producers' state."""
    for segment, found in batches_from(segments, offset):
        if found.header.producer_id >= 0:
            batch = read_batch(segment.file, found) if found.header.is_control else b""
            take_in(producers, found.header, batch)


def take_in(producers: Producers, header: BatchHeader, batch: Buffer) -> EndedTransaction | None:
    """Take a batch that is in the log into the producers' state; its bytes matter for control batches only. Returns the
    transaction it ended, if it did."""
    if header.producer_id < 0:
        return None
    if not header.is_control:
        producers.advance(header, header.base_offset, header.max_timestamp)
    elif (marker := read_marker(batch)) is not None:
        return producers.end_transaction(header, marker, header.base_offset)
    return None


# --- aborted transactions


def load_aborted(
    files: Files, segments: Sequence[Segment], segment: Segment, snapshots: Snapshots
) -> list[AbortedTransaction]:
    """The aborted transactions of a segment. What stands in its file is held against the markers in the log: one bit of
    it turned would have consumers leave out what was committed, or take what was not."""
    if segment.aborted is None:
        entries = aborted.decode(files.read_all(segment.path + aborted.SUFFIX), segment.base_offset, segment.end_offset)
        if entries is not None and all(_has_marker(segment, entry) for entry in entries):
            segment.aborted = entries
        else:
            rebuild_aborted(segments, [segment], snapshots)
            segment.store_aborted()
            segment.rebuilt.append(segment.path + aborted.SUFFIX)
    assert segment.aborted is not None
    return segment.aborted


def _has_marker(segment: Segment, entry: AbortedTransaction) -> bool:
    found = segment.locate(entry.last_offset)
    if found is None or found.header.base_offset != entry.last_offset or not found.header.is_control:
        return False
    marker = read_marker(read_batch(segment.file, found))
    return marker is not None and not marker.is_commit and found.header.producer_id == entry.producer_id


def rebuild_aborted(segments: Sequence[Segment], chosen: Sequence[Segment], snapshots: Snapshots) -> None:
    """Make the aborted transactions of these segments anew from the batches. One may have begun long before the segment
    with its marker, so the batches are read from a state of the producers that is older, or from the start."""
    for segment in chosen:
        segment.aborted = []
    if not chosen:
        return
    producers, offset = snapshots.state_below(segments[0].base_offset, chosen[0].base_offset)
    for segment, found in batches_from(segments, max(offset, segments[0].base_offset)):
        if segment.base_offset > chosen[-1].base_offset:
            return
        header = found.header
        if header.producer_id < 0 or not header.is_transactional:
            continue
        ended = take_in(producers, header, read_batch(segment.file, found) if header.is_control else b"")
        if ended is not None and not ended.is_commit and segment.aborted is not None and segment in chosen:
            segment.aborted.append(AbortedTransaction.of(ended))


def outcome_of(segments: Sequence[Segment], producers: Producers, header: BatchHeader) -> Next | Duplicate:
    """What the producers' state says of this batch. What a snapshot forgot is looked up first."""
    try:
        return producers.check(header)
    except Refused as refusal:
        producer = producers.get(header.producer_id)
        if refusal.code != Code.OUT_OF_ORDER_SEQUENCE_NUMBER or producer is None or producer.is_recalled:
            raise
        recall(segments, producer)
        return producers.check(header)


def recall(segments: Sequence[Segment], producer: ProducerState) -> None:
    """Fill a producer's memory with the batches before the one its snapshot kept, as far as they are not far back."""
    if not producer.batches:
        producer.is_recalled = True
        return
    known_from, room_bytes = producer.batches[0].base_offset, RECALL_BYTES
    for segment in reversed(segments):
        if segment.base_offset > known_from or segment.size == 0:
            continue
        found = segment.locate(known_from)
        end = found.position if found is not None else segment.size
        start = _batch_start(segment, end - room_bytes)
        earlier = [
            WrittenBatch(h.base_sequence, h.last_sequence, h.base_offset, h.last_offset, h.max_timestamp)
            for _, h in headers(segment.file, start, end)
            if h.producer_id == producer.producer_id and h.producer_epoch == producer.epoch and not h.is_control
        ]
        producer.batches.extendleft(earlier[: -(BATCHES_KEPT - len(producer.batches)) - 1 : -1])
        room_bytes -= end - start
        if len(producer.batches) == BATCHES_KEPT or room_bytes <= 0:
            break
    producer.is_recalled = True  # not before: what cannot be read now is recalled the next time


def _batch_start(segment: Segment, position: int) -> int:
    """Where a batch begins, at or somewhat before this position."""
    entry = segment.index.floor_position(position)
    found = segment.locate(entry[0]) if entry is not None else None
    return found.position if found is not None else 0


# --- epochs


def load_epochs(
    files: Files,
    directory: str,
    segments: Sequence[Segment],
    start_offset: int,
    end_offset: int,
    *,
    was_clean: bool,
    has_gaps: bool,
) -> tuple[Epochs, list[str]]:
    """The log's epochs, and the checkpoint's name if it was not to be believed."""
    path = f"{directory}/{CHECKPOINT_NAME}"
    try:
        content = files.read_all(path)
    except FileNotFoundError:
        content = b""
    stored = _epochs_within(content, start_offset, end_offset)
    if stored is not None and _agree(stored, segments, start_offset, has_gaps):
        return stored, []
    epochs = Epochs()
    for segment, found in batches_from(segments, start_offset):
        epoch = found.header.leader_epoch
        if epoch < epochs.latest:
            raise Corrupt(f"{segment.file.path} at {found.position}", f"leader epoch {epoch} after {epochs.latest}")
        if epoch > epochs.latest:
            epochs.assign(epoch, max(found.header.base_offset, start_offset))
    # After a crash the checkpoint may not know the latest epochs. If it differs in any other way, a bit of it was
    # turned, or one in the epoch of a batch, which no checksum covers.
    is_known = stored is None or has_gaps or (not was_clean and stored.entries == epochs.entries[: len(stored.entries)])
    if stored is not None and not is_known and not _is_slip(content, epochs, start_offset, end_offset):
        if was_clean or not _starts_later(stored, epochs):
            raise Corrupt(directory, f"the batches have the epochs {epochs.entries}, the checkpoint {stored.entries}")
        epochs.advance(stored.entries[0].start_offset)  # what was deleted stays so
        if stored.entries == epochs.entries:
            return stored, []
    if epochs.latest < 0:
        return epochs, []
    files.replace(path, epochs.encode(end_offset), sync=False)
    epochs.is_stored = True
    return epochs, [path]


def _starts_later(stored: Epochs, epochs: Epochs) -> bool:
    """The log start had been moved up, and its own checkpoint was not written any more; perhaps nor were the latest
    epochs."""
    if not stored.entries:
        return False
    within = Epochs(list(epochs.entries))
    within.advance(stored.entries[0].start_offset)
    return stored.entries == within.entries[: len(stored.entries)]


def _epochs_within(content: bytes, start_offset: int, end_offset: int) -> Epochs | None:
    """What a checkpoint says of these offsets; None when it makes no sense."""
    epochs = Epochs.decode(content)
    if epochs is not None:
        epochs.truncate(end_offset)
        epochs.advance(start_offset)
    return epochs


def _is_slip(content: bytes, epochs: Epochs, start_offset: int, end_offset: int) -> bool:
    """Whether turning one bit of this checkpoint would make it say the same as these epochs."""
    slip = bytearray(content)
    for bit in range(len(content) * 8):
        slip[bit // 8] ^= 1 << bit % 8
        stored = _epochs_within(bytes(slip), start_offset, end_offset)
        slip[bit // 8] ^= 1 << bit % 8
        if stored is not None and stored.entries == epochs.entries:
            return True
    return False


def _agree(epochs: Epochs, segments: Sequence[Segment], start_offset: int, has_gaps: bool) -> bool:
    """Whether the batches say the same: at the start of each epoch, and at the end of the log."""
    filled = [segment for segment in segments if segment.size]
    if not filled:
        return True
    last = filled[-1].locate(filled[-1].end_offset - 1)
    if last is not None and start_offset >= filled[-1].end_offset and epochs.latest == NO_EPOCH:
        return True  # everything was deleted, and with it the epochs
    if last is None or last.header.leader_epoch != epochs.latest:
        return False
    if start_offset >= filled[-1].end_offset:
        return True  # everything was deleted: the last epoch is all there is to know
    entries = epochs.entries
    if entries and entries[0].start_offset > start_offset and not has_gaps:
        return False
    for epoch, offset in entries:
        found = next((found for _, found in batches_from(filled, offset)), None)
        if found is None:
            return False
        if has_gaps:  # compaction may have removed every batch of an epoch
            is_right = found.header.leader_epoch >= epoch
        else:
            is_at_start = found.header.base_offset == offset or offset == start_offset
            is_right = found.header.leader_epoch == epoch and is_at_start
        if not is_right:
            return False
    return True
