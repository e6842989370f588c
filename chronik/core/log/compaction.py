"""Compaction: of each key the last record stays, the earlier ones go (`cleanup.policy=compact`).

Closed segments are written anew without the records that a later one with the same key replaces. Offsets stay as they
are, so gaps appear; batches that lose nothing are copied as they stand. A tombstone (a null value) replaces what came
before it and goes itself `delete.retention.ms` after it was first met here; until then its batch carries that moment,
as in Kafka (KIP-534). How far tombstones are gone is remembered (`horizon`). Kept in any case: records without a key,
and, emptied, the last batch of each producer and of each file: from the one its sequence is known, from the other where
the file ends.

What an aborted transaction wrote replaces nothing and goes; a marker goes as tombstones do, once nothing is left of
what its transaction wrote (`cleaned_transactions`). Nothing is looked at that is not below the last stable offset.

Batches are taken apart in steps, whatever their producers put into them, and of keys no more is kept than a digest, of
so many at a time: what lies behind them is for the next time.

    <base>.log.cleaned   being written; worth nothing after a crash
    <base>.txnindex.swap the aborted transactions of what comes next, where there were any
    <base>.log.swap      whole and synced; it takes the place of the segments it was made from, also after a crash
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from contextlib import suppress
from functools import partial
from hashlib import blake2b
from typing import Any, NamedTuple

from chronik.core.config.topic import FOREVER_MS, TopicConfig
from chronik.core.errors import Corrupt, Interrupted
from chronik.core.log import aborted
from chronik.core.log.aborted import AbortedTransaction
from chronik.core.log.cleaned_transactions import BatchFate, CleanedTransactions
from chronik.core.log.index import RELATIVE_OFFSET_MAX
from chronik.core.log.retention import last_time_ms
from chronik.core.log.scan import SCAN_BYTES, headers, read_batch
from chronik.core.log.segment import Segment
from chronik.core.ports import File, Files
from chronik.core.records.batch import DELETE_HORIZON_BIT, TIMESTAMP_TYPE_BIT, BatchHeader
from chronik.core.records.payload import Skimmed, assemble, pack, skim, unpacked, write_varint
from chronik.core.records.steps import RECORDS_A_STEP, Steps, Work
from chronik.core.types import Buffer

CLEANED_SUFFIX = ".log.cleaned"
SWAP_SUFFIX = ".log.swap"
ABORTED_SWAP_SUFFIX = f"{aborted.SUFFIX}.swap"
KEYS_MAX = 2_000_000
DIGEST_BYTES = 32  # a key of so many bytes or more is known by its digest
# How much is done in one step. A record, or 1,000 bytes of batch, counts as 1; it takes some microseconds.
WORK_A_STEP = 1000


class Rewritten(NamedTuple):
    """Segments, and the synced file that can take their place."""

    segments: list[Segment]
    path: str
    clean_offset: int  # below it, all keys were known that later records of these segments have
    tombstones_gone_below: int  # 0 if all are there
    aborted: list[AbortedTransaction]  # whose markers stay, and something of what they wrote


def cleanable(
    segments: Sequence[Segment], config: TopicConfig, clean_offset: int, stable_offset: int, now_ms: int
) -> list[Segment]:
    """The closed segments to compact, the oldest first; none while too little was written since the last time."""
    return _due(segments, config, clean_offset, stable_offset, now_ms)[0]


def dirtiness(
    segments: Sequence[Segment], config: TopicConfig, clean_offset: int, stable_offset: int, now_ms: int
) -> float:
    """The share of the segments to compact that was written since the last time; 0 when there are none."""
    return _due(segments, config, clean_offset, stable_offset, now_ms)[1]


def _due(
    segments: Sequence[Segment], config: TopicConfig, clean_offset: int, stable_offset: int, now_ms: int
) -> tuple[list[Segment], float]:
    run: list[Segment] = []
    for segment in segments[:-1]:
        is_young = 0 < config.min_compaction_lag_ms > now_ms - last_time_ms(segment)
        if segment.end_offset > stable_offset or is_young:
            break
        run.append(segment)
    dirty = [segment for segment in run if segment.end_offset > clean_offset]
    if not dirty:
        return [], 0.0
    dirty_ratio = sum(segment.size for segment in dirty) / sum(segment.size for segment in run)
    if dirty_ratio > config.min_cleanable_dirty_ratio or _is_overdue(dirty[0], config, now_ms):
        return run, dirty_ratio
    return [], 0.0


def _is_overdue(dirtiest: Segment, config: TopicConfig, now_ms: int) -> bool:
    """By its first record: that one has waited longest."""
    limit_ms = config.max_compaction_lag_ms
    return limit_ms < FOREVER_MS and dirtiest.age_ms(now_ms, now_ms) > limit_ms


def clean(
    files: Files,
    segments: list[Segment],
    clean_offset: int,
    kept_offsets: frozenset[int],
    config: TopicConfig,
    now_ms: int,
    tombstones_needed_from: int,
    keys_max: int = KEYS_MAX,
    transactions: CleanedTransactions | None = None,
) -> Generator[Rewritten | File | Work[Any] | None, None, None]:
    """Write these segments anew, in small steps: None means that there is more to do, a file is to be synced first, and
    a `Work` can be done on a thread. Tombstones from `tombstones_needed_from` on stay, however old: a follower is on
    its way to them. So do those whose keys were too many to know: what they replace stays too."""
    transactions = CleanedTransactions() if transactions is None else transactions
    latest: dict[bytes, int] = {}
    known: list[Segment] = []
    known_offset = clean_offset
    for segment in segments:
        if len(latest) > keys_max:
            break  # the rest is for the next time
        known.append(segment)
        if segment.end_offset > clean_offset:
            known_offset = yield from _note_segment(segment, clean_offset, latest, keys_max, transactions)
    horizon_ms = now_ms + config.delete_retention_ms
    tombstones_end = min(tombstones_needed_from, known_offset)
    for group in _groups(known, config.segment_bytes):
        path = group[0].path + CLEANED_SUFFIX
        try:
            files.remove(path)
            target = files.open(path)
            done, gone_below = 0, 0
            for header, batch, is_last in _batches(group):
                is_kept = is_last or header.last_offset in kept_offsets
                drops_tombstones = _is_past_horizon(header, now_ms) and header.next_offset <= tombstones_end
                if drops_tombstones:
                    gone_below = header.next_offset
                fate = transactions.meets(header, batch)
                rewritten = yield from rewrite(header, batch, latest, is_kept, drops_tombstones, horizon_ms, fate)
                if rewritten is not None:
                    target.append((rewritten,))
                done += _work(header)
                if done >= WORK_A_STEP:
                    done = 0
                    yield None
            yield target
            target.close()
            yield Rewritten(group, path, known_offset, gone_below, transactions.take_kept())
        finally:
            with suppress(OSError):  # worth nothing, and removed the next time
                files.remove(path)  # nothing to remove when it was swapped in


def _note_segment(
    segment: Segment, clean_offset: int, latest: dict[bytes, int], keys_max: int, transactions: CleanedTransactions
) -> Steps[int]:
    """Note which record is the latest of each key, until they are too many. Returns the offset up to which that is."""
    done = 0
    for header, batch, _ in _batches([segment]):
        if header.last_offset < clean_offset or transactions.is_aborted(header):
            continue
        if len(latest) > keys_max:
            return header.base_offset
        yield from _note_keys(header, batch, latest)
        done += _work(header)
        if done >= WORK_A_STEP:
            done = 0
            yield None
    return segment.end_offset


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


def _known_as(key: bytes) -> bytes:
    return key if len(key) < DIGEST_BYTES else blake2b(key, digest_size=DIGEST_BYTES).digest()


def _note_keys(header: BatchHeader, batch: bytes, latest: dict[bytes, int]) -> Steps[None]:
    if header.is_control:
        return
    noted: dict[bytes, int] = {}  # counts only if all of it makes sense: else the batch stays as it is
    try:
        records = yield from unpacked(batch, header)
        for number, record in enumerate(skim(records, header), 1):
            key = record.key_in(records)
            if key is not None:
                noted[_known_as(key)] = record.offset
            if number % RECORDS_A_STEP == 0:
                yield None
    except Corrupt:  # the checksum holds: it is what a producer sent, and nothing here can say what it means
        return
    latest.update(noted)


class _Judgement(NamedTuple):
    """What compaction makes of a batch."""

    stays: bytearray  # for each record, 1 or 0
    starts_horizon: bool  # a tombstone stays that was not met before
    max_timestamp: int  # of those that stay


def _judge(records: Buffer, header: BatchHeader, latest: dict[bytes, int], drops_tombstones: bool) -> Steps[_Judgement]:
    stays = bytearray()
    has_tombstone, max_timestamp = False, header.max_timestamp
    newest: int | None = None
    for number, record in enumerate(skim(records, header), 1):
        is_kept, key = 1, record.key_in(records)
        if key is not None:
            is_tombstone = record.value_bytes < 0
            is_replaced = latest.get(_known_as(key), -1) > record.offset
            is_kept = 0 if is_replaced or (is_tombstone and drops_tombstones) else 1
            has_tombstone = has_tombstone or bool(is_kept and is_tombstone)
        stays.append(is_kept)
        if is_kept and (newest is None or record.timestamp > newest):
            newest = record.timestamp
        if number % RECORDS_A_STEP == 0:
            yield None
    has_horizon = bool(header.attributes & DELETE_HORIZON_BIT)
    if newest is not None and not header.attributes & TIMESTAMP_TYPE_BIT:
        max_timestamp = newest
    return _Judgement(stays, has_tombstone and not has_horizon, max_timestamp)


def _is_past_horizon(header: BatchHeader, now_ms: int) -> bool:
    return bool(header.attributes & DELETE_HORIZON_BIT) and now_ms >= header.base_timestamp


def rewrite(
    header: BatchHeader,
    batch: bytes,
    latest: dict[bytes, int],
    is_kept: bool,
    drops_tombstones: bool,
    horizon_ms: int,
    fate: BatchFate = BatchFate.COUNTS,
) -> Steps[Buffer | None]:
    """The batch without what was replaced: the same bytes, fewer records, none but the header, or nothing at all."""
    if fate is BatchFate.GONE or (fate is BatchFate.IDLE_MARKER and drops_tombstones):
        return assemble(pack(b"", header.compression), header._replace(record_count=0)) if is_kept else None
    if fate is BatchFate.MARKER:
        return batch
    try:
        records = yield from unpacked(batch, header)
        if fate is BatchFate.IDLE_MARKER:
            has_horizon = bool(header.attributes & DELETE_HORIZON_BIT)
            judgement = _Judgement(bytearray(b"\x01" * header.record_count), not has_horizon, header.max_timestamp)
        else:
            judgement = yield from _judge(records, header, latest, drops_tombstones)
    except Corrupt:  # as it was sent; nothing here can say what it means
        return batch
    count = judgement.stays.count(1)
    if count == len(judgement.stays) and not judgement.starts_horizon:
        return batch if count or is_kept else None
    if not count and not is_kept:
        return None
    changed = header._replace(
        attributes=header.attributes | (DELETE_HORIZON_BIT if judgement.starts_horizon else 0),
        base_timestamp=horizon_ms if judgement.starts_horizon else header.base_timestamp,
        max_timestamp=judgement.max_timestamp,
        record_count=count,
    )
    body = yield from _written(records, header, judgement.stays, changed.base_timestamp)
    packing = Work(partial(pack, body, header.compression))
    if len(body) > WORK_A_STEP * 1000:
        yield packing
    return assemble(packing.result(), changed)


def _written(records: Buffer, header: BatchHeader, stays: bytearray, base_timestamp: int) -> Steps[bytes]:
    """The records that stay, with their times counted from `base_timestamp`. Keys, values and headers are copied."""
    body = bytearray()
    for number, record in enumerate(skim(records, header), 1):
        if stays[number - 1]:
            _write(body, records, record, record.timestamp - base_timestamp, record.offset - header.base_offset)
        if number % RECORDS_A_STEP == 0:
            yield None
    return bytes(body)


def _write(out: bytearray, records: Buffer, record: Skimmed, timestamp_delta: int, offset_delta: int) -> None:
    head = bytearray(1)
    write_varint(head, timestamp_delta)
    write_varint(head, offset_delta)
    write_varint(out, len(head) + record.end - record.body)
    out += head
    out += records[record.body : record.end]


def swap_in(files: Files, segments: list[Segment], rewritten: Rewritten, now_ms: int) -> Segment:
    """Put the new file in the place of the segments it was made from."""
    old = rewritten.segments
    first = segments.index(old[0])
    directory, _, _ = old[0].path.rpartition("/")
    base_offset, end_offset, interval_bytes = old[0].base_offset, old[-1].end_offset, old[0].interval_bytes
    swap_path = old[0].path + SWAP_SUFFIX
    for segment in old:
        segment.file.retire()
    try:
        if any(segment.aborted != [] for segment in old):
            files.replace(old[0].path + ABORTED_SWAP_SUFFIX, aborted.encode(rewritten.aborted))
        files.rename(rewritten.path, swap_path)
        _put_in_place(files, directory, swap_path, base_offset, [segment.base_offset for segment in old])
        new = Segment.inherit(files, directory, base_offset, end_offset, interval_bytes, now_ms)
        size = new.size
        new.forget()
        new.relearn(0, size)
        new.aborted = rewritten.aborted
    except OSError as problem:  # half of it is done
        raise Interrupted(f"{swap_path}: compaction", problem) from problem
    new.end_offset = end_offset
    segments[first : first + len(old)] = [new]
    return new


def finish_swaps(files: Files, directory: str, names: list[str]) -> bool:
    """Do what a crash left undone. True when files have changed."""
    leftovers = [name for name in names if name.endswith((CLEANED_SUFFIX, SWAP_SUFFIX, ABORTED_SWAP_SUFFIX))]
    for name in leftovers:
        path = f"{directory}/{name}"
        is_of_swap = f"{name.removesuffix(ABORTED_SWAP_SUFFIX)}{SWAP_SUFFIX}" in names
        if name.endswith(CLEANED_SUFFIX) or (name.endswith(ABORTED_SWAP_SUFFIX) and not is_of_swap):
            files.remove(path)
        if not name.endswith(SWAP_SUFFIX):
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
        of_others = (aborted.SUFFIX, ".log") if replaced_offset != base_offset else ()
        for suffix in (".index", ".timeindex", *of_others):
            files.remove(f"{directory}/{replaced_offset:020}{suffix}")
    with suppress(FileNotFoundError):  # none was aborted, or this was as far as the last process came
        path = f"{directory}/{base_offset:020}"
        files.rename(path + ABORTED_SWAP_SUFFIX, path + aborted.SUFFIX)
    files.rename(swap_path, f"{directory}/{base_offset:020}.log")
