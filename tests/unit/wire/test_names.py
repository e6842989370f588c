"""Topic names off the wire."""

from __future__ import annotations

import pytest

from chronik.wire.errors import Malformed
from chronik.wire.names import NAMES_KEPT, topic_name


def test_a_name_is_read_from_where_it_stands() -> None:
    assert topic_name(b"..orders..", 2, 6) == "orders"
    assert topic_name(memoryview(b"..orders.."), 2, 6) == "orders"
    assert topic_name(b"..", 1, 0) == ""


@pytest.mark.parametrize("size", [-1, -2, 7, 32_767])
def test_a_name_of_an_impossible_size_is_malformed(size: int) -> None:
    with pytest.raises(Malformed):
        topic_name(b"orders", 0, size)


def test_more_names_than_are_kept_are_still_read() -> None:
    for number in range(NAMES_KEPT + 10):
        raw = f"name-{number}".encode()
        assert topic_name(raw, 0, len(raw)) == raw.decode()
