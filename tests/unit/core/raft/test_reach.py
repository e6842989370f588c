"""How far requests take an epoch. What follows from it for a node is in test_believing."""

from __future__ import annotations

from chronik.core.raft.reach import EPOCH_MAX, EPOCHS_A_WINDOW, EpochReach


def test_a_window_begins_anew_when_it_is_over() -> None:
    reach = EpochReach(1000)

    assert reach.take(0, EPOCHS_A_WINDOW, 0)
    assert not reach.take(EPOCHS_A_WINDOW, EPOCHS_A_WINDOW + 1, 999)
    assert reach.take(EPOCHS_A_WINDOW, EPOCHS_A_WINDOW, 999)
    assert reach.take(EPOCHS_A_WINDOW, EPOCHS_A_WINDOW + 1, 1000)
    assert not reach.take(EPOCH_MAX, EPOCH_MAX + 1, 5000)


def test_on_the_way_to_an_epoch_out_of_reach_it_goes_as_far_as_it_may() -> None:
    reach = EpochReach(1000)

    assert reach.toward(5, 3, 0) == 5
    assert reach.toward(5, 7, 0) == 7
    assert reach.toward(7, 10**6, 0) == 5 + EPOCHS_A_WINDOW
    assert reach.toward(5 + EPOCHS_A_WINDOW, 10**6, 999) == 5 + EPOCHS_A_WINDOW
    assert reach.toward(5 + EPOCHS_A_WINDOW, 10**6, 1000) == 5 + 2 * EPOCHS_A_WINDOW
    assert reach.toward(EPOCH_MAX - 1, EPOCH_MAX + 5, 5000) == EPOCH_MAX
