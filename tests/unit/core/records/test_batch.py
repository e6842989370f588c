"""The batch header, its checksum, and what a producer may send."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chronik.core.errors import Code, Refused
from chronik.core.records.batch import (
    CRC_START,
    HEADER_BYTES,
    RECORDS_MAX,
    TIMESTAMP_TYPE_BIT,
    BatchHeader,
    accept,
    crc_holds,
    read_header,
    read_size,
    stamp,
    stamp_append_time,
)
from chronik.core.records.payload import KeyValue, assemble, build

NOW_MS = 1_700_000_000_000


def batch_of(count: int = 2, **fields: int) -> bytearray:
    return build([KeyValue(b"key", b"value")] * count, NOW_MS, **fields)


def refusal(records: bytes | bytearray) -> Code:
    with pytest.raises(Refused) as refused:
        accept(records)
    return refused.value.code


INT16, INT32, INT64 = (st.integers(-(2**bits), 2**bits - 1) for bits in (15, 31, 63))
HEADERS = st.builds(
    BatchHeader, INT64, INT32, INT32, st.integers(-128, 127), st.integers(0, 2**32 - 1), INT16, INT32,
    INT64, INT64, INT64, INT16, INT32, INT32,
)  # fmt: skip


@given(HEADERS)
def test_every_field_is_read_from_its_place(header: BatchHeader) -> None:
    content = struct.pack(">qiibIhiqqqhii", *header)
    assert len(content) == HEADER_BYTES
    assert read_header(content) == header
    assert read_header(b"before" + content, 6) == header
    assert read_size(content) == (header.base_offset, header.length + 12)


def test_offsets_and_sizes_follow_from_the_header() -> None:
    batch = batch_of(3, base_offset=100)
    header = read_header(batch)
    assert (header.last_offset, header.next_offset, header.size_bytes) == (102, 103, len(batch))
    assert (header.is_control, header.is_transactional, header.compression) == (False, False, 0)


def test_the_last_sequence_wraps_to_zero_after_the_largest_int() -> None:
    assert read_header(batch_of(3, producer_id=1, producer_epoch=0, base_sequence=7)).last_sequence == 9
    assert read_header(batch_of(3, producer_id=1, producer_epoch=0, base_sequence=2**31 - 2)).last_sequence == 0


def test_a_sound_batch_is_accepted() -> None:
    batch = batch_of(5)
    assert accept(batch) == read_header(batch)
    assert accept(memoryview(batch)).record_count == 5


@given(st.data())
def test_every_flipped_bit_of_what_the_producer_vouches_for_is_refused(data: st.DataObject) -> None:
    batch = batch_of()
    bit = data.draw(st.integers(8 * 16, len(batch) * 8 - 1))  # magic, checksum, and all the checksum is of
    batch[bit // 8] ^= 1 << bit % 8
    assert refusal(batch) in (Code.CORRUPT_MESSAGE, Code.UNSUPPORTED_FOR_MESSAGE_FORMAT)


@given(st.integers(0, 200))
def test_a_batch_cut_short_is_refused(size: int) -> None:
    batch = batch_of()
    assert refusal(batch[: size % len(batch)]) == Code.CORRUPT_MESSAGE


def test_more_than_one_batch_is_refused() -> None:
    assert refusal(batch_of() + batch_of()) == Code.INVALID_RECORD


@given(st.binary(max_size=200))
def test_no_bytes_make_accepting_fail_in_another_way(content: bytes) -> None:
    refusal(content)


def test_a_batch_whose_count_and_offsets_disagree_is_refused() -> None:
    header = read_header(batch_of(2))
    body = bytes(batch_of(2))[HEADER_BYTES:]
    assert refusal(assemble(body, header._replace(last_offset_delta=5))) == Code.INVALID_RECORD
    assert refusal(assemble(body, header._replace(record_count=0, last_offset_delta=-1))) == Code.INVALID_RECORD


@pytest.mark.parametrize(("compression", "unpacked_of_one"), [(0, 1), (1, 1032), (2, 22), (3, 255), (4, 32768)])
def test_more_records_than_the_bytes_can_hold_are_refused_without_unpacking(
    compression: int, unpacked_of_one: int
) -> None:
    fits = 70 * unpacked_of_one // 7
    assert accept(claiming(fits, compression)).record_count == fits
    with pytest.raises(Refused, match=f"{fits + 1} records") as refused:
        accept(claiming(fits + 1, compression))
    assert refused.value.code == Code.INVALID_RECORD


def test_more_records_than_a_batch_may_have_are_refused_whatever_its_size() -> None:
    assert accept(claiming(RECORDS_MAX, 4, size=10_000)).record_count == RECORDS_MAX
    with pytest.raises(Refused) as refused:
        accept(claiming(RECORDS_MAX + 1, 4, size=10_000))
    assert refused.value.code == Code.INVALID_RECORD


def claiming(count: int, compression: int, size: int = 70) -> bytearray:
    """A batch that says it has so many records."""
    header = BatchHeader(0, 0, 0, 2, 0, compression, count - 1, 0, 0, -1, -1, -1, count)
    return assemble(bytes(size), header)


def test_an_unknown_compression_is_refused() -> None:
    header = read_header(batch_of(2))
    assert refusal(assemble(b"", header._replace(attributes=5))) == Code.UNSUPPORTED_COMPRESSION_TYPE


def test_an_older_format_is_refused() -> None:
    batch = batch_of()
    batch[16] = 1
    assert refusal(batch) == Code.UNSUPPORTED_FOR_MESSAGE_FORMAT


@given(st.integers(0, 2**62), st.integers(0, 2**31 - 1))
def test_a_stamp_leaves_what_the_checksum_covers(base_offset: int, leader_epoch: int) -> None:
    batch = batch_of()
    before = bytes(batch)
    stamp(batch, base_offset, leader_epoch)
    header = read_header(batch)
    assert (header.base_offset, header.leader_epoch) == (base_offset, leader_epoch)
    assert batch[16:] == before[16:]
    assert batch[8:12] == before[8:12]
    assert crc_holds(batch, header.crc)


def test_the_append_time_is_stamped_with_a_new_checksum() -> None:
    batch = batch_of()
    stamp_append_time(batch, 0, 12345)
    header = accept(batch)
    assert (header.max_timestamp, header.attributes) == (12345, TIMESTAMP_TYPE_BIT)
    assert header.base_timestamp == NOW_MS


def test_the_checksum_is_of_everything_from_the_attributes_on() -> None:
    batch = batch_of()
    crc = read_header(batch).crc
    batch[CRC_START - 5] ^= 1
    assert crc_holds(batch, crc)
    batch[CRC_START] ^= 1
    assert not crc_holds(batch, crc)


def crc_32c(content: bytes | bytearray) -> int:
    """CRC-32C by its definition (RFC 3720, B.4), bit by bit: what libraries must agree with."""
    crc = 0xFFFFFFFF
    for byte in content:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def test_the_checksum_is_crc_32c_by_its_definition_in_network_order() -> None:
    """Built, accepted and stamped by one library, all three could be wrong together and no other test would notice."""
    assert crc_32c(b"123456789") == 0xE3069283

    batch = batch_of()
    assert int.from_bytes(batch[17:21], "big") == crc_32c(batch[21:])
    stamp_append_time(batch, 0, 12345)
    assert int.from_bytes(batch[17:21], "big") == crc_32c(batch[21:])
    assert accept(batch).crc == crc_32c(batch[21:])
