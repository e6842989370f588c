"""Where logs part (Raft, 5.3 and figure 7; KIP-101, KIP-279, KIP-595)."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chronik.core.raft.divergence import NeedsSnapshot, RaftDivergence, Same, compare, cut_at
from chronik.core.raft.messages import LogPoint
from tests.unit.core.raft.fakes import FakeLog

# The leader's log of the paper's figure 7, with its followers a to f, and where each first agrees with it.
LEADER = (1, 1, 1, 4, 4, 5, 5, 6, 6, 6, 8)
FIGURE_7 = {
    "a": ((1, 1, 1, 4, 4, 5, 5, 6, 6), 9),
    "b": ((1, 1, 1, 4), 4),
    "c": ((1, 1, 1, 4, 4, 5, 5, 6, 6, 6, 6), 10),
    "d": ((1, 1, 1, 4, 4, 5, 5, 6, 6, 6, 7, 7), 10),
    "e": ((1, 1, 1, 4, 4, 4, 4), 5),
    "f": ((1, 1, 1, 2, 2, 2, 3, 3, 3, 3, 3), 3),
}


def agree(leader: FakeLog, follower: FakeLog) -> int:
    """Rounds of asking and cutting until the logs agree; how many there were."""
    for rounds in range(100):
        match compare(leader, LogPoint(follower.latest_epoch, follower.end_offset)):
            case Same():
                return rounds
            case RaftDivergence(agreed):
                follower.truncate(cut_at(follower, agreed))
    raise AssertionError("the logs never agree")


@pytest.mark.parametrize("name", FIGURE_7)
def test_every_follower_of_figure_7_is_cut_where_it_agrees_with_its_leader(name: str) -> None:
    epochs, agreed_end = FIGURE_7[name]
    follower = FakeLog(epochs=epochs)

    rounds = agree(FakeLog(epochs=LEADER), follower)

    assert follower.epochs() == list(LEADER[:agreed_end])
    assert rounds <= 2


def test_a_leader_that_lacks_the_epoch_names_the_one_before_it() -> None:
    """KIP-279: the follower must not keep records of an epoch that the leader never saw."""
    leader, follower = FakeLog(epochs=(1, 1, 1)), FakeLog(epochs=(1, 1, 2, 2))

    assert compare(leader, LogPoint(2, 4)) == RaftDivergence(LogPoint(1, 3))
    assert cut_at(follower, LogPoint(1, 3)) == 2


def test_an_empty_log_agrees_with_any() -> None:
    assert compare(FakeLog(epochs=(3, 3)), LogPoint(0, 0)) == Same()


def test_a_follower_beyond_the_end_of_the_leaders_log_diverges() -> None:
    assert compare(FakeLog(epochs=(1, 1)), LogPoint(1, 3)) == RaftDivergence(LogPoint(1, 2))


def with_snapshot(epochs: tuple[int, ...], end_offset: int) -> FakeLog:
    log = FakeLog(epochs=epochs)
    log.take_snapshot(end_offset)
    return log


@pytest.mark.parametrize(
    ("follower_end", "verdict"),
    [
        (LogPoint(0, 0), NeedsSnapshot(LogPoint(2, 3))),
        (LogPoint(1, 2), NeedsSnapshot(LogPoint(2, 3))),
        (LogPoint(2, 3), Same()),  # just where the snapshot ends
        (LogPoint(1, 3), NeedsSnapshot(LogPoint(2, 3))),  # there, but with another record before it
        (LogPoint(1, 5), NeedsSnapshot(LogPoint(2, 3))),  # beyond it, with an epoch that ended inside the snapshot
        (LogPoint(2, 5), RaftDivergence(LogPoint(2, 4))),
        (LogPoint(3, 5), Same()),
    ],
)
def test_below_its_snapshot_a_leader_cannot_tell(follower_end: LogPoint, verdict: object) -> None:
    """KIP-630."""
    assert compare(with_snapshot((1, 1, 2, 2, 3, 3), 3), follower_end) == verdict


def test_a_log_that_begins_later_must_have_a_snapshot() -> None:
    log = with_snapshot((1, 1), 1)
    log.snapshot = None

    with pytest.raises(AssertionError, match="without a snapshot"):
        compare(log, LogPoint(0, 0))


@st.composite
def two_logs(draw: st.DrawFn) -> tuple[list[int], list[int]]:
    """Two logs as Raft can make them: each epoch has one leader, which adds to some log there was."""
    of_epoch: list[list[int]] = [[]]
    for epoch in range(1, draw(st.integers(1, 6)) + 1):
        before = draw(st.sampled_from(of_epoch))
        kept = draw(st.integers(0, len(before)))
        of_epoch.append(before[:kept] + [epoch] * draw(st.integers(1, 3)))
    one, other = (draw(st.sampled_from(of_epoch)) for _ in range(2))
    return one[: draw(st.integers(0, len(one)))], other[: draw(st.integers(0, len(other)))]


@settings(max_examples=300, deadline=None)
@given(two_logs())
def test_whatever_two_logs_hold_they_end_up_agreeing_and_keep_what_they_share(
    logs: tuple[list[int], list[int]],
) -> None:
    leader, follower = FakeLog(epochs=logs[0]), FakeLog(epochs=logs[1])
    shared = len([*itertools.takewhile(lambda pair: pair[0] == pair[1], zip(*logs, strict=False))])

    agree(leader, follower)

    assert follower.epochs() == leader.epochs()[:shared]
