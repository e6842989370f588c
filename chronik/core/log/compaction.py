"""Compaction: of each key the last record stays, the earlier ones go (`cleanup.policy=compact`).

Closed segments are written anew without the records that a later one with the same key replaces. Offsets stay as they
are, so gaps appear; batches that lose nothing are copied as they stand. A tombstone (a null value) replaces what came
before it and goes itself `delete.retention.ms` after it was first met here; until then its batch carries that moment,
as in Kafka (KIP-534). Kept in any case: records without a key, transactions, and, emptied, the last batch of each
producer and of each file: from the one its sequence is known, from the other where the file ends.

    <base>.log.cleaned   being written; worth nothing after a crash
    <base>.log.swap      whole and synced; it takes the place of the segments it was made from, also after a crash
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from typing import NamedTuple

from chronik.core.config.topic import TopicConfig
from chronik.core.errors import Corrupt
from chronik.core.log.index import RELATIVE_OFFSET_MAX
from chronik.core.log.retention import last_time_ms
from chronik.core.log.scan import SCAN_BYTES, headers, read_batch
from chronik.core.log.segment import Segment
from chronik.core.ports import File, Files
from chronik.core.records.batch import DELETE_HORIZON_BIT, TIMESTAMP_TYPE_BIT, BatchHeader
from chronik.core.records.payload import Record, assemble, pack, walk, write_record
from chronik.core.types import Buffer

CLEANED_SUFFIX = ".log.cleaned"
SWAP_SUFFIX = ".log.swap"
KEYS_MAX = 2_000_000
# How much is done in one step. A record, or 1,000 bytes of batch, counts as 1; it takes some microseconds.
WORK_A_STEP = 1000


class Rewritten(NamedTuple):
    """Segments, and the synced file that can take their place."""

    segments: list[Segment]
    path: str


def cleanable(
    segments: Sequence[Segment], config: TopicConfig, clean_offset: int, high_watermark: int, now_ms: int
) -> list[Segment]:
    """The closed segments to compact, the oldest first; none while too little was written since the last time."""
    run: list[Segment] = []
    for segment in segments[:-1]:
        is_young = 0 < config.min_compaction_lag_ms > now_ms - last_time_ms(segment)
        if segment.end_offset > high_watermark or is_young:
            break
        run.append(segment)
    dirty = [segment for segment in run if segment.end_offset > clean_offset]
    if not dirty:
        return []
    dirty_ratio = sum(segment.size for segment in dirty) / sum(segment.size for segment in run)
    is_overdue = now_ms - last_time_ms(dirty[0]) > config.max_compaction_lag_ms
    return run if dirty_ratio >= config.min_cleanable_dirty_ratio or is_overdue else []


def clean(
    files: Files,
    segments: list[Segment],
    clean_offset: int,
    kept_offsets: frozenset[int],
    config: TopicConfig,
    now_ms: int,
) -> Generator[Rewritten | File | None, None, None]:
    """Write these segments anew, in small steps: None means that there is more to do, a file is to be synced first."""
    latest: dict[bytes, int] = {}
    known: list[Segment] = []
    for segment in segments:
        if len(latest) > KEYS_MAX:
            break  # the rest is for the next time
        if segment.end_offset > clean_offset:
            done = 0
            for header, batch, _ in _batches([segment]):
                _note_keys(header, batch, latest)
                done += _work(header)
                if done >= WORK_A_STEP:
                    done = 0
                    yield None
        known.append(segment)
    horizon_ms = now_ms + config.delete_retention_ms
    for group in _groups(known, config.segment_bytes):
        path = group[0].path + CLEANED_SUFFIX
        try:
            files.remove(path)
            target = files.open(path)
            done = 0
            for header, batch, is_last in _batches(group):
                is_kept = is_last or header.last_offset in kept_offsets
                rewritten = rewrite(header, batch, latest, is_kept, now_ms, horizon_ms)
                if rewritten is not None:
                    target.append((rewritten,))
                done += _work(header)
                if done >= WORK_A_STEP:
                    done = 0
                    yield None
            yield target
            target.close()
            yield Rewritten(group, path)
        finally:
            files.remove(path)  # nothing to remove when it was swapped in


def _work(header: BatchHeader) -> int:
    return header.record_count + header.size_bytes // 1000 + 1


def _batches(segments: list[Segment]) -> Iterator[tuple[BatchHeader, bytes, bool]]:
    """Header and checked bytes of every batch, and whether it is the last one."""
    held: tuple[BatchHeader, bytes] | None = None
    for segment in segments:
        for found in headers(segment.file, 0, segment.size, floor_offset=segment.base_offset, chunk_bytes=SCAN_BYTES):
            if held is not None:
                yield *held, False
            held = found.header, read_batch(segment.file, found)
    if held is not None:
        yield *held, True


def _groups(segments: list[Segment], segment_bytes: int) -> list[list[Segment]]:
    """Neighbours that fit into one file together."""
    groups: list[list[Segment]] = []
    size = 0
    for segment in segments:
        fits = size + segment.size <= segment_bytes
        if groups and fits and segment.end_offset - groups[-1][0].base_offset <= RELATIVE_OFFSET_MAX:
            groups[-1].append(segment)
            size += segment.size
        else:
            groups.append([segment])
            size = segment.size
    return groups


def _records(header: BatchHeader, batch: bytes) -> list[Record] | None:
    """The records that compaction may judge; None for a batch that stays as it is."""
    if header.is_control or header.is_transactional:
        return None  # which of them count is for the transaction to say
    try:
        return list(walk(batch))
    except Corrupt:  # the checksum holds: it is what a producer sent, and nothing here can say what it means
        return None


def _note_keys(header: BatchHeader, batch: bytes, latest: dict[bytes, int]) -> None:
    for record in _records(header, batch) or ():
        if record.key is not None:
            latest[record.key] = record.offset


def rewrite(
    header: BatchHeader, batch: bytes, latest: dict[bytes, int], is_kept: bool, now_ms: int, horizon_ms: int
) -> Buffer | None:
    """The batch without what was replaced: the same bytes, fewer records, none but the header, or nothing at all."""
    records = _records(header, batch)
    if records is None:
        return batch
    has_horizon = bool(header.attributes & DELETE_HORIZON_BIT)
    is_past_horizon = has_horizon and now_ms >= header.base_timestamp
    stays = [
        record
        for record in records
        if record.key is None
        or (latest.get(record.key, -1) <= record.offset and not (record.value is None and is_past_horizon))
    ]
    starts_horizon = not has_horizon and any(r.value is None and r.key is not None for r in stays)
    if len(stays) == len(records) and not starts_horizon:
        return batch if records or is_kept else None
    if not stays and not is_kept:
        return None
    attributes = header.attributes | (DELETE_HORIZON_BIT if starts_horizon else 0)
    base_timestamp = horizon_ms if starts_horizon else header.base_timestamp
    is_timed_by_log = bool(header.attributes & TIMESTAMP_TYPE_BIT)
    body = bytearray()
    for record in stays:
        write_record(body, record, record.timestamp - base_timestamp, record.offset - header.base_offset)
    changed = header._replace(
        attributes=attributes,
        base_timestamp=base_timestamp,
        max_timestamp=header.max_timestamp
        if is_timed_by_log or not stays
        else max(record.timestamp for record in stays),
        record_count=len(stays),
    )
    return assemble(pack(bytes(body), header.compression), changed)


def swap_in(files: Files, segments: list[Segment], rewritten: Rewritten, now_ms: int) -> Segment:
    """Put the new file in the place of the segments it was made from."""
    old = rewritten.segments
    first = segments.index(old[0])
    directory, _, _ = old[0].path.rpartition("/")
    base_offset, end_offset, interval_bytes = old[0].base_offset, old[-1].end_offset, old[0].interval_bytes
    swap_path = old[0].path + SWAP_SUFFIX
    for segment in old:
        segment.file.retire()
    files.rename(rewritten.path, swap_path)
    try:
        _put_in_place(files, directory, swap_path, base_offset, [segment.base_offset for segment in old])
    except OSError as problem:  # half of it is done: the next process does the other half
        raise Corrupt(swap_path, f"compaction was interrupted: {problem}") from problem
    new = Segment.inherit(files, directory, base_offset, end_offset, interval_bytes, now_ms)
    size = new.size
    new.forget()
    new.relearn(0, size)
    new.end_offset = end_offset
    segments[first : first + len(old)] = [new]
    return new


def finish_swaps(files: Files, directory: str, names: list[str]) -> bool:
    """Do what a crash left undone. True when files have changed."""
    leftovers = [name for name in names if name.endswith((CLEANED_SUFFIX, SWAP_SUFFIX))]
    for name in leftovers:
        path = f"{directory}/{name}"
        if name.endswith(CLEANED_SUFFIX):
            files.remove(path)
            continue
        file = files.open(path)
        base_offset = int(name.removesuffix(SWAP_SUFFIX))
        end_offset = base_offset
        for found in headers(file, 0, file.size(), floor_offset=base_offset, chunk_bytes=SCAN_BYTES):
            end_offset = found.header.next_offset
        file.close()
        replaced = [int(other[:-4]) for other in names if other.endswith(".log")]
        _put_in_place(files, directory, path, base_offset, [b for b in replaced if base_offset <= b < end_offset])
    return bool(leftovers)


def _put_in_place(files: Files, directory: str, swap_path: str, base_offset: int, replaced: list[int]) -> None:
    """Remove the segments that were replaced, the last first, and give the new file its name."""
    for replaced_offset in sorted(replaced, reverse=True):
        for suffix in (".index", ".timeindex", *((".log",) if replaced_offset != base_offset else ())):
            files.remove(f"{directory}/{replaced_offset:020}{suffix}")
    files.rename(swap_path, f"{directory}/{base_offset:020}.log")
