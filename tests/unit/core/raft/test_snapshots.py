"""A follower whose records are gone from the leader's log fetches a snapshot (KIP-630). The machine says what to do."""

from __future__ import annotations

import pytest

from chronik.core.errors import Code
from chronik.core.raft.core import SNAPSHOT_BYTES_A_FETCH
from chronik.core.raft.messages import Fetch, FetchSnapshot, FetchSnapshotAnswer, LogPoint, RaftFetchAnswer
from chronik.core.raft.ready import Envelope, RaftSettings
from chronik.core.raft.roles import Follower, Transfer
from tests.unit.core.raft.cluster import Cluster
from tests.unit.core.raft.fakes import SNAPSHOT_BYTES_A_RECORD

SNAPSHOT = LogPoint(1, 5)
SIZE = 5 * SNAPSHOT_BYTES_A_RECORD


def with_snapshot() -> Cluster:
    """Node 1 leads; its log begins at 5. Node 3 has only the first record."""
    cluster = Cluster(1, 2, 3)
    cluster.led_by(1)
    cluster.write(1, "a", "b", "c", "d", "e")
    cluster.fetch(2, 2)
    cluster.snapshot(1, 5)
    return cluster


def transfer(cluster: Cluster) -> Transfer | None:
    role = cluster[3].raft.role
    assert isinstance(role, Follower)
    return role.transfer


def test_a_follower_below_the_start_of_the_log_is_told_to_fetch_the_snapshot() -> None:
    cluster = with_snapshot()

    cluster.fetch(3)

    assert transfer(cluster) == Transfer(SNAPSHOT, 0)
    ask = FetchSnapshot(3, 1, SNAPSHOT, 0, SNAPSHOT_BYTES_A_FETCH)
    assert cluster[3].raft.next_fetch() == Envelope(1, ask)


def test_a_snapshot_comes_in_parts_and_takes_the_place_of_the_log_when_it_is_whole() -> None:
    cluster = with_snapshot()
    cluster.fetch(3)

    cluster.fetch(3)
    assert transfer(cluster) == Transfer(SNAPSHOT, SNAPSHOT_BYTES_A_FETCH)
    assert cluster[3].log.end_offset == 1
    cluster.fetch(3)

    assert transfer(cluster) is None
    assert (cluster[3].log.start_offset, cluster[3].log.end_offset) == (5, 5)
    assert cluster[3].applied_watermark == 5, "what is in a snapshot is safe"
    cluster.fetch(3)
    assert cluster[3].log.records == cluster[1].log.records


def test_a_follower_asks_for_as_much_of_a_snapshot_as_its_settings_say() -> None:
    cluster = with_snapshot()
    cluster[3].settings = RaftSettings(snapshot_fetch_bytes_max=100)
    cluster.restart(3)
    cluster.fetch(3)

    cluster.fetch(3)

    assert transfer(cluster) == Transfer(SNAPSHOT, 100)
    assert cluster[3].raft.next_fetch() == Envelope(1, FetchSnapshot(3, 1, SNAPSHOT, 100, 100))


@pytest.mark.parametrize(
    "answer",
    [
        FetchSnapshotAnswer(1, 1, 1, SNAPSHOT, 100, 200, SIZE),  # bytes from elsewhere
        FetchSnapshotAnswer(1, 1, 1, LogPoint(1, 4), 0, 200, SIZE),  # of another snapshot
        FetchSnapshotAnswer(2, 1, 1, SNAPSHOT, 0, 0, 0, Code.NOT_LEADER_OR_FOLLOWER),
        FetchSnapshotAnswer(1, 0, None, SNAPSHOT, 0, 200, SIZE),
        RaftFetchAnswer(1, 1, 1, LogPoint(1, 1), high_watermark=9),  # an answer to the fetch before
    ],
)
def test_bytes_that_are_not_the_next_ones_are_thrown_away(answer: FetchSnapshotAnswer) -> None:
    cluster = with_snapshot()
    cluster.fetch(3)

    ready = cluster.step(3, answer)

    assert not ready.take
    assert transfer(cluster) == Transfer(SNAPSHOT, 0)


@pytest.mark.parametrize("code", [Code.SNAPSHOT_NOT_FOUND, Code.POSITION_OUT_OF_RANGE])
def test_when_the_snapshot_is_gone_the_follower_asks_anew(code: Code) -> None:
    cluster = with_snapshot()
    cluster.fetch(3)

    cluster.step(3, FetchSnapshotAnswer(1, 1, 1, SNAPSHOT, 0, code=code))

    assert transfer(cluster) is None
    assert cluster[3].raft.next_fetch() == Envelope(1, Fetch(3, 1, LogPoint(1, 1)))


@pytest.mark.parametrize(
    ("fetch", "code"),
    [
        (FetchSnapshot(3, 1, SNAPSHOT, 0, 100), Code.NONE),
        (FetchSnapshot(3, 1, SNAPSHOT, SIZE - 1, 100), Code.NONE),
        (FetchSnapshot(3, 1, SNAPSHOT, SIZE, 100), Code.POSITION_OUT_OF_RANGE),
        (FetchSnapshot(3, 1, SNAPSHOT, -1, 100), Code.POSITION_OUT_OF_RANGE),
        (FetchSnapshot(3, 1, LogPoint(1, 4), 0, 100), Code.SNAPSHOT_NOT_FOUND),
        (FetchSnapshot(3, 0, SNAPSHOT, 0, 100), Code.FENCED_LEADER_EPOCH),
        (FetchSnapshot(3, 2, SNAPSHOT, 0, 100), Code.UNKNOWN_LEADER_EPOCH),
    ],
)
def test_what_the_leader_answers_to_a_fetch_of_a_snapshot(fetch: FetchSnapshot, code: Code) -> None:
    cluster = with_snapshot()

    (envelope,) = cluster.step(1, fetch).send

    answer = envelope.message
    assert isinstance(answer, FetchSnapshotAnswer)
    assert answer.code is code
    if code is Code.NONE:
        assert (answer.position, answer.end_position) == (fetch.position, min(fetch.position + 100, SIZE))
        assert answer.size_bytes == SIZE


def test_only_the_leader_hands_out_snapshots() -> None:
    cluster = with_snapshot()

    (envelope,) = cluster.step(2, FetchSnapshot(3, 1, SNAPSHOT, 0, 100)).send

    assert envelope.message.code is Code.NOT_LEADER_OR_FOLLOWER  # type: ignore[union-attr]


def test_who_fetches_a_snapshot_keeps_its_leader_in_office_and_its_patience() -> None:
    cluster = with_snapshot()
    cluster.kill(2)
    cluster.fetch(3)
    cluster.now_ms = 2900
    cluster.fetch(3)

    cluster.at(4800)

    assert cluster.leaders == [1]
    assert cluster.plays(3, Follower)


def test_a_snapshot_below_what_is_safe_is_never_installed() -> None:
    cluster = with_snapshot()
    cluster.fetch(3)
    role = cluster[3].raft.role
    assert isinstance(role, Follower)
    role.transfer = Transfer(LogPoint(1, 0), 0)

    with pytest.raises(AssertionError, match="safe below 1"):
        cluster.step(3, FetchSnapshotAnswer(1, 1, 1, LogPoint(1, 0), 0, 10, 10))


def test_a_new_leader_means_a_new_start_of_the_transfer() -> None:
    cluster = with_snapshot()
    cluster.fetch(3, 3)
    cluster.resign(1)
    cluster.deliver()
    assert cluster.leaders == [2]

    assert transfer(cluster) is None
    cluster.fetch(3)
    assert cluster[3].log.records == cluster[2].log.records, "this one has all its log"


def test_a_snapshot_of_all_there_is_makes_a_follower_caught_up() -> None:
    """A snapshot of all there is makes a follower caught up though no record follows."""
    cluster = Cluster(1, 2, 3)
    cluster.led_by(1)
    cluster.write(1, "a", "b")
    cluster.fetch(2, 2)
    cluster.snapshot(1, cluster[1].log.end_offset)

    cluster.kill(3)
    cluster.restart(3)
    while cluster[3].log.start_offset < cluster[1].log.end_offset:
        assert not cluster[3].raft.has_caught_up
        cluster.fetch(3)
    cluster.fetch(3)

    assert cluster[3].log.start_offset == cluster[3].log.end_offset == cluster[1].log.end_offset
    assert cluster[3].raft.has_caught_up
