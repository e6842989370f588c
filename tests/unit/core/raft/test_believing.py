"""What a node believes of what it is told: one packet does not end the quorum (F45)."""

from __future__ import annotations

import random

import pytest

from chronik.core.errors import Code
from chronik.core.raft import messages as m
from chronik.core.raft import state_file
from chronik.core.raft.core import SNAPSHOT_BYTES_A_FETCH
from chronik.core.raft.messages import (
    NO_NODE,
    BeginEpoch,
    BeginEpochAnswer,
    EndEpoch,
    Fetch,
    FetchSnapshot,
    FetchSnapshotAnswer,
    LogPoint,
    RaftFetchAnswer,
    Vote,
    VoteAnswer,
)
from chronik.core.raft.reach import EPOCH_MAX, EPOCHS_A_WINDOW
from chronik.core.raft.ready import ElectionState
from chronik.core.raft.roles import Follower, Leader, Unattached
from tests.unit.core.raft.cluster import Cluster
from tests.unit.core.raft.fakes import SNAPSHOT_BYTES_A_RECORD

NOTHING = LogPoint(0, 0)
FAR = LogPoint(1, 10**9)


def answer_to(cluster: Cluster, to: int, message: m.Message) -> m.Message:
    (envelope,) = cluster.step(to, message).send
    return envelope.message


# --- epochs


@pytest.mark.parametrize("is_pre_vote", [True, False])
@pytest.mark.parametrize("sender", [3, 9])
@pytest.mark.parametrize("to", [1, 2])
def test_an_epoch_out_of_reach_is_not_adopted(sender: int, to: int, is_pre_vote: bool) -> None:
    cluster = Cluster.led()

    answer = answer_to(cluster, to, Vote(sender, EPOCH_MAX, FAR, is_pre_vote))

    assert isinstance(answer, VoteAnswer)
    assert (answer.epoch, answer.is_granted) == (1, False)
    assert answer.code is (Code.UNKNOWN_LEADER_EPOCH if sender == 3 else Code.INCONSISTENT_VOTER_SET)
    assert cluster[to].raft.epoch == 1
    assert cluster.leaders == [1]


@pytest.mark.parametrize("request_", [BeginEpoch(3, EPOCH_MAX), EndEpoch(3, EPOCH_MAX, (2,))])
def test_nor_is_that_of_a_leader(request_: BeginEpoch | EndEpoch) -> None:
    cluster = Cluster.led()

    answer = answer_to(cluster, 2, request_)

    assert answer.epoch == 1
    assert getattr(answer, "code", None) is Code.UNKNOWN_LEADER_EPOCH


def test_requests_take_the_epoch_on_by_so_much_in_a_while_and_no_more() -> None:
    cluster = Cluster.led()
    first = cluster[2].raft.epoch

    for epoch in range(first + 100, first + 100_000, 100):
        cluster.step(2, Vote(3, epoch, NOTHING))
    reached = cluster[2].raft.epoch
    assert first + EPOCHS_A_WINDOW - 100 <= reached <= first + EPOCHS_A_WINDOW

    cluster.now_ms += 2000
    cluster.step(2, Vote(3, reached + EPOCHS_A_WINDOW, NOTHING))
    assert cluster[2].raft.epoch == reached + EPOCHS_A_WINDOW


def test_a_node_that_was_away_for_long_hears_of_the_epoch_when_it_asks() -> None:
    """However far behind it is: the answer to its own question has no such bound."""
    cluster = Cluster.led()

    cluster.step(2, RaftFetchAnswer(1, 1_000_000, 3, LogPoint(1, 1), Code.FENCED_LEADER_EPOCH))
    cluster.step(3, VoteAnswer(1, 2_000_000, None, is_granted=False))

    assert cluster[2].raft.election == ElectionState(1_000_000, None, 3)
    assert cluster[3].raft.epoch == 2_000_000


def test_where_there_is_no_later_epoch_nobody_stands() -> None:
    cluster = Cluster.led()
    cluster.step(2, VoteAnswer(3, EPOCH_MAX, None, is_granted=False))

    for now_ms in range(0, 20_000, 500):
        cluster[2].raft.tick(now_ms)

    assert cluster[2].raft.epoch == EPOCH_MAX
    assert cluster[2].raft.next_deadline_ms() is None
    assert state_file.decode(state_file.encode(cluster[2].raft.election)).epoch == EPOCH_MAX


def test_the_leader_of_the_last_epoch_resigns_without_a_next_one() -> None:
    cluster = Cluster(1, 2, 3)
    raft = cluster[1].raft
    for node_id in (1, 2, 3):
        cluster.step(node_id, VoteAnswer(9, EPOCH_MAX - 1, None, is_granted=False))
    cluster.elect(1)
    assert raft.epoch == EPOCH_MAX

    raft.resign(cluster.now_ms)
    raft.tick(cluster.now_ms + 60_000)

    assert raft.epoch == EPOCH_MAX
    assert isinstance(raft.role, Unattached)


# --- senders


@pytest.mark.parametrize(
    "request_",
    [
        Vote(-1, 2, NOTHING),
        Vote(-5, 2, FAR),
        Vote(2, 2, FAR),  # in its own name
        Vote(3, -1, NOTHING),
        Vote(3, 2, LogPoint(-1, 5)),
        Vote(3, 2, LogPoint(0, -5)),
        Vote(3, 2, LogPoint(2, 5)),  # a log of the epoch that it only wants to lead
        Vote(3, 2, LogPoint(3, 5), is_pre_vote=True),
        BeginEpoch(-1, 2),
        BeginEpoch(2, 2),
        EndEpoch(-7, 2, (2,)),
        EndEpoch(2, 2, (2,)),
    ],
)
def test_what_no_node_can_say_changes_nothing(request_: m.Request) -> None:
    cluster = Cluster.led()
    before = cluster[2].raft.election

    answer = answer_to(cluster, 2, request_)

    assert getattr(answer, "code", None) is Code.INVALID_REQUEST
    assert cluster[2].raft.election == before


@pytest.mark.parametrize("request_", [Vote(9, 2, FAR), Vote(9, 1, FAR, True), BeginEpoch(9, 2), EndEpoch(9, 2, (2,))])
@pytest.mark.parametrize("to", [1, 2])
def test_no_voter_unseats_a_leader_that_is_heard(to: int, request_: m.Request) -> None:
    cluster = Cluster.led()

    answer = answer_to(cluster, to, request_)

    assert getattr(answer, "code", None) is Code.INCONSISTENT_VOTER_SET
    assert (cluster[to].raft.epoch, cluster[to].raft.leader) == (1, 1)


def test_a_voter_of_a_later_change_gets_its_vote_from_one_that_hears_no_leader() -> None:
    """KIP-853: the change is in its log, and not in ours yet. Without our vote there might be no majority."""
    cluster = Cluster(1, 2, 3, logs={2: (1, 1)})

    not_longer = answer_to(cluster, 2, Vote(9, 2, LogPoint(1, 2)))
    longer = answer_to(cluster, 2, Vote(9, 3, LogPoint(1, 3)))

    assert isinstance(not_longer, VoteAnswer)
    assert isinstance(longer, VoteAnswer)
    assert (not_longer.code, not_longer.is_granted) == (Code.INCONSISTENT_VOTER_SET, False)
    assert (longer.code, longer.is_granted, longer.epoch) == (Code.NONE, True, 3)


def test_and_may_lead_it() -> None:
    cluster = Cluster(1, 2, 3, logs={2: (1, 1)})

    assert answer_to(cluster, 2, BeginEpoch(9, 2)) == BeginEpochAnswer(2, 2, 9)


# --- two leaders


def test_a_leader_that_it_was_only_told_of_gives_way_to_another() -> None:
    """A lie must not leave a node with a leader that there never was, for as long as the epoch lasts."""
    cluster = Cluster(1, 2, 3)
    cluster.step(3, BeginEpoch(2, 1))
    assert cluster[3].raft.leader == 2

    answer = answer_to(cluster, 3, BeginEpoch(1, 1))

    assert answer == BeginEpochAnswer(3, 1, 1)
    assert cluster[3].raft.election == ElectionState(1, None, 1)


def test_and_to_what_it_is_told_when_it_asks() -> None:
    cluster = Cluster(1, 2, 3)
    cluster.step(3, BeginEpoch(2, 1))

    cluster.step(3, RaftFetchAnswer(2, 1, 1, NOTHING, Code.NOT_LEADER_OR_FOLLOWER))

    assert isinstance(cluster[3].raft.role, Follower)
    assert cluster[3].raft.leader == 1


@pytest.mark.parametrize("request_", [BeginEpoch(3, 1), EndEpoch(3, 1, (2,))])
@pytest.mark.parametrize("to", [1, 2])
def test_another_leader_than_the_one_that_is_fetched_from_is_refused(to: int, request_: m.Request) -> None:
    cluster = Cluster.led()

    answer = answer_to(cluster, to, request_)

    assert getattr(answer, "code", None) is Code.INVALID_REQUEST
    assert (cluster[to].raft.epoch, cluster[to].raft.leader) == (1, 1)
    assert cluster.leaders == [1]


# --- fetches


@pytest.mark.parametrize("ahead", [1, 5, 5 * EPOCHS_A_WINDOW])
def test_an_observer_that_a_lie_took_ahead_of_its_leader_follows_again(ahead: int) -> None:
    """Found by the simulator: the leader asks voters only which epoch they have. However far ahead it is."""
    cluster = Cluster(1, 2, 3, 4, voters=(1, 2, 3))
    cluster.led_by(1)
    cluster.step(4, RaftFetchAnswer(2, 1 + ahead, None, LogPoint(1, 1), Code.NOT_LEADER_OR_FOLLOWER))
    assert cluster[4].raft.epoch == 1 + ahead

    for _ in range(400):
        cluster.at(cluster.now_ms + 100)
        cluster.deliver()
        cluster.fetch(*(node_id for node_id in (1, 2, 3, 4) if not cluster[node_id].raft.is_leader))

    (leader,) = cluster.leaders
    assert cluster[4].raft.leader == leader
    assert isinstance(cluster[4].raft.role, Follower)
    assert cluster[4].raft.role.has_fetched


@pytest.mark.parametrize("sender", [2, 9])
def test_what_ends_where_no_log_ends_is_no_progress(sender: int) -> None:
    cluster = Cluster.led()
    cluster.write(1, "a")
    safe = cluster[1].raft.high_watermark

    for log_end in (LogPoint(1, 10**9), LogPoint(1, 3), LogPoint(2, 2), LogPoint(7, 2), LogPoint(-1, 2)):
        answer_to(cluster, 1, Fetch(sender, 1, log_end))
        answer_to(cluster, 1, Fetch(sender, 2, log_end))

    assert cluster[1].raft.high_watermark == safe


@pytest.mark.parametrize("log_end", [LogPoint(0, -1), LogPoint(1, -(2**63)), LogPoint(-5, 1)])
def test_a_fetch_from_before_the_beginning_is_refused(log_end: LogPoint) -> None:
    cluster = Cluster.led()

    answer = answer_to(cluster, 1, Fetch(2, 1, log_end))

    assert isinstance(answer, RaftFetchAnswer)
    assert answer.code is Code.INVALID_REQUEST


def test_nothing_is_remembered_of_a_fetch_without_a_name_or_in_the_leaders_own() -> None:
    cluster = Cluster.led()
    cluster.write(1, "a")
    role = cluster[1].raft.role
    assert isinstance(role, Leader)

    nobody = answer_to(cluster, 1, Fetch(NO_NODE, 1, LogPoint(1, 2)))
    itself = answer_to(cluster, 1, Fetch(1, 1, LogPoint(1, 2)))

    assert isinstance(nobody, RaftFetchAnswer)
    assert isinstance(itself, RaftFetchAnswer)
    assert nobody.is_sound
    assert itself.code is Code.INVALID_REQUEST
    assert role.progress.observers(cluster[1].raft.voters) == ()


@pytest.mark.parametrize("bytes_max", [1, SNAPSHOT_BYTES_A_FETCH, 2**31 - 1, 0, -1, -(2**31)])
def test_a_part_of_a_snapshot_is_bounded_and_never_negative(bytes_max: int) -> None:
    cluster = Cluster.led()
    records = 2 * SNAPSHOT_BYTES_A_FETCH // SNAPSHOT_BYTES_A_RECORD
    cluster.write(1, *range(records))
    cluster.fetch(2, 3)
    cluster[1].log.take_snapshot(records)
    point = cluster[1].log.snapshot
    assert point is not None
    size_bytes = cluster[1].log.snapshot_bytes(point)
    assert size_bytes is not None

    for position in (0, 1, size_bytes - 1, size_bytes, -1, 2**63 - 1):
        answer = answer_to(cluster, 1, FetchSnapshot(2, 1, point, position, bytes_max))
        assert isinstance(answer, FetchSnapshotAnswer)
        if not 0 <= position < size_bytes:
            assert answer.code is Code.POSITION_OUT_OF_RANGE
        elif bytes_max <= 0:
            assert answer.code is Code.INVALID_REQUEST
        else:
            assert 0 < answer.end_position - position <= min(bytes_max, SNAPSHOT_BYTES_A_FETCH)
            assert answer.end_position <= size_bytes


# --- anything at all


@pytest.mark.parametrize("seed", range(30))
def test_whatever_is_said_the_state_stays_readable_and_the_quorum_finds_a_leader(seed: int) -> None:
    dice = random.Random(seed)
    ids = (-1, 0, 1, 2, 3, 9, EPOCH_MAX, -(2**31))
    cluster = Cluster.led()

    def number() -> int:
        return dice.choice((0, 1, 2, 3, dice.randrange(20), 999, 2**31 - 1, 2**31 - 2, -1, -(2**31)))

    def point() -> LogPoint:
        return LogPoint(number(), dice.choice((number(), 2**63 - 1, -(2**63))))

    for _ in range(300):
        sender, epoch, to = dice.choice(ids), number(), dice.choice((1, 2, 3))
        said: list[m.Message] = [
            Vote(sender, epoch, point(), dice.random() < 0.5),
            BeginEpoch(sender, epoch),
            EndEpoch(sender, epoch, tuple(dice.choices(ids, k=2))),
            Fetch(dice.choice((NO_NODE, 9)), epoch, point()),  # not one that claims what a voter has
            FetchSnapshot(sender, epoch, point(), number(), number()),
        ]
        raft = cluster[to].raft
        ready = raft.step(dice.choice(said), cluster.now_ms)
        cluster.do(cluster[to], ready, "hears a lie")
        assert state_file.decode(state_file.encode(raft.election)) == raft.election
        if dice.random() < 0.05:
            cluster.at(cluster.now_ms + dice.randrange(500))
            cluster.deliver()

    for _ in range(200):
        cluster.at(cluster.now_ms + 100)
        cluster.deliver()
        cluster.fetch(*(node_id for node_id in (1, 2, 3) if not cluster[node_id].raft.is_leader))
    (leader,) = cluster.leaders
    assert {host.raft.leader for host in cluster.hosts.values()} == {leader}
    assert {host.raft.epoch for host in cluster.hosts.values()} == {cluster[leader].raft.epoch}
