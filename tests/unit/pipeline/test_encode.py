"""Arrow columns to record batches, read back by the core."""

from __future__ import annotations

import datetime
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chronik.core.records import payload
from chronik.core.records.batch import COMPRESSION_NAMES, accept
from chronik.core.records.payload import Header

pytest.importorskip("pyarrow", reason="pyarrow is not installed: pip install 'chronik[spark]'")
pytest.importorskip("numba", reason="numba is not installed: pip install 'chronik[spark]'")
import numpy as np
import pyarrow as pa

from chronik.pipeline.columns.encode import BadRow, Numbered, choose_partitions, columns_of, pack_rows

NOW_MS = 1_700_000_000_000
HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
SCHEMA = pa.schema([("key", pa.binary()), ("value", pa.string()), ("headers", HEADERS)])

some_rows = st.lists(
    st.fixed_dictionaries(
        {
            "key": st.none() | st.binary(max_size=300),
            "value": st.none() | st.text(max_size=100),
            "headers": st.none()
            | st.lists(
                st.fixed_dictionaries({"key": st.text(max_size=5), "value": st.none() | st.binary(max_size=9)}),
                max_size=3,
            ),
        }
    ),
    min_size=1,
    max_size=40,
)


def batches_of(table: Any, batch_bytes: int = 900_000, compression: int = 0) -> list[bytes]:
    packed = pack_rows(columns_of(table, NOW_MS), np.arange(table.num_rows), batch_bytes, compression)
    return [each.batch(Numbered(1, 0, 0)) for each in packed]


@settings(max_examples=60)
@given(some_rows, st.sampled_from(range(5)), st.integers(1, 2000), st.integers(0, 3))
def test_rows_come_back_as_they_were(rows: list[dict[str, Any]], compression: int, batch_bytes: int, cut: int) -> None:
    table = pa.Table.from_pylist(rows, SCHEMA).slice(cut)  # a slice has its buffers' beginnings elsewhere
    if not table.num_rows:
        return

    batches = batches_of(table, batch_bytes, compression)

    for batch in batches:
        accept(batch)
    records = [record for batch in batches for record in payload.walk(batch)]
    assert [record.key for record in records] == [row["key"] for row in rows[cut:]]
    wanted = [None if row["value"] is None else row["value"].encode() for row in rows[cut:]]
    assert [record.value for record in records] == wanted
    assert [record.headers for record in records] == [
        tuple(Header(each["key"], each["value"]) for each in row["headers"] or ()) for row in rows[cut:]
    ]


@pytest.mark.parametrize("compression", range(5), ids=COMPRESSION_NAMES)
def test_batches_stay_below_their_limit(compression: int) -> None:
    table = pa.table({"value": [f"{number:0100d}" for number in range(1_000)]})

    batches = batches_of(table, 10_000, compression)

    assert len(batches) == 11
    assert all(len(batch) <= 10_061 for batch in batches)
    assert sum(accept(batch).record_count for batch in batches) == 1_000


def test_times_are_kept_and_a_missing_one_is_now() -> None:
    later = datetime.datetime(2030, 1, 1, tzinfo=datetime.UTC)
    earlier = later - datetime.timedelta(days=400)
    table = pa.table({"value": ["a", "b", "c"], "timestamp": [later, None, earlier]})

    (batch,) = batches_of(table)

    later_ms = int(later.timestamp() * 1000)
    times = [record.timestamp for record in payload.walk(batch)]
    assert times == [later_ms, NOW_MS, int(earlier.timestamp() * 1000)]
    assert accept(batch).max_timestamp == later_ms


def test_keys_go_where_a_java_producer_sends_them() -> None:
    """The hashes are those of UtilsTest.testMurmur2 in Kafka's sources."""
    hashes = {b"21": -973932308, b"foobar": -790332482, b"a-little-bit-long-string": -985981536, b"abc": 479470107}
    table = pa.table({"key": list(hashes), "value": [b""] * len(hashes)})
    rows = columns_of(table, NOW_MS)

    chosen = choose_partitions(rows, table, np.arange(len(hashes)), 1_000_003, 0)

    assert list(chosen) == [(number & 0x7FFFFFFF) % 1_000_003 for number in hashes.values()]


def test_a_partition_that_is_said_stands_above_the_key() -> None:
    table = pa.table(
        {"key": [b"21", b"21", None], "value": ["", "", ""], "partition": pa.array([5, None, None], pa.int32())}
    )
    rows = columns_of(table, NOW_MS)

    chosen = choose_partitions(rows, table, np.arange(3), 6, 4)

    assert list(chosen) == [5, (-973932308 & 0x7FFFFFFF) % 6, 4]
    with pytest.raises(BadRow, match="partition 5 of a topic with 2 partitions"):
        choose_partitions(rows, table, np.arange(3), 2, 0)


def test_a_header_must_have_a_name() -> None:
    table = pa.Table.from_pylist([{"key": None, "value": "v", "headers": [{"key": None, "value": b""}]}], SCHEMA)

    with pytest.raises(BadRow, match="a header without a key"):
        columns_of(table, NOW_MS)
