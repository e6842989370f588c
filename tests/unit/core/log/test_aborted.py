"""The index of aborted transactions: Kafka's bytes, and what cannot be its bytes."""

from __future__ import annotations

import struct

from chronik.core.log.aborted import AbortedTransaction, decode, encode


def test_the_index_has_kafkas_bytes() -> None:
    entry = AbortedTransaction(7, 10, 20, 15)
    assert encode([entry]) == struct.pack(">hqqqq", 0, 7, 10, 20, 15)
    assert decode(encode([entry]), 0, 21) == [entry]
    for content, end_offset in ((encode([entry])[:-1], 21), (encode([entry]), 20), (encode([entry, entry]), 21)):
        assert decode(content, 0, end_offset) is None
