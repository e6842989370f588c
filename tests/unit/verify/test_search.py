"""The log is read once more by another client, up to the watermarks."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, cast

from chronik.trace.inspections import CopySeen
from chronik.verify.clients.protocol import ConsumerFailed, Receiving
from chronik.verify.ledger import LedgerPlace, ReceivedRecord
from chronik.verify.messages import Messages
from chronik.verify.search import Scene, ends_of, search

MESSAGES = Messages("3f9a1c2e", 60)
SCENE = Scene("t", {0: 0, 1: 10}, "consumer", "producer")


class FakeCluster:
    """Another Kafka: it has ends, and that is all it tells."""

    is_chronik = False
    addresses = ()

    def __init__(self, ends: dict[int, int]) -> None:
        self._ends = ends

    def ends(self, topic: str, partitions: int) -> dict[int, int]:
        return self._ends


class FakeReader:
    """Gives these polls one after the other, then fails or stays silent."""

    version = "0"

    def __init__(self, polls: Iterable[list[ReceivedRecord]], is_failing: bool = False) -> None:
        self._polls = list(polls)
        self._is_failing = is_failing
        self.order: Receiving | None = None
        self.is_closed = False

    def produce(self, *ignored: Any) -> None:
        raise AssertionError("a reader does not write")

    def consumer(self, order: Receiving) -> FakeReader:
        self.order = order
        return self

    def poll(self, wait_s: float) -> list[ReceivedRecord]:
        if self._polls:
            return self._polls.pop(0)
        if self._is_failing:
            raise ConsumerFailed("gone")
        return []

    def close(self) -> None:
        self.is_closed = True


def record(number: int, partition: int, offset: int) -> ReceivedRecord:
    return ReceivedRecord(MESSAGES.value(number), partition, offset)


def looked_for(reader: FakeReader, ends: dict[int, int], wanted: list[int]) -> Any:
    return search(cast(Any, FakeCluster(ends)), SCENE, reader, MESSAGES, wanted, None, quiet_s=0.01)


def test_it_finds_what_is_in_the_log_and_reads_to_the_end() -> None:
    reader = FakeReader([[record(1, 0, 0), record(2, 0, 1)], [record(3, 1, 10)]])

    found = looked_for(reader, {0: 2, 1: 11}, [2, 3, 4])

    assert found.places == {2: LedgerPlace(0, 1), 3: LedgerPlace(1, 10)}
    assert found.is_read_whole(0)
    assert found.is_read_whole(1)
    assert found.served is None
    assert reader.is_closed


def test_it_reads_without_a_group_from_where_the_run_began() -> None:
    reader = FakeReader([])

    looked_for(reader, {0: 0, 1: 10}, [1])

    assert reader.order is not None
    assert reader.order.group is None
    assert reader.order.starts == {0: 0, 1: 10}


def test_it_gives_up_when_nothing_comes_and_says_how_far_it_got() -> None:
    found = looked_for(FakeReader([[record(1, 0, 0)]]), {0: 5, 1: 10}, [1])

    assert found.read_to == {0: 1, 1: 10}
    assert not found.is_read_whole(0)


def test_a_reader_that_fails_leaves_what_it_found() -> None:
    reader = FakeReader([[record(1, 0, 0)]], is_failing=True)

    assert looked_for(reader, {0: 5, 1: 10}, [1]).places == {1: LedgerPlace(0, 0)}
    assert reader.is_closed


def test_of_a_message_that_is_there_twice_the_first_place_counts() -> None:
    found = looked_for(FakeReader([[record(1, 0, 0), record(1, 0, 1)]]), {0: 2, 1: 10}, [1])

    assert found.places == {1: LedgerPlace(0, 0)}


def copy(partition: int, is_leader: bool, next_offset: int = 9, topic: str = "t") -> CopySeen:
    return CopySeen(topic, partition, is_leader, 1, 0, 0, next_offset - 2, 0, next_offset, next_offset, 100)


def test_the_leader_says_how_far_a_partition_is() -> None:
    copies = [copy(0, is_leader=True), copy(0, is_leader=False, next_offset=5), copy(1, is_leader=True, topic="other")]

    assert ends_of(copies, SCENE, is_all_told=False) == {0: (7, 9)}


def test_a_partition_that_no_node_has_is_empty_if_all_of_them_answered() -> None:
    assert ends_of([copy(0, is_leader=True)], SCENE, is_all_told=True) == {0: (7, 9), 1: (0, 0)}


def test_a_partition_that_only_followers_have_is_not_known() -> None:
    assert ends_of([copy(0, is_leader=False), copy(1, is_leader=False)], SCENE, is_all_told=True) == {}
