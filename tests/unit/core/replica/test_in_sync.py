"""Who counts for the watermark, who leaves the set and who joins it (KIP-497, KIP-841)."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from chronik.core.replica.in_sync import UNKNOWN, FollowerProgress, InSyncSet

HERE, SECOND, THIRD = 1, 2, 3
ALL = (HERE, SECOND, THIRD)
ABLE = frozenset(ALL)
LAG_MS = 1000


def in_sync_of(*members: int, now_ms: int = 0) -> InSyncSet:
    return InSyncSet(HERE, ALL, members, partition_epoch=7, now_ms=now_ms)


def due(
    kept: InSyncSet, *, end: int = 10, watermark: int = 5, epoch_start: int = 0, now_ms: int = 0
) -> tuple[int, ...] | None:
    return kept.change_due(end, watermark, epoch_start, now_ms, LAG_MS, ABLE)


# --- what counts


def test_nothing_is_safe_while_a_member_has_not_been_heard_of() -> None:
    kept = in_sync_of(*ALL)
    kept.followers[SECOND].fetched(8, 10, 0)

    assert kept.safe_end(10) == UNKNOWN


def test_safe_is_what_the_slowest_member_has() -> None:
    kept = in_sync_of(*ALL)
    kept.followers[SECOND].fetched(8, 10, 0)
    kept.followers[THIRD].fetched(6, 10, 0)

    assert kept.safe_end(10) == 6
    assert kept.safe_end(4) == 4


def test_alone_the_leader_decides() -> None:
    assert in_sync_of(HERE).safe_end(10) == 10


def test_a_replica_outside_the_set_does_not_hold_it_back() -> None:
    kept = in_sync_of(HERE, SECOND)
    kept.followers[SECOND].fetched(9, 10, 0)
    kept.followers[THIRD].fetched(2, 10, 0)

    assert kept.safe_end(10) == 9


def test_who_is_being_added_counts_already_and_who_is_being_dropped_counts_still() -> None:
    kept = in_sync_of(HERE, SECOND)
    kept.followers[SECOND].fetched(9, 10, 0)
    kept.followers[THIRD].fetched(6, 10, 0)

    kept.asked((HERE, SECOND, THIRD))
    assert kept.safe_end(10) == 6
    kept.refused()
    assert kept.safe_end(10) == 9

    kept.asked((HERE,))
    assert kept.safe_end(10) == 9


def test_a_fetch_from_further_back_does_not_take_back_what_was_safe() -> None:
    follower = FollowerProgress()
    follower.fetched(8, 10, 0)
    follower.fetched(3, 10, 1)

    assert follower.safe_end == 8


# --- who leaves


def test_a_member_that_does_not_keep_up_for_too_long_is_to_leave() -> None:
    kept = in_sync_of(*ALL)
    kept.followers[SECOND].fetched(10, 10, 0)
    kept.followers[THIRD].fetched(9, 10, 0)

    assert due(kept, now_ms=LAG_MS) is None
    assert due(kept, now_ms=LAG_MS + 1) == (HERE, SECOND)


def test_a_new_leader_gives_everyone_the_whole_time() -> None:
    kept = in_sync_of(*ALL, now_ms=5000)

    assert due(kept, now_ms=5000 + LAG_MS) is None
    assert due(kept, now_ms=5001 + LAG_MS) == (HERE,)


def test_who_has_everything_is_not_behind_however_long_ago_he_asked() -> None:
    kept = in_sync_of(*ALL)
    for follower in kept.followers.values():
        follower.fetched(10, 10, 0)

    assert due(kept, now_ms=100 * LAG_MS) is None


def test_under_steady_load_a_member_one_fetch_behind_stays() -> None:
    kept = in_sync_of(HERE, SECOND)
    for turn in range(100):  # it always has what there was at its last fetch, never what there is
        kept.followers[SECOND].fetched(turn * 10, (turn + 1) * 10, turn * 500)

    assert due(kept, end=1010, watermark=990, now_ms=99 * 500) is None


def test_the_leader_never_drops_itself() -> None:
    kept = in_sync_of(HERE)
    assert due(kept, now_ms=10**9) is None


# --- who joins


def test_who_has_all_that_is_safe_is_to_join() -> None:
    kept = in_sync_of(HERE, SECOND)
    kept.followers[SECOND].fetched(10, 10, 0)
    kept.followers[THIRD].fetched(4, 10, 0)
    assert due(kept, watermark=5) is None

    kept.followers[THIRD].fetched(5, 10, 0)
    assert due(kept, watermark=5) == (HERE, SECOND, THIRD)


def test_it_must_also_have_all_that_the_leader_began_with() -> None:
    """The watermark a new leader knows may lag: what it was elected with must not be lost with the joiner."""
    kept = in_sync_of(HERE, SECOND)
    kept.followers[SECOND].fetched(10, 10, 0)
    kept.followers[THIRD].fetched(6, 10, 0)

    assert due(kept, watermark=5, epoch_start=7) is None
    assert due(kept, watermark=5, epoch_start=6) == (HERE, SECOND, THIRD)


def test_a_node_that_is_fenced_or_shutting_down_does_not_join() -> None:
    kept = in_sync_of(HERE, SECOND)
    kept.followers[SECOND].fetched(10, 10, 0)
    kept.followers[THIRD].fetched(10, 10, 0)

    assert kept.change_due(10, 5, 0, 0, LAG_MS, frozenset((HERE, SECOND))) is None


# --- asking the controller


def test_while_a_change_is_under_way_no_other_is_asked_for() -> None:
    kept = in_sync_of(*ALL)
    kept.asked((HERE, SECOND))

    assert due(kept, now_ms=100 * LAG_MS) is None


def test_what_the_controller_decides_counts_and_older_news_does_not() -> None:
    kept = in_sync_of(*ALL)
    kept.asked((HERE, SECOND))

    assert kept.decided((HERE, SECOND), partition_epoch=8)
    assert (kept.in_sync, kept.wanted) == ((HERE, SECOND), None)
    assert not kept.decided(ALL, partition_epoch=7)
    assert kept.in_sync == (HERE, SECOND)


# --- as a property


@given(
    st.lists(
        st.tuples(
            st.sampled_from((SECOND, THIRD)), st.integers(0, 30), st.sampled_from(("fetch", "ask", "grant", "refuse"))
        ),
        max_size=40,
    )
)
def test_whatever_happens_safe_never_passes_a_member_of_the_set_the_controller_may_know(
    events: list[tuple[int, int, str]],
) -> None:
    kept = in_sync_of(HERE, SECOND)
    epoch = 7
    for now_ms, (node, offset, what) in enumerate(events):
        match what:
            case "fetch":
                kept.followers[node].fetched(offset, 30, now_ms)
            case "ask":
                wanted = kept.change_due(30, 0, 0, now_ms, LAG_MS, ABLE)
                if wanted is not None:
                    kept.asked(wanted)
            case "grant" if kept.wanted is not None:
                epoch += 1
                kept.decided(kept.wanted, epoch)
            case "refuse":
                kept.refused()
        may_be_known = {*kept.in_sync, *(kept.wanted or ())} - {HERE}
        safe = kept.safe_end(30)
        assert all(safe <= kept.followers[member].safe_end for member in may_be_known)
