"""Whose session has ended, as coordinators have it."""

from __future__ import annotations

import pytest

from chronik.core.machines.groups.config import GroupConfig
from chronik.core.machines.groups.consumer_group import Subscriber
from chronik.core.machines.groups.facts import SubscriberSet
from chronik.core.machines.groups.machine import GroupsMachine
from chronik.core.types import TopicPartition
from chronik.sim.holders import Holders
from chronik.sim.sessions import SimSessions
from chronik.sim.story import WorldStory

NAME = TopicPartition("topic", 0)


@pytest.fixture
def holders() -> Holders:
    made = Holders(WorldStory(lambda: 0.0))
    made.answered("group", "a", 1, 10)
    made.gained("group", "a", [NAME])
    return made


def machine(*members: str) -> GroupsMachine:
    made = GroupsMachine(0, GroupConfig())
    for member_id in members:
        made.apply(SubscriberSet("group", member_id, Subscriber()))
    return made


def test_a_member_that_its_coordinator_let_go_has_no_session(holders: Holders) -> None:
    sessions, coordinator = SimSessions(holders), machine("a", "b")
    sessions.look(1, [coordinator], 20)
    coordinator.apply(SubscriberSet("group", "a", None))

    sessions.look(1, [coordinator], 30)

    assert not holders.session("group", "a").is_alive
    assert holders.session("group", "b").ended_ms == -1


def test_a_member_that_stays_keeps_its_session(holders: Holders) -> None:
    sessions, coordinator = SimSessions(holders), machine("a", "b")
    sessions.look(1, [coordinator], 20)
    coordinator.apply(SubscriberSet("group", "b", None))

    sessions.look(1, [coordinator], 30)

    assert holders.session("group", "a").is_alive


def test_an_end_that_was_not_safe_may_be_in_the_log_of_a_later_coordinator(holders: Holders) -> None:
    sessions, first = SimSessions(holders), machine("a")
    sessions.look(1, [first], 20)
    first.apply(SubscriberSet("group", "a", None))
    first.apply(SubscriberSet("group", "b", Subscriber()))
    sessions.look(1, [first], 30)
    sessions.look(2, [machine("a")], 40)  # that one never heard of it, and goes on with the member
    holders.answered("group", "a", 1, 50)
    assert holders.session("group", "a").is_alive

    sessions.look(1, [machine("b")], 60)

    assert not holders.session("group", "a").is_alive


def test_a_coordinator_that_never_had_a_member_ended_nothing(holders: Holders) -> None:
    sessions = SimSessions(holders)
    sessions.look(1, [machine("a")], 20)

    sessions.look(2, [machine("b")], 30)  # another node
    sessions.look(1, [machine("b")], 30)  # the same, which has read its log anew

    assert holders.session("group", "a").is_alive
