"""Joining a classic group."""

from __future__ import annotations

import sys
from collections.abc import Callable
from statistics import median
from typing import TypeAlias

import pytest

from chronik.core.errors import Code
from chronik.core.machines.groups.answers import Joined, JoinedMember, MemberIdRequired
from chronik.core.machines.groups.classic_group import ClassicState
from chronik.core.machines.groups.classic_join import PENDING_MIN
from chronik.core.machines.groups.config import GroupConfig
from tests.unit.core.machines.groups.host import Host, beat, join, leave, sync

Protocols: TypeAlias = tuple[tuple[str, bytes], ...]


def test_a_new_member_is_given_an_id_first_and_joins_with_it() -> None:
    host = Host()
    assert host.ask(join("", new_member_id="a")) == MemberIdRequired("a")
    joined = host.ask(join("a"))
    assert joined == Joined("a", 1, "consumer", "range", "a", (JoinedMember("a", None, b"sub"),))


def test_an_old_client_is_let_in_without_the_handshake() -> None:
    joined = Host().ask(join("", new_member_id="a", needs_known_member_id=False))
    assert joined.member_id == "a"
    assert joined.generation == 1


def test_an_id_nobody_was_given_is_unknown() -> None:
    assert Host().ask(join("made-up")) is Code.UNKNOWN_MEMBER_ID


def test_a_group_waits_a_while_for_others_before_its_first_generation() -> None:
    host = Host(GroupConfig(initial_rebalance_delay_ms=3_000))
    first = host.joins("a")
    host.wait(2_999)
    assert host.answer(first) is None
    second = host.joins("b")
    host.wait(1)  # the delay is over, but somebody came in the meantime: it starts again
    assert host.answer(first) is None
    host.wait(3_000)
    assert host.answer(first).generation == 1
    assert {member.member_id for member in host.answer(first).members} == {"a", "b"}
    assert host.answer(second).members == ()
    assert host.answer(second).leader == "a"


def test_the_first_delay_does_not_go_on_for_longer_than_the_rebalance_timeout() -> None:
    host = Host(GroupConfig(initial_rebalance_delay_ms=3_000))
    first = host.joins("m0", rebalance_timeout_ms=7_000)
    for second in range(1, 10):
        host.wait(1_000)
        host.joins(f"m{second}", rebalance_timeout_ms=7_000)
        if host.answer(first) is not None:
            break
    assert host.answer(first) is not None
    assert second <= 10


def test_a_join_to_a_stable_group_waits_until_all_have_rejoined() -> None:
    host = Host()
    generation = host.stable_group("a")
    ticket = host.joins("b")
    assert host.answer(ticket) is None
    assert host.ask(beat("a", generation)) is Code.REBALANCE_IN_PROGRESS
    rejoined = host.ask(join("a"))
    assert rejoined.generation == host.answer(ticket).generation == generation + 1


def test_members_that_do_not_rejoin_in_time_are_out() -> None:
    host = Host()
    generation = host.stable_group("a", "b", session_timeout_ms=120_000)
    ticket = host.joins("c")
    host.send(join("b"))
    host.wait(60_000)
    assert host.answer(ticket).leader == "b"
    assert list(host.classic().members) == ["b", "c"]
    assert host.ask(beat("a", generation)) is Code.UNKNOWN_MEMBER_ID


def test_a_follower_that_rejoins_unchanged_gets_the_same_generation() -> None:
    """A follower that rejoins unchanged gets the same generation and the leader a new one."""
    host = Host()
    generation = host.stable_group("a", "b")
    assert host.ask(join("b")).generation == generation
    assert host.ask(join("a")) is None  # the leader asks for a rebalance: it waits for b
    assert host.ask(join("b")).generation == generation + 1


def test_a_follower_with_another_subscription_starts_a_rebalance() -> None:
    host = Host()
    generation = host.stable_group("a", "b")
    assert host.ask(join("b", protocols=(("range", b"other"),))) is None
    assert host.ask(beat("a", generation)) is Code.REBALANCE_IN_PROGRESS


def test_a_join_repeated_before_the_sync_gets_the_same_answer_again() -> None:
    host = Host()
    first = host.answer(host.joins("a"))
    assert host.ask(join("a")) == first


def test_a_join_repeated_while_parked_answers_the_first_one() -> None:
    host = Host()
    host.stable_group("a")
    host.send(join("", new_member_id="b"))
    parked = host.send(join("b"))
    again = host.send(join("b"))
    assert host.answer(parked) is Code.REBALANCE_IN_PROGRESS
    host.send(join("a"))
    assert host.answer(again).member_id == "b"


def test_the_protocol_with_most_votes_among_those_all_support_is_chosen() -> None:
    host = Host(GroupConfig(initial_rebalance_delay_ms=10))
    first = host.joins("a", protocols=(("x", b"1"), ("y", b"1"), ("z", b"1")))
    host.joins("b", protocols=(("z", b"2"), ("y", b"2")))
    host.joins("c", protocols=(("z", b"3"), ("y", b"3")))
    host.wait(100_000)
    assert host.answer(first).protocol == "z"
    assert [member.metadata for member in host.answer(first).members] == [b"1", b"2", b"3"]


def test_protocols_that_do_not_fit_are_refused() -> None:
    host = Host()
    assert host.ask(join("", protocols=())) is Code.INCONSISTENT_GROUP_PROTOCOL
    assert host.ask(join("", protocol_type="")) is Code.INCONSISTENT_GROUP_PROTOCOL
    host.stable_group("a")
    assert host.ask(join("", protocol_type="connect")) is Code.INCONSISTENT_GROUP_PROTOCOL
    assert host.ask(join("", protocols=(("roundrobin", b""),))) is Code.INCONSISTENT_GROUP_PROTOCOL


@pytest.mark.parametrize("protocols", [(("range", b"sub"),), (("roundrobin", b""),)])
def test_who_comes_when_the_last_one_has_left_has_nobody_to_agree_with(protocols: Protocols) -> None:
    host = Host()
    host.stable_group("a")
    host.send(join("", new_member_id="b"))
    host.ask(leave(("a", None)))
    assert host.classic().state is ClassicState.PREPARING_REBALANCE  # for the one that was given an id

    assert host.ask(join("b", protocol_type="connect", protocols=protocols)) is Code.INCONSISTENT_GROUP_PROTOCOL
    joined = host.ask(join("b", protocols=protocols))

    assert (joined.leader, joined.protocol) == ("b", protocols[0][0])


def test_any_protocol_type_is_welcome() -> None:
    host = Host()
    joined = host.answer(host.joins("a", protocol_type="sr", protocols=(("v0", b"\x00"),)))
    assert (joined.protocol_type, joined.protocol) == ("sr", "v0")


def test_session_timeouts_have_bounds() -> None:
    host = Host(GroupConfig(min_session_timeout_ms=100, max_session_timeout_ms=200))
    assert host.ask(join("", session_timeout_ms=99)) is Code.INVALID_SESSION_TIMEOUT
    assert host.ask(join("", session_timeout_ms=201)) is Code.INVALID_SESSION_TIMEOUT


def test_a_full_group_takes_nobody_in() -> None:
    host = Host(GroupConfig(initial_rebalance_delay_ms=0, max_size=2))
    generation = host.stable_group("a", "b")
    assert host.ask(join("", new_member_id="c")) is Code.GROUP_MAX_SIZE_REACHED
    assert host.ask(join("b")).generation == generation


def test_a_group_over_its_limit_after_a_restart_sheds_the_last_to_rejoin() -> None:
    host = Host()
    host.stable_group("a", "b")
    host.config = GroupConfig(initial_rebalance_delay_ms=0, max_size=1)
    host = host.restarted()
    assert str(host.classic().state) == "PreparingRebalance"
    assert host.ask(join("b")) is None
    assert host.ask(join("a")) is Code.GROUP_MAX_SIZE_REACHED
    assert list(host.classic().members) == ["b"]


def test_a_parked_new_member_that_never_comes_back_is_dropped_in_the_end() -> None:
    host = Host()
    generation = host.stable_group("a", session_timeout_ms=1_000_000, rebalance_timeout_ms=1_000_000)
    ticket = host.joins("b")
    assert host.ask(beat("a", generation)) is Code.REBALANCE_IN_PROGRESS
    host.wait(host.config.new_member_join_timeout_ms)
    assert host.answer(ticket) is Code.UNKNOWN_MEMBER_ID


def test_an_id_given_out_and_not_used_is_forgotten_and_holds_nobody_up() -> None:
    host = Host()
    host.stable_group("a")
    host.send(join("", new_member_id="ghost"))
    host.joins("b")
    ticket = host.send(join("a"))
    assert host.answer(ticket) is None  # the ghost may still come
    host.wait(10_000)
    assert host.answer(ticket).generation == 2
    assert host.ask(join("ghost")) is Code.UNKNOWN_MEMBER_ID


def test_a_generation_ends_when_a_join_comes_before_the_leader_has_synced() -> None:
    host = Host()
    host.joins("a")
    host.joins("b")
    host.send(join("a"))
    waiting = host.send(sync("b", host.classic().generation))
    host.joins("c")
    assert host.answer(waiting) is Code.REBALANCE_IN_PROGRESS


# --- many members


def calls_of(act: Callable[[], object]) -> int:
    """How many functions are called, one step of a generator included."""
    count = 0

    def noted(frame: object, event: str, argument: object) -> None:
        nonlocal count
        count += event == "call"

    sys.setprofile(noted)
    try:
        act()
    finally:
        sys.setprofile(None)
    return count


def test_a_join_costs_the_same_however_many_members_there_are() -> None:
    host = Host(GroupConfig(initial_rebalance_delay_ms=3_000))
    calls = [calls_of(lambda number=number: host.joins(f"m{number}")) for number in range(300)]  # type: ignore[misc]
    assert median(calls[250:]) <= median(calls[5:55])


def test_a_sync_costs_the_same_however_many_wait_for_the_leader() -> None:
    host = Host(GroupConfig(initial_rebalance_delay_ms=3_000))
    tickets = [host.joins(f"m{number}") for number in range(300)]
    host.wait(60_000)
    generation = host.answer(tickets[0]).generation
    calls = [calls_of(lambda number=number: host.send(sync(f"m{number}", generation))) for number in range(1, 300)]  # type: ignore[misc]
    assert median(calls[250:]) <= median(calls[5:55])


def test_ids_that_are_given_out_and_never_used_are_bounded() -> None:
    host = Host(GroupConfig(max_size=2))
    for number in range(PENDING_MIN):
        assert host.ask(join("", new_member_id=f"m{number}")) == MemberIdRequired(f"m{number}")
    assert host.ask(join("", new_member_id="one more")) is Code.GROUP_MAX_SIZE_REACHED
    assert host.ask(join("m0")) is None  # it waits for the group, and its id is used: there is room for another
    assert host.ask(join("", new_member_id="another")) == MemberIdRequired("another")
