"""Names and regular expressions that a group subscribes to."""

from __future__ import annotations

import pytest

from chronik.core.errors import Code, Refused
from chronik.core.machines.groups.commands import TopicShape
from chronik.core.machines.groups.consumer_group import ConsumerGroup, Subscriber
from chronik.core.machines.groups.subscriptions import (
    INTERNAL_TOPICS,
    applicants,
    check_regex,
    subscribed_topics,
    wants_after,
)
from chronik.core.machines.metadata import names

SHAPES = {
    name: TopicShape(name.encode().ljust(16)[:16], 1) for name in ("orders", "orders-eu", "bills", "__consumer_offsets")
}


def test_only_topics_that_exist_count() -> None:
    assert list(subscribed_topics(["bills", "missing"], [], SHAPES)) == ["bills"]


def test_a_regex_means_whole_names_and_never_our_own_topics() -> None:
    assert list(subscribed_topics([], ["orders.*"], SHAPES)) == ["orders", "orders-eu"]
    assert list(subscribed_topics([], ["order"], SHAPES)) == []
    assert list(subscribed_topics([], [".*"], SHAPES)) == ["bills", "orders", "orders-eu"]
    assert list(subscribed_topics(["__consumer_offsets"], [], SHAPES)) == ["__consumer_offsets"]


def test_no_topic_that_the_metadata_calls_internal_is_meant_by_a_regex() -> None:
    """The machines do not know each other, so each has its own list."""
    assert set(names.INTERNAL_TOPICS) <= set(INTERNAL_TOPICS)
    shapes = {name: TopicShape(bytes(16), 1) for name in names.INTERNAL_TOPICS}
    assert subscribed_topics([], [".*"], shapes) == {}


def test_a_regex_sees_topics_that_appear_later() -> None:
    more = {**SHAPES, "orders-us": TopicShape(b"x" * 16, 1)}
    assert "orders-us" not in subscribed_topics([], ["orders.*"], SHAPES)
    assert "orders-us" in subscribed_topics([], ["orders.*"], more)


def test_a_regex_we_cannot_read_is_refused() -> None:
    with pytest.raises(Refused) as caught:
        check_regex("(")
    assert caught.value.code is Code.INVALID_REGULAR_EXPRESSION


def test_what_a_group_wants_follows_its_members() -> None:
    group = ConsumerGroup("g")
    group.set_subscriber("a", Subscriber(topics=("orders", "bills")))
    group.set_subscriber("b", Subscriber(topics=("orders",), regex="x.*"))
    assert wants_after(group, {}) == (["orders", "bills"], ["x.*"])
    assert wants_after(group, {"a": None}) == (["orders"], ["x.*"])
    assert wants_after(group, {"a": None, "b": None}) == ([], [])
    assert wants_after(group, {"b": Subscriber(topics=("new",))}) == (["orders", "bills", "new"], [])


def test_an_assignor_sees_topic_ids_and_old_targets() -> None:
    group = ConsumerGroup("g")
    group.set_target("a", frozenset({(b"id", 1)}))
    topics = {name: SHAPES[name] for name in ("orders", "bills")}
    given = applicants(group, {"a": Subscriber(instance_id="i", topics=("bills", "gone"), regex="ord.*")}, topics)
    assert given["a"].topics == {shape.topic_id for shape in topics.values()}
    assert given["a"].target == {(b"id", 1)}
    assert given["a"].instance_id == "i"
