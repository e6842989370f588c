"""The log is read once more by another client, up to the watermarks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, cast

from chronik.client.inspect_request import Inspections
from chronik.trace.events import PartitionSeen
from chronik.trace.inspections import CopySeen, StateView, Totals, Traces, UnopenedSeen
from chronik.verify.clients.protocol import ConsumerFailed, Receiving
from chronik.verify.cluster import led_ends
from chronik.verify.ledger import LedgerPlace, ReceivedRecord
from chronik.verify.messages import Messages
from chronik.verify.search import Scene, search

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


class FakeChronik(FakeCluster):
    """Of these partitions the leader surely says watermark and end."""

    is_chronik = True

    def __init__(self, ends: dict[int, int], led: dict[int, tuple[int, int]]) -> None:
        super().__init__(ends)
        self._led = led

    def led(self, topic: str, ends: Mapping[int, int], timeout_s: float) -> dict[int, tuple[int, int]]:
        return self._led


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


def test_it_gives_up_though_others_write_to_another_partition_for_ever() -> None:
    class EndlessReader(FakeReader):
        def poll(self, wait_s: float) -> list[ReceivedRecord]:
            return [record(7, 1, 10)]

    found = looked_for(EndlessReader([]), {0: 5, 1: 10}, [1])

    assert found.read_to == {0: 0, 1: 11}


def test_a_reader_that_fails_leaves_what_it_found() -> None:
    reader = FakeReader([[record(1, 0, 0)]], is_failing=True)

    assert looked_for(reader, {0: 5, 1: 10}, [1]).places == {1: LedgerPlace(0, 0)}
    assert reader.is_closed


def test_of_a_message_that_is_there_twice_the_first_place_counts() -> None:
    found = looked_for(FakeReader([[record(1, 0, 0), record(1, 0, 1)]]), {0: 2, 1: 10}, [1])

    assert found.places == {1: LedgerPlace(0, 0)}


def leader(node: int, partition: int, epoch: int = 3, in_sync: tuple[int, ...] = (1, 2)) -> PartitionSeen:
    return PartitionSeen(0, node, "t", partition, epoch, 0, 7, 7, 9, 9, in_sync, 1, (), 100)


def state(node: int, *partitions: PartitionSeen, **fields: Any) -> StateView:
    told: dict[str, Any] = {"copies": (), "unopened": ()} | fields
    return StateView(
        node, 0, "1", True, Traces(False, ()), partitions, told["copies"], (), Totals(0, 0, 0, 0, 0, 0, 0, 0),
        told["unopened"],
    )  # fmt: skip


def closed(node: int, partition: int) -> UnopenedSeen:
    return UnopenedSeen("t", partition, node, 3, (1, 2), (1, 2))


def test_the_leader_says_how_far_a_partition_is() -> None:
    looks = Inspections({1: state(1, leader(1, 0)), 2: state(2)}, {})

    assert led_ends(looks, "t", {}) == {0: (7, 9)}
    assert led_ends(looks, "other", {}) == {}


def test_a_node_that_led_once_does_not_say_how_far_a_partition_is() -> None:
    later = CopySeen("t", 0, False, 3, 4, 0, 20, 20, 20, 20, 100)

    assert led_ends(Inspections({1: state(1, leader(1, 0)), 2: state(2, copies=(later,))}, {}), "t", {}) == {}
    assert led_ends(Inspections({1: state(1, leader(1, 0))}, {2: "no answer"}), "t", {}) == {}  # it may lead since
    assert led_ends(Inspections({1: state(1, leader(1, 0))}, {3: "no answer"}), "t", {}) == {0: (7, 9)}  # it may not


def test_a_log_that_is_not_open_is_empty_only_where_its_leader_was_asked() -> None:
    """A log that is not open is empty only where its leader was asked and did not open it. After a restart a log stays
    closed until somebody asks for it, whatever it holds."""
    looks = Inspections({1: state(1, unopened=(closed(1, 0), closed(-1, 1)))}, {})

    assert led_ends(looks, "t", {}) == {}
    assert led_ends(looks, "t", {0: 0, 1: 0}) == {0: (0, 0)}
    assert led_ends(looks, "t", {0: 5}) == {}
    assert led_ends(Inspections(looks, {2: "no answer"}), "t", {0: 0}) == {}


def test_of_two_ends_the_leaders_own_counts_and_without_it_none_is_known() -> None:
    cluster = FakeChronik({0: 1, 1: 10}, {0: (2, 3)})

    found = search(cast(Any, cluster), SCENE, FakeReader([[record(1, 0, 0)]]), MESSAGES, [1], None, quiet_s=0.01)

    assert (found.watermarks, found.next_offsets) == ({0: 2}, {0: 3})
