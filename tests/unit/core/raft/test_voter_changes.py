"""Voters added and removed while the quorum runs (Raft, section 4; KIP-853)."""

from __future__ import annotations

from chronik.core.errors import Code
from chronik.core.raft.messages import Fetch, LogPoint
from chronik.core.raft.ready import VotersChange
from chronik.core.raft.roles import Follower, Resigned
from tests.unit.core.raft.cluster import Cluster


def led(*ids: int) -> Cluster:
    """Voters 1, 2 and 3, led by 1; who else there is observes."""
    return Cluster.led(*(ids or (1, 2, 3, 4)), voters=(1, 2, 3))


def test_kip_853_an_observer_that_has_caught_up_becomes_a_voter() -> None:
    """Kip 853 an observer that has caught up becomes a voter when that is appended."""
    cluster = led()

    assert cluster.add(1, 4) is Code.NONE

    assert cluster[1].raft.voters.ids == (1, 2, 3, 4)
    assert cluster[1].log.records[-1].value == VotersChange(1, (1, 2, 3, 4))
    assert cluster[1].raft.high_watermark < cluster[1].log.end_offset, "and it is not safe yet"


def test_kip_853_the_new_majority_decides_at_once() -> None:
    cluster = led()
    cluster.add(1, 4)

    cluster.fetch(2, 2)
    assert cluster[1].raft.high_watermark == 1, "two of four"
    cluster.fetch(4, 4)

    assert cluster[1].raft.high_watermark == 2, "three of four"


def test_kip_853_one_change_at_a_time() -> None:
    cluster = led(1, 2, 3, 4, 5)
    cluster.add(1, 4)

    assert cluster.add(1, 5) is Code.REQUEST_TIMED_OUT
    assert cluster.remove(1, 2) is Code.REQUEST_TIMED_OUT
    cluster.fetch(2, 2, 4, 4, 5, 5)

    assert cluster.add(1, 5) is Code.NONE


def test_kip_853_no_change_before_a_record_of_this_epoch_is_safe() -> None:
    """The bug in single-server changes that Ongaro published in 2015: two leaders, two majorities that do not meet."""
    cluster = led()
    cluster.resign(1)
    cluster.deliver()
    (leader,) = cluster.leaders

    assert cluster.remove(leader, 1) is Code.REQUEST_TIMED_OUT


def test_kip_853_a_node_that_lags_is_not_added() -> None:
    """4.2.1: until it has caught up, the quorum could not make anything safe."""
    cluster = Cluster(1, 2, 3, 4, voters=(1, 2, 3))
    cluster.elect(1)
    cluster.fetch(2, 2)

    assert cluster.add(1, 4) is Code.REQUEST_TIMED_OUT
    cluster.fetch(4, 4)  # it learns which node leads, and what there is to fetch
    assert cluster.add(1, 4) is Code.REQUEST_TIMED_OUT
    cluster.fetch(4)
    assert cluster.add(1, 4) is Code.NONE


def test_kip_853_a_node_that_had_caught_up_long_ago_is_not_added() -> None:
    cluster = led()
    cluster.now_ms += 3001

    assert cluster.add(1, 4) is Code.REQUEST_TIMED_OUT


def test_what_cannot_be_is_refused() -> None:
    cluster = led()

    assert cluster.add(1, 2) is Code.DUPLICATE_VOTER
    assert cluster.remove(1, 4) is Code.VOTER_NOT_FOUND
    assert cluster.add(2, 4) is Code.NOT_LEADER_OR_FOLLOWER
    assert cluster.remove(2, 3) is Code.NOT_LEADER_OR_FOLLOWER


def test_the_last_voter_stays() -> None:
    cluster = Cluster(1)
    cluster.at(0)

    assert cluster.remove(1, 1) is Code.INVALID_REQUEST


def test_kip_853_a_change_that_is_cut_off_the_log_was_never_in_force() -> None:
    cluster = led()
    cluster.cut_off = [1]
    cluster.add(1, 4)
    assert 4 in cluster[1].raft.voters
    cluster.at(3000)
    cluster.deliver()
    assert cluster.leaders == [1, 2]

    cluster.cut_off = []
    cluster.at(4000)
    cluster.deliver()
    cluster.fetch(1)

    assert cluster[1].raft.leader == 2
    assert 4 not in cluster[1].raft.voters


def test_kip_853_a_removed_voter_is_told_by_the_log_and_stands_no_more() -> None:
    cluster = led()
    cluster.remove(1, 3)
    cluster.fetch(3, 2, 2, 3)

    assert not cluster[3].raft.is_voter
    cluster.at(20_000)
    assert not cluster.plays(3, Follower)
    assert all(sender != 3 for sender, _, _ in cluster.wire)


def test_4_2_2_a_leader_that_removes_itself_leads_until_that_is_safe() -> None:
    """4 2 2 a leader that removes itself leads until that is safe and does not count itself."""
    cluster = led(1, 2, 3)
    cluster.remove(1, 1)
    cluster.fetch(2, 2)
    assert cluster.leaders == [1]
    assert cluster[1].raft.high_watermark == 1, "one of two voters has it, and the leader is none"

    cluster.fetch(3)
    cluster.step(1, Fetch(3, 1, LogPoint(1, 2)))

    assert cluster[1].applied_watermark == 2
    assert cluster.plays(1, Resigned)
    cluster.deliver()
    assert cluster.leaders == [2]


def test_4_2_2_a_removed_leader_becomes_an_observer_and_finds_the_new_leader() -> None:
    cluster = led(1, 2, 3)
    cluster.remove(1, 1)
    cluster.fetch(2, 2, 3, 3)
    assert cluster.leaders == [2]

    cluster.at(cluster.now_ms + 2000)
    cluster.deliver()
    cluster.fetch(1, 1)

    assert cluster.plays(1, Follower)
    assert cluster[1].raft.leader == 2
    assert not cluster[1].raft.is_voter


def test_4_2_2_a_removed_voter_stands_until_that_is_safe_or_nobody_could_be_elected() -> None:
    """Found by the simulation: of two voters one removes itself and alone has the record that says so. It must not wait
    for the other, which cannot be elected against its longer log."""
    cluster = Cluster.led(1, 2)
    cluster.remove(1, 1)
    cluster.resign(1)
    cluster.wire.clear()  # the other one does not hear of it

    for now_ms in range(1000, 20_000, 100):
        cluster.at(now_ms)
        cluster.deliver()
        cluster.fetch(1, 2)

    assert cluster.leaders == [2]
    assert cluster[2].raft.voters.ids == (2,)
    assert cluster[2].applied_watermark == cluster[2].log.end_offset


def test_a_quorum_shrinks_to_one_and_grows_again() -> None:
    cluster = led(1, 2, 3)
    cluster.remove(1, 3)
    cluster.fetch(2, 2)
    cluster.remove(1, 2)
    assert cluster[1].applied_watermark == cluster[1].log.end_offset, "alone, what is synced is safe"

    cluster.fetch(2, 2)
    assert cluster.add(1, 2) is Code.NONE
    cluster.fetch(2, 2)

    assert cluster[1].applied_watermark == cluster[1].log.end_offset
    assert cluster[1].raft.voters.ids == (1, 2)
