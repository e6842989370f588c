"""What an administrator asked for has to be so in the end."""

from __future__ import annotations

from chronik.core.types import TopicPartition
from chronik.sim.orders import OrderedSetting, Orders
from chronik.sim.story import WorldStory

NAME = TopicPartition("topic", 0)


def orders() -> Orders:
    return Orders(WorldStory(lambda: 0.0))


def test_what_nobody_moved_may_be_anywhere() -> None:
    assert orders().problem_with(NAME, (1, 2), is_moving=True) is None


def test_a_move_must_end() -> None:
    made = orders()
    made.moves(NAME, (2, 3))

    assert made.problem_with(NAME, (2, 3, 1), is_moving=True) == "topic-0 is still being moved"
    assert made.problem_with(NAME, (1, 2), is_moving=False) is None, "its answer may be lost, and the order too"


def test_the_replicas_are_those_of_the_last_order_once_nothing_is_on_its_way() -> None:
    made = orders()
    made.moves(NAME, (2, 3))
    made.settled(NAME, (2, 3))

    assert made.problem_with(NAME, (2, 3), is_moving=False) is None
    assert (
        made.problem_with(NAME, (3, 2), is_moving=False) == "topic-0 has the replicas (3, 2), and was moved to (2, 3)"
    )


def test_a_setting_may_have_any_value_that_was_ordered_until_one_is_known_to_hold() -> None:
    made, setting = orders(), OrderedSetting(2, "topic", "retention.ms")
    made.sets(setting, "5")
    made.sets(setting, "7")
    assert made.settings[setting] == {None, "5", "7"}

    made.holds(setting, "7")
    assert made.settings[setting] == {"7"}
