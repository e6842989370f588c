"""Records that are looked for: what cannot be looked through is said, and nothing is concluded from it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple, cast

import pytest
from confluent_kafka import KafkaError

from chronik.client.admin import ClusterAdmin, Partition, PartitionState, TopicState
from chronik.client.errors import ChronikError
from chronik.client.inspect_request import Inspections
from chronik.client.request import NoAnswer
from chronik.core.machines.metadata.names import OFFSETS_TOPIC
from chronik.inspect.find_record import At, SearchResult, holders, look_through, reached_end, to_read, until_read
from chronik.inspect.gather_record import committed_by
from chronik.node.coordinators.runtime import partition_of
from chronik.trace.events import GroupSeen, OffsetSeen, PartitionSeen
from chronik.trace.inspections import (
    CopySeen,
    FindView,
    FoundRecord,
    RecordPlace,
    StateView,
    Totals,
    Traces,
    UnopenedSeen,
)

TOPIC = "orders"


class Leaders(ClusterAdmin):
    """Of these partitions a leader tells the offsets; all of them are empty."""

    def __init__(self, *numbers: int) -> None:
        self.numbers = numbers
        self.asked: list[int] = []

    def offsets(
        self, partitions: Iterable[Partition], at: int, *, is_committed_only: bool = False
    ) -> dict[Partition, int | None]:
        places = list(partitions)
        self.asked += (number for _, number in places)
        return {(topic, number): 0 if number in self.numbers else None for topic, number in places}


def topic(*leaders: int | None) -> TopicState:
    return TopicState(TOPIC, "id", False, [PartitionState(n, leader, [1], [1]) for n, leader in enumerate(leaders)])


def state(node: int, copies: Iterable[CopySeen] = (), **fields: Any) -> StateView:
    told: dict[str, Any] = {"partitions": (), "groups": (), "totals": Totals(0, 0, 0, 0, 0, 0, 0, 0)} | fields
    return StateView(node, 0, "1", True, Traces(False, ()), copies=tuple(copies), **told)


def copy(partition: int, is_leader: bool, offline: str | None = None, name: str = TOPIC) -> CopySeen:
    return CopySeen(name, partition, is_leader, 1, 0, 0, 5, 5, 5, 5, 100, offline)


def find_look(
    node: int, partition: int, *offsets: int, place: RecordPlace = RecordPlace.HERE, go_on_from: int = -1
) -> FindView:
    found = tuple(FoundRecord(offset, 0) for offset in offsets)
    return FindView(node, 0, TOPIC, partition, place, found, go_on_from)


class Code(NamedTuple):
    number: int

    def code(self) -> int:
        return self.number


class Told(NamedTuple):
    """What a consumer gives: a message, or an error of which confluent-kafka says neither partition nor offset."""

    at: tuple[int, int] | None = None
    failed: Code | None = None

    def error(self) -> Code | None:
        return self.failed

    def partition(self) -> int | None:
        return None if self.at is None else self.at[0]

    def offset(self) -> int | None:
        return None if self.at is None else self.at[1]


class Consuming(NamedTuple):
    told: list[Told]

    def consume(self, count: int, timeout_s: float) -> list[Told]:
        return self.told


def test_an_error_is_no_record_of_partition_0() -> None:
    """A node that was killed just now: its partition has been read only when it has been."""
    left = {0: 1, 1: 1, 2: 1}
    at_end = Told((2, 1), Code(KafkaError._PARTITION_EOF))
    told = [Told(failed=Code(KafkaError._TRANSPORT)), Told((1, 0)), at_end]
    next(until_read(cast(Any, Consuming(told)), "localhost:1", left))

    assert left == {0: 1}


def test_an_end_below_the_one_that_was_told_is_not_the_end() -> None:
    """A new leader may have heard of less than the last one told, for a moment: the rest is still to be read."""
    left = {0: 5, 1: 5}
    told = [Told((0, 3), Code(KafkaError._PARTITION_EOF)), Told((1, 5), Code(KafkaError._PARTITION_EOF))]

    next(until_read(cast(Any, Consuming(told)), "localhost:1", left))

    assert left == {0: 5}


def test_a_partition_that_gives_nothing_is_given_up() -> None:
    """A partition that gives nothing is given up though others are written to for ever."""
    left = {0: 5, 1: 1}

    for _ in until_read(cast(Any, Consuming([Told((1, 7)), Told((1, 8))])), "localhost:1", left, quiet_s=0.05):
        pass

    assert left == {0: 5}


def test_a_key_that_is_nowhere_is_told_apart_from_one_that_nobody_can_look_for() -> None:
    cluster = Leaders(0)
    begin, left, unread = to_read(cluster, topic(1, 2, None), [0, 1, 2])

    assert (begin, left) == ({0: 0}, {0: 0})  # told to be empty: it is read all the same
    with pytest.raises(ChronikError, match="no record in orders has the key k; it was never accepted"):
        SearchResult([], {}).refuse_nothing(TOPIC, "the key k")
    with pytest.raises(
        ChronikError, match=r"is not known: partition 1, 2 cannot be read now \(no leader answers\); see"
    ):
        SearchResult([], unread).refuse_nothing(TOPIC, "the key k")
    assert 2 not in cluster.asked  # no node leads it, as all know: nobody is waited for


def test_a_partition_told_to_be_empty_is_read_only_when_a_fetch_has_met_its_end() -> None:
    left = {0: 0, 1: 0}
    told = [Told(failed=Code(KafkaError._TRANSPORT)), Told((1, 0), Code(KafkaError._PARTITION_EOF))]

    next(until_read(cast(Any, Consuming(told)), "localhost:1", left))

    assert left == {0: 0}


def led(partition: int, node: int = 1, epoch: int = 0, in_sync: tuple[int, ...] = (1, 2)) -> PartitionSeen:
    return PartitionSeen(0, node, TOPIC, partition, epoch, 0, 5, 5, 5, 5, in_sync, 1, (), 100)


def test_up_to_where_a_partition_must_be_read_is_known_where_its_leader_is() -> None:
    closed = UnopenedSeen(TOPIC, 1, 1, 0, (1, 2), (1, 2))
    unled = UnopenedSeen(TOPIC, 2, -1, 0, (1,), (1,))
    here = state(1, [copy(0, True)], partitions=(led(0),), unopened=(closed, unled))
    later = CopySeen(TOPIC, 0, False, 3, 7, 0, 9, 9, 9, 9, 100)

    assert reached_end(Inspections({1: here}, {}), TOPIC, 0) == 5
    assert reached_end(Inspections({1: here}, {}), TOPIC, 1) == 0
    not_known = [
        reached_end(Inspections({1: here}, {}), TOPIC, 2),
        reached_end(Inspections({1: here}, {2: "no answer"}), TOPIC, 0),  # it may lead since
        reached_end(Inspections({1: here}, {2: "no answer"}), TOPIC, 1),
        reached_end(
            Inspections({1: here, 2: state(2, [later])}, {}), TOPIC, 0
        ),  # another leads since, and is not among them
    ]
    assert set(not_known) == {"no node answers that surely leads it"}


def test_what_is_found_is_given_and_each_reason_why_others_are_not_looked_at() -> None:
    found = SearchResult([At(0, 3)], {2: "no leader answers", 1: "it is slow", 4: "no leader answers"})

    found.refuse_nothing(TOPIC, "the key k")

    assert found.unread_words == (
        "partition 1 cannot be read now (it is slow); partition 2, 4 cannot be read now (no leader answers)"
    )


def test_a_copy_counts_also_where_the_log_is_not_open_yet() -> None:
    """Who has a copy is whoever leads or follows also where the log is not open yet."""
    copies = [copy(0, True), copy(1, False), copy(2, False, "its disk is broken"), copy(5, True, name="other")]
    closed = [UnopenedSeen(TOPIC, 3, 1, 0, (1,), (1,)), UnopenedSeen(TOPIC, 4, -1, 0, (2,), (2,))]

    here = state(1, copies, partitions=(led(0),), unopened=tuple(closed))
    seen = Inspections({1: here, 2: state(2, [copy(1, True)], partitions=(led(1, node=2),))}, {})

    assert holders(seen, TOPIC) == ({0: 1, 1: 2, 3: 1}, {1: 1})


def test_whoever_may_have_been_deposed_is_one_that_has_a_copy_and_no_more() -> None:
    old = state(1, [copy(0, True)], partitions=(led(0),))

    assert holders(Inspections({1: old}, {2: "no answer"}), TOPIC) == ({}, {0: 1})


def test_a_partition_that_nobody_has_who_answers_is_said_to_be_unread() -> None:
    def look(node: int, partition: int, from_offset: int) -> FindView:
        match partition:
            case 0:
                return find_look(node, 0, 10, go_on_from=50) if from_offset == 0 else find_look(node, 0, 60)
            case 2:
                raise NoAnswer("node 2 is gone")
            case 3:
                return find_look(node, 3, place=RecordPlace.UNREADABLE)
            case _:
                return find_look(node, partition, *([7] if partition == 5 else []))

    found = look_through(range(6), {0: 1, 2: 2, 3: 3}, {4: 4, 5: 5}, look)

    assert found.places == [At(0, 60), At(0, 10), At(5, 7)]
    assert found.unread == {
        5: "no leader answers, and node 5 may not have all of it",
        1: "nothing answers who has a copy",
        2: "node 2 is gone",
        3: "node 3 cannot look through it: unreadable",
        4: "no leader answers, and node 4 may not have all of it",
    }


def group(name: str, *offsets: int, node: int = 1) -> GroupSeen:
    told = tuple(OffsetSeen(TOPIC, 0, offset) for offset in offsets)
    return GroupSeen(0, node, name, "classic", "Stable", 1, 0, (), told)


def test_commits_are_all_known_only_where_every_node_answers() -> None:
    """What groups have committed is all that is known only where every node answers."""
    looks = {1: state(1, groups=(group("billing", 5), group("new"))), 2: state(2, groups=(group("audit", 3),))}

    assert committed_by(Inspections(looks, {}), (TOPIC, 0), 50) == ({"billing": 5, "audit": 3}, [])
    committed, untold = committed_by(Inspections(looks, {3: "no answer"}), (TOPIC, 0), 50)
    assert (committed, untold[0]) == ({}, "node 3 may coordinate groups, and does not answer")
    assert untold[1] == "it is not sure which node coordinates audit, billing, new"
    number = partition_of("billing", 50)
    leads = PartitionSeen(0, 1, OFFSETS_TOPIC, number, 0, 0, 5, 5, 5, 5, (1, 2), 1, (), 100)
    surely = {1: state(1, groups=(group("billing", 5),), partitions=(leads,))}
    assert committed_by(Inspections(surely, {3: "no answer"}), (TOPIC, 0), 50)[0] == {"billing": 5}


def test_of_two_nodes_that_tell_of_one_group_neither_is_believed() -> None:
    looks = {1: state(1, groups=(group("billing", 5),)), 2: state(2, groups=(group("billing", 9, node=2),))}

    assert committed_by(Inspections(looks, {}), (TOPIC, 0), 50) == (
        {},
        ["it is not sure which node coordinates billing"],
    )
