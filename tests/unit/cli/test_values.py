"""What users type into options."""

from __future__ import annotations

from pathlib import Path

import pytest

from chronik.cli.values import local, parse_pairs, parse_topic_partitions
from chronik.client.errors import ChronikError
from chronik.inspect.times import parse_time_ms


def test_pairs_are_split_at_the_first_equals_sign() -> None:
    assert parse_pairs("--config", ["a=1", "b = x=y", "c="]) == {"a": "1", "b": " x=y", "c": ""}


@pytest.mark.parametrize("text", ["novalue", "=1", ""])
def test_what_is_no_pair_is_refused_with_how_to_write_it(text: str) -> None:
    with pytest.raises(ChronikError, match=r"is not KEY=VALUE; write it as --config \w+=VALUE"):
        parse_pairs("--config", [text])


@pytest.mark.parametrize(
    ("text", "expected_ms"),
    [
        ("1700000000123", 1_700_000_000_123),
        ("2023-11-14T22:13:20Z", 1_700_000_000_000),
        ("2023-11-14T23:13:20.123+01:00", 1_700_000_000_123),
    ],
)
def test_a_time_is_iso_8601_or_milliseconds(text: str, expected_ms: int) -> None:
    assert parse_time_ms(text) == expected_ms


def test_what_is_no_time_is_refused_with_an_example() -> None:
    with pytest.raises(ChronikError, match="yesterday is not a time; write it as 2026-01-31T12:30:00"):
        parse_time_ms("yesterday")


def test_a_topic_may_name_some_of_its_partitions() -> None:
    assert parse_topic_partitions("orders") == ("orders", None)
    assert parse_topic_partitions("orders:0,2") == ("orders", [0, 2])


@pytest.mark.parametrize("text", ["orders:", "orders:a", ":1", "orders:1,,2", "orders:-1"])
def test_partitions_that_are_no_numbers_are_refused(text: str) -> None:
    with pytest.raises(ChronikError, match="is not a topic with partitions"):
        parse_topic_partitions(text)


@pytest.mark.parametrize("place", ["s3://bucket/x", "gs://b/x", "hdfs:///x", "abfss://c@a/x", "file:///tmp/x"])
def test_a_place_that_is_no_folder_of_this_machine_is_refused(place: str) -> None:
    # It was taken for a folder `s3:`, filled, and called done.
    for given in (place, Path(place)):
        with pytest.raises(ChronikError, match="cannot be used yet; give a folder of this machine"):
            local(given)


@pytest.mark.parametrize("place", ["tables/orders", "/tables", "./s3:/x", "C:x", "a:b/c", None])
def test_folders_are_folders(place: str | None) -> None:
    assert local(place) == place
