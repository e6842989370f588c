"""A snapshot's bytes, in Kafka's format (KIP-630): batches between a header and a footer in control records.

    control batch: SnapshotHeader, and the voters where the log has changed them | batches of records | SnapshotFooter

The footer tells a whole snapshot from one that was cut off.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from chronik.core.errors import Corrupt
from chronik.core.log.scan import sound_batches
from chronik.core.raft import control_records
from chronik.core.raft.control_records import SnapshotFooter, SnapshotHeader, VotersRecord
from chronik.core.raft.messages import LogPoint
from chronik.core.records import payload
from chronik.core.records.payload import KeyValue
from chronik.core.types import Buffer

RECORDS_A_BATCH = 1000


class MetadataSnapshot(NamedTuple):
    values: list[bytes]
    voters: VotersRecord | None


def encode(point: LogPoint, values: Sequence[bytes], voters: VotersRecord | None, now_ms: int) -> Iterator[bytes]:
    """The file of a snapshot that ends at this point, in pieces that are short work each."""
    head: list[SnapshotHeader | VotersRecord] = [SnapshotHeader(0, now_ms)]
    if voters is not None:
        head.append(voters)
    yield bytes(control_records.build(head, now_ms, base_offset=0, leader_epoch=point.epoch))
    offset = len(head)
    for start in range(0, len(values), RECORDS_A_BATCH):
        pairs = [KeyValue(None, value) for value in values[start : start + RECORDS_A_BATCH]]
        yield bytes(payload.build(pairs, now_ms, base_offset=offset, leader_epoch=point.epoch))
        offset += len(pairs)
    yield bytes(control_records.build([SnapshotFooter(0)], now_ms, base_offset=offset, leader_epoch=point.epoch))


def decode(content: Buffer) -> MetadataSnapshot:
    """The values of a snapshot's records, and its voters. Raises Corrupt unless it is whole and sound."""
    values: list[bytes] = []
    voters: VotersRecord | None = None
    is_begun = is_whole = False
    view = memoryview(content)
    for position, header in sound_batches(view, "snapshot"):
        batch = view[position : position + header.size_bytes]
        if is_whole:
            raise Corrupt("snapshot", "goes on behind its end")
        if not header.is_control:
            values += (record.value for record in payload.walk(batch) if record.value is not None)
            continue
        for _, record in control_records.read(batch):
            match record:
                case SnapshotHeader():
                    is_begun = True
                case SnapshotFooter():
                    is_whole = True
                case VotersRecord():
                    voters = record
    if not (is_begun and is_whole):
        raise Corrupt("snapshot", "is not whole")
    return MetadataSnapshot(values, voters)
