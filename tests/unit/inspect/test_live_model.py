"""Snapshots go in; rows, rates, totals and sparklines come out."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from chronik.inspect.live_model import HISTORY_SAMPLES, ClusterSnapshot, RateHistory, Row, shown, sparkline
from chronik.trace.inspections import UnopenedSeen
from tests.unit.inspect.watched import copy, follower, group, led, snapshot, state


def only_row(*states: object, at_s: float = 0.0) -> Row:
    (row,) = RateHistory().take(snapshot(at_s, *states)).rows  # type: ignore[arg-type]
    return row


def test_a_partition_is_shown_as_its_leader_tells_it() -> None:
    row = only_row(state(1, [led(watermark=100, next_offset=130)]), state(2, copies=[copy()]))

    assert (row.name, row.leader, row.is_heard) == ("orders:0", 1, True)
    assert (row.watermark, row.next_offset, row.gap) == (100, 130, 30)
    assert (row.in_sync, row.out_of_sync) == ((1, 2, 3), ())


def test_of_two_that_claim_to_lead_the_later_election_is_right() -> None:
    old = state(1, [led(leader=1, epoch=5, watermark=7)])
    new = state(2, [led(leader=2, epoch=6, watermark=9)])

    assert only_row(old, new).leader == 2
    assert only_row(new, old).leader == 2


def test_what_a_leader_says_that_is_cut_off_is_marked_and_a_groups_lag_is_not_known() -> None:
    told = {"groups": [group("billing", [("orders", 0, 60)])]}
    cut_off = state(1, [led(watermark=100)], is_current=False, **told)  # type: ignore[arg-type]
    in_touch = state(1, [led(watermark=100)], **told)  # type: ignore[arg-type]
    silent = {2: "no answer", 3: "no answer"}

    unsure = RateHistory().take(snapshot(0.0, cut_off, silent=silent))
    sure = RateHistory().take(snapshot(0.0, in_touch, silent=silent))

    assert [(row.leader, row.is_heard, row.is_leader_unsure) for row in unsure.rows] == [(1, False, True)]
    assert [(row.leader, row.is_heard, row.is_leader_unsure) for row in sure.rows] == [(1, True, False)]
    assert unsure.totals.leaderless == 0
    assert (unsure.groups[0].lag, sure.groups[0].lag) == (None, 40)


def test_a_partition_whose_leader_is_silent_is_shown_from_the_best_copy() -> None:
    view = RateHistory().take(
        snapshot(
            0.0,
            state(2, copies=[copy(leader=1, next_offset=95)]),
            state(3, copies=[copy(leader=1, next_offset=97)]),
            silent={1: "it hung up"},
        )
    )

    (row,) = view.rows
    assert (row.leader, row.is_heard, row.next_offset, row.gap) == (1, False, 97, None)
    assert row.is_troubled
    assert view.totals.leaderless == 1
    assert (view.alive, view.silent) == ((2, 3), {1: "it hung up"})


def test_a_copy_that_cannot_be_read_has_no_offsets() -> None:
    row = only_row(state(2, copies=[copy(leader=-1, watermark=-1, next_offset=-1, offline="bad checksum")]))

    assert (row.leader, row.watermark, row.next_offset, row.offline) == (None, None, None, "bad checksum")


def test_a_partition_that_nobody_asked_for_yet_is_shown_without_offsets() -> None:
    closed = UnopenedSeen("orders", 0, 1, 5, (1, 2, 3), (1, 2))

    row = only_row(state(1, unopened=[closed]), state(2, copies=[copy(leader=1)]))

    assert (row.leader, row.is_heard, row.watermark, row.gap) == (1, True, None, None)
    assert (row.in_sync, row.out_of_sync) == ((1, 2), (3,))


def test_a_partition_that_nobody_leads_is_shown_even_if_nobody_has_a_copy() -> None:
    lost = UnopenedSeen("orders", 0, -1, 5, (3,), (3,))

    row = only_row(state(1, unopened=[lost]), state(2, unopened=[lost]))
    known = only_row(state(1, unopened=[lost]), state(2, copies=[copy(leader=-1, next_offset=95)]))

    assert (row.leader, row.is_heard, row.next_offset, row.is_troubled) == (None, False, None, True)
    assert (known.leader, known.next_offset) == (None, 95)


def test_the_log_of_the_metadata_is_told_of_by_its_leader_without_an_in_sync_set() -> None:
    row = only_row(
        state(1, copies=[copy("__cluster_metadata", leader=1, is_leader=True, watermark=90, next_offset=95)]),
        state(2, copies=[copy("__cluster_metadata", leader=1, watermark=90, next_offset=99)]),
    )

    assert (row.is_heard, row.next_offset, row.gap, row.out_of_sync) == (True, 95, 5, ())
    assert not row.is_troubled


def test_the_replica_that_is_not_in_sync_and_the_worst_lag_are_told() -> None:
    slow = [follower(2, lag_records=3, lag_ms=40), follower(3, lag_records=900, lag_ms=31_000, is_in_sync=False)]
    row = only_row(state(1, [led(in_sync=(1, 2), followers=slow)]))

    assert (row.replicas, row.out_of_sync) == ((1, 2, 3), (3,))
    assert (row.lag_records, row.lag_ms) == (900, 31_000)
    assert row.is_troubled


def test_a_follower_a_moment_behind_lags_but_is_no_trouble() -> None:
    row = only_row(state(1, [led(followers=[follower(2, lag_records=3, lag_ms=40), follower(3)])]))

    assert row.is_lagging
    assert not row.is_troubled


def test_a_follower_that_never_had_everything_is_trouble() -> None:
    row = only_row(state(1, [led(followers=[follower(2, lag_records=3, lag_ms=-1), follower(3)])]))

    assert row.lag_ms == -1
    assert row.is_troubled


def test_a_follower_that_was_not_heard_of_and_misses_nothing_does_not_lag() -> None:
    row = only_row(state(1, [led(followers=[follower(2, lag_records=0, lag_ms=-1), follower(3)])]))

    assert (row.lag_ms, row.is_lagging) == (0, False)


def test_a_partition_alone_lags_nothing() -> None:
    row = only_row(state(1, [led(in_sync=(1,))]))

    assert (row.lag_records, row.lag_ms, row.is_lagging) == (None, None, False)


def test_rates_need_two_snapshots_and_go_by_the_watchers_clock() -> None:
    history = RateHistory()

    first = history.take(snapshot(10.0, state(1, [led(watermark=100)])))
    second = history.take(snapshot(12.0, state(1, [led(watermark=300)])))

    assert (first.rows[0].in_per_s, first.totals.in_per_s) == (None, None)
    assert (second.rows[0].in_per_s, second.totals.in_per_s) == (100.0, 100.0)


def test_the_rate_is_the_mean_of_the_newest_samples() -> None:
    history = RateHistory()

    for at_s, end in enumerate((0, 1000, 1300, 1600, 1900)):
        view = history.take(snapshot(float(at_s), state(1, [led(watermark=end)])))

    assert view.rows[0].in_per_s == 300.0
    assert view.rows[0].trend.produced == (1000.0, 300.0, 300.0, 300.0)


def test_a_new_leader_that_knows_less_did_not_produce_backwards() -> None:
    history = RateHistory()

    history.take(snapshot(0.0, state(1, [led(watermark=100, next_offset=120)])))
    view = history.take(snapshot(1.0, state(2, [led(leader=2, epoch=6, watermark=100)])))

    assert view.rows[0].in_per_s == 0.0


def test_while_nobody_leads_nothing_is_added_to_the_history() -> None:
    history = RateHistory()

    history.take(snapshot(0.0, state(1, [led(watermark=100)])))
    silent = history.take(snapshot(1.0, state(2, copies=[copy(next_offset=90)])))
    back = history.take(snapshot(4.0, state(2, [led(leader=2, watermark=140)])))

    assert silent.rows[0].trend.produced == ()
    assert back.rows[0].trend.produced == (10.0,)


def test_what_consumers_take_is_what_their_groups_commit() -> None:
    history = RateHistory()

    history.take(snapshot(0.0, state(1, [led()], groups=[group("a", [("orders", 0, 10)])])))
    both = [group("a", [("orders", 0, 30)]), group("b", [("orders", 0, 1_000_000)])]
    view = history.take(snapshot(2.0, state(1, [led()], groups=both)))

    assert view.rows[0].out_per_s == 10.0  # b is new: what it took before is not known


def test_an_offset_set_back_is_nothing_taken() -> None:
    history = RateHistory()

    history.take(snapshot(0.0, state(1, [led()], groups=[group("a", [("orders", 0, 50)])])))
    view = history.take(snapshot(1.0, state(1, [led()], groups=[group("a", [("orders", 0, 0)])])))

    assert view.rows[0].out_per_s == 0.0


def test_where_it_is_traced_what_was_given_counts_and_not_the_commits() -> None:
    history = RateHistory()

    history.take(snapshot(0.0, state(1, [led()], groups=[group("a", [("orders", 0, 10)])])))
    traced = state(1, [led(is_traced=True)], groups=[group("a", [("orders", 0, 90)])])
    view = history.take(snapshot(1.0, traced, given={("orders", 0): 70}))

    assert view.rows[0].out_per_s == 70.0


def test_where_it_is_traced_and_nobody_reads_nothing_goes_out() -> None:
    history = RateHistory()

    history.take(snapshot(0.0, state(1, [led(is_traced=True)])))
    view = history.take(snapshot(1.0, state(1, [led(is_traced=True)])))

    assert view.rows[0].out_per_s == 0.0


def test_where_nobody_reads_nothing_is_known_of_the_way_out() -> None:
    history = RateHistory()

    history.take(snapshot(0.0, state(1, [led()])))

    assert history.take(snapshot(1.0, state(1, [led()]))).rows[0].out_per_s is None


def test_a_group_lags_by_what_it_has_not_committed_below_the_watermark() -> None:
    committed = [("orders", 0, 60), ("orders", 1, 100), ("gone", 0, 5)]
    partitions = [led(watermark=100, next_offset=120), led(partition=1, watermark=100)]

    view = RateHistory().take(snapshot(0.0, state(1, partitions, groups=[group("billing", committed, members=2)])))

    (seen,) = view.groups
    assert (seen.group, seen.members, seen.lag, seen.lags) == ("billing", 2, 40, (40,))


def test_a_groups_lag_is_not_known_where_a_leader_does_not_tell() -> None:
    committed = [("orders", 0, 60), ("orders", 1, 100)]
    told = state(1, [led(watermark=100)], groups=[group("billing", committed)])
    heard = snapshot(0.0, told)
    silent = ClusterSnapshot(0.0, heard.states, {2: "no answer"})

    assert RateHistory().take(heard).groups[0].lag == 40  # the other topic's partition is nowhere
    assert RateHistory().take(silent).groups[0].lag is None


def test_of_two_that_tell_of_a_group_the_later_generation_is_right() -> None:
    old, new = group("billing", [("orders", 0, 10)]), group("billing", [("orders", 0, 90)])
    states = state(1, [led(watermark=100)], groups=[replace(new, generation=9)]), state(2, groups=[old])

    (seen,) = RateHistory().take(snapshot(0.0, *states)).groups

    assert seen.lag == 10


@pytest.mark.parametrize("cut_off", [1, 2])
def test_a_group_is_as_a_coordinator_says_that_is_in_touch(cut_off: int) -> None:
    """Offsets that are committed from outside make no new generation."""
    stale, true = replace(group("billing", [("orders", 0, 10)]), node=cut_off), group("billing", [("orders", 0, 90)])
    other = 3 - cut_off
    told = {cut_off: stale, other: replace(true, node=other)}
    states = [
        state(node, [led(watermark=100)] if node == 1 else [], groups=[told[node]], is_current=node != cut_off)
        for node in (1, 2)
    ]

    (seen,) = RateHistory().take(snapshot(0.0, *states)).groups

    assert seen.committed == {("orders", 0): 90}


def test_a_group_that_only_a_node_tells_of_that_is_cut_off_has_no_lag() -> None:
    alone = state(2, groups=[replace(group("billing", [("orders", 0, 10)]), node=2)], is_current=False)

    (seen,) = RateHistory().take(snapshot(0.0, state(1, [led(watermark=100)]), alone)).groups

    assert seen.lag is None


def test_a_group_that_committed_nothing_has_no_lag() -> None:
    (seen,) = RateHistory().take(snapshot(0.0, state(1, [led()], groups=[group()]))).groups

    assert (seen.lag, seen.lags) == (None, ())


def test_totals_are_of_all_partitions() -> None:
    partitions = [
        led(partition=0, watermark=100, next_offset=107),
        led(partition=1, followers=[follower(2, lag_records=4), follower(3)]),
        led(partition=2, in_sync=(1, 2), followers=[follower(2), follower(3, is_in_sync=False)]),
    ]

    totals = RateHistory().take(snapshot(0.0, state(1, partitions))).totals

    assert (totals.partitions, totals.lagging, totals.under_replicated, totals.leaderless) == (3, 1, 1, 0)
    assert (totals.gap_largest, totals.gap_largest_at) == (7, "orders:0")


def test_without_a_gap_none_is_the_largest() -> None:
    totals = RateHistory().take(snapshot(0.0, state(1, [led()]))).totals

    assert (totals.gap_largest, totals.gap_largest_at) == (0, None)


def test_an_empty_cluster_is_empty() -> None:
    view = RateHistory().take(snapshot(0.0, state(1)))

    assert (view.rows, view.groups, view.totals.partitions, view.totals.in_per_s) == ((), (), 0, None)


def test_a_deleted_topic_is_forgotten() -> None:
    history = RateHistory()
    history.take(snapshot(0.0, state(1, [led(watermark=100)])))
    history.take(snapshot(1.0, state(1)))

    again = history.take(snapshot(2.0, state(1, [led(watermark=5000)])))

    assert again.rows[0].in_per_s is None


def test_histories_do_not_grow_for_ever() -> None:
    history = RateHistory()

    for at_s in range(HISTORY_SAMPLES + 20):
        view = history.take(snapshot(float(at_s), state(1, [led()], groups=[group("a", [("orders", 0, 1)])])))

    assert (
        len(view.rows[0].trend.produced) == len(view.rows[0].trend.gaps) == len(view.groups[0].lags) == HISTORY_SAMPLES
    )


def names(rows: object) -> list[str]:
    return [row.name for row in rows]  # type: ignore[attr-defined]


def test_a_filter_takes_rows_that_have_all_its_words_in_their_name() -> None:
    partitions = [led("orders", 0), led("orders", 1), led("payments", 1)]
    rows = RateHistory().take(snapshot(0.0, state(1, partitions))).rows

    assert names(shown(rows, words="ORD")) == ["orders:0", "orders:1"]
    assert names(shown(rows, words="ord :1")) == ["orders:1"]
    assert names(shown(rows, words="nothing")) == []


def test_internal_topics_are_hidden_until_asked_for_or_in_trouble() -> None:
    broken = led("__trouble", in_sync=(1,), followers=[follower(2, is_in_sync=False)])
    rows = RateHistory().take(snapshot(0.0, state(1, [led("orders"), led("__offsets"), broken]))).rows

    assert names(shown(rows)) == ["__trouble:0", "orders:0"]
    assert names(shown(rows, is_internal=True)) == ["__offsets:0", "__trouble:0", "orders:0"]
    assert names(shown(rows, words="offsets")) == ["__offsets:0"]
    assert names(shown(rows, is_troubled=True)) == ["__trouble:0"]


@pytest.mark.parametrize(
    ("samples", "width", "expected"),
    [
        ((), 3, "   "),
        ((0, 0), 3, " ▁▁"),
        ((0, 7, 3.5), 3, "▁▇▄"),
        ((1000, 1), 2, "▇▂"),  # a little is not nothing
        ((9, 9, 1, 1), 2, "▇▇"),  # only what is shown counts
        ((5,), 0, ""),
    ],
)
def test_a_sparkline_shows_the_newest_samples_in_proportion(
    samples: tuple[float, ...], width: int, expected: str
) -> None:
    assert sparkline(samples, width) == expected
