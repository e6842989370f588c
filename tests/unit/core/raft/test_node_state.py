"""How a node starts: with what it saved, alone, or as an observer."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from chronik.core.errors import Code
from chronik.core.raft.core import Raft
from chronik.core.raft.messages import Fetch, LogPoint, RaftFetchAnswer, Vote, VoteAnswer
from chronik.core.raft.ready import ElectionState, Envelope, LeaderChange, RaftSettings
from chronik.core.raft.roles import Follower, Leader, Prospective, Unattached
from tests.unit.core.raft.cluster import Cluster
from tests.unit.core.raft.fakes import FakeLog, FixedChance

THREE = (1, 2, 3)


def start(election: ElectionState, voters: Sequence[int] = THREE, epochs: Sequence[int] = (), now_ms: int = 0) -> Raft:
    return Raft(1, election, FakeLog(voters, epochs), RaftSettings(), FixedChance(), now_ms)


def test_a_node_that_knew_its_leader_follows_it_again() -> None:
    raft = start(ElectionState(5, None, 2))

    assert raft.role == Follower(2, 2000)
    assert raft.next_fetch() == Envelope(2, Fetch(1, 5, LogPoint(0, 0)))


def test_a_node_that_led_does_not_lead_that_epoch_again_nor_votes_in_it() -> None:
    """It may have lost records that were not synced; others have them, under the same offset and epoch (KIP-595)."""
    raft = start(ElectionState(5, 1, 1))

    assert isinstance(raft.role, Unattached)
    answer = raft.step(Vote(2, 5, LogPoint(4, 99)), 0).send
    assert answer == [Envelope(2, VoteAnswer(1, 5, 1, is_granted=False))]
    assert raft.step(VoteAnswer(2, 5, None, is_granted=True), 0).append == []


def test_a_node_that_stood_goes_on_in_the_next_epoch() -> None:
    raft = start(ElectionState(5, 1, None))
    raft.tick(1000)
    raft.step(VoteAnswer(2, 5, None, is_granted=True, is_pre_vote=True), 1000)

    assert raft.epoch == 6


def test_a_vote_given_before_a_restart_still_binds() -> None:
    raft = start(ElectionState(5, 2, None))

    assert raft.step(Vote(3, 5, LogPoint(4, 9)), 0).send[0].message == VoteAnswer(1, 5, None, is_granted=False)
    assert raft.step(Vote(2, 5, LogPoint(4, 9)), 0).send[0].message == VoteAnswer(1, 5, None, is_granted=True)


def test_a_node_that_lost_its_vote_but_not_its_log_gives_none() -> None:
    """A node that lost its vote but not its log gives none in the epochs it has seen."""
    raft = start(ElectionState(), epochs=(1, 4))

    ready = raft.step(Vote(2, 4, LogPoint(3, 9)), 0)

    assert ready.send[0].message == VoteAnswer(1, 4, None, is_granted=False)
    assert ready.election == ElectionState(4, 1, None)


def test_what_is_in_the_snapshot_was_safe() -> None:
    log = FakeLog(THREE, (1, 1, 2))
    log.take_snapshot(2)

    assert Raft(1, ElectionState(2), log, RaftSettings(), FixedChance(), 0).high_watermark == 2
    assert start(ElectionState(), epochs=(1,)).high_watermark == -1


@pytest.mark.parametrize("election", [ElectionState(), ElectionState(3, None, 2), ElectionState(3, 1, 1)])
def test_a_sole_voter_leads_at_once_whatever_it_saved(election: ElectionState) -> None:
    raft = start(election, voters=(1,), now_ms=70)
    assert raft.next_deadline_ms() == 70

    ready = raft.tick(70)

    assert isinstance(raft.role, Leader)
    assert ready.election == ElectionState(election.epoch + 1, 1, 1)
    assert ready.append == [LeaderChange(1, election.epoch + 1, (1,), (1,))]
    assert ready.send == []


def test_for_a_sole_voter_safe_is_what_is_synced_and_it_never_lacks_a_majority() -> None:
    cluster = Cluster(1)
    cluster.at(0)
    cluster.write(1, "a")
    assert cluster[1].applied_watermark == 2

    for now_ms in range(0, 60_000, 100):
        cluster.at(now_ms)
        deadline_ms = cluster[1].raft.next_deadline_ms()
        assert deadline_ms is not None
        assert deadline_ms > now_ms, "it would be ticked without end"

    assert cluster.leaders == [1]


def test_an_observer_never_stands() -> None:
    raft = start(ElectionState(), voters=(2, 3))
    assert raft.next_deadline_ms() is None

    for now_ms in range(0, 60_000, 500):
        assert raft.tick(now_ms).send == []

    assert isinstance(raft.role, Unattached)
    assert raft.epoch == 0


def test_an_observer_asks_any_voter_who_leads_and_follows() -> None:
    raft = start(ElectionState(), voters=(2, 3))
    ask = raft.next_fetch()
    assert ask is not None
    assert ask.to in (2, 3)

    raft.step(RaftFetchAnswer(2, 6, 3, LogPoint(0, 0), Code.FENCED_LEADER_EPOCH), 0)

    assert raft.next_fetch() == Envelope(3, Fetch(1, 6, LogPoint(0, 0)))


def test_an_observer_whose_leader_is_silent_asks_the_voters_again() -> None:
    cluster = Cluster(1, 2, 3, 4, voters=THREE)
    cluster.led_by(1)
    cluster.kill(1)
    deadline_ms = cluster[4].raft.next_deadline_ms()
    assert deadline_ms is not None
    cluster.at(deadline_ms)
    assert cluster.plays(4, Unattached)
    cluster.wire.clear()

    cluster.restart(1)
    cluster.elect(2)
    cluster.step(4, cluster.step(3, Fetch(4, 1, LogPoint(1, 1))).send[0].message)

    assert cluster[4].raft.leader == 2
    assert cluster.plays(4, Follower)


def test_an_observer_whose_leader_comes_back_follows_it_again() -> None:
    cluster = Cluster(1, 2, voters=(1,))
    cluster.at(0)
    cluster.fetch(2, 2, 2)
    cluster.at(9000)
    assert cluster.plays(2, Unattached)

    cluster.fetch(2)

    assert cluster.plays(2, Follower)


def test_an_observer_votes_when_it_is_asked() -> None:
    """KIP-853: whatever asks may know that it is a voter, and it need not know that yet itself."""
    raft = start(ElectionState(), voters=(2, 3))

    assert raft.step(Vote(2, 1, LogPoint(0, 0)), 0).send[0].message == VoteAnswer(1, 1, None, is_granted=True)


def test_an_echo_of_its_own_epoch_does_not_make_a_node_follow_itself() -> None:
    raft = start(ElectionState(4, None, None))

    raft.step(VoteAnswer(2, 5, 1, is_granted=False), 0)

    assert isinstance(raft.role, Unattached)
    assert raft.election == ElectionState(5, None, None)


def test_a_voter_asks_around_when_its_leader_is_silent() -> None:
    raft = start(ElectionState(5, None, 2))

    assert raft.tick(1999).send == []
    ready = raft.tick(2000)

    assert isinstance(raft.role, Prospective)
    assert ready.send == [Envelope(voter, Vote(1, 5, LogPoint(0, 0), is_pre_vote=True)) for voter in (2, 3)]
