"""A topic by the headers of its batches."""

from __future__ import annotations

from typing import Any

import pytest

from chronik.core.errors import Corrupt
from chronik.core.records import payload
from chronik.core.records.batch import TRANSACTIONAL_BIT, read_header
from chronik.core.records.control import Marker, build_marker
from chronik.core.records.payload import Record

pytest.importorskip("numba", reason="numba is not installed: pip install 'chronik[spark]'")
pytest.importorskip("pyarrow", reason="pyarrow is not installed: pip install 'chronik[spark]'")

from chronik.pipeline.columns.batches import SEQUENCES, batch_rows
from chronik.pipeline.columns.decode import WantedRows, read_batches

NOW_MS = 1_700_000_000_000
ZSTD = 4


def batch(base_offset: int, offsets: list[int], compression: int = 0, **header: Any) -> bytes:
    """A batch with records at these offsets from its base."""
    body = bytearray()
    for delta in offsets:
        payload.write_record(body, Record(delta, NOW_MS, None, b"v%d" % delta), 0, delta)
    plain = read_header(payload.build([Record(0, NOW_MS, None, b"")], NOW_MS))
    attributes = header.pop("attributes", 0) | compression
    header.setdefault("last_offset_delta", max(offsets))
    said = plain._replace(base_offset=base_offset, record_count=len(offsets), attributes=attributes, **header)
    return bytes(payload.assemble(payload.pack(bytes(body), compression), said))


def rows(records: bytes, start: int = 0, end: int = 1 << 62) -> list[dict[str, Any]]:
    made = list(batch_rows(read_batches(records), WantedRows("orders", 3, start, end)))
    for each in made:
        each.validate(full=True)
    return [row for each in made for row in each.to_pylist()]


def ranges(found: list[dict[str, Any]]) -> list[tuple[int, int]]:
    return [(row["start_offset"], row["end_offset"]) for row in found]


def test_a_batch_is_one_row_of_what_its_header_says() -> None:
    records = batch(
        40, [0, 1, 2], ZSTD, producer_id=9, producer_epoch=2, base_sequence=70, attributes=TRANSACTIONAL_BIT
    )

    (row,) = rows(records)

    assert (row["topic"], row["partition"]) == ("orders", 3)
    assert (row["start_offset"], row["end_offset"], row["base_offset"], row["last_offset"]) == (40, 43, 40, 42)
    assert (row["producer_id"], row["producer_epoch"], row["sequence"]) == (9, 2, 70)
    assert (row["records"], row["size_bytes"], row["compression"]) == (3, len(records), "zstd")
    assert (row["is_transactional"], row["is_control"], row["marker"]) == (True, False, None)
    assert row["first_timestamp"].timestamp() * 1000 == NOW_MS


def test_a_batch_without_a_producer_id_has_no_sequence() -> None:
    (row,) = rows(batch(0, [0, 1]))

    assert (row["producer_id"], row["sequence"]) == (-1, -1)


@pytest.mark.parametrize("compression", [0, ZSTD])
def test_a_batch_thinned_by_compaction_gives_a_row_for_each_run_left(compression: int) -> None:
    found = rows(batch(100, [1, 2, 5, 9], compression, last_offset_delta=11, producer_id=1, base_sequence=7))

    assert ranges(found) == [(101, 103), (105, 106), (109, 110)]
    assert [row["sequence"] for row in found] == [8, 12, 16]
    assert {(row["base_offset"], row["last_offset"], row["records"]) for row in found} == {(100, 111, 4)}


def test_an_empty_batch_that_compaction_left_holds_no_offset() -> None:
    empty = read_header(payload.build([Record(0, NOW_MS, None, b"")], NOW_MS))._replace(
        base_offset=5, last_offset_delta=3, record_count=0
    )

    found = rows(bytes(payload.assemble(b"", empty)) + batch(9, [0]))

    assert ranges(found) == [(9, 10)]


def test_only_the_wanted_part_of_a_batch_is_told_and_sequences_go_with_it() -> None:
    records = batch(0, [0, 1, 2, 3], producer_id=1, base_sequence=10) + batch(
        4, [0, 1], producer_id=1, base_sequence=14
    )

    found = rows(records, start=2, end=5)

    assert ranges(found) == [(2, 4), (4, 5)]
    assert [row["sequence"] for row in found] == [12, 14]


def test_sequences_begin_again_after_the_last() -> None:
    (row,) = rows(batch(0, [0, 1, 2], producer_id=1, base_sequence=SEQUENCES - 1), start=1)

    assert row["sequence"] == 0


def test_markers_say_how_a_transaction_ended() -> None:
    def marker(offset: int, is_commit: bool) -> bytes:
        made = build_marker(Marker(is_commit, 0), 4, 1, NOW_MS)
        return bytes(payload.assemble(bytes(made[61:]), read_header(made)._replace(base_offset=offset)))

    found = rows(marker(7, True) + marker(8, False))

    assert [(row["start_offset"], row["is_control"], row["marker"]) for row in found] == [
        (7, True, "commit"),
        (8, True, "abort"),
    ]


def test_a_batch_whose_checksum_does_not_hold_is_not_taken_for_there() -> None:
    records = bytearray(batch(0, [0, 1]))
    records[-1] ^= 1

    with pytest.raises(Corrupt, match="checksum"):
        rows(bytes(records))
