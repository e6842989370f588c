"""Views `record` and `find`: where one record is in this node's copy of a partition, by batch headers alone.

Records are never taken apart here: a batch is the atom. What is read of the disk is awaited, and a long log is looked
through in parts: `go_on_from` says where the next look begins.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import TYPE_CHECKING

from chronik.core.errors import Corrupt, Refused
from chronik.core.log.log import Log
from chronik.core.log.segment import Slice
from chronik.core.ports import Unread
from chronik.core.records.batch import COMPRESSION_NAMES, HEADER_BYTES, BatchHeader, read_header
from chronik.http.record_transactions import headers_of, transaction_at
from chronik.trace.inspections import BatchSeen, FindView, FoundRecord, RecordPlace, RecordView

if TYPE_CHECKING:
    from chronik.core.replica.replica import Replica
    from chronik.node.node import Node

STEP_BYTES = 256 * 1024
LOOK_BYTES = 64 * 1024 * 1024  # of log that one look goes through
SEQUENCE_MASK = 0x7FFFFFFF  # they begin anew after 2^31 - 1


async def record(node: Node, topic: str, partition: int, offset: int) -> RecordView:
    """What this node's copy has at an offset."""
    place, reason, replica = _copy(node, topic, partition)
    batch: BatchSeen | None = None
    if replica is not None and replica.offline is not None:
        place, reason = RecordPlace.UNREADABLE, replica.offline
    elif replica is not None:
        place, reason, batch = await _batch_at(node, replica, offset)
    placed = node.image.partition(topic, partition)
    transaction = None if replica is None or batch is None else await transaction_at(node, replica, batch)
    look = RecordView(
        node.config.node_id,
        node.trace.clock.now_us(),
        topic,
        partition,
        offset,
        place,
        reason,
        leader=-1 if placed is None else placed.leader,
        leader_epoch=-1 if placed is None else placed.leader_epoch,
        in_sync=() if placed is None else placed.in_sync,
        replicas=() if placed is None else placed.replicas,
        transaction=transaction,
    )
    return look if replica is None else _with_ends(look, replica, batch)


def _with_ends(look: RecordView, replica: Replica, batch: BatchSeen | None) -> RecordView:
    return RecordView(
        look.node,
        look.now_us,
        look.topic,
        look.partition,
        look.offset,
        look.place,
        look.reason,
        is_leader=replica.is_leader,
        leader=replica.leader_id,
        leader_epoch=replica.leader_epoch,
        log_start=replica.log.start_offset,
        watermark=replica.high_watermark,
        last_stable_offset=replica.last_stable_offset,
        next_offset=replica.log.end_offset,
        durable_end_offset=replica.durable_end_offset,
        in_sync=look.in_sync,
        replicas=look.replicas,
        batch=batch,
        transaction=look.transaction,
    )


def _copy(node: Node, topic: str, partition: int) -> tuple[RecordPlace, str | None, Replica | None]:
    """This node's replica, leader or not, or why there is none."""
    if node.image.partition(topic, partition) is None:
        return RecordPlace.NO_SUCH_PARTITION, None, None
    for replica in node.replicas.held():
        if (replica.topic, replica.partition) == (topic, partition):
            return RecordPlace.HERE, None, replica
    try:
        return RecordPlace.HERE, None, node.replicas.readable(topic, partition)  # opened at the first request for it
    except Refused as refusal:
        failed = node.replicas.partitions.offline().get((topic, partition))
        return (
            (RecordPlace.NO_COPY, None, None)
            if failed is None
            else (RecordPlace.UNREADABLE, failed or refusal.message, None)
        )


async def _batch_at(node: Node, replica: Replica, offset: int) -> tuple[RecordPlace, str | None, BatchSeen | None]:
    log = replica.log
    if offset < log.start_offset:
        return RecordPlace.DELETED, _why_deleted(log), None
    if offset >= log.end_offset:
        return RecordPlace.BEYOND_END, f"the log ends at offset {log.end_offset}", None
    try:
        plan = log.read(offset, log.end_offset, 1, at_least_one=True)
    except (Corrupt, OSError) as problem:
        return RecordPlace.UNREADABLE, str(problem), None
    if plan is None or plan.start_offset > offset:
        return RecordPlace.COMPACTED, "a later record of its key replaced it", None
    head = await node.replicas.wait_for_read(plan._replace(length=min(plan.length, HEADER_BYTES)))
    if isinstance(head, Unread) or len(head) < HEADER_BYTES:
        return RecordPlace.UNREADABLE, f"{plan.file.path} cannot be read at {plan.position}", None
    return RecordPlace.HERE, None, _seen(read_header(head), plan)


def _why_deleted(log: Log) -> str:
    """Retention lets go of whole segments; who has records deleted names any offset."""
    try:
        first = log.read(log.start_offset, log.end_offset, 1, at_least_one=True)
    except (Corrupt, OSError):
        first = None
    is_within_segment = log.size_bytes() > 0 if first is None else first.position > 0 or _is_within_batch(first, log)
    config = log.config
    if is_within_segment:
        return f"a DeleteRecords request removed all below offset {log.start_offset}"
    if config.retention_ms < 0 and config.retention_bytes < 0:
        return f"a DeleteRecords request removed all below offset {log.start_offset}: retention is off in this topic"
    return f"by retention (retention.ms={config.retention_ms}, retention.bytes={config.retention_bytes})"


def _is_within_batch(first: Slice, log: Log) -> bool:
    return first.start_offset < log.start_offset


def _seen(header: BatchHeader, plan: Slice) -> BatchSeen:
    return BatchSeen(
        header.base_offset,
        header.next_offset,
        header.leader_epoch,
        header.producer_id,
        header.producer_epoch,
        header.base_sequence,
        header.base_timestamp,
        header.max_timestamp,
        header.record_count,
        header.size_bytes,
        COMPRESSION_NAMES[header.compression] if header.compression < len(COMPRESSION_NAMES) else "unknown",
        header.is_transactional,
        header.is_control,
        plan.file.path,
        plan.position,
    )


async def find(
    node: Node,
    topic: str,
    partition: int,
    producer_id: int,
    sequence: int,
    from_offset: int = 0,
    look_bytes: int = LOOK_BYTES,
) -> FindView:
    """Where a producer's sequence number is in this node's copy, in so many bytes of it from an offset on."""
    place, _, replica = _copy(node, topic, partition)
    if replica is not None and replica.offline is not None:
        place, replica = RecordPlace.UNREADABLE, None
    found: list[FoundRecord] = []
    go_on_from, looked_at_bytes, step_bytes = -1, 0, min(STEP_BYTES, look_bytes)
    if replica is not None:
        log = replica.log
        at = max(from_offset, log.start_offset)
        while at < log.end_offset and looked_at_bytes < look_bytes:
            try:
                plan = log.read(max(at, log.start_offset), log.end_offset, step_bytes, at_least_one=True)
            except (Corrupt, OSError):
                place, at = RecordPlace.UNREADABLE, log.end_offset
                break
            if plan is None:
                at = log.end_offset
                break
            content = await node.replicas.wait_for_read(plan)
            if isinstance(content, Unread):
                content = b""
            if len(content) < plan.length and log.is_current(plan):
                place, at = RecordPlace.UNREADABLE, log.end_offset
                break
            found += (hit for header in headers_of(content) for hit in _hits(header, producer_id, sequence))
            at, looked_at_bytes = plan.next_offset, looked_at_bytes + plan.length
            await asyncio.sleep(0)  # who has requests under way goes first
        go_on_from = at if at < log.end_offset else -1
    return FindView(node.config.node_id, node.trace.clock.now_us(), topic, partition, place, tuple(found), go_on_from)


def _hits(header: BatchHeader, producer_id: int, sequence: int) -> Iterator[FoundRecord]:
    if header.producer_id == producer_id and header.base_sequence >= 0:
        delta = (sequence - header.base_sequence) & SEQUENCE_MASK
        if delta <= header.last_offset_delta:
            yield FoundRecord(header.base_offset + delta, header.producer_epoch)
