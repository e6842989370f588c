"""Dice that fall the same way for the same seed."""

from __future__ import annotations

import uuid

from chronik.sim.chance import SimChance


def test_the_same_seed_and_name_give_the_same_throws() -> None:
    first, second = SimChance(7, "wires"), SimChance(7, "wires")

    assert [first.below(1000) for _ in range(50)] == [second.below(1000) for _ in range(50)]


def test_one_part_of_the_world_does_not_change_the_dice_of_another() -> None:
    first, second = SimChance(7, "world"), SimChance(7, "world")

    first.below(10)

    assert first.other("disk").below(10**9) == second.other("disk").below(10**9)
    assert first.other("disk").below(10**9) != first.other("wires").below(10**9)


def test_a_uuid_looks_like_one() -> None:
    assert uuid.UUID(bytes=SimChance(1, "x").uuid()).version == 4
