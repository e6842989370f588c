"""A member's way to its target: give up first, take then."""

from __future__ import annotations

from chronik.core.machines.groups.consumer_group import NONE, Current, MemberState, Partitions
from chronik.core.machines.groups.reconcile import reconcile, rejoined

STABLE, UNREVOKED, UNRELEASED = MemberState.STABLE, MemberState.UNREVOKED_PARTITIONS, MemberState.UNRELEASED_PARTITIONS


def some(*numbers: int) -> Partitions:
    return frozenset((b"t", number) for number in numbers)


def step(
    current: Current, epoch: int, target: Partitions, owned: Partitions | None, taken: Partitions = NONE
) -> Current:
    return reconcile(current, epoch, target, owned, lambda pair: pair not in taken)


def test_a_new_member_takes_what_is_free_at_once() -> None:
    assert step(Current(), 3, some(0, 1), NONE) == Current(3, 0, STABLE, some(0, 1))


def test_a_member_at_its_target_stays_as_it_is() -> None:
    current = Current(3, 2, STABLE, some(0))
    assert step(current, 3, some(0), None) is current


def test_it_keeps_its_epoch_until_it_has_given_up_what_it_must() -> None:
    asked = step(Current(3, 2, STABLE, some(0, 1)), 4, some(0, 2), None)
    assert asked == Current(3, 3, UNREVOKED, some(0), some(1))
    assert step(asked, 4, some(0, 2), None) is asked
    assert step(asked, 4, some(0, 2), some(0, 1)) is asked
    assert step(asked, 4, some(0, 2), some(0)) == Current(4, 3, STABLE, some(0, 2))


def test_what_it_says_it_no_longer_owns_need_not_be_asked_for() -> None:
    assert step(Current(3, 2, STABLE, some(0, 1)), 4, some(0), some(0)) == Current(4, 3, STABLE, some(0))


def test_who_joins_again_gives_up_what_it_had_when_it_is_heard_of_at_its_new_epoch() -> None:
    joined = rejoined(Current(3, 2, UNREVOKED, some(0, 1), some(2)), Current(5, 0, STABLE, some(0)))
    assert joined == Current(5, 0, UNREVOKED, some(0), some(1, 2))
    assert step(joined, 5, some(0), some(0, 1)) is joined
    assert step(joined, 5, some(0), None) == Current(5, 5, STABLE, some(0))
    assert step(joined, 5, some(0), some(0)) == Current(5, 5, STABLE, some(0))


def test_who_joins_again_and_keeps_what_it_had_need_not_wait() -> None:
    after = Current(5, 0, UNRELEASED, some(0, 1))
    assert rejoined(Current(4, 3, STABLE, some(0)), after) is after


def test_it_waits_for_what_others_have_not_released() -> None:
    waiting = step(Current(3, 2, STABLE, some(0)), 4, some(0, 1, 2), some(0), taken=some(1))
    assert waiting == Current(4, 3, UNRELEASED, some(0, 2))
    assert step(waiting, 4, some(0, 1, 2), some(0, 2), taken=some(1)) is waiting
    assert step(waiting, 4, some(0, 1, 2), some(0, 2)) == Current(4, 4, STABLE, some(0, 1, 2))


def test_one_that_waits_follows_a_newer_target() -> None:
    waiting = Current(4, 3, UNRELEASED, some(0))
    assert step(waiting, 5, some(0), some(0)) == Current(5, 4, STABLE, some(0))


def test_a_newer_target_may_take_more_before_it_gets_further() -> None:
    asked = Current(3, 3, UNREVOKED, some(0, 1), some(2))
    assert step(asked, 9, some(0), some(0, 1)) == Current(4, 3, UNREVOKED, some(0), some(1))
