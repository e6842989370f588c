"""The records inside a batch, in every compression, from friends and from strangers."""

from __future__ import annotations

import contextlib
import gzip
import struct
from collections.abc import Callable

import cramjam
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chronik.core.errors import Corrupt
from chronik.core.records.batch import HEADER_BYTES, TIMESTAMP_TYPE_BIT, BatchHeader, accept, read_header
from chronik.core.records.payload import (
    Header,
    KeyValue,
    Record,
    assemble,
    build,
    pack,
    read_varint,
    skim,
    unpacked,
    walk,
    write_record,
    write_varint,
)
from chronik.core.records.steps import Work, finish

NOW_MS = 1_700_000_000_000


def xerial(body: bytes) -> bytes:
    """The framing of the Java library: a magic, two versions, then blocks with their length."""
    blocks = [bytes(cramjam.snappy.compress_raw(body[at : at + 100])) for at in range(0, len(body), 100)]
    return b"\x82SNAPPY\x00" + struct.pack(">ii", 1, 1) + b"".join(struct.pack(">i", len(b)) + b for b in blocks)


CODECS: dict[str, tuple[int, Callable[[bytes], bytes]]] = {
    "none": (0, lambda body: body),
    "gzip": (1, gzip.compress),
    "snappy": (2, lambda body: bytes(cramjam.snappy.compress_raw(body))),
    "snappy-xerial": (2, xerial),
    "lz4": (3, lambda body: bytes(cramjam.lz4.compress(body))),
    "zstd": (4, lambda body: bytes(cramjam.zstd.compress(body))),
}


def packed(batch: bytearray, codec: str) -> bytearray:
    """The same batch as a producer with this codec sends it."""
    kind, pack = CODECS[codec]
    return assemble(pack(bytes(batch[HEADER_BYTES:])), read_header(batch)._replace(attributes=kind))


CONTENT = st.none() | st.binary(max_size=40)
HEADERS = st.lists(st.builds(Header, st.text(max_size=5), CONTENT), max_size=3).map(tuple)
RECORDS = st.lists(
    st.builds(Record, st.just(0), st.integers(0, 2**41), CONTENT, CONTENT, HEADERS), min_size=1, max_size=8
)


@settings(max_examples=200)
@given(RECORDS, st.integers(0, 2**40), st.sampled_from(sorted(CODECS)))
def test_what_was_put_together_comes_apart_again(records: list[Record], base_offset: int, codec: str) -> None:
    batch = packed(build(records, NOW_MS, base_offset=base_offset), codec)
    assert list(walk(batch)) == [r._replace(offset=base_offset + number) for number, r in enumerate(records)]


@given(st.integers(-(2**63), 2**63 - 1))
def test_varints_come_back(value: int) -> None:
    out = bytearray()
    write_varint(out, value)
    assert len(out) <= 10
    assert read_varint(out, 0) == (value, len(out))


def test_a_built_batch_is_one_a_producer_could_send() -> None:
    batch = build(
        [KeyValue(b"k", b"v"), KeyValue(None, None)], NOW_MS, producer_id=3, producer_epoch=1, base_sequence=9
    )
    header = accept(batch)
    assert (header.record_count, header.base_timestamp, header.max_timestamp) == (2, NOW_MS, NOW_MS)
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (3, 1, 9)
    assert [(r.key, r.value) for r in walk(batch)] == [(b"k", b"v"), (None, None)]


def test_the_bytes_of_a_record_are_kafkas() -> None:
    batch = build([Record(0, NOW_MS, b"k", None, (Header("h", b"x"),))], NOW_MS)
    # length 11, attributes, time +0, offset +0, key of 1, value null, 1 header: name of 1, value of 1
    assert bytes(batch[HEADER_BYTES:]) == bytes((22, 0, 0, 0, 2)) + b"k" + bytes((1, 2, 2)) + b"h" + bytes((2,)) + b"x"


def test_a_batch_without_records_cannot_be_built() -> None:
    with pytest.raises(ValueError, match="without records"):
        build([], NOW_MS)


def test_several_batches_are_walked_one_after_the_other() -> None:
    first = build([KeyValue(b"a", b"1")], NOW_MS, base_offset=5)
    second = packed(build([KeyValue(b"b", b"2")] * 2, NOW_MS, base_offset=6), "zstd")
    assert [(r.offset, r.key) for r in walk(first + second)] == [(5, b"a"), (6, b"b"), (7, b"b")]
    assert list(walk(b"")) == []


def test_where_the_log_set_the_time_every_record_has_it() -> None:
    batch = build([Record(0, 5, b"k", b"v"), Record(0, 9, b"k", b"v")], NOW_MS, attributes=TIMESTAMP_TYPE_BIT)
    assert [record.timestamp for record in walk(batch)] == [9, 9]


@given(st.binary(max_size=2000), st.integers(0, 4))
def test_what_is_packed_again_comes_apart(value: bytes, compression: int) -> None:
    plain = build([KeyValue(b"k", value)], NOW_MS)
    header = read_header(plain)._replace(attributes=compression)
    again = assemble(pack(bytes(plain[HEADER_BYTES:]), compression), header)
    assert [record.value for record in walk(again)] == [value]


def test_lz4_blocks_stand_alone_as_java_wants_them() -> None:
    version_and_independent = 0b0110_0000
    assert pack(b"x" * 1000, 3)[4] & 0b1110_0000 == version_and_independent


def test_an_unknown_compression_cannot_be_packed() -> None:
    with pytest.raises(ValueError, match="compression type 5"):
        pack(b"", 5)


# --- from strangers


@pytest.mark.parametrize("codec", sorted(set(CODECS) - {"none"}))
def test_what_unpacks_to_more_than_the_limit_is_refused_before_it_takes_the_memory(codec: str) -> None:
    bomb = packed(build([KeyValue(b"k", bytes(5_000_000))], NOW_MS), codec)
    assert len(bomb) < 1_000_000
    with pytest.raises(Corrupt, match="more than"):
        list(walk(bomb, unpacked_bytes_max=100_000))


@pytest.mark.parametrize("codec", sorted(set(CODECS) - {"none"}))
def test_compressed_bytes_cut_short_are_corrupt(codec: str) -> None:
    batch = packed(build([KeyValue(b"k", bytes(range(200)))] * 3, NOW_MS), codec)
    with pytest.raises(Corrupt):
        list(walk(assemble(batch[HEADER_BYTES:-3], read_header(batch))))


@settings(max_examples=300)
@given(st.binary(max_size=80), st.integers(0, 7), st.integers(-1, 2**31 - 1))
def test_whatever_stands_where_records_should_be_is_corrupt_or_records(body: bytes, codec: int, count: int) -> None:
    header = read_header(build([KeyValue(b"k", b"v")], NOW_MS))
    hostile = assemble(body, header._replace(attributes=codec, record_count=count))
    with contextlib.suppress(Corrupt):
        assert len(list(walk(hostile, unpacked_bytes_max=10_000))) == max(count, 0)


@settings(max_examples=300)
@given(st.data())
def test_a_changed_byte_among_the_records_is_corrupt_or_records(data: st.DataObject) -> None:
    batch = build([Record(0, NOW_MS, b"key", b"value", (Header("h", b"x"),))] * 2, NOW_MS)
    body = bytearray(batch[HEADER_BYTES:])
    body[data.draw(st.integers(0, len(body) - 1))] = data.draw(st.integers(0, 255))
    with contextlib.suppress(Corrupt):
        assert len(list(walk(assemble(body, read_header(batch))))) == 2


def bad_header(**fields: int) -> bytes:
    header: BatchHeader = read_header(build([KeyValue(b"k", b"v")], NOW_MS))._replace(**fields)
    return struct.pack(">qiibIhiqqqhii", *header) + b"x" * 7


@pytest.mark.parametrize(
    "content",
    [b"short", bad_header(length=10), bad_header(length=10**6), bad_header(magic=1, length=56), bad_header(length=56)],
)
def test_what_is_no_batch_is_corrupt(content: bytes) -> None:
    with pytest.raises(Corrupt):
        list(walk(content))


# --- skimming


@settings(max_examples=100)
@given(RECORDS, st.integers(0, 2**40), st.sampled_from(sorted(CODECS)))
def test_skimming_finds_what_walking_finds(records: list[Record], base_offset: int, codec: str) -> None:
    batch = packed(build(records, NOW_MS, base_offset=base_offset), codec)
    header = read_header(batch)
    body = finish(unpacked(batch, header))
    skimmed = [(s.offset, s.timestamp, s.key_in(body), s.value_bytes < 0) for s in skim(body, header)]
    assert skimmed == [(r.offset, r.timestamp, r.key, r.value is None) for r in walk(batch)]


@settings(max_examples=300)
@given(st.binary(max_size=80), st.integers(1, 10))
def test_whatever_stands_where_records_should_be_is_skimmed_or_corrupt(body: bytes, count: int) -> None:
    header = read_header(build([KeyValue(b"k", b"v")] * count, NOW_MS))
    with contextlib.suppress(Corrupt):
        assert len(list(skim(body, header))) == count


def test_a_count_that_cannot_be_true_for_the_bytes_is_corrupt() -> None:
    """A count that cannot be true for the bytes is corrupt before any record is read."""
    claimed = read_header(build([KeyValue(None, None)] * 1000, NOW_MS))
    body = bytes(build([KeyValue(None, None)] * 900, NOW_MS)[HEADER_BYTES:])
    with pytest.raises(Corrupt, match="cannot be in"):
        next(skim(body[: 7 * 900], claimed))
    with pytest.raises(Corrupt, match="cannot be in"):
        next(walk(assemble(body[: 7 * 900], claimed)))


def test_a_record_with_a_million_headers_costs_no_more_than_another() -> None:
    head = bytearray(b"\x00\x00\x00\x01\x01")  # attributes, deltas, no key, no value
    write_varint(head, 1_000_000)
    body = bytearray()
    write_varint(body, len(head) + 2_000_000)
    body += head + b"\x00\x01" * 1_000_000  # no name and no value each
    read = Counted(body)
    [record] = skim(read, header_of_one())
    assert record.end == len(body)
    assert read.looked_at < 20


class Counted(bytearray):
    """Counts the bytes that are looked at."""

    looked_at = 0

    def __getitem__(self, index: int | slice) -> int | bytearray:  # type: ignore[override]
        self.looked_at += 1
        return super().__getitem__(index)


def header_of_one() -> BatchHeader:
    return read_header(build([KeyValue(None, None)], NOW_MS))


@pytest.mark.parametrize("deltas", [(0, 0), (1, 0), (0, 2), (-1, 1), (0, 2**40)])
def test_an_offset_outside_its_batch_or_out_of_order_is_corrupt(deltas: tuple[int, ...]) -> None:
    body = bytearray()
    for delta in deltas:
        write_record(body, KeyValue(b"k", b"v"), 0, delta)
    header = read_header(build([KeyValue(b"k", b"v")] * 2, NOW_MS))
    with pytest.raises(Corrupt, match="offset delta"):
        list(skim(body, header))


@pytest.mark.parametrize("delta", [2**63, -(2**63)])
def test_a_time_that_no_message_can_hold_is_corrupt(delta: int) -> None:
    body = bytearray()
    write_record(body, KeyValue(b"k", b"v"), delta, 0)
    header = header_of_one()._replace(base_timestamp=-1 if delta < 0 else 1)
    with pytest.raises(Corrupt, match="time"):
        list(skim(body, header))


@pytest.mark.parametrize("codec", sorted(set(CODECS) - {"none"}))
def test_what_is_large_is_unpacked_as_work_for_a_thread(codec: str) -> None:
    large, small = (packed(build([KeyValue(b"k", b"v" * 1000)] * n, NOW_MS), codec) for n in (1000, 10))
    [work] = unpacked(large, read_header(large))
    assert isinstance(work, Work)
    assert list(unpacked(small, read_header(small))) == []
    header = read_header(large)
    assert len(list(skim(finish(unpacked(large, header)), header))) == 1000
