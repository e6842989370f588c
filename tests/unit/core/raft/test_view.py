"""What DescribeQuorum shows."""

from __future__ import annotations

from dataclasses import replace

import pytest

from chronik.core.errors import Code, Refused
from chronik.core.raft.messages import Fetch
from chronik.core.raft.view import QuorumView, ReplicaView, describe
from tests.unit.core.raft.cluster import Cluster


def test_the_leader_knows_how_far_everyone_is() -> None:
    cluster = Cluster(1, 2, 3, 4, voters=(1, 2, 3))
    cluster.led_by(1)
    cluster.now_ms = 1500
    cluster.write(1, "a")
    cluster.fetch(2)

    view = describe(cluster[1].raft, 1600)

    assert view == QuorumView(
        leader=1,
        epoch=1,
        high_watermark=1,
        voters=(
            ReplicaView(1, 2, 1600, 1600),
            ReplicaView(2, 1, 1500, 1000),
            ReplicaView(3, 1, 1000, 1000),
        ),
        observers=(ReplicaView(4, 1, 1000, 1000),),
    )


def test_a_majority_was_in_touch_when_its_voters_had_their_last_answers() -> None:
    """A majority was in touch when its voters had their last answers not when their fetches were read. A leader that
    was stopped reads fetches that were sent before the others elected another."""
    cluster = Cluster(1, 2, 3)
    cluster.led_by(1)
    leader = cluster[1].raft
    envelope = cluster[2].raft.next_fetch()
    assert envelope is not None
    assert isinstance(envelope.message, Fetch)
    fetch = replace(envelope.message, arrived_ms=5000, followed_ms=1200)

    for now_ms in (5000, 9000):  # it waits, and is stepped again
        leader.step(fetch, now_ms)

        assert describe(leader, now_ms).contact_ms == now_ms - 1200
    leader.step(replace(fetch, arrived_ms=9000, followed_ms=-1), 9000)
    assert describe(leader, 9000).contact_ms == 9000 - 1200
    leader.step(replace(fetch, arrived_ms=9500, followed_ms=9400), 9500)
    assert describe(leader, 9500).contact_ms == 100


def test_of_a_voter_that_was_never_heard_of_nothing_is_known() -> None:
    cluster = Cluster(1, 2, 3)
    cluster.elect(1)

    assert describe(cluster[1].raft, 1000).voters[1] == ReplicaView(2, -1, -1, -1)


def test_a_leader_that_was_removed_shows_itself_among_the_observers() -> None:
    cluster = Cluster(1, 2, 3)
    cluster.led_by(1)
    cluster.remove(1, 1)

    view = describe(cluster[1].raft, 1000)

    assert [replica.node_id for replica in view.voters] == [2, 3]
    assert view.observers == (ReplicaView(1, 2, 1000, 1000),)


def test_nobody_else_knows() -> None:
    cluster = Cluster(1, 2, 3)
    cluster.led_by(1)

    with pytest.raises(Refused) as refused:
        describe(cluster[2].raft, 1000)

    assert refused.value.code is Code.NOT_LEADER_OR_FOLLOWER


def test_an_observer_that_has_been_silent_for_five_minutes_is_gone() -> None:
    cluster = Cluster(1, 2, voters=(1,))
    cluster.at(0)
    cluster.fetch(2, 2, 2)
    cluster.at(300_000)
    assert len(describe(cluster[1].raft, 300_000).observers) == 1

    cluster.at(301_001)

    assert describe(cluster[1].raft, 301_001).observers == ()
