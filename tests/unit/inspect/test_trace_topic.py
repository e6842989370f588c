"""Reading the trace topic back ends, whatever its partitions give."""

from __future__ import annotations

from typing import Any, NamedTuple, cast

import pytest

from chronik.client.errors import ChronikError
from chronik.inspect.trace_topic import read_to_ends


class Told(NamedTuple):
    number: int
    at: int

    def error(self) -> None:
        return None

    def partition(self) -> int:
        return self.number

    def offset(self) -> int:
        return self.at

    def value(self) -> bytes:
        return b""


class Consuming(NamedTuple):
    told: list[Told]

    def consume(self, count: int, timeout_s: float) -> list[Told]:
        return self.told


def test_a_partition_that_gives_nothing_is_given_up() -> None:
    """A partition that gives nothing is given up though the others are traced to for ever."""
    consumer = cast(Any, Consuming([Told(1, 7)]))

    with pytest.raises(ChronikError, match="partition 0 of __chronik_trace cannot be read to its end"):
        list(read_to_ends(consumer, "localhost:1", {0: 5, 1: 8}, [b"x"], lambda count: None, quiet_s=0.05))


def test_reading_ends_where_all_partitions_have_been_read() -> None:
    consumer = cast(Any, Consuming([Told(1, 7), Told(0, 4)]))

    assert list(read_to_ends(consumer, "localhost:1", {0: 5, 1: 8}, [b"x"], lambda count: None)) == []
