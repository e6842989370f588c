"""Syncing, heartbeats, leaving and falling silent in a classic group."""

from __future__ import annotations

from dataclasses import replace

from chronik.core.errors import Code
from chronik.core.machines.groups.answers import HeartbeatSeen, Left, Synced
from chronik.core.machines.groups.config import GroupConfig
from tests.unit.core.machines.groups.host import Host, beat, commit, join, leave, sync


def test_members_wait_for_the_leader_and_get_what_it_brought() -> None:
    host = Host(GroupConfig(initial_rebalance_delay_ms=10))
    host.joins("a")
    host.joins("b")
    host.wait(10_000)
    waiting = host.send(sync("b", 1))
    assert host.answer(waiting) is None
    assert host.ask(sync("a", 1, (("a", b"1"), ("b", b"2")))) == Synced("consumer", "range", b"1")
    assert host.answer(waiting) == Synced("consumer", "range", b"2")


def test_a_member_the_leader_forgot_gets_an_empty_assignment() -> None:
    host = Host()
    host.joins("a")
    assert host.ask(sync("a", 1)).assignment == b""


def test_a_sync_to_a_stable_group_repeats_the_assignment() -> None:
    host = Host()
    generation = host.stable_group("a", "b")
    assert host.ask(sync("b", generation)).assignment == b"b"


def test_a_sync_must_fit_generation_member_and_protocol() -> None:
    host = Host()
    generation = host.stable_group("a")
    assert host.ask(sync("a", generation - 1)) is Code.ILLEGAL_GENERATION
    assert host.ask(sync("x", generation)) is Code.UNKNOWN_MEMBER_ID
    assert host.ask(replace(sync("a", generation), protocol="other")) is Code.INCONSISTENT_GROUP_PROTOCOL
    assert host.ask(replace(sync("a", generation), protocol_type="connect")) is Code.INCONSISTENT_GROUP_PROTOCOL
    assert host.ask(replace(sync("a", generation), group_id="none")) is Code.UNKNOWN_MEMBER_ID


def test_a_sync_during_a_new_rebalance_is_sent_back() -> None:
    host = Host()
    generation = host.stable_group("a")
    host.joins("b")
    assert host.ask(sync("a", generation)) is Code.REBALANCE_IN_PROGRESS


def test_a_member_that_never_syncs_is_out_after_the_rebalance_timeout() -> None:
    host = Host()
    host.joins("a", session_timeout_ms=200_000)
    host.joins("b", session_timeout_ms=200_000)
    host.send(join("a", session_timeout_ms=200_000))
    generation = host.classic().generation
    host.send(sync("a", generation, (("a", b"1"), ("b", b"2"))))
    host.wait(60_000)
    assert list(host.classic().members) == ["a"]
    assert host.ask(beat("a", generation)) is Code.REBALANCE_IN_PROGRESS


def test_heartbeats_keep_a_member_and_silence_loses_it() -> None:
    host = Host()
    generation = host.stable_group("a")
    for _ in range(10):
        host.wait(9_999)
        assert host.ask(beat("a", generation)) == HeartbeatSeen()
    host.wait(10_000)
    assert host.classic().members == {}
    assert str(host.classic().state) == "Empty"
    assert host.ask(beat("a", generation)) is Code.UNKNOWN_MEMBER_ID


def test_a_commit_counts_as_a_heartbeat() -> None:
    host = Host()
    generation = host.stable_group("a")
    host.wait(9_999)
    host.ask(commit(member_id="a", generation=generation))
    host.wait(9_999)
    assert host.ask(beat("a", generation)) == HeartbeatSeen()


def test_a_heartbeat_of_another_generation_is_illegal() -> None:
    host = Host()
    generation = host.stable_group("a")
    assert host.ask(beat("a", generation + 1)) is Code.ILLEGAL_GENERATION
    assert host.ask(beat("b", generation)) is Code.UNKNOWN_MEMBER_ID


def test_members_that_wait_for_us_do_not_expire() -> None:
    host = Host()
    host.stable_group("a", "b", session_timeout_ms=10_000, rebalance_timeout_ms=60_000)
    ticket = host.send(join("a", protocols=(("range", b"new"),)))
    host.wait(9_000)
    host.send(beat("b", host.classic().generation))
    host.wait(9_000)
    assert host.answer(ticket) is None
    assert "a" in host.classic().members
    host.wait(10_000)
    assert host.answer(ticket).generation == host.classic().generation  # b fell silent: a goes on alone


def test_the_lost_leader_s_place_goes_to_the_next_member() -> None:
    host = Host()
    host.stable_group("a", "b")
    assert host.ask(leave(("a", None))) == Left((Code.NONE,))
    assert host.ask(join("b")).leader == "b"


def test_a_leaving_member_does_not_leave_its_sync_open() -> None:
    host = Host()
    host.joins("a")
    host.joins("b")
    host.send(join("a"))
    waiting = host.send(sync("b", host.classic().generation))
    host.ask(leave(("b", None)))
    assert host.answer(waiting) is Code.UNKNOWN_MEMBER_ID


def test_several_leave_in_one_rebalance_each_with_its_own_code() -> None:
    host = Host()
    generation = host.stable_group("a", "b", "c")
    answer = host.ask(leave(("a", None), ("x", None), ("b", None), ("", None)))
    assert answer == Left((Code.NONE, Code.UNKNOWN_MEMBER_ID, Code.NONE, Code.UNKNOWN_MEMBER_ID))
    assert list(host.classic().members) == ["c"]
    assert host.ask(beat("c", generation)) is Code.REBALANCE_IN_PROGRESS


def test_the_last_to_leave_leaves_an_empty_group_of_a_new_generation() -> None:
    host = Host()
    generation = host.stable_group("a")
    host.ask(leave(("a", None)))
    assert (str(host.classic().state), host.classic().generation) == ("Empty", generation + 1)


def test_one_who_was_only_given_an_id_can_leave() -> None:
    host = Host()
    host.ask(join("", new_member_id="a"))
    assert host.ask(leave(("a", None))) == Left((Code.NONE,))
    assert host.classic().pending_joins == ()


def test_an_administrator_removes_a_static_member_by_its_name() -> None:
    host = Host()
    host.joins("a", instance_id="i")
    assert host.ask(leave(("", "i"))) == Left((Code.NONE,))
    assert host.classic().members == {}


def test_a_fenced_static_member_cannot_take_its_successor_out() -> None:
    host = Host()
    host.joins("a", instance_id="i")
    assert host.ask(leave(("old", "i"))) == Left((Code.FENCED_INSTANCE_ID,))


def test_members_read_back_from_the_log_have_one_session_to_show_themselves() -> None:
    host = Host()
    generation = host.stable_group("a", "b")
    host.wait(9_000)
    host = host.restarted()
    host.wait(9_000)
    assert host.ask(beat("a", generation)) == HeartbeatSeen()
    host.wait(1_000)
    assert list(host.classic().members) == ["a"]


def test_a_new_member_whose_time_is_up_in_the_moment_it_is_welcomed_stays() -> None:
    """The rebalance ends, for want of the other one, just when the newcomer has waited for as long as he may."""
    host = Host()
    generation = host.stable_group("a", rebalance_timeout_ms=300_000)
    ticket = host.joins("c", rebalance_timeout_ms=host.config.new_member_join_timeout_ms)
    end_ms = host.now_ms + host.config.new_member_join_timeout_ms
    while host.now_ms < end_ms:
        host.ask(beat("a", generation))
        host.wait(5_000)

    assert host.answer(ticket).generation == generation + 1
    assert list(host.classic().members) == ["c"]
    assert str(host.classic().state) == "CompletingRebalance"
