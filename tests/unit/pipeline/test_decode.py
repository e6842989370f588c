"""Record batches to Arrow columns, held against the slow and simple reader of the core."""

from __future__ import annotations

import datetime
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chronik.core.errors import Corrupt
from chronik.core.records import payload
from chronik.core.records.batch import (
    COMPRESSION_NAMES,
    HEADER_BYTES,
    TIMESTAMP_TYPE_BIT,
    TRANSACTIONAL_BIT,
    read_header,
)
from chronik.core.records.control import Marker, build_marker
from chronik.core.records.payload import Header, Record

pytest.importorskip("numba", reason="numba is not installed: pip install 'chronik[spark]'")
pytest.importorskip("pyarrow", reason="pyarrow is not installed: pip install 'chronik[spark]'")

from chronik.pipeline.columns.decode import Aborted, WantedRows, decode, read_batches

NOW_MS = 1_700_000_000_000
EVERYTHING = WantedRows("orders", 3, 0, 1 << 62, has_headers=True)

some_bytes = st.none() | st.binary(max_size=200)
some_headers = st.lists(st.builds(Header, st.text(max_size=5), some_bytes), max_size=3).map(tuple)
some_records = st.lists(
    st.builds(Record, st.just(0), st.integers(0, 1 << 42), some_bytes, some_bytes, some_headers),
    min_size=1,
    max_size=30,
)


def batch_of(records: list[Record], base_offset: int = 0, compression: int = 0, **header: Any) -> bytes:
    plain = payload.build(records, NOW_MS)
    body = payload.pack(bytes(plain[HEADER_BYTES:]), compression)
    attributes = header.pop("attributes", 0) | compression
    return bytes(
        payload.assemble(body, read_header(plain)._replace(base_offset=base_offset, attributes=attributes, **header))
    )


def simple(count: int, name: str = "v") -> list[Record]:
    return [Record(0, NOW_MS + number, None, f"{name}{number}".encode()) for number in range(count)]


def rows(records: bytes, wanted: WantedRows = EVERYTHING, aborted: list[Aborted] | None = None) -> list[dict[str, Any]]:
    arrow = list(decode(read_batches(records), wanted, aborted or []))
    for each in arrow:
        each.validate(full=True)
    return [row for each in arrow for row in each.to_pylist()]


def values(found: list[dict[str, Any]]) -> list[str]:
    return [row["value"].decode() for row in found]


def as_record(row: dict[str, Any]) -> Record:
    epoch = datetime.datetime.fromtimestamp(0, datetime.UTC)
    timestamp_ms = (row["timestamp"] - epoch) // datetime.timedelta(milliseconds=1)
    headers = tuple(Header(each["key"], each["value"]) for each in row["headers"])
    return Record(row["offset"], timestamp_ms, row["key"], row["value"], headers)


@settings(max_examples=60)
@given(some_records, st.sampled_from(range(5)), st.integers(0, 1 << 40))
def test_every_record_comes_out_as_the_core_reads_it(records: list[Record], compression: int, base: int) -> None:
    batch = batch_of(records, base, compression)

    found = [as_record(row) for row in rows(batch)]

    assert found == list(payload.walk(batch))


@pytest.mark.parametrize("compression", range(5), ids=COMPRESSION_NAMES)
def test_batches_of_every_codec_stand_side_by_side(compression: int) -> None:
    records = batch_of(simple(3, "a")) + batch_of(simple(4, "b"), 3, compression) + batch_of(simple(2, "c"), 7)

    found = rows(records)

    assert values(found) == ["a0", "a1", "a2", "b0", "b1", "b2", "b3", "c0", "c1"]
    assert [row["offset"] for row in found] == list(range(9))
    assert {(row["topic"], row["partition"], row["timestampType"]) for row in found} == {("orders", 3, 0)}


def test_only_the_offsets_that_are_wanted_come_out_of_a_batch() -> None:
    records = batch_of(simple(10)) + batch_of(simple(10, "w"), 10)

    found = rows(records, WantedRows("orders", 0, 4, 12))

    assert values(found) == ["v4", "v5", "v6", "v7", "v8", "v9", "w0", "w1"]
    assert "headers" not in found[0]


def test_a_batch_that_is_cut_off_is_left_for_the_next_fetch() -> None:
    whole, cut = batch_of(simple(3)), batch_of(simple(3), 3)

    for size in (1, HEADER_BYTES - 1, HEADER_BYTES, len(cut) - 1):
        batches = read_batches(whole + cut[:size])
        assert (len(batches), batches.next_offset) == (1, 3)


def test_what_is_missing_is_null_but_a_list_of_headers_is_empty() -> None:
    records = batch_of([Record(0, NOW_MS, None, None), Record(0, NOW_MS, b"", b"", (Header("h", None),))])

    null, empty = rows(records)

    assert (null["key"], null["value"], null["headers"]) == (None, None, [])
    assert (empty["key"], empty["value"], empty["headers"]) == (b"", b"", [{"key": "h", "value": None}])


def test_a_time_of_the_log_stands_for_all_records_of_its_batch() -> None:
    records = batch_of(simple(2), attributes=TIMESTAMP_TYPE_BIT, max_timestamp=NOW_MS + 99)

    found = rows(records)

    assert [row["timestampType"] for row in found] == [1, 1]
    assert {as_record(row).timestamp for row in found} == {NOW_MS + 99}


def test_a_time_that_no_clock_shows_is_cut_to_one_that_can_be_written() -> None:
    arrow = list(decode(read_batches(batch_of([Record(0, (1 << 63) - 1, None, b"v")])), EVERYTHING))

    assert arrow[0].column("timestamp").cast("int64").to_pylist() == [9_223_372_036_854_775_000]


def test_a_header_whose_name_is_no_text_is_read_all_the_same() -> None:
    records = batch_of([Record(0, NOW_MS, None, b"v", (Header("name", b"x"),))])
    broken = records.replace(b"name", b"na\xffe")
    body, header = broken[HEADER_BYTES:], read_header(broken)

    (found,) = rows(bytes(payload.assemble(body, header)))

    assert found["headers"] == [{"key": "na\ufffde", "value": b"x"}]


# --- transactions


def transactional(name: str, base_offset: int, producer_id: int) -> bytes:
    return batch_of(simple(2, name), base_offset, attributes=TRANSACTIONAL_BIT, producer_id=producer_id)


def marker(base_offset: int, producer_id: int, *, is_commit: bool) -> bytes:
    built = build_marker(Marker(is_commit, 0), producer_id, 0, NOW_MS)
    return bytes(base_offset.to_bytes(8, "big") + built[8:])


def test_markers_are_not_records() -> None:
    records = transactional("a", 0, 7) + marker(2, 7, is_commit=True) + batch_of(simple(1, "b"), 3)

    batches = read_batches(records)

    assert values(rows(records)) == ["a0", "a1", "b0"]
    assert batches.next_offset == 4


def test_what_was_aborted_is_left_out_until_its_marker() -> None:
    records = b"".join(
        (
            transactional("a", 0, 7),
            transactional("b", 2, 8),
            batch_of(simple(1, "plain"), 4, producer_id=7),
            marker(5, 7, is_commit=False),
            marker(6, 8, is_commit=True),
            transactional("c", 7, 7),
        )
    )

    committed = rows(records, aborted=[Aborted(7, 0)])
    everything = rows(records)

    assert values(committed) == ["b0", "b1", "plain0", "c0", "c1"]
    assert values(everything) == ["a0", "a1", "b0", "b1", "plain0", "c0", "c1"]


def test_a_transaction_counts_as_aborted_only_from_its_first_offset() -> None:
    records = transactional("a", 0, 7) + marker(2, 7, is_commit=True) + transactional("b", 3, 7)

    assert values(rows(records, aborted=[Aborted(7, 3)])) == ["a0", "a1"]


# --- bytes from anyone


def test_a_bit_that_fell_over_is_found() -> None:
    sound = batch_of(simple(3))
    for position in range(17, len(sound)):
        broken = bytearray(sound)
        broken[position] ^= 0x10
        with pytest.raises(Corrupt):
            rows(bytes(broken))


def test_an_older_format_is_named() -> None:
    old = bytearray(batch_of(simple(1)))
    old[16] = 1

    with pytest.raises(Corrupt, match="its format is v1"):
        read_batches(bytes(old))


@pytest.mark.parametrize(
    "change",
    [{"record_count": 1 << 30}, {"record_count": 2}, {"record_count": 4}, {"last_offset_delta": 1}],
    ids=["far too many", "too few", "too many", "an offset outside"],
)
def test_a_header_that_does_not_fit_its_records_is_refused(change: dict[str, int]) -> None:
    with pytest.raises(Corrupt):
        rows(batch_of(simple(3), **change))


@settings(max_examples=300)
@given(st.binary(max_size=120), st.integers(0, 10), st.booleans())
def test_any_bytes_with_a_good_checksum_are_read_or_refused(body: bytes, count: int, has_headers: bool) -> None:
    template = read_header(batch_of(simple(1)))
    batch = payload.assemble(body, template._replace(record_count=count, last_offset_delta=max(count - 1, 0)))
    try:
        expected: list[Record] | None = list(payload.walk(batch))
    except Corrupt:
        expected = None

    try:
        found = [as_record({**row, "headers": row.get("headers", [])}) for row in rows(bytes(batch))]
    except (Corrupt, OverflowError, ValueError):  # the last two are Python's, about times beyond the year 9999
        return
    assert expected is not None
    assert [record[2:] for record in found] == [record[2:] for record in expected]


@given(st.binary(max_size=300))
def test_any_bytes_at_all_are_read_or_refused(noise: bytes) -> None:
    try:
        batches = read_batches(noise)
    except Corrupt:
        return
    assert len(batches) <= len(noise) // HEADER_BYTES
