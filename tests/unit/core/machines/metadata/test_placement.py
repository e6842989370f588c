"""Where replicas go."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chronik.core.machines.metadata.image import Broker
from chronik.core.machines.metadata.placement import place


def broker(number: int, rack: str | None = None, *, is_fenced: bool = False) -> Broker:
    return Broker(number, 0, bytes(16), "host", 9092, rack, is_fenced)


def test_one_broker_gets_everything() -> None:
    assert place([broker(1)], 3, 1, start=0) == [(1,), (1,), (1,)]


def test_leaders_go_round_and_followers_shift_each_round() -> None:
    placed = place([broker(1), broker(2), broker(3)], 6, 3, start=0)

    assert placed == [(1, 2, 3), (2, 3, 1), (3, 1, 2), (1, 3, 2), (2, 1, 3), (3, 2, 1)]


def test_the_next_topic_goes_on_where_the_last_one_stopped() -> None:
    assert [place([broker(1), broker(2), broker(3)], 1, 1, start=number)[0] for number in range(4)] == [
        (1,),
        (2,),
        (3,),
        (1,),
    ]


def test_replicas_are_spread_over_racks() -> None:
    brokers = [broker(1, "a"), broker(2, "a"), broker(3, "b"), broker(4, "b")]
    rack_of = {one.id: one.rack for one in brokers}

    for replicas in place(brokers, 8, 2, start=0):
        assert {rack_of[broker_id] for broker_id in replicas} == {"a", "b"}


def test_more_replicas_than_brokers_cannot_be_placed() -> None:
    with pytest.raises(ValueError, match="2 replicas on 1 brokers"):
        place([broker(1)], 1, 2, start=0)


def test_a_fenced_broker_never_leads_and_comes_after_the_others() -> None:
    brokers = [broker(1), broker(2), broker(3, is_fenced=True)]

    assert place(brokers, 2, 2, start=0) == [(1, 2), (2, 1)]
    assert place(brokers, 2, 3, start=0) == [(1, 2, 3), (2, 1, 3)]


def test_a_rack_whose_brokers_are_fenced_still_gets_a_replica() -> None:
    """Spreading over racks comes first: the broker will be back, the rack's independence is for good."""
    brokers = [broker(1, "a"), broker(2, "a"), broker(3, "b", is_fenced=True)]

    assert place(brokers, 2, 2, start=0) == [(1, 3), (2, 3)]


def test_when_all_are_fenced_nobody_can_lead() -> None:
    with pytest.raises(ValueError, match="fenced"):
        place([broker(1, is_fenced=True)], 1, 1, start=0)


@given(
    rack_count=st.integers(1, 4),
    rack_size=st.integers(1, 3),
    rounds=st.integers(1, 4),
    choice=st.integers(0, 100),
    start=st.integers(0, 1000),
)
def test_with_racks_of_one_size_every_broker_holds_as_many_replicas(
    rack_count: int, rack_size: int, rounds: int, choice: int, start: int
) -> None:
    size = rack_count * rack_size
    brokers = [broker(number, f"rack {number % rack_count}") for number in range(size)]
    factor = 1 + choice % size

    placed = place(brokers, rounds * size, factor, start)

    held = Counter(broker_id for replicas in placed for broker_id in replicas)
    assert [held[one.id] for one in brokers] == [rounds * factor] * size


@given(
    racks=st.lists(st.sampled_from([None, "a", "b", "c"]), min_size=1, max_size=9),
    count=st.integers(1, 40),
    start=st.integers(0, 1000),
    choice=st.integers(0, 100),
)
def test_any_placement_is_even_and_as_wide_as_the_racks_allow(
    racks: list[str | None], count: int, start: int, choice: int
) -> None:
    brokers = [broker(number, rack) for number, rack in enumerate(racks)]
    factor = 1 + choice % len(brokers)
    rack_of = {one.id: one.rack or f"of its own {one.id}" for one in brokers}

    placed = place(brokers, count, factor, start)

    assert len(placed) == count
    for replicas in placed:
        assert len(set(replicas)) == factor
        used = Counter(rack_of[broker_id] for broker_id in replicas)
        assert len(used) == min(factor, len(set(rack_of.values())))
    leaders = Counter(replicas[0] for replicas in placed)
    assert max(leaders.values()) - min(leaders[one.id] for one in brokers) <= 1
