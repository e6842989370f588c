"""Watermark stands still: who holds it, since when; and who does not."""

from __future__ import annotations

from collections.abc import Iterable

from chronik.trace.events import FollowerSeen, PartitionSeen
from chronik.trace.stalls.limits import Limits
from chronik.trace.stalls.watermark import find
from chronik.trace.verdicts import Cause, Verdict
from tests.unit.trace.stalls.told import at, follower, history, refused, seen, stored

SECONDS = range(11)


def found(events: Iterable[PartitionSeen], now: float = 10) -> list[Verdict]:
    return list(find(history(*events, now=now), Limits()))


def stuck(
    *followers: FollowerSeen, in_sync: tuple[int, ...] = (1, 2, 3), durable_end_offset: int = 200, in_sync_min: int = 1
) -> list[PartitionSeen]:
    return [
        seen(
            second,
            100,
            200,
            followers=followers,
            in_sync=in_sync,
            durable_end_offset=durable_end_offset,
            in_sync_min=in_sync_min,
        )
        for second in SECONDS
    ]


def test_the_follower_that_has_nothing_above_it_holds_it() -> None:
    (verdict,) = found(stuck(follower(2, 200), follower(3, 100, lag=100, silent_ms=9_000)))

    assert verdict.cause is Cause.WATERMARK_STANDS_STILL
    assert (verdict.topic, verdict.partition, verdict.node) == ("orders", 0, 3)
    assert verdict.since_us == at(0)
    assert "follower 3 has nothing above it" in verdict.summary
    assert "hides 100 records above 100" in verdict.summary
    assert any("follower 3 (in sync) has everything below 100, 100 records behind" in line for line in verdict.evidence)
    assert any("last fetch 9.0 s ago" in line for line in verdict.evidence)


def test_two_followers_are_both_named() -> None:
    (verdict,) = found(stuck(follower(2, 90, lag=110), follower(3, 100, lag=100)))
    assert "followers 2 and 3 have nothing above it" in verdict.summary


def test_a_follower_that_is_not_in_sync_holds_nothing() -> None:
    (verdict,) = found(stuck(follower(2, 150, lag=50), follower(3, 0, lag=200, is_in_sync=False), in_sync=(1, 2)))
    assert verdict.node == 3, "nothing else is left to hold it: it may have been about to join"


def test_a_leader_whose_own_log_is_not_synced_holds_it() -> None:
    (verdict,) = found(stuck(follower(2, 100, lag=100), follower(3, 100, lag=100), durable_end_offset=100))
    assert verdict.node == 1
    assert "does not get its own log to disk" in verdict.summary


def test_when_everyone_has_more_it_is_the_leader_that_is_wrong() -> None:
    (verdict,) = found(stuck(follower(2, 200), follower(3, 200)))
    assert verdict.node == 1
    assert "everyone in sync has more" in verdict.summary


def test_too_few_in_sync_hold_it() -> None:
    away = follower(2, 50, lag=150, is_in_sync=False)
    (verdict,) = found(stuck(away, in_sync=(1,), in_sync_min=2))
    assert "only 1 in sync, 2 wanted" in verdict.summary
    assert verdict.node == 2


def test_a_follower_that_was_never_heard_of_is_told_so() -> None:
    (verdict,) = found(stuck(follower(2, 200), follower(3, -1, lag=200, silent_ms=-1)))
    assert any("follower 3 (in sync) has not been heard of" in line for line in verdict.evidence)


def test_one_that_moves_is_none_however_far_behind_it_is() -> None:
    assert found(seen(second, 100 + second, 10_000) for second in SECONDS) == []


def test_one_that_moved_a_moment_ago_is_none() -> None:
    assert found([seen(0, 99, 200), *(seen(second, 100, 200) for second in range(6, 11))]) == []


def test_one_with_nothing_behind_it_is_none() -> None:
    assert found(seen(second, 100, 100) for second in SECONDS) == []


def test_one_with_something_behind_it_only_lately_is_none() -> None:
    assert found(seen(second, 100, 100 if second < 7 else 101) for second in SECONDS) == []


def test_one_that_was_seen_last_long_ago_is_none() -> None:
    assert found(stuck(follower(3, 100, lag=100)), now=16) == []


def test_one_that_was_seen_once_is_none() -> None:
    assert found([seen(10, 100, 200, followers=(follower(3, 100, lag=100),))]) == []


def test_who_still_takes_himself_for_the_leader_is_not_believed() -> None:
    old = [seen(second, 100, 200, followers=(follower(3, 100, lag=100),)) for second in SECONDS]
    new = [seen(second + 0.1, 200 + second, 200 + second, node=2, epoch=2) for second in range(3, 10)]
    assert found([*old, *new]) == []


def test_two_leaders_in_a_row_do_not_hide_that_it_stands() -> None:
    first = [seen(second, 100, 150) for second in range(4)]
    second_one = [seen(second, 100, 150, node=2, epoch=2) for second in range(4, 11)]
    (verdict,) = found([*first, *second_one])
    assert verdict.since_us == at(0)


# --- nothing is taken, so that there is nothing to hide


def test_producers_that_are_refused_for_want_of_replicas_are_told() -> None:
    """Producers that are refused for want of replicas are told with no gap to be seen."""
    events = [seen(second, 100, in_sync=(1,), in_sync_min=2) for second in SECONDS]
    refusals = [refused(second, 19) for second in range(3, 11)]

    (verdict,) = find(history(*events, *refusals, now=10), Limits())

    assert verdict.since_us == at(3)
    assert "takes nothing with acks=all" in verdict.summary
    assert any("ERROR_19 8 times" in line for line in verdict.evidence)


def test_refusals_that_are_over_are_none() -> None:
    events = [seen(second, 100, in_sync=(1,), in_sync_min=2) for second in SECONDS]
    refusals = [refused(second, 19) for second in range(7)]
    assert list(find(history(*events, *refusals, stored(8), now=10), Limits())) == []


def test_refusals_while_enough_are_in_sync_are_none_of_it() -> None:
    events = [seen(second, 100, in_sync_min=2) for second in SECONDS]
    refusals = [refused(second, 19) for second in range(3, 11)]
    assert list(find(history(*events, *refusals, now=10), Limits())) == []


def test_a_few_refusals_are_none() -> None:
    events = [seen(second, 100, in_sync=(1,), in_sync_min=2) for second in SECONDS]
    refusals = [refused(8, 19), refused(9, 19), refused(10, 19)]
    assert list(find(history(*events, *refusals, now=10), Limits())) == []
