"""How a leader keeps its office, is left in peace, and hands over (KIP-595, KIP-996)."""

from __future__ import annotations

from chronik.core.errors import Code
from chronik.core.raft.messages import (
    BeginEpoch,
    BeginEpochAnswer,
    EndEpoch,
    EndEpochAnswer,
    Fetch,
    LogPoint,
    Vote,
    VoteAnswer,
)
from chronik.core.raft.ready import ElectionState, Envelope
from chronik.core.raft.roles import Candidate, Follower, Leader, Prospective, Resigned, Unattached
from tests.unit.core.raft.cluster import Cluster

NOTHING = LogPoint(0, 0)


def answers(cluster: Cluster, kind: type) -> list[object]:
    return [envelope.message for _, envelope, _ in cluster.wire if isinstance(envelope.message, kind)]


# --- 6 and KIP-996, not to disturb


def test_kip_996_a_node_that_was_cut_off_does_not_disturb_a_leader_that_is_heard() -> None:
    cluster = Cluster.led()
    cluster.cut_off = [3]
    cluster.now_ms = 5000
    cluster.fetch(2)
    for now_ms in range(5000, 12_000, 100):
        cluster[3].raft.tick(now_ms)
    assert cluster[3].raft.epoch == 1, "asking around costs no epoch"

    cluster.cut_off = []
    for voter in (1, 2):
        ready = cluster.step(voter, Vote(3, 1, LogPoint(1, 1), is_pre_vote=True))
        assert ready.send == [Envelope(3, VoteAnswer(voter, 1, 1, is_granted=False, is_pre_vote=True))]

    assert cluster.leaders == [1]


def test_kip_996_a_pre_vote_binds_nobody() -> None:
    cluster = Cluster(1, 2, 3)

    for asker in (2, 3):
        ready = cluster.step(1, Vote(asker, 0, NOTHING, is_pre_vote=True))
        assert ready.send[0].message.is_granted  # type: ignore[union-attr]
        assert ready.election is None

    assert cluster.plays(1, Unattached)


def test_kip_996_a_follower_that_has_not_fetched_yet_would_vote_for_another() -> None:
    """Its leader may have died right after its election."""
    cluster = Cluster(1, 2, 3)
    cluster.elect(1)

    ready = cluster.step(2, Vote(3, 1, NOTHING, is_pre_vote=True))

    assert ready.send[0].message.is_granted  # type: ignore[union-attr]


def test_of_two_that_ask_at_once_one_gives_way_so_that_they_do_not_split_the_vote() -> None:
    cluster = Cluster.led()
    cluster.kill(1)

    cluster.at(3000)  # both miss their leader at the same moment
    cluster.deliver()

    assert cluster.leaders == [2]
    assert cluster[2].raft.epoch == 2


def test_of_two_that_ask_at_once_the_longer_log_goes_first() -> None:
    cluster = Cluster.led()
    cluster.write(1, "a")
    cluster.fetch(3)
    cluster.kill(1)

    cluster.at(3000)
    cluster.deliver()

    assert cluster.leaders == [3]


def test_a_prospective_node_asks_again_who_said_no() -> None:
    cluster = Cluster.led()
    cluster[2].raft.tick(3000)
    cluster.step(2, VoteAnswer(3, 1, 1, is_granted=False, is_pre_vote=True))

    assert [to for to, _ in cluster[2].raft.tick(3250).send] == [1, 3]


def test_kip_996_a_prospective_node_follows_again_when_its_leader_turns_up() -> None:
    cluster = Cluster.led()
    cluster[2].raft.tick(5000)
    assert cluster.plays(2, Prospective)

    cluster.step(2, BeginEpoch(1, 1))

    assert cluster.plays(2, Follower)


def test_kip_996_a_prospective_node_that_nobody_wants_believes_in_its_leader_again() -> None:
    cluster = Cluster.led()
    cluster[2].raft.tick(5000)

    for voter in (1, 3):
        cluster.step(2, VoteAnswer(voter, 1, 1, is_granted=False, is_pre_vote=True))

    assert cluster.plays(2, Follower)
    assert cluster[2].raft.leader == 1


def test_a_follower_does_not_vote_against_its_leader_in_its_epoch() -> None:
    cluster = Cluster(1, 2, 3)
    cluster.step(1, BeginEpoch(2, 4))

    ready = cluster.step(1, Vote(3, 4, LogPoint(3, 9)))

    assert ready.send == [Envelope(3, VoteAnswer(1, 4, 2, is_granted=False))]


# --- check-quorum


def test_a_leader_that_no_majority_fetches_from_resigns() -> None:
    cluster = Cluster.led(1, 2, 3, 4, 5)
    cluster.now_ms = 3000
    cluster.fetch(2)  # one of four is not enough

    cluster.at(3999)
    assert cluster.leaders == [1]
    cluster.at(4000)

    assert cluster.plays(1, Resigned)


def test_a_leader_that_a_majority_fetches_from_goes_on() -> None:
    cluster = Cluster.led()
    for now_ms in range(1500, 60_000, 500):
        cluster.now_ms = now_ms
        cluster.fetch(2)
        cluster.at(now_ms)
        cluster.wire.clear()

    assert cluster.plays(1, Leader)


def test_fetches_of_observers_do_not_keep_a_leader_in_office() -> None:
    cluster = Cluster.led(1, 2, 3, 4, voters=(1, 2, 3))
    cluster.now_ms = 3900
    cluster.fetch(4)

    cluster.at(4000)

    assert cluster.plays(1, Resigned)


def test_a_leader_reminds_those_that_do_not_fetch() -> None:
    cluster = Cluster.led()
    cluster.now_ms = 1900
    cluster.fetch(2)

    ready = cluster[1].raft.tick(2000)

    assert ready.send == [Envelope(3, BeginEpoch(1, 1))]


# --- EndQuorumEpoch


def test_kip_595_the_successor_with_most_of_the_log_stands_at_once_and_the_next_soon() -> None:
    cluster = Cluster.led()
    cluster.write(1, "a")
    cluster.fetch(3, 3)

    cluster.resign(1)
    ends = answers(cluster, EndEpoch)
    cluster.deliver(2)

    assert ends == [EndEpoch(1, 1, (3, 2))] * 2
    assert cluster.plays(3, Candidate)
    assert cluster.plays(2, Follower)
    assert cluster[2].raft.next_deadline_ms() == cluster.now_ms + 500
    cluster.deliver()
    assert cluster.leaders == [3]


def test_kip_595_a_node_that_is_no_successor_waits_longest() -> None:
    cluster = Cluster.led()

    cluster.step(2, EndEpoch(1, 1, (3,)))

    assert cluster[2].raft.next_deadline_ms() == cluster.now_ms + 500


def test_kip_595_a_resigned_leader_says_so_until_it_is_answered() -> None:
    cluster = Cluster.led()
    cluster.resign(1)
    cluster.wire.clear()
    cluster.step(1, EndEpochAnswer(3, 1, 1))

    ready = cluster[1].raft.tick(cluster.now_ms + 250)

    assert [to for to, _ in ready.send] == [2]


def test_kip_595_a_resigned_leader_answers_no_fetch() -> None:
    """Kip 595 a resigned leader answers no fetch and does not lead its epoch again."""
    cluster = Cluster.led()
    cluster.resign(1)
    cluster.wire.clear()

    refused = cluster.step(1, Fetch(2, 1, LogPoint(1, 1)))
    cluster.step(1, VoteAnswer(2, 1, None, is_granted=True))
    cluster.step(1, BeginEpochAnswer(2, 1, 1))
    assert cluster.plays(1, Resigned)
    cluster.at(cluster.now_ms + 2000)

    assert refused.send[0].message.code is Code.NOT_LEADER_OR_FOLLOWER  # type: ignore[union-attr]
    assert cluster.plays(1, Unattached)
    assert cluster[1].saved == ElectionState(2, None, None)


def test_a_node_that_does_not_lead_has_nothing_to_resign() -> None:
    cluster = Cluster.led()

    assert cluster[2].raft.resign(2000).send == []
