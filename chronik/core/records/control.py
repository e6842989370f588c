"""Control batches: the markers that end a transaction in a partition (KIP-98).

A control batch holds one record. Its key is version int16 and type int16 (0 abort, 1 commit), its value version
int16 and the epoch of the transaction coordinator, int32.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

from chronik.core.errors import Corrupt
from chronik.core.records import payload
from chronik.core.records.batch import CONTROL_BIT, TRANSACTIONAL_BIT
from chronik.core.types import Buffer

ABORT = 0
COMMIT = 1
MARKER_BYTES = 78  # the whole batch
_KEY = struct.Struct(">hh")
_VALUE = struct.Struct(">hi")


class Marker(NamedTuple):
    """How a transaction ended, and who said so."""

    is_commit: bool
    coordinator_epoch: int


def build_marker(marker: Marker, producer_id: int, producer_epoch: int, now_ms: int) -> bytearray:
    """The control batch of a marker, with offset 0."""
    record = payload.KeyValue(
        _KEY.pack(0, COMMIT if marker.is_commit else ABORT), _VALUE.pack(0, marker.coordinator_epoch)
    )
    attributes = CONTROL_BIT | TRANSACTIONAL_BIT
    return payload.build(
        [record], now_ms, producer_id=producer_id, producer_epoch=producer_epoch, attributes=attributes
    )


def read_marker(batch: Buffer) -> Marker | None:
    """The marker in a control batch; None when it is of another type (Raft has its own), or compacted away."""
    record = next(payload.walk(batch), None)
    if record is None:
        return None
    if record.key is None or record.value is None or len(record.key) < _KEY.size:
        raise Corrupt("control batch", "its record has no key or value")
    _, kind = _KEY.unpack_from(record.key)
    if kind not in (ABORT, COMMIT):
        return None
    if len(record.value) < _VALUE.size:
        raise Corrupt("control batch", "its value is too short")
    _, coordinator_epoch = _VALUE.unpack_from(record.value)
    return Marker(kind == COMMIT, coordinator_epoch)
