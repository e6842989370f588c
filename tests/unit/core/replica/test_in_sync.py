"""Who counts for the watermark, who leaves the set and who joins it (KIP-497, KIP-841)."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from chronik.core.replica.in_sync import UNKNOWN, FollowerProgress, InSyncSet

HERE, SECOND, THIRD = 1, 2, 3
ALL = (HERE, SECOND, THIRD)
ABLE = dict.fromkeys(ALL, 4)
LAG_MS = 1000


def in_sync_of(*members: int, now_ms: int = 0) -> InSyncSet:
    return InSyncSet(HERE, ALL, members, partition_epoch=7, now_ms=now_ms)


def due(
    kept: InSyncSet, *, end: int = 10, watermark: int = 5, epoch_start: int = 0, now_ms: int = 0
) -> tuple[int, ...] | None:
    return kept.change_due(end, watermark, epoch_start, now_ms, LAG_MS, ABLE)


def durable_everywhere(kept: InSyncSet, own_durable_end: int) -> int:
    """Up to where all that counts has it, this node included; -1 while one of them has not been heard of."""
    return min(own_durable_end, kept.others_durable_end)


# --- what counts


def test_nothing_is_safe_while_a_member_has_not_been_heard_of() -> None:
    kept = in_sync_of(*ALL)
    kept.fetched(SECOND, 8, 10, 0)

    assert durable_everywhere(kept, 10) == UNKNOWN


def test_safe_is_what_the_slowest_member_has() -> None:
    kept = in_sync_of(*ALL)
    kept.fetched(SECOND, 8, 10, 0)
    kept.fetched(THIRD, 6, 10, 0)

    assert durable_everywhere(kept, 10) == 6
    assert durable_everywhere(kept, 4) == 4


def test_alone_the_leader_decides() -> None:
    assert durable_everywhere(in_sync_of(HERE), 10) == 10


def test_alone_in_sync_the_leader_tells_where_records_begin_whatever_the_others_have() -> None:
    kept = in_sync_of(HERE)

    assert kept.low_watermark(4) == 4


def test_records_begin_where_the_slowest_member_still_has_them() -> None:
    kept = in_sync_of(HERE, SECOND)
    kept.followers[SECOND].log_start = 2

    assert kept.low_watermark(4) == 2


def test_a_replica_outside_the_set_does_not_hold_it_back() -> None:
    kept = in_sync_of(HERE, SECOND)
    kept.fetched(SECOND, 9, 10, 0)
    kept.fetched(THIRD, 2, 10, 0)

    assert durable_everywhere(kept, 10) == 9


def test_who_is_being_added_counts_already_and_who_is_being_dropped_counts_still() -> None:
    kept = in_sync_of(HERE, SECOND)
    kept.fetched(SECOND, 9, 10, 0)
    kept.fetched(THIRD, 6, 10, 0)

    kept.asked((HERE, SECOND, THIRD))
    assert durable_everywhere(kept, 10) == 6
    kept.refused()
    assert durable_everywhere(kept, 10) == 9

    kept.asked((HERE,))
    assert durable_everywhere(kept, 10) == 9


def test_a_fetch_from_further_back_says_that_something_was_lost() -> None:
    follower = FollowerProgress()
    follower.fetched(8, 10, 0)
    follower.fetched(3, 10, 1)

    assert follower.durable_end_offset == 3


def test_a_fetch_sent_before_a_restart_says_nothing_of_what_there_is_after_it() -> None:
    kept = in_sync_of(HERE, SECOND)
    kept.fetched(SECOND, 3, 10, 0, broker_epoch=8)
    kept.fetched(SECOND, 9, 10, 1, broker_epoch=7)

    assert durable_everywhere(kept, 10) == 3


def test_under_load_the_watermark_waits_for_who_is_about_to_join() -> None:
    """Else he would always be one fetch behind it, and never get in (as in Kafka)."""
    kept = in_sync_of(HERE, SECOND)
    kept.fetched(SECOND, 10, 10, 0)
    kept.fetched(THIRD, 10, 10, 0)
    kept.fetched(SECOND, 20, 20, 1)

    assert durable_everywhere(kept, 20) == 10
    assert due(kept, end=20, watermark=10, now_ms=1) == (HERE, SECOND, THIRD)


def test_the_watermark_waits_for_nobody_who_may_not_join_or_fell_behind() -> None:
    for able, now_ms in (({HERE: 4, SECOND: 4}, 0), (ABLE, LAG_MS + 1)):
        kept = in_sync_of(HERE, SECOND)
        kept.fetched(SECOND, 10, 10, 0)
        kept.fetched(THIRD, 10, 10, 0)
        kept.fetched(SECOND, 20, 20, now_ms)

        kept.change_due(20, 10, 11, now_ms, LAG_MS, able)

        assert durable_everywhere(kept, 20) == 20


# --- who leaves


def test_a_member_that_does_not_keep_up_for_too_long_is_to_leave() -> None:
    kept = in_sync_of(*ALL)
    kept.fetched(SECOND, 10, 10, 0)
    kept.fetched(THIRD, 9, 10, 0)

    assert due(kept, now_ms=LAG_MS) is None
    assert due(kept, now_ms=LAG_MS + 1) == (HERE, SECOND)


def test_a_new_leader_gives_everyone_the_whole_time() -> None:
    kept = in_sync_of(*ALL, now_ms=5000)

    assert due(kept, now_ms=5000 + LAG_MS) is None
    assert due(kept, now_ms=5001 + LAG_MS) == (HERE,)


def test_who_has_everything_is_not_behind_however_long_ago_he_asked() -> None:
    kept = in_sync_of(*ALL)
    for follower in (SECOND, THIRD):
        kept.fetched(follower, 10, 10, 0)

    assert due(kept, now_ms=100 * LAG_MS) is None


def test_under_steady_load_a_member_one_fetch_behind_stays() -> None:
    kept = in_sync_of(HERE, SECOND)
    for turn in range(100):  # it always has what there was at its last fetch, never what there is
        kept.fetched(SECOND, turn * 10, (turn + 1) * 10, turn * 500)

    assert due(kept, end=1010, watermark=990, now_ms=99 * 500) is None


def test_the_leader_never_drops_itself() -> None:
    kept = in_sync_of(HERE)
    assert due(kept, now_ms=10**9) is None


# --- who joins


def test_who_has_all_that_is_safe_is_to_join() -> None:
    kept = in_sync_of(HERE, SECOND)
    kept.fetched(SECOND, 10, 10, 0)
    kept.fetched(THIRD, 4, 10, 0)
    assert due(kept, watermark=5) is None

    kept.fetched(THIRD, 5, 10, 0)
    assert due(kept, watermark=5) == (HERE, SECOND, THIRD)


def test_it_must_also_have_all_that_the_leader_began_with() -> None:
    """The watermark a new leader knows may lag: what it was elected with must not be lost with the joiner."""
    kept = in_sync_of(HERE, SECOND)
    kept.fetched(SECOND, 10, 10, 0)
    kept.fetched(THIRD, 6, 10, 0)

    assert due(kept, watermark=5, epoch_start=7) is None
    assert due(kept, watermark=5, epoch_start=6) == (HERE, SECOND, THIRD)


def test_it_must_have_heard_what_was_deleted() -> None:
    """If it led, that would be there again."""
    kept = in_sync_of(HERE, SECOND)
    kept.fetched(SECOND, 10, 10, 0)
    kept.fetched(THIRD, 10, 10, 0)
    kept.followers[THIRD].log_start = 3

    assert kept.change_due(10, 5, 0, 0, LAG_MS, ABLE, own_start=4) is None
    assert not kept.may_change(THIRD, 5, 0, own_start=4)

    kept.followers[THIRD].log_start = 4
    assert kept.may_change(THIRD, 5, 0, own_start=4)
    assert kept.change_due(10, 5, 0, 0, LAG_MS, ABLE, own_start=4) == (HERE, SECOND, THIRD)


def test_a_node_that_is_fenced_or_shutting_down_does_not_join() -> None:
    kept = in_sync_of(HERE, SECOND)
    kept.fetched(SECOND, 10, 10, 0)
    kept.fetched(THIRD, 10, 10, 0)

    assert kept.change_due(10, 5, 0, 0, LAG_MS, {HERE: 4, SECOND: 4}) is None


def test_who_registered_anew_since_his_fetch_does_not_join() -> None:
    kept = in_sync_of(HERE, SECOND)
    kept.fetched(SECOND, 10, 10, 0)
    kept.fetched(THIRD, 10, 10, 0, broker_epoch=3)

    assert due(kept) is None
    kept.fetched(THIRD, 10, 10, 0, broker_epoch=4)
    assert due(kept) == (HERE, SECOND, THIRD)


def test_a_member_that_lost_what_is_safe_leaves_at_once() -> None:
    kept = in_sync_of(HERE, SECOND)
    kept.fetched(SECOND, 10, 10, 0)
    assert not kept.may_change(SECOND, 10, 0)

    kept.fetched(SECOND, 4, 10, 1)

    assert kept.may_change(SECOND, 5, 0)
    assert due(kept, watermark=5, now_ms=1) == (HERE,)


def test_a_partition_that_was_idle_for_long_begins_to_lag_when_it_is_written_to() -> None:
    kept = in_sync_of(HERE, SECOND)
    kept.fetched(SECOND, 10, 10, 0)
    assert due(kept, now_ms=100 * LAG_MS) is None  # asked now and then, whether or not it was fetched from

    assert due(kept, end=11, now_ms=101 * LAG_MS) is None
    assert due(kept, end=11, now_ms=101 * LAG_MS + 1) == (HERE,)


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
def test_whatever_happens_safe_never_passes_a_member(
    events: list[tuple[int, int, str]],
) -> None:
    """Whatever happens safe never passes a member of the set the controller may know."""
    kept = in_sync_of(HERE, SECOND)
    epoch = 7
    for now_ms, (node, offset, what) in enumerate(events):
        match what:
            case "fetch":
                kept.fetched(node, offset, 30, now_ms)
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
        safe = durable_everywhere(kept, 30)
        assert all(safe <= kept.followers[member].durable_end_offset for member in may_be_known)
