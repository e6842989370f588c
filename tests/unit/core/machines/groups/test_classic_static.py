"""Static members (KIP-345): a name of their own, and their place kept while they are away."""

from __future__ import annotations

from chronik.core.errors import Code
from chronik.core.machines.groups.answers import HeartbeatSeen, MemberIdRequired
from chronik.core.machines.groups.config import GroupConfig
from tests.unit.core.machines.groups.host import Host, beat, join, sync


def static_group(host: Host, *names: str) -> int:
    """A stable group of static members: 'i1' is member 'i1-a'."""
    for name in names:
        host.send(join("", new_member_id=f"{name}-a", instance_id=name))
        for other in names[: names.index(name)]:
            host.send(join(f"{other}-a", instance_id=other))
    generation = host.classic().generation
    assignments = tuple((f"{name}-a", name.encode()) for name in names)
    for name in reversed(names):
        is_leader = host.classic().leader == f"{name}-a"
        host.send(sync(f"{name}-a", generation, assignments if is_leader else (), name))
    assert str(host.classic().state) == "Stable"
    return generation


def test_a_static_member_needs_no_handshake() -> None:
    joined = Host().ask(join("", new_member_id="i-a", instance_id="i"))
    assert not isinstance(joined, MemberIdRequired)
    assert joined.member_id == "i-a"


def test_a_static_follower_comes_back_to_its_assignment_without_a_rebalance() -> None:
    host = Host()
    generation = static_group(host, "i1", "i2")
    back = host.ask(join("", new_member_id="i2-b", instance_id="i2"))
    assert (back.generation, back.leader, back.skip_assignment) == (generation, "i1-a", False)
    assert host.ask(beat("i1-a", generation, "i1")) == HeartbeatSeen()
    assert host.ask(sync("i2-b", generation, (), "i2")).assignment == b"i2"


def test_a_static_leader_comes_back_and_is_told_to_skip_the_assignment() -> None:
    host = Host()
    static_group(host, "i1", "i2")
    back = host.ask(join("", new_member_id="i1-b", instance_id="i1"))
    assert (back.leader, back.skip_assignment) == ("i1-b", True)
    assert [member.member_id for member in back.members] == ["i1-b", "i2-a"]


def test_an_older_static_leader_is_not_told_that_it_leads() -> None:
    host = Host()
    static_group(host, "i1", "i2")
    back = host.ask(join("", new_member_id="i1-b", instance_id="i1", may_skip_assignment=False))
    assert (back.leader, back.skip_assignment, back.members) == ("i1-a", False, ())


def test_the_return_of_a_static_member_survives_a_restart() -> None:
    host = Host()
    generation = static_group(host, "i1", "i2")
    host.ask(join("", new_member_id="i2-b", instance_id="i2"))
    host = host.restarted()
    assert host.ask(sync("i2-b", generation, (), "i2")).assignment == b"i2"
    assert host.ask(beat("i2-a", generation, "i2")) is Code.FENCED_INSTANCE_ID


def test_whoever_still_uses_the_old_id_is_fenced() -> None:
    host = Host()
    generation = static_group(host, "i1")
    host.ask(join("", new_member_id="i1-b", instance_id="i1"))
    assert host.ask(beat("i1-a", generation, "i1")) is Code.FENCED_INSTANCE_ID
    assert host.ask(sync("i1-a", generation, (), "i1")) is Code.FENCED_INSTANCE_ID
    assert host.ask(join("i1-a", instance_id="i1")) is Code.FENCED_INSTANCE_ID


def test_a_second_one_of_the_same_name_fences_the_first_that_still_waits() -> None:
    host = Host(GroupConfig(initial_rebalance_delay_ms=1_000))
    first = host.send(join("", new_member_id="i-a", instance_id="i"))
    second = host.send(join("", new_member_id="i-b", instance_id="i"))
    assert host.answer(first) is Code.FENCED_INSTANCE_ID
    host.wait(100_000)
    assert host.answer(second).leader == "i-b"


def test_a_static_member_that_returns_before_the_leader_has_assigned_starts_over() -> None:
    host = Host()
    static_group(host, "i1", "i2")
    host.send(join("i1-a", instance_id="i1"))
    host.send(join("i2-a", instance_id="i2"))
    waiting = host.send(sync("i2-a", host.classic().generation, (), "i2"))
    assert str(host.classic().state) == "CompletingRebalance"
    back = host.send(join("", new_member_id="i2-b", instance_id="i2"))
    assert host.answer(waiting) is Code.FENCED_INSTANCE_ID
    host.send(join("i1-a", instance_id="i1"))
    assert host.answer(back).member_id == "i2-b"


def test_a_static_member_with_another_protocol_starts_a_rebalance() -> None:
    host = Host()
    static_group(host, "i1")
    both = (("roundrobin", b"new"), ("range", b"sub"))
    back = host.ask(join("", new_member_id="i1-b", instance_id="i1", protocols=both))
    assert back.protocol == "roundrobin"
    assert str(host.classic().state) == "CompletingRebalance"


def test_static_members_that_do_not_rejoin_stay_until_their_session_ends() -> None:
    host = Host()
    host.send(join("", new_member_id="i1-a", instance_id="i1", session_timeout_ms=300_000))
    host.send(sync("i1-a", 1, (("i1-a", b"x"),), "i1"))
    ticket = host.joins("b")
    host.wait(60_000)
    assert host.answer(ticket).leader == "b"
    assert list(host.classic().members) == ["i1-a", "b"]
    host.wait(300_000)
    assert "i1-a" not in host.classic().members


def test_a_full_group_lets_its_static_member_back_in() -> None:
    host = Host(GroupConfig(initial_rebalance_delay_ms=0, max_size=1))
    generation = static_group(host, "i1")
    assert host.ask(join("", new_member_id="i1-b", instance_id="i1")).generation == generation
