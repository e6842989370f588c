"""Nodes that began with an empty disk: none of them helps to elect a log that lacks what it may once have had."""

from __future__ import annotations

from chronik.core.errors import Code
from chronik.core.raft.messages import EndEpoch, LogPoint, Vote, VoteAnswer
from chronik.core.raft.ready import ElectionState
from chronik.core.raft.roles import Follower, Leader, Prospective, Unattached
from tests.unit.core.raft.cluster import Cluster
from tests.unit.core.raft.fakes import FakeLog


def new(cluster: Cluster, *ids: int) -> Cluster:
    """These nodes find nothing on their disks."""
    for node_id in ids:
        host = cluster[node_id]
        host.log, host.saved = FakeLog((1, 2, 3)), ElectionState(is_new=True)
        host.restart(cluster.now_ms)
    return cluster


def asked(cluster: Cluster, node_id: int, vote: Vote) -> bool:
    ready = cluster.step(node_id, vote)
    (answer,) = [envelope.message for envelope in ready.send]
    cluster.wire.clear()
    assert isinstance(answer, VoteAnswer)
    return answer.is_granted


def test_a_new_cluster_elects_a_leader_and_none_of_it_is_new_when_that_is_safe() -> None:
    cluster = new(Cluster(1, 2, 3), 1, 2, 3)

    cluster.elect(1)
    for _ in range(3):
        cluster.fetch(2, 3)

    assert cluster.leaders == [1]
    assert [host.saved.is_new for host in cluster.hosts.values()] == [False, False, False]


def test_a_voter_that_lost_its_disk_does_not_vote_for_a_log_that_may_lack_records() -> None:
    """A voter that lost its disk does not vote for a log that may lack what it had."""
    # Given what nodes 1 and 3 made safe, and node 2 has not fetched
    cluster = Cluster.led()
    cluster.cut_off = [2]
    cluster.write(1, "order")
    cluster.fetch(3, 3)
    assert cluster[1].raft.high_watermark == 2
    # When node 1 dies, and node 3 comes back with an empty disk
    cluster.kill(1)
    new(cluster, 3)
    cluster.cut_off = []
    # Then it helps nobody who has a log: node 2 lacks the order
    log_end = LogPoint(1, cluster[2].log.end_offset)
    for is_pre_vote in (True, False):
        assert not asked(cluster, 3, Vote(2, 2, log_end, is_pre_vote))
    assert cluster[3].saved.is_new


def test_a_voter_without_a_disk_does_not_stand_while_anyone_objects() -> None:
    cluster = Cluster.led()
    cluster.kill(1)
    new(cluster, 3)

    for now_ms in range(cluster.now_ms, cluster.now_ms + 20_000, 100):
        cluster.cut_off = [] if now_ms % 1000 else [2]
        cluster.at(now_ms)
        cluster.deliver()

    assert cluster[3].saved.is_new
    assert isinstance(cluster[3].raft.role, Prospective | Unattached | Follower)
    assert cluster.leaders == []


def test_a_new_node_hears_everybody_before_it_stands() -> None:
    # Given two nodes with empty disks, and a third that has everything and is slow to answer
    cluster = Cluster.led()
    new(cluster, 2, 3)
    cluster.kill(1)
    cluster.restart(1)
    host = cluster[2]
    cluster.now_ms = host.raft.next_deadline_ms() or 0
    cluster.do(host, host.raft.tick(cluster.now_ms), "tick")
    # When the other empty one agrees
    cluster.step(2, VoteAnswer(3, host.raft.epoch, None, is_granted=True, is_pre_vote=True))
    # Then it goes on waiting, and what the third says decides
    assert isinstance(host.raft.role, Prospective)
    cluster.step(2, VoteAnswer(1, host.raft.epoch, None, is_granted=False, is_pre_vote=True))
    assert isinstance(host.raft.role, Prospective)
    assert host.saved.is_new


def test_a_new_cluster_can_start_without_one_of_its_nodes() -> None:
    cluster = new(Cluster(1, 2, 3), 1, 2, 3)
    cluster.kill(3)

    for now_ms in range(0, 10_000, 50):
        cluster.at(now_ms)
        cluster.deliver()
        if cluster.leaders:
            break

    assert cluster.leaders
    assert cluster.now_ms <= 4_000


def test_half_of_a_log_makes_no_candidate() -> None:
    # Given a node that lost its disk and has fetched some of the log since, but not all
    cluster = Cluster.led()
    cluster.write(1, "a", "b", "c")
    cluster.fetch(2, 2)
    new(cluster, 3)
    host = cluster[3]
    host.log.append(cluster[1].log.records[:2])
    host.log.sync()
    host.raft.step(Vote(9, 1, LogPoint(0, 0)), cluster.now_ms)  # it hears of epoch 1
    # Then neither its timer nor a leader that resigns makes it stand
    assert not host.raft.may_stand
    host.raft.role = Follower(1, cluster.now_ms)
    cluster.step(3, EndEpoch(1, 1, (3, 2)))
    cluster.at(cluster.now_ms + 5_000)
    assert host.raft.epoch == 1
    assert isinstance(host.raft.role, Follower | Unattached)


def test_a_leader_that_resigns_does_not_make_a_node_without_a_disk_stand() -> None:
    cluster = Cluster.led()
    new(cluster, 3)
    cluster.at(cluster.now_ms + 1500)
    cluster.deliver()  # node 3 hears of its leader, and has fetched nothing

    cluster.step(3, EndEpoch(1, 1, (3, 2)))

    assert cluster[3].raft.epoch == 1
    assert cluster[3].saved.is_new


def test_it_has_its_say_again_when_it_has_all_that_a_leader_calls_safe() -> None:
    cluster = Cluster.led()
    cluster.write(1, "a", "b")
    cluster.fetch(2, 2)
    new(cluster, 3)
    # Node 1 announces itself; the first fetch brings records, but does not tell that these are all
    cluster.at(cluster.now_ms + 1500)
    cluster.deliver()
    cluster.fetch(3)
    was_new = cluster[3].saved.is_new
    cluster.fetch(3)
    assert (was_new, cluster[3].saved.is_new) == (True, False)
    assert cluster[3].raft.has_caught_up


def test_a_leader_that_does_not_know_yet_what_is_safe_lets_nobody_catch_up() -> None:
    # Given a leader of epoch 2 whose first record nobody has yet, and whose watermark is that of epoch 1
    cluster = Cluster.led()
    cluster.kill(1)
    for node_id in (2, 3):
        cluster.do(cluster[node_id], cluster[node_id].raft.leader_gone(cluster.now_ms), "finds its leader gone")
    cluster.deliver()
    leader = cluster[2].raft
    assert isinstance(leader.role, Leader)
    assert leader.high_watermark <= leader.role.epoch_start_offset
    new(cluster, 3)
    cluster.at(cluster.now_ms + 1000)
    cluster.deliver()
    # When the node with the empty disk has fetched all there is: its own fetch tells the leader what is safe
    cluster.fetch(3)
    assert cluster[3].saved.is_new
    cluster.fetch(3)
    assert not cluster[3].saved.is_new


def test_a_node_alone_needs_nobody_to_agree() -> None:
    cluster = new(Cluster(1), 1)
    cluster[1].log = FakeLog((1,), [0, 0, 0])  # of a version that knew no elections
    cluster.restart(1)

    cluster.elect(1)

    assert cluster[1].raft.high_watermark == 4
    assert not cluster[1].saved.is_new


def test_a_follower_that_knows_its_leader_to_be_gone_asks_at_once() -> None:
    # Given a quorum whose leader's process has ended, as both others find when they connect to it
    cluster = Cluster.led()
    cluster.kill(1)
    began_ms = cluster.now_ms
    for node_id in (2, 3):
        cluster.do(cluster[node_id], cluster[node_id].raft.leader_gone(cluster.now_ms), "finds its leader gone")
    cluster.deliver()
    # Then one of them leads, and no timer had to end
    assert cluster.leaders == [2]
    assert cluster.now_ms == began_ms


def test_who_still_hears_the_leader_is_not_moved_by_such_a_rumour() -> None:
    cluster = Cluster.led()

    cluster.do(cluster[2], cluster[2].raft.leader_gone(cluster.now_ms), "believes its leader gone")
    cluster.deliver()

    assert cluster.leaders == [1]
    assert cluster[1].raft.epoch == 1


def test_a_voter_is_not_removed_when_too_few_of_the_others_have_caught_up() -> None:
    cluster = Cluster.led()
    cluster.kill(3)
    for _ in range(8):
        cluster.at(cluster.now_ms + 500)
        cluster.fetch(2)
    assert cluster.leaders == [1]

    assert cluster.remove(1, 2) is Code.REQUEST_TIMED_OUT
    assert cluster.remove(1, 3) is Code.NONE
