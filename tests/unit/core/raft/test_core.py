"""The machine against the Raft paper (Ongaro and Ousterhout) and Kafka's KIP-595 and KIP-996. A number is a section."""

from __future__ import annotations

import pytest

from chronik.core.errors import Code
from chronik.core.raft.messages import (
    BeginEpoch,
    BeginEpochAnswer,
    EndEpoch,
    EndEpochAnswer,
    Fetch,
    LogPoint,
    RaftFetchAnswer,
    Vote,
    VoteAnswer,
)
from chronik.core.raft.ready import ElectionState, Envelope, LeaderChange
from chronik.core.raft.roles import Candidate, Follower, Prospective, Unattached
from tests.unit.core.raft.cluster import Cluster

NOTHING = LogPoint(0, 0)


# --- 5.1, epochs


def test_5_1_a_later_epoch_makes_any_node_step_down() -> None:
    """'If a candidate or leader discovers that its term is out of date, it immediately reverts to follower state.'"""
    cluster = Cluster.led()

    ready = cluster.step(1, Vote(3, 5, NOTHING))

    assert cluster.plays(1, Unattached)
    assert ready.election == ElectionState(5, None, None)


@pytest.mark.parametrize(
    ("request_", "answer"),
    [
        (Vote(2, 1, NOTHING), VoteAnswer(1, 3, None, is_granted=False, code=Code.FENCED_LEADER_EPOCH)),
        (BeginEpoch(2, 1), BeginEpochAnswer(1, 3, None, Code.FENCED_LEADER_EPOCH)),
        (EndEpoch(2, 1, (1,)), EndEpochAnswer(1, 3, None, Code.FENCED_LEADER_EPOCH)),
        (Fetch(2, 1, NOTHING), RaftFetchAnswer(1, 3, None, NOTHING, Code.FENCED_LEADER_EPOCH)),
        (Fetch(-1, 4, NOTHING), RaftFetchAnswer(1, 3, None, NOTHING, Code.UNKNOWN_LEADER_EPOCH)),
        (Fetch(2, 3, NOTHING), RaftFetchAnswer(1, 3, None, NOTHING, Code.NOT_LEADER_OR_FOLLOWER)),
    ],
)
def test_5_1_a_request_with_a_stale_epoch_is_refused_and_changes_nothing(request_: Vote, answer: object) -> None:
    cluster = Cluster(1, 2, 3, logs={1: (3,)})

    ready = cluster.step(1, request_)

    assert ready.send == [Envelope(request_.sender, answer)]  # type: ignore[arg-type]
    assert ready.election is None


# --- 5.2, elections


def test_5_2_a_node_that_hears_from_no_leader_stands_in_the_next_epoch() -> None:
    """5 2 a node that hears from no leader stands in the next epoch and votes for itself."""
    cluster = Cluster(1, 2, 3)

    cluster.at(1000)
    cluster.deliver(4)

    assert cluster.plays(1, Candidate)
    assert cluster[1].saved == ElectionState(1, voted_for=1, leader=None)


def test_5_2_each_voter_votes_once_in_an_epoch_first_come_first_served() -> None:
    cluster = Cluster(1, 2, 3)

    first = cluster.step(1, Vote(2, 7, NOTHING))
    again = cluster.step(1, Vote(2, 7, NOTHING))
    second = cluster.step(1, Vote(3, 7, NOTHING))

    assert [ready.send[0].message.is_granted for ready in (first, again, second)] == [True, True, False]  # type: ignore[union-attr]
    assert first.election == ElectionState(7, 2, None)
    assert again.election is None, "it is on disk already"


def test_5_2_a_vote_is_on_disk_before_it_is_sent_and_survives_a_crash() -> None:
    cluster = Cluster(1, 2, 3)
    ready = cluster.step(1, Vote(2, 7, NOTHING))
    assert ready.election is not None

    cluster.kill(1)
    cluster.restart(1)

    assert cluster.step(1, Vote(3, 7, NOTHING)).send == [Envelope(3, VoteAnswer(1, 7, None, is_granted=False))]


def test_5_2_a_candidate_with_a_majority_leads_tells_the_others_and_writes() -> None:
    """5 2 a candidate with a majority leads tells the others and writes that it does."""
    cluster = Cluster(1, 2, 3, 4, 5)
    cluster.at(1000)
    cluster.deliver(8)

    one = cluster.step(1, VoteAnswer(2, 1, None, is_granted=True))
    two = cluster.step(1, VoteAnswer(3, 1, None, is_granted=True))

    assert one.append == []
    assert two.append == [LeaderChange(1, 1, (1, 2, 3, 4, 5), (1, 2, 3))]
    assert two.election == ElectionState(1, 1, leader=1)
    assert [(to, message) for to, message in two.send] == [(i, BeginEpoch(1, 1)) for i in (2, 3, 4, 5)]


def test_5_2_one_voter_that_says_yes_twice_is_no_majority() -> None:
    cluster = Cluster(1, 2, 3, 4, 5)
    cluster.at(1000)
    cluster.deliver(8)

    for _ in range(3):
        cluster.step(1, VoteAnswer(2, 1, None, is_granted=True))

    assert cluster.plays(1, Candidate)


def test_5_2_votes_of_another_epoch_and_of_the_question_before_do_not_count() -> None:
    cluster = Cluster(1, 2, 3)
    cluster.at(1000)
    cluster.deliver(4)
    assert cluster.plays(1, Candidate)

    cluster.step(1, VoteAnswer(2, 0, None, is_granted=True))
    cluster.step(1, VoteAnswer(2, 1, None, is_granted=True, is_pre_vote=True))

    assert cluster.plays(1, Candidate)


def test_5_2_a_candidate_that_hears_of_a_leader_of_its_epoch_follows_it() -> None:
    cluster = Cluster(1, 2, 3)
    cluster.at(1000)
    cluster.deliver(4)

    cluster.step(1, BeginEpoch(3, 1))

    assert cluster.plays(1, Follower)
    assert cluster[1].saved == ElectionState(1, voted_for=1, leader=3)


def test_5_2_a_candidate_that_lost_waits_a_random_time_and_tries_again() -> None:
    cluster = Cluster(1, 2, 3)
    cluster.at(1000)
    cluster.deliver(4)

    for voter in (2, 3):
        cluster.step(1, VoteAnswer(voter, 1, None, is_granted=False))
    deadline_ms = cluster[1].raft.next_deadline_ms()

    assert deadline_ms is not None
    assert 1000 < deadline_ms <= 2001
    cluster[1].raft.tick(deadline_ms)
    assert cluster.plays(1, Prospective)


def test_5_2_a_candidate_without_answers_asks_again_and_then_starts_over() -> None:
    cluster = Cluster(1, 2, 3)
    cluster.at(1000)
    cluster.deliver(3)  # both were asked, and one answered
    cluster.wire.clear()
    epoch = cluster[1].raft.epoch

    ready = cluster[1].raft.tick(1250)
    assert [to for to, _ in ready.send] == [2, 3]
    cluster[1].raft.tick(2000)

    assert cluster.plays(1, Prospective)
    assert cluster[1].raft.epoch == epoch


def test_5_2_at_most_one_leader_is_elected_in_an_epoch_also_when_two_stand_at_once() -> None:
    """Election safety."""
    cluster = Cluster(1, 2, 3)
    for node_id in (1, 2):
        cluster.do(cluster[node_id], cluster[node_id].raft.tick(3000), "tick")

    cluster.deliver()

    by_epoch = [(host.raft.epoch, host.node_id) for host in cluster.hosts.values() if host.raft.is_leader]
    assert len({epoch for epoch, _ in by_epoch}) == len(by_epoch)


def test_another_leader_of_an_epoch_that_has_one_is_refused() -> None:
    cluster = Cluster.led()

    (answer,) = cluster.step(2, BeginEpoch(3, 1)).send

    assert answer.message == BeginEpochAnswer(2, 1, 1, Code.INVALID_REQUEST)
    assert cluster[2].raft.leader == 1


# --- 5.3, the log


def test_5_3_a_follower_takes_records_only_when_the_leader_found_the_logs_to_agree() -> None:
    cluster = Cluster.led()
    end = LogPoint(1, 1)

    assert cluster[2].raft.step(RaftFetchAnswer(1, 1, 1, end), 1000).take
    assert not cluster[2].raft.step(RaftFetchAnswer(1, 1, 1, end, Code.NOT_LEADER_OR_FOLLOWER), 1000).take
    assert not cluster[2].raft.step(RaftFetchAnswer(1, 1, 1, end, diverging=LogPoint(1, 1)), 1000).take


@pytest.mark.parametrize(
    "answer",
    [
        RaftFetchAnswer(1, 1, 1, LogPoint(1, 0)),  # to an earlier question of this follower
        RaftFetchAnswer(1, 1, 1, LogPoint(0, 1)),
        RaftFetchAnswer(3, 1, 1, LogPoint(1, 1), Code.NOT_LEADER_OR_FOLLOWER),  # not from its leader
        RaftFetchAnswer(1, 0, 1, LogPoint(1, 1)),  # of an earlier epoch
    ],
)
def test_5_3_an_answer_that_is_late_is_not_taken(answer: RaftFetchAnswer) -> None:
    cluster = Cluster.led()

    ready = cluster[2].raft.step(answer, 1000)

    assert not ready.take
    assert ready.truncate_to is None


def test_5_3_a_late_order_to_cut_does_not_cut_what_came_after() -> None:
    """A duplicate of it arrives when the follower has new records, which the leader already counts on."""
    cluster = Cluster(1, 2, 3, logs={1: (1, 1, 3), 2: (1, 1, 3), 3: (1, 2, 2)})
    cluster.elect(1)
    cut = cluster.step(1, Fetch(3, 4, LogPoint(2, 3))).send[0].message
    cluster.deliver()
    assert cluster[3].log.epochs() == [1]
    cluster.fetch(3, 3)

    ready = cluster.step(3, cut)

    assert isinstance(cut, RaftFetchAnswer)
    assert cut.diverging is not None
    assert ready.truncate_to is None


def test_5_3_a_diverging_follower_cuts_its_log_and_asks_again_from_there() -> None:
    cluster = Cluster(1, 2, 3, logs={1: (1, 1, 3), 2: (1, 1, 3), 3: (1, 2, 2)})
    cluster.elect(1)

    cluster.fetch(3)
    assert cluster[3].log.epochs() == [1]
    cluster.fetch(3)

    assert cluster[3].log.epochs() == [1, 1, 3, 4]


def test_5_3_a_leader_never_cuts_or_overwrites_its_own_log() -> None:
    """Leader append-only."""
    cluster = Cluster.led()

    for message in (
        RaftFetchAnswer(2, 1, 1, LogPoint(1, 1), diverging=NOTHING),
        RaftFetchAnswer(2, 1, 1, LogPoint(1, 1), high_watermark=1),
    ):
        ready = cluster[1].raft.step(message, 1000)

        assert (ready.truncate_to, ready.take, cluster[1].raft.is_leader) == (None, False, True)


def test_what_is_safe_is_never_cut() -> None:
    cluster = Cluster.led()

    with pytest.raises(AssertionError, match="safe below 1"):
        cluster.step(2, RaftFetchAnswer(1, 1, 1, LogPoint(1, 1), diverging=NOTHING))


def test_a_follower_asks_for_more_only_when_all_it_has_is_on_disk() -> None:
    cluster = Cluster.led()
    cluster.is_synced_at_once = False
    cluster.write(1, "a")
    cluster.fetch(2)
    assert cluster[2].log.synced_offset < cluster[2].log.end_offset

    assert cluster[2].raft.next_fetch() is None
    cluster.sync(2)

    assert cluster[2].raft.next_fetch() == Envelope(1, Fetch(2, 1, LogPoint(1, 2)))


# --- 5.3 and 5.4.2, what is safe


def test_5_3_a_record_is_safe_when_a_majority_has_it_on_disk() -> None:
    cluster = Cluster.led(1, 2, 3, 4, 5)
    cluster.write(1, "a")
    cluster.fetch(2, 2)
    assert cluster[1].raft.high_watermark == 1

    cluster.fetch(3, 3)

    assert cluster[1].raft.high_watermark == 2


def test_5_3_what_the_leader_has_not_synced_itself_does_not_count() -> None:
    cluster = Cluster.led()
    cluster.is_synced_at_once = False
    cluster.write(1, "a")
    cluster.fetch(2)
    cluster.sync(2)
    cluster.fetch(2)
    assert cluster[1].raft.high_watermark == 1

    cluster.sync(1)

    assert cluster[1].raft.high_watermark == 2


def test_5_4_2_records_of_earlier_epochs_are_safe_only_with_one_of_the_leaders_own() -> None:
    """Figure 8: 'Raft never commits log entries from previous terms by counting replicas.'"""
    cluster = Cluster(1, 2, 3, 4, 5, logs={1: (1, 2), 2: (1, 2), 3: (1, 2), 4: (1,), 5: (1,)})
    cluster.elect(1)
    start = cluster[1].log.end_offset - 1

    for follower in (2, 3, 4):
        cluster.step(1, Fetch(follower, 3, LogPoint(2, 2)))
    assert cluster[1].raft.high_watermark == -1, "all have it, and it is not safe"
    for follower in (2, 3):
        cluster.step(1, Fetch(follower, 3, LogPoint(3, start + 1)))

    assert cluster[1].raft.high_watermark == start + 1


def test_a_follower_learns_what_is_safe_with_the_records_themselves() -> None:
    cluster = Cluster.led()
    cluster.write(1, "a")
    cluster.fetch(2, 2)

    cluster.fetch(3)

    assert cluster[3].applied_watermark == 2


def test_a_follower_calls_nothing_safe_that_it_does_not_have() -> None:
    cluster = Cluster.led()

    cluster.step(2, RaftFetchAnswer(1, 1, 1, LogPoint(1, 1), high_watermark=100))

    assert cluster[2].raft.high_watermark == 1


def test_the_watermark_never_goes_back() -> None:
    """L3: not when an answer is late, nor when a replica lost its disk."""
    cluster = Cluster.led()
    cluster.write(1, "a")
    cluster.fetch(2, 2, 3, 3)

    cluster.step(1, Fetch(2, 1, NOTHING))
    cluster.step(1, Fetch(3, 1, NOTHING))
    cluster.step(3, RaftFetchAnswer(1, 1, 1, LogPoint(1, 2), high_watermark=0))

    assert cluster[1].raft.high_watermark == cluster[3].raft.high_watermark == 2


# --- 5.4.1, who may be elected


@pytest.mark.parametrize("is_pre_vote", [True, False])
@pytest.mark.parametrize(
    ("candidate_end", "is_granted"),
    [
        (LogPoint(2, 3), True),
        (LogPoint(2, 4), True),
        (LogPoint(3, 1), True),
        (LogPoint(2, 2), False),
        (LogPoint(1, 9), False),
    ],
)
def test_5_4_1_no_vote_for_a_log_that_is_less_up_to_date(
    candidate_end: LogPoint, is_granted: bool, is_pre_vote: bool
) -> None:
    """'The voter denies its vote if its own log is more up-to-date than that of the candidate.'"""
    cluster = Cluster(1, 2, 3, logs={1: (1, 2, 2)})

    ready = cluster.step(1, Vote(2, 4, candidate_end, is_pre_vote))

    assert ready.send == [Envelope(2, VoteAnswer(1, 4, None, is_granted, is_pre_vote))]


def test_5_4_3_a_new_leader_has_everything_that_is_safe() -> None:
    """Leader completeness: whatever lacks a safe record finds no majority."""
    cluster = Cluster.led(1, 2, 3, 4, 5)
    cluster.write(1, "a")
    cluster.fetch(2, 2, 3, 3)
    cluster.kill(1)
    cluster.now_ms = 10_000
    for node_id in (2, 3, 4, 5):
        cluster.do(cluster[node_id], cluster[node_id].raft.tick(10_000), "tick")

    cluster.deliver()

    assert cluster.leaders in ([2], [3], [])
    assert not cluster[4].raft.is_leader
    assert not cluster[5].raft.is_leader
