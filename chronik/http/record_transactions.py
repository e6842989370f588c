"""The transaction of a record, and what became of it, as one node's copy of the partition has it.

An open one is known by its producer's state, an aborted one by the index of the log. What is neither has committed: its
marker is looked for in the batch headers behind it, in so many bytes of them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import TYPE_CHECKING

from chronik.core.errors import Corrupt
from chronik.core.ports import Unread
from chronik.core.records.batch import HEADER_BYTES, BatchHeader, read_header
from chronik.core.records.control import read_marker
from chronik.trace.inspections import BatchSeen, TransactionFate, TransactionView

if TYPE_CHECKING:
    from chronik.core.replica.replica import Replica
    from chronik.node.node import Node

STEP_BYTES = 256 * 1024
LOOK_BYTES = 16 * 1024 * 1024
MARKER_BYTES_MAX = 1024  # more than a marker ever has


async def transaction_at(
    node: Node, replica: Replica, batch: BatchSeen, look_bytes: int = LOOK_BYTES
) -> TransactionView | None:
    """None for a record that is in no transaction."""
    if batch.is_control:
        return await _marker(node, replica, batch)
    if not batch.is_transactional:
        return None
    log, who = replica.log, (batch.producer_id, batch.producer_epoch)
    producer = log.producers.get(batch.producer_id)
    if producer is not None and 0 <= producer.transaction_start_offset <= batch.base_offset:
        return TransactionView(TransactionFate.OPEN, *who, first_offset=producer.transaction_start_offset)
    try:
        aborted = log.aborted_between(batch.base_offset, batch.to_offset)
    except (Corrupt, OSError) as problem:
        return TransactionView(TransactionFate.NOT_KNOWN, *who, reason=f"its aborted transactions: {problem}")
    for one in aborted:
        if one.producer_id == batch.producer_id and one.first_offset <= batch.base_offset <= one.last_offset:
            return TransactionView(TransactionFate.ABORTED, *who, one.first_offset, one.last_offset)
    marker_offset, reason = await _marker_behind(node, replica, batch, look_bytes)
    return TransactionView(TransactionFate.COMMITTED, *who, marker_offset=marker_offset, reason=reason)


async def _marker(node: Node, replica: Replica, batch: BatchSeen) -> TransactionView:
    """A control batch is a marker itself."""
    fate, epoch, reason = TransactionFate.NOT_KNOWN, -1, None
    try:
        plan = replica.log.read(batch.base_offset, replica.log.end_offset, 1, at_least_one=True)
        content = None if plan is None else await node.replicas.wait_for_read(plan)
        if content is None or isinstance(content, Unread):
            reason = "the marker cannot be read"
        elif (marker := read_marker(memoryview(content)[: min(batch.size_bytes, MARKER_BYTES_MAX)])) is not None:
            fate = TransactionFate.COMMITTED if marker.is_commit else TransactionFate.ABORTED
            epoch = marker.coordinator_epoch
        else:
            reason = "a control record of another kind"
    except (Corrupt, OSError) as problem:
        reason = str(problem)
    return TransactionView(
        fate,
        batch.producer_id,
        batch.producer_epoch,
        marker_offset=batch.base_offset,
        coordinator_epoch=epoch,
        is_marker=True,
        reason=reason,
    )


async def _marker_behind(node: Node, replica: Replica, batch: BatchSeen, look_bytes: int) -> tuple[int, str | None]:
    """Where the marker of its transaction is; or -1, and why that is not known."""
    log, at, looked_at_bytes = replica.log, batch.to_offset, 0
    while at < log.end_offset and looked_at_bytes < look_bytes:
        try:
            plan = log.read(max(at, log.start_offset), log.end_offset, STEP_BYTES, at_least_one=True)
        except (Corrupt, OSError) as problem:
            return -1, f"its marker: {problem}"
        if plan is None:
            break
        content = await node.replicas.wait_for_read(plan)
        if isinstance(content, Unread):
            return -1, "its marker: the log cannot be read there"
        for header in headers_of(content):
            if header.is_control and header.producer_id == batch.producer_id and header.base_offset >= batch.to_offset:
                return header.base_offset, None
        at, looked_at_bytes = plan.next_offset, looked_at_bytes + plan.length
        await asyncio.sleep(0)  # requests that are under way go first
    if at < log.end_offset:
        return -1, f"its marker is beyond offset {at - 1}: no further was looked"
    return -1, "its marker was compacted away"


def headers_of(content: bytes) -> Iterator[BatchHeader]:
    """Of whole batches."""
    at = 0
    while at + HEADER_BYTES <= len(content):
        header = read_header(content, at)
        yield header
        at += max(header.size_bytes, HEADER_BYTES)
