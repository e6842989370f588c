"""Groups that pass from one protocol to the other while they have members."""

from __future__ import annotations

from typing import Any

import pytest

from chronik.core.errors import Code, Refused
from chronik.core.machines.groups.answers import ConsumerBeatSeen, Joined
from chronik.core.machines.groups.classic_group import ClassicGroup
from chronik.core.machines.groups.commands import OffsetToCommit
from chronik.core.machines.groups.config import GroupConfig
from chronik.core.machines.groups.consumer_group import ConsumerGroup, by_topic
from chronik.core.machines.groups.consumer_protocol import read_assignment
from chronik.core.machines.groups.facts import ClassicGroupForgotten, GroupEpochSet
from tests.unit.core.machines.groups.host import (
    GROUP,
    TOPICS,
    Host,
    assignment,
    beat,
    commit,
    consumer_beat,
    join,
    leave,
    subscription,
    sync,
)
from tests.unit.core.machines.groups.storms import latest

ORDERS = (("range", subscription("orders")),)
DEALT: dict[str, tuple[int, ...]] = {"a": (0, 1), "b": (2, 3)}


def orders(*numbers: int) -> bytes:
    return assignment(*(("orders", number) for number in numbers))


def classic_join(member_id: str, owned: tuple[int, ...] = (), **changes: Any) -> Any:
    mine = subscription("orders", owned=[("orders", number) for number in owned])
    return join(member_id, **{"protocols": (("range", mine),), "topics": TOPICS, "new_member_id": "new", **changes})


def classic_group(
    config: GroupConfig | None = None, given: dict[str, bytes] | None = None, instances: dict[str, str] | None = None
) -> Host:
    """A stable classic group of a and b that consume orders; a leads. At generation 2."""
    host = Host(config or GroupConfig(initial_rebalance_delay_ms=0))
    for member_id in ("a", "b"):
        host.joins(member_id, protocols=ORDERS, instance_id=(instances or {}).get(member_id))
    host.send(join("a", protocols=ORDERS, instance_id=(instances or {}).get("a")))
    assert host.classic().generation == 2
    dealt = given or {member_id: orders(*numbers) for member_id, numbers in DEALT.items()}
    host.send(sync("b", 2, instance_id=(instances or {}).get("b")))
    host.send(sync("a", 2, tuple(dealt.items()), instance_id=(instances or {}).get("a")))
    assert str(host.classic().state) == "Stable"
    return host


def rejoin(host: Host, member_id: str, owned: tuple[int, ...] = ()) -> tuple[int, list[int]]:
    """Join and sync: the generation and the partitions of orders."""
    joined = host.ask(classic_join(member_id, owned))
    assert isinstance(joined, Joined)
    synced = host.ask(sync(member_id, joined.generation))
    return joined.generation, sorted(number for _, number in read_assignment(synced.assignment).partitions)


# Upgrade


def test_the_first_member_of_the_consumer_protocol_makes_a_consumer_group() -> None:
    """The first member of the consumer protocol makes a consumer group of a classic one."""
    host = classic_group()
    seen = host.ask(consumer_beat("c", 0))
    assert seen == ConsumerBeatSeen("c", 3, 5_000, ())
    group = host.consumer()
    assert {id: member.classic is not None for id, member in group.subscribers.items()} == {
        "a": True,
        "b": True,
        "c": False,
    }
    assert by_topic(group.current("a").assigned) == ((TOPICS["orders"].topic_id, (0, 1)),)
    assert group.state == "Reconciling"


def test_the_records_of_the_old_group_and_of_the_new_one_are_one_batch() -> None:
    host = classic_group()
    host.send(consumer_beat("c", 0))
    assert host.facts[0] == ClassicGroupForgotten(GROUP)
    assert GroupEpochSet(GROUP, 2) in host.facts
    for log in (host.log, latest(host.log)):
        replayed = Host(host.config, log).machine.groups[GROUP]
        assert isinstance(replayed, ConsumerGroup)
        assert vars(replayed) == vars(host.consumer())


def test_what_waits_for_the_rebalance_of_a_classic_group() -> None:
    """Whoever waits for the rebalance of a classic group that is upgraded joins again."""
    host = classic_group()
    waiting = host.send(classic_join("b", protocols=(*ORDERS, ("sticky", ORDERS[0][1]))))
    assert host.answer(waiting) is None
    host.send(consumer_beat("c", 0))
    assert host.answer(waiting) is Code.REBALANCE_IN_PROGRESS
    assert rejoin(host, "b") == (3, [2])


def test_a_cooperative_member_keeps_what_it_holds_when_a_rebalance_was_given_up() -> None:
    """A cooperative member keeps what it holds when a rebalance was given up before the upgrade."""
    host = classic_group()
    host.send(classic_join("a", (0, 1)))  # the leader asks for a rebalance
    host.send(classic_join("b", (2, 3)))
    assert str(host.classic().state) == "CompletingRebalance"
    host.joins("d", protocols=ORDERS)  # and it begins again before anybody got anything
    assert str(host.classic().state) == "PreparingRebalance"
    host.send(consumer_beat("c", 0))
    assert len(host.consumer().owners) == 4
    assert host.ask(consumer_beat("c", host.consumer().current("c").epoch)).assignment is None


def test_a_group_is_upgraded_in_its_first_rebalance_too() -> None:
    host = Host(GroupConfig(initial_rebalance_delay_ms=3_000))
    waiting = host.joins("a", protocols=ORDERS)
    assert host.ask(consumer_beat("c", 0)).member_epoch == 1
    assert host.answer(waiting) is Code.REBALANCE_IN_PROGRESS
    assert rejoin(host, "a") == (1, [0, 2])


@pytest.mark.parametrize(
    ("config", "changes", "why"),
    [
        (GroupConfig(can_upgrade=False), {}, "online upgrade is disabled"),
        (GroupConfig(), {"protocol_type": "connect"}, "does not use the consumer embedded protocol"),
        (GroupConfig(), {"protocols": (("range", b"sub"),)}, "embedded consumer protocol is malformed"),
        (GroupConfig(consumer_max_size=0), {}, "exceeds the consumer group maximum size"),
    ],
)
def test_a_group_that_cannot_be_upgraded_says_why_and_stays(
    config: GroupConfig, changes: dict[str, Any], why: str
) -> None:
    host = Host(config)
    host.joins("a", **{"protocols": ORDERS, **changes})
    before = host.classic()
    ticket = host.send(consumer_beat("c", 0))
    refused = host.answers[ticket]
    assert isinstance(refused, Refused)
    assert refused.code is Code.GROUP_ID_NOT_FOUND
    assert why in (refused.message or "")
    assert host.classic() is before


@pytest.mark.parametrize(("assignor", "is_upgraded"), [("cooperative-sticky", True), ("ours", False)])
def test_user_data_in_an_assignment_matters_only_to_assignors(assignor: str, is_upgraded: bool) -> None:
    """User data in an assignment matters only to assignors that are not every client s."""
    host = Host()
    host.joins("a", protocols=((assignor, ORDERS[0][1]),))
    with_data = orders(0, 1)[:-4] + b"\x00\x00\x00\x01x"
    host.send(
        sync("a", 1, (("a", with_data),)).__class__(GROUP, "a", None, 1, "consumer", assignor, (("a", with_data),))
    )
    answer = host.ask(consumer_beat("c", 0))
    assert isinstance(answer, ConsumerBeatSeen) == is_upgraded
    assert is_upgraded or answer is Code.GROUP_ID_NOT_FOUND


def test_a_partition_that_a_leader_gave_twice_has_one_owner_after_the_upgrade() -> None:
    host = classic_group(given={"a": orders(0, 1), "b": orders(1, 2, 3)})
    host.send(consumer_beat("c", 0))
    assert len(host.consumer().owners) == 4


def test_offsets_outlive_the_upgrade_and_the_downgrade() -> None:
    host = classic_group()
    host.send(commit(OffsetToCommit("orders", 0, 7), member_id="a", generation=2))
    host.send(consumer_beat("c", 0))
    host.send(consumer_beat("c", -1))
    assert isinstance(host.machine.groups[GROUP], ClassicGroup)
    kept = host.restarted().machine.offsets.get(GROUP, "orders", 0)
    assert kept is not None
    assert kept.offset == 7


# Downgrade


def test_the_last_member_of_the_consumer_protocol_leaves() -> None:
    """The last member of the consumer protocol leaves and the rest are a classic group again."""
    host = classic_group()
    host.send(consumer_beat("c", 0))
    host.send(consumer_beat("c", -1))
    group = host.classic()
    assert (str(group.state), group.generation, sorted(group.members)) == ("PreparingRebalance", 3, ["a", "b"])
    assert host.ask(beat("a", 2)) is Code.ILLEGAL_GENERATION  # it had not come to the group's epoch yet
    first = host.send(classic_join("a"))
    second = host.send(classic_join("b"))
    assert host.answer(first).generation == host.answer(second).generation == 4


def test_a_member_at_the_epoch_of_the_group_is_told_to_rejoin_when_it_is_downgraded() -> None:
    host = classic_group()
    host.send(consumer_beat("c", 0))
    rejoin(host, "a", (0, 1))
    host.send(consumer_beat("c", -1))
    assert host.ask(beat("a", 3)) is Code.REBALANCE_IN_PROGRESS


def test_a_silent_member_of_the_consumer_protocol_is_given_up() -> None:
    """A silent member of the consumer protocol is given up and the group downgraded."""
    host = classic_group()
    host.send(consumer_beat("c", 0))
    for member_id in ("a", "b"):
        rejoin(host, member_id)
    for _ in range(9):
        host.wait(5_000)
        for member_id in ("a", "b"):
            host.send(beat(member_id, 3))
    assert sorted(host.classic().members) == ["a", "b"]
    # It comes back as if nothing had happened: it joins again, and the group is upgraded once more. Kafka's answer to a
    # member that knows its epoch, GROUP_ID_NOT_FOUND, would be the end of it.
    assert host.ask(consumer_beat("c", 3)) is Code.UNKNOWN_MEMBER_ID
    assert host.ask(consumer_beat("c", 0)).member_epoch == 4


def test_a_coordinator_that_takes_over_after_the_downgrade_makes_the_rebalance() -> None:
    """A coordinator that takes over after the downgrade makes the rebalance that was to come."""
    host = classic_group()
    host.send(consumer_beat("c", 0))
    rejoin(host, "a")
    rejoin(host, "b")
    host.send(consumer_beat("c", -1))
    other = host.restarted()
    assert other.ask(beat("a", 3)) is Code.REBALANCE_IN_PROGRESS
    first, second = other.send(classic_join("a")), other.send(classic_join("b"))
    assert {other.answer(first).generation, other.answer(second).generation} == {4}


def test_what_members_may_still_use_stays_theirs_through_a_downgrade() -> None:
    """What members may still use stays theirs through a downgrade and another upgrade. b is to give up partition 3, and
    has not. Its group is downgraded and upgraded before it hears of that."""
    host = classic_group()
    host.send(consumer_beat("c", 0))
    host.send(classic_join("b", (2, 3)))
    host.send(consumer_beat("c", -1))
    host.send(consumer_beat("d", 0))
    owners = {pair[1]: owner for pair, owner in host.consumer().owners.items()}
    assert owners == {0: "a", 1: "a", 2: "b", 3: "b"}


def test_a_group_whose_policy_forbids_it_is_not_downgraded() -> None:
    host = classic_group(GroupConfig(initial_rebalance_delay_ms=0, can_downgrade=False))
    host.send(consumer_beat("c", 0))
    host.send(consumer_beat("c", -1))
    assert sorted(host.consumer().subscribers) == ["a", "b"]
    assert rejoin(host, "a") == (4, [0, 1])


def test_a_group_too_large_for_the_classic_protocol_is_not_downgraded() -> None:
    host = classic_group()
    host.send(consumer_beat("c", 0))
    host.machine.config = GroupConfig(max_size=1)
    host.send(consumer_beat("c", -1))
    assert sorted(host.consumer().subscribers) == ["a", "b"]


def test_the_last_of_all_members_leaves_an_empty_consumer_group() -> None:
    host = Host()
    host.send(consumer_beat("c", 0))
    host.send(consumer_beat("c", -1))
    assert host.consumer().is_empty


# Static members


def test_a_static_member_of_the_classic_protocol_comes_back() -> None:
    """A static member of the classic protocol comes back with the consumer protocol."""
    host = classic_group(instances={"a": "ia", "b": "ib"})
    seen = host.ask(consumer_beat("a2", 0, instance_id="ia"))
    assert seen.assignment == ((TOPICS["orders"].topic_id, (0, 1)),)
    assert host.consumer().subscribers["a2"].classic is None
    assert host.ask(beat("a", 2, "ia")) is Code.FENCED_INSTANCE_ID


def test_a_static_member_of_the_consumer_protocol_comes_back_with_the_classic_one() -> None:
    host = Host()
    host.send(consumer_beat("a", 0, instance_id="ia"))
    host.send(consumer_beat("b", 0, instance_id="ib"))
    host.send(consumer_beat("a", 1, instance_id="ia"))
    host.send(consumer_beat("a", -2, instance_id="ia"))
    joined = host.ask(classic_join("", instance_id="ia", new_member_id="a2"))
    assert (joined.member_id, joined.leader) == ("a2", "")
    synced = host.ask(sync("a2", joined.generation, instance_id="ia"))
    assert {number for _, number in read_assignment(synced.assignment).partitions} == {0, 1}


def test_the_last_static_member_of_the_consumer_protocol_makes_a_classic_group() -> None:
    """The last static member of the consumer protocol makes a classic group when it comes back."""
    host = classic_group(instances={"a": "ia", "b": "ib"})
    host.send(consumer_beat("a2", 0, instance_id="ia"))
    host.send(consumer_beat("a2", -2, instance_id="ia"))
    waiting = host.send(classic_join("", instance_id="ia", new_member_id="a3"))
    assert sorted(host.classic().members) == ["a3", "b"]
    host.send(classic_join("b", instance_id="ib"))
    assert host.answer(waiting).generation == host.classic().generation


def test_members_leave_by_their_instance_ids() -> None:
    host = classic_group(instances={"a": "ia", "b": "ib"})
    host.send(consumer_beat("c", 0, instance_id="ic"))
    left = host.ask(leave(("", "ia"), ("", "nobody"), ("", "ic"), ("a", "ib"), ("a", "ia")))
    assert left.codes == (
        Code.NONE,
        Code.UNKNOWN_MEMBER_ID,
        Code.UNKNOWN_MEMBER_ID,
        Code.FENCED_INSTANCE_ID,
        Code.UNKNOWN_MEMBER_ID,
    )
    assert sorted(host.consumer().subscribers) == ["b", "c"]
