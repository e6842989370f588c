"""The machine as a whole: its shape, its log, and storms of members."""

from __future__ import annotations

from typing import cast, get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chronik.core.machines.groups.commands import AnyGroupCommand, DeleteGroup, GroupCommand, OffsetToCommit, TopicShape
from chronik.core.machines.groups.config import GroupConfig
from chronik.core.machines.groups.machine import GroupsMachine
from chronik.core.machines.groups.timers import TimerKey, TimerKind
from chronik.core.machines.machine import LogRecord
from tests.unit.core.machines.groups.host import NOW_MS, Host, commit, consumer_beat, fetch, join, leave, topic_id
from tests.unit.core.machines.groups.storms import (
    CarefulHost,
    ClassicClient,
    ConsumerClient,
    check_no_partition_twice,
    latest,
    state_of,
)

# Who acts, and how. Waiting is in there often enough for sessions and rebalances to run out.
MOVES = st.lists(
    st.tuples(
        st.integers(0, 3), st.sampled_from(["act"] * 6 + ["leave", "restart", "wait", "sleep", "grow", "commit"])
    ),
    max_size=60,
)


def test_every_group_command_is_one_that_the_machine_decides() -> None:
    """The coordinator hands any GroupCommand to the machine, whose union of commands mypy holds complete."""
    declared = {command.__name__ for command in GroupCommand.__subclasses__()}
    assert declared == {command.__name__ for command in get_args(AnyGroupCommand)}


def test_what_is_no_command_is_a_bug() -> None:
    with pytest.raises(AssertionError):
        GroupsMachine(0, GroupConfig()).decide(1, cast("AnyGroupCommand", object()), 0)


def test_a_machine_just_read_back_wants_to_be_woken_at_once() -> None:
    """A machine just read back wants to be woken at once and then only for old offsets."""
    machine = GroupsMachine(0, GroupConfig())
    assert machine.next_deadline_ms() == 0
    for fact in machine.expire(NOW_MS).facts:
        machine.apply(fact)
    assert machine.next_deadline_ms() == NOW_MS + machine.config.offsets_retention_check_interval_ms


def test_a_group_with_an_empty_name_stops_no_timer_of_the_machine() -> None:
    """Kafka takes commits for it. What is read back still gets its sessions, and old offsets are still looked for."""
    host = Host()
    host.stable_group("a")
    host.ask(commit(OffsetToCommit("orders", 0, 1), group_id=""))
    again = host.restarted()
    retention = TimerKey(TimerKind.RETENTION)
    assert {key.kind for key in again.machine.timers.deadlines()} == {TimerKind.RETENTION, TimerKind.SESSION}

    again.wait(again.config.offsets_retention_check_interval_ms)
    assert again.machine.timers.deadlines()[retention] > again.now_ms

    again.ask(DeleteGroup(""))
    assert "" not in again.machine.groups
    assert retention in again.machine.timers


def test_records_of_an_unknown_kind_are_passed_over() -> None:
    machine = GroupsMachine(0, GroupConfig())
    before = state_of(machine)
    machine.replay(LogRecord(b"\x00\x63???", b"!"))
    assert state_of(machine) == before


def test_tombstones_of_groups_that_are_gone_make_no_group() -> None:
    host = Host()
    host.ask(consumer_beat("a", 0))
    tombstones = [record._replace(value=None) for record in host.log]
    machine = GroupsMachine(0, GroupConfig())
    for record in tombstones:
        machine.replay(record)
    assert machine.groups == {}


def test_a_group_without_members_or_offsets_is_forgotten_in_time() -> None:
    host = Host()
    host.ask(join("", new_member_id="never-back"))
    host.wait(20_000)
    assert list(host.machine.groups) == ["g"]
    host.wait(host.config.offsets_retention_check_interval_ms)
    assert host.machine.groups == {}


def test_the_log_may_be_compacted_at_any_time() -> None:
    host = Host()
    host.ask(commit(OffsetToCommit("orders", 0, 42)))
    host.stable_group("x", "y")
    host.ask(leave(("x", None), ("y", None)))
    for member_id in ("a", "b"):
        host.ask(consumer_beat(member_id, 0))
    host.ask(consumer_beat("a", -1))
    compacted = Host(host.config, latest(host.log), host.now_ms)
    assert vars(compacted.consumer()) == vars(host.consumer())
    assert compacted.ask(fetch()) == host.ask(fetch())


@settings(max_examples=150, deadline=None)
@given(MOVES, st.booleans(), st.sampled_from([0, 3_000]))
def test_a_storm_over_a_classic_group_never_gives_a_partition_twice(
    moves: list[tuple[int, str]], static: bool, delay_ms: int
) -> None:
    host = CarefulHost(GroupConfig(initial_rebalance_delay_ms=delay_ms))
    clients = [ClassicClient(f"c{i}", host, f"i{i}" if static else None) for i in range(4)]
    for number, move in moves:
        client = clients[number]
        match move:
            case "wait":
                host.wait(2_000)
            case "sleep":
                host.wait(11_000)
            case "commit":
                offset = OffsetToCommit("orders", number, len(host.log))
                host.send(commit(offset, member_id=client.member_id, generation=client.generation))
            case "leave":
                client.leave()
            case "restart":
                client.restart()
            case _:
                client.act()
        owned = [(c.owned[0], number) for c in clients if c.owned is not None for number in c.owned[1]]
        assert len(owned) == len(set(owned)), "one partition twice in one generation"
        host.check_log()


@settings(max_examples=150, deadline=None)
@given(MOVES, st.booleans())
def test_a_storm_over_a_consumer_group_never_gives_a_partition_twice(
    moves: list[tuple[int, str]], static: bool
) -> None:
    host = CarefulHost()
    clients = [ConsumerClient(f"c{i}", host, f"i{i}" if static else None) for i in range(4)]
    for number, move in moves:
        client = clients[number]
        match move:
            case "wait":
                host.wait(2_000)
            case "sleep":
                host.wait(30_000)
            case "grow":
                shape = TopicShape(topic_id(1), client.topics["orders"].partition_count + 1)
                for other in clients:
                    other.topics["orders"] = shape
            case "commit":
                host.send(commit(OffsetToCommit("orders", 0, 1), member_id=client.member_id, generation=client.epoch))
            case "leave":
                client.leave()
            case "restart":
                client.restart()
            case _:
                client.act()
        check_no_partition_twice(host)
        host.check_log()


@settings(max_examples=50, deadline=None)
@given(MOVES, st.booleans())
def test_after_a_storm_a_consumer_group_settles_and_every_partition_has_an_owner(
    moves: list[tuple[int, str]], static: bool
) -> None:
    host = Host()
    clients = [ConsumerClient(f"c{i}", host, f"i{i}" if static else None) for i in range(4)]
    for number, move in moves:
        {"leave": clients[number].leave, "restart": clients[number].restart}.get(move, clients[number].act)()
    host.wait(45_000)
    for _ in range(8):
        for client in clients:
            client.act()
    group = host.consumer()
    assert group.state == "Stable"
    assert len(group.owners) == 6
    assert sorted(len(current.assigned) for current in group.currents.values()) == [1, 1, 2, 2]


@settings(max_examples=50, deadline=None)
@given(MOVES, st.booleans())
def test_after_a_storm_a_classic_group_settles_and_every_partition_has_an_owner(
    moves: list[tuple[int, str]], static: bool
) -> None:
    host = Host()
    clients = [ClassicClient(f"c{i}", host, f"i{i}" if static else None) for i in range(4)]
    for number, move in moves:
        {"leave": clients[number].leave, "restart": clients[number].restart}.get(move, clients[number].act)()
    for _ in range(40):
        host.wait(3_000)
        for client in clients:
            client.act()
    assert str(host.classic().state) == "Stable"
    assert len(host.classic().members) == 4
    assert sorted(number for client in clients if client.owned for number in client.owned[1]) == list(range(6))
