"""Between the copies of a partition: each broken promise is found, and what is right is not."""

from __future__ import annotations

import pytest

from chronik.core.records.batch import BatchHeader, read_header
from chronik.core.records.payload import KeyValue, build
from chronik.sim.copies import Copies, CopySight
from chronik.sim.story import Violation, WorldStory

KEY = (bytes(16), 0)


@pytest.fixture
def copies() -> Copies:
    return Copies(WorldStory(lambda: 0.0))


def sight(
    end: int = 5,
    *,
    watermark: int = 0,
    durable_end_offset: int | None = None,
    epoch: int = 1,
    counted: tuple[int, ...] | None = None,
) -> CopySight:
    """A follower's copy, or a leader's where it is said who counts."""
    return CopySight(
        0,
        watermark,
        end if durable_end_offset is None else durable_end_offset,
        end,
        epoch,
        counted is not None,
        counted or (),
    )


def batch(value: bytes, base_offset: int = 0, leader_epoch: int = 1) -> BatchHeader:
    made = build([KeyValue(None, value)], 1, base_offset=base_offset)
    return read_header(made)._replace(leader_epoch=leader_epoch)


def test_a_leader_and_its_followers_in_good_order_are_left_alone(copies: Copies) -> None:
    copies.saw(1, "t-0", KEY, sight(5, watermark=3, counted=(1, 2)))
    copies.saw(2, "t-0", KEY, sight(4, watermark=2))
    copies.saw(1, "t-0", KEY, sight(5, watermark=4, counted=(1, 2)))

    assert copies.last_seen(KEY, 2) == sight(4, watermark=2)


def test_two_leaders_in_one_epoch_are_found(copies: Copies) -> None:
    copies.saw(1, "t-0", KEY, sight(epoch=3, counted=(1,)))

    with pytest.raises(Violation, match="led by node1 and by node2 in leader epoch 3"):
        copies.saw(2, "t-0", KEY, sight(epoch=3, counted=(2,)))


def test_an_unclean_election_may_lose_what_was_safe_and_not_make_two_leaders(copies: Copies) -> None:
    copies.saw(1, "t-0", KEY, sight(5, watermark=5, epoch=3, counted=(1, 2)), may_lose=True)
    copies.saw(2, "t-0", KEY, sight(2, watermark=2, epoch=4, counted=(2,)), may_lose=True)
    copies.saw(1, "t-0", KEY, sight(2, watermark=2, epoch=4), may_lose=True)

    with pytest.raises(Violation, match="led by node2 and by node3 in leader epoch 4"):
        copies.saw(3, "t-0", KEY, sight(epoch=4, counted=(3,)), may_lose=True)


def test_a_leader_that_was_left_behind_may_believe_in_its_epoch(copies: Copies) -> None:
    copies.saw(1, "t-0", KEY, sight(epoch=3, counted=(1,)))

    copies.saw(2, "t-0", KEY, sight(epoch=4, counted=(2,)))


def test_what_a_deposed_leader_counted_on_may_begin_anew(copies: Copies) -> None:
    """It is dead, or hears nothing: that a copy was damaged, and let go of by the next leader."""
    copies.saw(1, "t-0", KEY, sight(5, watermark=5, epoch=3, counted=(1, 2, 3)))
    copies.saw(2, "t-0", KEY, sight(5, watermark=5, epoch=4, counted=(2,)))

    copies.begins_anew(KEY, 3)
    copies.saw(3, "t-0", KEY, sight(0, epoch=4))

    with pytest.raises(Violation, match="which is in sync, has it safely to 0 only"):
        copies.saw(2, "t-0", KEY, sight(5, watermark=5, epoch=4, counted=(2, 3)))


def test_a_damaged_copy_that_was_let_go_is_not_in_sync_whatever_its_leader_has_heard(copies: Copies) -> None:
    copies.saw(1, "t-0", KEY, sight(5, watermark=5, counted=(1, 2)))
    copies.saw(2, "t-0", KEY, sight(5, watermark=5))

    copies.begins_anew(KEY, 2, is_let_go=True)
    copies.saw(2, "t-0", KEY, sight(0))
    copies.saw(2, "t-0", KEY, sight(5, watermark=5))  # it has caught up: from now on it counts

    copies.begins_anew(KEY, 2)
    with pytest.raises(Violation, match="which is in sync, has it safely to 0 only"):
        copies.saw(2, "t-0", KEY, sight(0))


def test_a_watermark_that_goes_back_in_one_life_is_found(copies: Copies) -> None:
    copies.saw(1, "t-0", KEY, sight(watermark=3))

    with pytest.raises(Violation, match="went back from 3 to 2"):
        copies.saw(1, "t-0", KEY, sight(watermark=2))


def test_the_next_process_may_know_less(copies: Copies) -> None:
    copies.saw(1, "t-0", KEY, sight(watermark=3))

    copies.process_ended(1)

    copies.saw(1, "t-0", KEY, sight(watermark=2))


@pytest.mark.parametrize("follower", [sight(2), sight(5, durable_end_offset=2)])
def test_a_watermark_beyond_what_an_in_sync_replica_has_safely_is_found(copies: Copies, follower: CopySight) -> None:
    copies.saw(2, "t-0", KEY, follower)

    with pytest.raises(Violation, match=r"watermark of t-0 is 3, and node2, .* has it safely to 2 only"):
        copies.saw(1, "t-0", KEY, sight(5, watermark=3, counted=(1, 2)))


def test_an_in_sync_replica_that_cuts_off_what_is_safe_is_found(copies: Copies) -> None:
    copies.saw(2, "t-0", KEY, sight(5))
    copies.saw(1, "t-0", KEY, sight(5, watermark=3, counted=(1, 2)))

    with pytest.raises(Violation, match="node2, which is in sync"):
        copies.saw(2, "t-0", KEY, sight(1))


def test_a_replica_that_does_not_count_may_lag(copies: Copies) -> None:
    copies.saw(2, "t-0", KEY, sight(1))

    copies.saw(1, "t-0", KEY, sight(5, watermark=5, counted=(1,)))


def test_a_watermark_beyond_the_log_is_found(copies: Copies) -> None:
    with pytest.raises(Violation, match="ends at 5"):
        copies.saw(1, "t-0", KEY, sight(5, watermark=6))


def test_a_safe_batch_that_is_another_elsewhere_is_found(copies: Copies) -> None:
    copies.safe_batch(1, "t-0", KEY, batch(b"a"))
    copies.safe_batch(2, "t-0", KEY, batch(b"a"))

    with pytest.raises(Violation, match="node3: t-0 has a batch of leader epoch 2"):
        copies.safe_batch(3, "t-0", KEY, batch(b"b", leader_epoch=2))


def test_a_safe_batch_across_two_others_is_found(copies: Copies) -> None:
    copies.safe_batch(1, "t-0", KEY, batch(b"a", 0)._replace(last_offset_delta=1))

    with pytest.raises(Violation, match="where another batch is safe"):
        copies.safe_batch(2, "t-0", KEY, batch(b"a", 1))


def test_different_batches_of_one_leader_epoch_are_found_before_they_are_safe(copies: Copies) -> None:
    copies.batch(1, "t-0", KEY, batch(b"a"))
    copies.batch(2, "t-0", KEY, batch(b"b", leader_epoch=2))  # another leader's: one of the two will be cut off

    with pytest.raises(Violation, match="node1 and node2 have different batches of leader epoch 1"):
        copies.batch(2, "t-0", KEY, batch(b"b"))


def test_a_copy_that_went_with_its_disk_is_excused_until_it_has_caught_up(copies: Copies) -> None:
    copies.saw(1, "t-0", KEY, sight(1, watermark=1, counted=(1, 2)))
    copies.safe_batch(1, "t-0", KEY, batch(b"a"))
    copies.saw(2, "t-0", KEY, sight(1))
    copies.lost_disk(2)
    copies.process_ended(2)

    copies.saw(2, "t-0", KEY, sight(0))
    copies.saw(2, "t-0", KEY, sight(1))
    with pytest.raises(Violation, match="node2, which is in sync"):
        copies.saw(2, "t-0", KEY, sight(0))


def test_a_copy_whose_batches_are_not_followed_is_excused_too(copies: Copies) -> None:
    copies.saw(1, "t-0", KEY, sight(1, watermark=1, counted=(1, 2)))
    copies.saw(2, "t-0", KEY, sight(1))
    copies.lost_disk(2)
    copies.process_ended(2)

    copies.saw(2, "t-0", KEY, sight(0))


def test_a_copy_that_begins_anew_may_know_less(copies: Copies) -> None:
    copies.saw(1, "t-0", KEY, sight(watermark=3))

    copies.begins_anew(KEY, 1)

    copies.saw(1, "t-0", KEY, sight(0))


def test_an_eligible_leader_that_has_all_that_is_safe_is_left_alone(copies: Copies) -> None:
    copies.saw(1, "t-0", KEY, sight(5, watermark=4, counted=(1,)))
    copies.saw(2, "t-0", KEY, sight(4, watermark=2))

    copies.may_lead("t-0", KEY, (2, 3))  # of the third nothing is seen: it is down

    copies.saw(1, "t-0", KEY, sight(6, watermark=4, counted=(1,)))


def test_an_eligible_leader_that_lacks_what_is_safe_is_found(copies: Copies) -> None:
    copies.saw(1, "t-0", KEY, sight(5, watermark=4, counted=(1,)))
    copies.saw(2, "t-0", KEY, sight(5, watermark=2, durable_end_offset=3))

    with pytest.raises(Violation, match="node2 is an eligible leader of t-0 and has it safely to 3 only"):
        copies.may_lead("t-0", KEY, (2,))


def test_a_watermark_that_passes_an_eligible_leader_is_found(copies: Copies) -> None:
    copies.saw(1, "t-0", KEY, sight(5, watermark=4, counted=(1,)))
    copies.saw(2, "t-0", KEY, sight(4, watermark=2))
    copies.may_lead("t-0", KEY, (2,))

    with pytest.raises(Violation, match="where the watermark was 5"):
        copies.saw(1, "t-0", KEY, sight(5, watermark=5, counted=(1,)))


def test_an_eligible_leader_that_comes_back_with_less_is_found(copies: Copies) -> None:
    """An eligible leader that comes back with less is found also when nobody leads."""
    copies.saw(1, "t-0", KEY, sight(5, watermark=4, counted=(1,)))
    copies.may_lead("t-0", KEY, (1, 2))
    copies.process_ended(1)

    with pytest.raises(Violation, match="node2 is an eligible leader"):
        copies.saw(2, "t-0", KEY, sight(3))


def test_a_lost_disk_excuses_an_eligible_leader(copies: Copies) -> None:
    copies.saw(1, "t-0", KEY, sight(5, watermark=4, counted=(1,)))
    copies.saw(2, "t-0", KEY, sight(5, watermark=4))
    copies.may_lead("t-0", KEY, (2,))

    copies.lost_disk(2)
    copies.process_ended(2)

    copies.saw(2, "t-0", KEY, sight(0))
