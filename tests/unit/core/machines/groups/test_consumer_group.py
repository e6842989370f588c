"""A KIP-848 group's state and indexes."""

from __future__ import annotations

from chronik.core.machines.groups.answers import TopicIdPartitions
from chronik.core.machines.groups.consumer_group import (
    ConsumerGroup,
    Current,
    MemberState,
    Subscriber,
    by_topic,
    flat,
)

T, U = b"t" * 16, b"u" * 16


def test_partitions_by_topic_are_sorted_and_flatten_again() -> None:
    pairs = frozenset({(U, 1), (T, 10), (T, 2)})
    assert by_topic(pairs) == (TopicIdPartitions(T, (2, 10)), TopicIdPartitions(U, (1,)))
    assert flat(by_topic(pairs)) == pairs


def test_the_state_follows_the_epochs() -> None:
    group = ConsumerGroup("g")
    assert group.state == "Empty"
    group.set_subscriber("a", Subscriber(topics=("t",)))
    group.epoch = 1
    assert group.state == "Assigning"
    group.target_epoch = 1
    assert group.state == "Reconciling"
    group.set_current("a", Current(1, 0, MemberState.UNRELEASED_PARTITIONS))
    assert group.state == "Reconciling"
    group.set_current("a", Current(1, 0))
    assert group.state == "Stable"


def test_a_partition_has_an_owner_until_it_is_given_up() -> None:
    group = ConsumerGroup("g")
    group.set_current("a", Current(1, 0, MemberState.UNREVOKED_PARTITIONS, frozenset({(T, 0)}), frozenset({(T, 1)})))
    assert group.owners == {(T, 0): "a", (T, 1): "a"}
    group.set_current("a", Current(2, 1, MemberState.STABLE, frozenset({(T, 0)})))
    assert group.owners == {(T, 0): "a"}
    group.set_current("a", None)
    assert group.owners == {}


def test_subscriptions_are_counted_up_and_down() -> None:
    group = ConsumerGroup("g")
    group.set_subscriber("a", Subscriber(topics=("t", "u")))
    group.set_subscriber("b", Subscriber(topics=("t",), regex="x.*"))
    assert (group.names, group.regexes) == ({"t": 2, "u": 1}, {"x.*": 1})
    group.set_subscriber("b", Subscriber(topics=("u",)))
    assert (group.names, group.regexes) == ({"t": 1, "u": 2}, {})
    group.set_subscriber("a", None)
    assert group.names == {"u": 1}
    assert group.is_subscribed_to("u")
    assert not group.is_subscribed_to("t")


def test_the_assignor_most_members_ask_for_wins() -> None:
    group = ConsumerGroup("g")
    assert group.assignor("uniform") == "uniform"
    for member_id, assignor in (("a", "uniform"), ("b", "range"), ("c", "range"), ("d", None)):
        group.set_subscriber(member_id, Subscriber(assignor=assignor))
    assert group.assignor("uniform") == "range"
