"""Topic ids between the wire and the core."""

from __future__ import annotations

import uuid

from chronik.api import topic_ids


def test_an_id_is_the_same_bytes_on_both_sides() -> None:
    raw = bytes(range(16))

    assert topic_ids.to_wire(raw) == uuid.UUID(bytes=raw)
    assert topic_ids.from_wire(uuid.UUID(bytes=raw)) == raw


def test_no_id_is_zero_in_the_core_and_none_on_the_wire() -> None:
    assert topic_ids.to_wire(bytes(16)) is None
    assert topic_ids.from_wire(None) is None
