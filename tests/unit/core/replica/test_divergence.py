"""Two logs that part: what the leader says, where the follower cuts (KIP-101, KIP-279)."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from chronik.core.errors import Code, Refused
from chronik.core.log.epochs import Epochs, EpochStart
from chronik.core.log.log import Log
from chronik.core.replica.divergence import Diverging, cut_at, diverging


def log_of(end_offset: int, *entries: tuple[int, int], start_offset: int = 0) -> Log:
    epochs = Epochs([EpochStart(*entry) for entry in entries])
    return cast(Log, cast(Any, SimpleNamespace(start_offset=start_offset, end_offset=end_offset, epochs=epochs)))


# --- what the leader says


def test_a_follower_that_ends_within_the_leaders_epoch_does_not_diverge() -> None:
    leader = log_of(20, (0, 0), (3, 10))

    assert diverging(leader, 15, 3) is None
    assert diverging(leader, 20, 3) is None
    assert diverging(leader, 7, 0) is None
    assert diverging(leader, 0, -1) is None


def test_more_of_an_epoch_than_the_leader_has_of_it_diverges() -> None:
    assert diverging(log_of(20, (0, 0), (3, 10)), 12, 0) == Diverging(0, 10)
    assert diverging(log_of(20, (0, 0), (3, 10)), 25, 3) == Diverging(3, 20)


def test_an_epoch_that_the_leader_never_saw_diverges_at_the_one_before() -> None:
    """KIP-279: after two quick elections a follower may have batches of an epoch that lost."""
    assert diverging(log_of(20, (0, 0), (3, 10)), 14, 2) == Diverging(0, 10)


def test_below_the_leaders_start_is_out_of_range_even_when_the_epochs_differ() -> None:
    for epoch in (-1, 0, 2):
        with pytest.raises(Refused) as caught:
            diverging(log_of(20, (3, 10), start_offset=10), 9, epoch)
        assert caught.value.code == Code.OFFSET_OUT_OF_RANGE


def test_an_end_that_nobody_can_place_is_out_of_range() -> None:
    for offset, epoch in ((21, -1), (5, 4)):
        with pytest.raises(Refused) as caught:
            diverging(log_of(20, (0, 0), (3, 10)), offset, epoch)
        assert caught.value.code == Code.OFFSET_OUT_OF_RANGE


# --- where the follower cuts


def test_of_an_epoch_that_both_have_the_shorter_part_stays() -> None:
    assert cut_at(log_of(30, (0, 0), (2, 15)), Diverging(0, 10)) == 10
    assert cut_at(log_of(30, (0, 0), (2, 8)), Diverging(0, 10)) == 8
    assert cut_at(log_of(9, (0, 0)), Diverging(0, 10)) == 9


def test_an_epoch_that_the_follower_does_not_have_costs_it_all_later_ones() -> None:
    assert cut_at(log_of(30, (0, 0), (1, 5), (4, 12)), Diverging(3, 20)) == 12


def test_a_follower_without_any_such_epoch_goes_by_the_leaders_offset() -> None:
    assert cut_at(log_of(30), Diverging(1, 20)) == 20
