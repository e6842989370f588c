"""Groups seen from outside."""

from __future__ import annotations

from dataclasses import replace

from chronik.core.errors import Code
from chronik.core.machines.groups.answers import DescribedClassic, DescribedMember, ListedGroup, TopicIdPartitions
from chronik.core.machines.groups.commands import (
    DescribeConsumerGroup,
    DescribeGroup,
    OffsetToCommit,
)
from tests.unit.core.machines.groups.host import GROUP, Host, commit, consumer_beat, join, topic_id


def house() -> Host:
    """One group of each kind: a stable classic one, a consumer group, and offsets without members."""
    host = Host()
    host.stable_group("a")
    host.ask(replace(consumer_beat("m", 0, instance_id="i", assignor="range"), group_id="new"))
    host.ask(commit(OffsetToCommit("t", 0, 1), group_id="simple"))
    return host


def test_all_groups_are_listed_with_state_and_type() -> None:
    assert house().machine.list_groups() == [
        ListedGroup(GROUP, "consumer", "Stable", "classic"),
        ListedGroup("new", "consumer", "Stable", "consumer"),
        ListedGroup("simple", "", "Empty", "classic"),
    ]


def test_the_list_can_be_cut_to_states_and_types_whatever_their_case() -> None:
    machine = house().machine
    assert [group.group_id for group in machine.list_groups(states=("EMPTY",))] == ["simple"]
    assert [group.group_id for group in machine.list_groups(types=("Consumer",))] == ["new"]
    assert [group.group_id for group in machine.list_groups(("stable",), ("classic",))] == [GROUP]
    assert machine.list_groups(types=("share",)) == []


def test_a_stable_group_shows_its_members_metadata_and_assignment() -> None:
    described = house().ask(DescribeGroup(GROUP))
    member = DescribedMember("a", None, "client", "/127.0.0.1", b"sub", b"a")
    assert described == DescribedClassic(GROUP, "Stable", "consumer", "range", (member,))


def test_a_group_in_a_rebalance_shows_its_members_without_metadata() -> None:
    host = house()
    host.send(join("", new_member_id="b"))
    host.send(join("b"))
    described = host.ask(DescribeGroup(GROUP))
    assert (described.state, described.protocol) == ("PreparingRebalance", "")
    assert [(member.member_id, member.metadata, member.assignment) for member in described.members] == [
        ("a", b"", b""),
        ("b", b"", b""),
    ]


def test_a_consumer_group_shows_epochs_assignor_and_assignments() -> None:
    described = house().ask(DescribeConsumerGroup("new"))
    assert (described.state, described.group_epoch, described.assignment_epoch) == ("Stable", 1, 1)
    assert described.assignor == "range"
    (member,) = described.members
    assert (member.member_id, member.instance_id, member.member_epoch) == ("m", "i", 1)
    assert member.subscribed_topics == ("orders",)
    assert member.assignment == member.target == (TopicIdPartitions(topic_id(1), (0, 1, 2, 3)),)


def test_a_group_is_described_in_its_own_words_only() -> None:
    host = house()
    assert host.ask(DescribeGroup("new")) is Code.GROUP_ID_NOT_FOUND
    assert host.ask(DescribeConsumerGroup(GROUP)) is Code.GROUP_ID_NOT_FOUND
    assert host.ask(DescribeGroup("none")) is Code.GROUP_ID_NOT_FOUND
