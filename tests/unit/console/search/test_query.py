"""What is looked for, as a form sends it."""

from __future__ import annotations

import pytest

from chronik.client.errors import ChronikError
from chronik.console.search.query import SearchQuery, matcher, parse_query
from chronik.inspect.record_format import ShownRecord

ORDER = b'{"order": {"id": 7, "total": 120.5, "paid": true, "items": [{"sku": "a-1"}], "note": "Big"}}'


def record(value: bytes | None = ORDER, key: bytes | None = b"k1", **headers: bytes) -> ShownRecord:
    return ShownRecord("orders", 0, 5, 1, key, value, list(headers.items()))


@pytest.mark.parametrize(
    ("path", "fits"),
    [
        ("order.id", True),
        ("$.order.id", True),
        ("order.nothing", False),
        ("order.id = 7", True),
        ("order.id == 8", False),
        ("order.total > 100", True),
        ("order.total<100", False),
        ("order.total >= 120.5", True),
        ("order.items[0].sku = a-1", True),
        ('order.items[0].sku = "a-1"', True),
        ("order.items[1].sku", False),
        ("order.note != Small", True),
        ("order.paid = true", True),
        ("order.paid = 1", False),
        ("order.note > 3", False),
        ("order[0]", False),
    ],
)
def test_a_path_looks_into_json(path: str, fits: bool) -> None:
    assert matcher(SearchQuery("orders", path=path))(record()) is fits


@pytest.mark.parametrize("value", [None, b"", b"no json", b"\xff\xfe", b"[" * 200_000])
def test_what_is_no_json_does_not_fit_and_does_no_harm(value: bytes | None) -> None:
    assert matcher(SearchQuery("orders", path="order.id"))(record(value)) is False


def test_text_is_looked_for_everywhere_and_keys_are_exact() -> None:
    found = record(b"Hello World", b"key-1", trace=b"ABC")

    assert matcher(SearchQuery("t", text="hello w"))(found)
    assert matcher(SearchQuery("t", text="KEY-"))(found)
    assert matcher(SearchQuery("t", text="abc"))(found)
    assert not matcher(SearchQuery("t", text="hello.w"))(found)
    assert matcher(SearchQuery("t", key="key-1"))(found)
    assert not matcher(SearchQuery("t", key="key"))(found)
    assert matcher(SearchQuery("t", header="trace"))(found)
    assert matcher(SearchQuery("t", header="trace=ABC"))(found)
    assert not matcher(SearchQuery("t", header="trace=AB"))(found)
    assert not matcher(SearchQuery("t", text="hello", key="other"))(found)


def test_a_form_becomes_a_query() -> None:
    given = {"from": "offset", "at": " 4711 ", "partitions": "0, 2-4", "limit": "9999", "text": "x"}

    query = parse_query("orders", given)

    assert (query.offset, query.partitions, query.limit, query.is_filtered) == (4711, (0, 2, 3, 4), 500, True)
    assert parse_query("orders", {"from": "time", "at": "2026-01-31T12:30:00Z"}).time_ms == 1_769_862_600_000
    assert parse_query("orders", {}) == SearchQuery("orders")


@pytest.mark.parametrize(
    "given",
    [
        {"from": "yesterday"},
        {"from": "offset", "at": "x"},
        {"from": "offset", "at": "9" * 30},
        {"from": "time", "at": "soon"},
        {"partitions": "a"},
        {"partitions": "5-2"},
        {"partitions": "0-99999999"},
        {"limit": "-1"},
        {"path": "a..b["},
        {"path": "  = 5"},
    ],
)
def test_what_makes_no_sense_is_refused_before_anything_is_read(given: dict[str, str]) -> None:
    with pytest.raises(ChronikError):
        parse_query("orders", given)
