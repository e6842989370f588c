"""A search over a fake log: it stops, goes on, ends with its coverage, and holds no more than it may."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from typing import Any

from confluent_kafka import KafkaError, TopicPartition

from chronik.client.admin import PartitionState, TopicState
from chronik.console.search.query import SearchQuery, parse_query
from chronik.console.search.reader import ENOUGH, FAILED, FINISHED, KEPT_MAX, STOPPED, SearchRun

WAIT_S = 20.0


class FakeMessage:
    def __init__(self, partition: int, offset: int, value: bytes | None, error: KafkaError | None = None) -> None:
        self._given = (partition, offset, value, error)

    def topic(self) -> str:
        return "orders"

    def partition(self) -> int:
        return self._given[0]

    def offset(self) -> int:
        return self._given[1]

    def value(self) -> bytes | None:
        return self._given[2]

    def error(self) -> KafkaError | None:
        return self._given[3]

    def key(self) -> bytes:
        return b"key"

    def headers(self) -> None:
        return None

    def timestamp(self) -> tuple[int, int]:
        return 1, 1_000 + self._given[1]


class FakeLog:
    """Partitions by number: offset to value. Stands for the cluster, its admin client and its consumers."""

    bootstrap = "127.0.0.1:1"

    def __init__(self, *partitions: dict[int, bytes]) -> None:
        self.partitions = list(partitions)
        self.starts = [0] * len(partitions)
        self.ends = [max(each, default=-1) + 1 for each in partitions]
        self.before_consume: Callable[[int], None] = lambda turn: None
        self.turn = 0
        self._positions: dict[int, int] = {}

    def delete_below(self, partition: int, offset: int) -> None:
        self.starts[partition] = offset
        self.partitions[partition] = {at: value for at, value in self.partitions[partition].items() if at >= offset}

    # --- as the admin client

    def topic(self, name: str) -> TopicState:
        return TopicState(name, "", False, [PartitionState(each, 1, [1], [1]) for each in range(len(self.partitions))])

    def start_offsets(self, places: Iterable[tuple[str, int]]) -> dict[tuple[str, int], int | None]:
        return {place: self.starts[place[1]] for place in places}

    def end_offsets(self, places: Iterable[tuple[str, int]]) -> dict[tuple[str, int], int | None]:
        return {place: self.ends[place[1]] for place in places}

    # --- as a consumer

    def assign(self, partitions: list[TopicPartition]) -> None:
        self._positions = {each.partition: each.offset for each in partitions}

    def incremental_unassign(self, partitions: list[TopicPartition]) -> None:
        for each in partitions:
            del self._positions[each.partition]

    def consume(self, num_messages: int, timeout: float) -> list[Any]:
        self.turn += 1
        self.before_consume(self.turn)
        found: list[Any] = []
        for number in list(self._positions):
            position = max(self._positions[number], self.starts[number])
            offsets = sorted(offset for offset in self.partitions[number] if offset >= position)[:num_messages]
            found += [FakeMessage(number, offset, self.partitions[number][offset]) for offset in offsets]
            self._positions[number] = offsets[-1] + 1 if offsets else position
            if len(offsets) < num_messages:
                error = KafkaError(KafkaError._PARTITION_EOF)
                found.append(FakeMessage(number, self.ends[number], None, error))
        return found

    def close(self) -> None:
        self._positions = {}


def run_of(log: FakeLog, query: SearchQuery) -> SearchRun:
    at_other_kafka: Any = log  # nobody answers at its address, so that ends are what clients are told
    return SearchRun(query, lambda: at_other_kafka, lambda: log, threading.Semaphore(1), reached=lambda number: 0)


def test_all_that_was_planted_is_found_and_all_was_read() -> None:
    log = FakeLog(dict.fromkeys(range(500), b"x"), dict.fromkeys(range(300), b"y"))
    log.partitions[0][77] = log.partitions[1][299] = b"needle"
    del log.partitions[1][5]  # compacted
    run = run_of(log, parse_query("orders", {"from": "oldest", "text": "needle"}))

    run.go_on()
    ended = run.wait_until_resting(WAIT_S)

    assert [(row.partition, row.offset) for row in ended.rows] == [(0, 77), (1, 299)]
    assert (ended.status, ended.is_whole) == (FINISHED, True)
    assert ended.coverage == "partitions 0-1, offsets 0 to 499 read: 799 records, 2 found"


def test_going_back_in_time_finds_the_newest_first_and_then_the_rest() -> None:
    log = FakeLog({each: b"needle" if each % 100 == 0 else b"x" for each in range(1000)})
    run = run_of(log, parse_query("orders", {"text": "needle", "limit": "2"}))

    run.go_on()
    first = run.wait_until_resting(WAIT_S)
    run.go_on()
    run.wait_until_resting(WAIT_S)
    while run.progress().status == ENOUGH:
        run.go_on()
        run.wait_until_resting(WAIT_S)
    last = run.progress()

    assert first.status == ENOUGH
    assert [row.offset for row in first.rows] == [900, 800]
    assert "read in part (200 of 1,000)" in first.coverage
    assert [row.offset for row in last.rows] == list(range(900, -1, -100))
    assert (last.status, last.is_whole, last.found) == (FINISHED, True, 10)


def test_what_is_deleted_while_it_runs_is_told_and_not_called_read() -> None:
    log = FakeLog(dict.fromkeys(range(1000), b"x"))
    log.before_consume = lambda turn: log.delete_below(0, 600) if turn == 2 else None
    run = run_of(log, parse_query("orders", {"from": "oldest", "text": "needle"}))

    run.go_on()
    ended = run.wait_until_resting(WAIT_S)

    (part,) = ended.parts
    assert [(span.begin, span.end) for span in part.read] == [(0, 50), (600, 1000)]
    assert [(span.begin, span.end) for span in part.gone] == [(50, 600)]
    assert ended.coverage.endswith("0 found; 550 offsets deleted before they could be read")


def test_it_stops_and_goes_on_where_it_was() -> None:
    log = FakeLog(dict.fromkeys(range(5000), b"x"))
    run = run_of(log, parse_query("orders", {"from": "oldest", "text": "needle"}))
    log.before_consume = lambda turn: run.stop() if turn == 2 else None

    run.go_on()
    stopped = run.wait_until_resting(WAIT_S)
    run.go_on()
    ended = run.wait_until_resting(WAIT_S)

    assert (stopped.status, stopped.is_whole) == (STOPPED, False)
    assert 0 < stopped.records < 5000
    assert (ended.status, ended.records, ended.is_whole) == (FINISHED, 5000, True)


def test_what_it_holds_is_bounded_whatever_it_finds() -> None:
    log = FakeLog(dict.fromkeys(range(2 * KEPT_MAX), b"v" * 100000))
    run = run_of(log, parse_query("orders", {"from": "oldest", "limit": "500"}))

    run.go_on()
    while run.wait_until_resting(WAIT_S).status == ENOUGH:
        run.go_on()
    ended = run.progress()

    assert (ended.found, len(ended.rows)) == (2 * KEPT_MAX, KEPT_MAX)
    assert max(len(row.value.text) for row in ended.rows) < 1000


def test_a_partition_that_is_not_there_is_said_and_nothing_is_read() -> None:
    run = run_of(FakeLog({0: b"x"}), parse_query("orders", {"partitions": "3"}))

    run.go_on()
    ended = run.wait_until_resting(WAIT_S)

    assert (ended.status, ended.records) == (FAILED, 0)
    assert "has no partition 3" in (ended.reason or "")
