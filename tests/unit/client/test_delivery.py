"""The tally of what became of each produced message."""

from __future__ import annotations

import itertools
import random

from hypothesis import given
from hypothesis import strategies as st

from chronik.client.delivery import POSITIONS_SHOWN_MAX, OffsetRanges, Tally


def ranges_of(offsets: list[int]) -> OffsetRanges:
    ranges = OffsetRanges()
    for offset in offsets:
        ranges.add(offset)
    return ranges


def test_consecutive_offsets_are_one_range_and_a_gap_begins_another() -> None:
    assert ranges_of([0, 1, 2, 7, 8]).ranges == [[0, 3], [7, 9]]


def test_ranges_are_said_first_to_last_and_many_are_cut_short() -> None:
    assert str(ranges_of([0, 1, 2, 7])) == "0 to 2, 7"
    assert str(ranges_of([0, 2, 4, 6, 8])) == "0, 2, 4, and 2 more ranges"
    assert str(OffsetRanges()) == ""


@given(st.sets(st.integers(0, 60)), st.randoms(use_true_random=False))
def test_ranges_hold_exactly_the_offsets_added_in_whatever_order(offsets: set[int], dice: random.Random) -> None:
    order = sorted(offsets)
    dice.shuffle(order)

    ranges = ranges_of(order).ranges

    assert [offset for start, end in ranges for offset in range(start, end)] == sorted(offsets)
    assert all(earlier[1] < later[0] for earlier, later in itertools.pairwise(ranges))


def test_every_message_is_counted_once_with_its_partition_or_its_reason() -> None:
    tally = Tally()
    tally.sent = 4
    tally.took(1, 10)
    tally.took(1, 11)
    tally.took(0, None)
    tally.lost(3, "too large")

    assert (tally.acknowledged, tally.failed) == (3, 1)
    assert tally.as_json() == {
        "sent": 4,
        "acknowledged": 3,
        "not_acknowledged": 1,
        "partitions": [
            {"partition": 0, "acknowledged": 1, "offsets": []},
            {"partition": 1, "acknowledged": 2, "offsets": [{"start_offset": 10, "end_offset": 12}]},
        ],
        "failures": [{"reason": "too large", "messages": 1, "first": [3]}],
    }


def test_of_many_messages_lost_for_one_reason_only_the_first_are_listed() -> None:
    tally = Tally()
    for position in range(1000):
        tally.lost(position, "no leader")

    (failure,) = tally.failures.values()
    assert failure.messages == 1000
    assert failure.first_positions == list(range(POSITIONS_SHOWN_MAX))
