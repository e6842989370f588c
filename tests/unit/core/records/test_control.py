"""Markers that end a transaction."""

from __future__ import annotations

import pytest

from chronik.core.errors import Corrupt
from chronik.core.records.batch import CONTROL_BIT, accept, crc_holds, read_header
from chronik.core.records.control import Marker, build_marker, read_marker
from chronik.core.records.payload import KeyValue, assemble, build, walk


@pytest.mark.parametrize("marker", [Marker(True, 7), Marker(False, 0)])
def test_a_marker_comes_back(marker: Marker) -> None:
    batch = build_marker(marker, producer_id=42, producer_epoch=3, now_ms=1000)
    header = accept(batch)
    assert read_marker(batch) == marker
    assert (header.is_control, header.is_transactional) == (True, True)
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (42, 3, -1)
    assert crc_holds(batch, header.crc)


def test_the_bytes_are_kafkas() -> None:
    record = next(walk(build_marker(Marker(True, 258), 1, 0, 1000)))
    assert (record.key, record.value) == (bytes.fromhex("00000001"), bytes.fromhex("000000000102"))


def control(key: bytes | None, value: bytes | None) -> bytearray:
    return build([KeyValue(key, value)], 1000, producer_id=1, attributes=CONTROL_BIT)


def test_control_records_of_another_kind_are_no_markers() -> None:
    assert read_marker(control(bytes.fromhex("00000002"), b"leader change")) is None


def test_a_control_batch_that_was_emptied_has_no_marker() -> None:
    emptied = assemble(b"", read_header(control(b"k", b"v"))._replace(record_count=0))
    assert read_marker(emptied) is None


@pytest.mark.parametrize(("key", "value"), [(None, b"x"), (b"\0", b"x"), (b"\0\0\0\1", None), (b"\0\0\0\1", b"\0")])
def test_a_marker_that_makes_no_sense_is_corrupt(key: bytes | None, value: bytes | None) -> None:
    with pytest.raises(Corrupt):
        read_marker(control(key, value))
