"""What each broker holds."""

from __future__ import annotations

from chronik.core.machines.metadata.holdings import Holdings
from chronik.core.machines.metadata.partition import Partition
from tests.unit.core.machines.metadata.machine_asked import topic_id

A, B = topic_id(1), topic_id(2)


def test_topics_are_found_by_what_their_partitions_have() -> None:
    holdings = Holdings()
    holdings.add(B, Partition(2, 0, (1, 2), (2,), 0))
    holdings.add(A, Partition(-1, 0, (1, 3), (3,), 0, adding=(3,)))

    assert list(holdings.topics_of(1)) == [A, B]
    assert list(holdings.topics_of(3)) == [A]
    assert list(holdings.topics_of(9)) == []
    assert list(holdings.leaderless_topics()) == [A]
    assert list(holdings.unbalanced_topics()) == [B]
    assert list(holdings.moving_topics()) == [A]
    assert holdings.leads(2)
    assert not holdings.leads(1)
    assert not holdings.is_balanced


def test_what_is_taken_away_leaves_nothing_behind() -> None:
    holdings = Holdings()
    old = Partition(-1, 0, (1, 3), (3,), 0, adding=(3,))
    new = Partition(3, 0, (1, 3), (3,), 0)
    holdings.add(A, old)

    holdings.change(A, old, new)
    assert list(holdings.leaderless_topics()) == list(holdings.moving_topics()) == []
    assert list(holdings.unbalanced_topics()) == [A]
    holdings.remove(A, new)

    assert holdings.content() == Holdings().content()
