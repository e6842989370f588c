"""The aborted transactions of a segment, in the bytes of Kafka's `.txnindex`: what `read_committed` leaves out.

    version int16 (0), producer id int64, first offset int64, last offset int64 (the marker's), last stable offset int64

An entry stands in the segment of its marker. Entries come in the order of their markers; the last stable offset is what
it became with that marker, so that a search can end early: what begins above it has its marker further on.

A segment without any has no file, and an entry has no checksum. So entries are held against the markers in the log when
they are loaded (`history.load_aborted`), and made anew from the batches where the log was not closed in order.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import NamedTuple

from chronik.core.log.transactions import EndedTransaction
from chronik.core.types import Buffer

SUFFIX = ".txnindex"
VERSION = 0
_ENTRY = struct.Struct(">hqqqq")
ENTRY_BYTES = _ENTRY.size


class AbortedTransaction(NamedTuple):
    """Of one producer, what it wrote in a transaction from `first_offset` on, up to the marker at `last_offset`."""

    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int

    @classmethod
    def of(cls, ended: EndedTransaction) -> AbortedTransaction:
        return cls(ended.producer_id, ended.first_offset, ended.last_offset, ended.last_stable_offset)


def encode(entries: Iterable[AbortedTransaction]) -> bytes:
    return b"".join(_ENTRY.pack(VERSION, *entry) for entry in entries)


def decode(content: Buffer, base_offset: int, end_offset: int) -> list[AbortedTransaction] | None:
    """The entries of a segment with these offsets; None when these bytes cannot be its index."""
    if len(content) % ENTRY_BYTES:
        return None
    entries: list[AbortedTransaction] = []
    last_offset = base_offset - 1
    for version, *fields in _ENTRY.iter_unpack(content):
        entry = AbortedTransaction(*fields)
        is_in_order = last_offset < entry.last_offset < end_offset and entry.first_offset < entry.last_offset
        if version != VERSION or not is_in_order or entry.first_offset < 0:
            return None
        last_offset = entry.last_offset
        entries.append(entry)
    return entries
