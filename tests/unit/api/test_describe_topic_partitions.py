"""DescribeTopicPartitions: pages of topics."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kio.schema.describe_topic_partitions.v0.request import Cursor, DescribeTopicPartitionsRequest, TopicRequest

from chronik.api import describe_topic_partitions
from chronik.core.errors import Code
from chronik.core.machines.metadata.records import NO_LEADER, PartitionChangeRecord
from tests.unit.api.fake_context import ask, fake_context


def request(*names: str, limit: int = 2000, cursor: tuple[str, int] | None = None) -> Any:
    return DescribeTopicPartitionsRequest(
        topics=tuple(TopicRequest(name=name) for name in names),
        response_partition_limit=limit,
        cursor=None if cursor is None else Cursor(topic_name=cursor[0], partition_index=cursor[1]),
    )


def page(response: Any) -> tuple[list[tuple[str, list[int]]], tuple[str, int] | None]:
    topics = [(topic.name, [part.partition_index for part in topic.partitions]) for topic in response.topics]
    cursor = response.next_cursor
    return topics, None if cursor is None else (cursor.topic_name, cursor.partition_index)


def test_no_topics_means_all_by_name() -> None:
    context = fake_context(topics={"b": 1, "a": 2})

    assert page(ask(describe_topic_partitions, request(), context, 0)) == ([("a", [0, 1]), ("b", [0])], None)


def test_a_page_ends_at_the_limit_and_the_cursor_says_where_the_next_begins() -> None:
    context = fake_context(topics={"a": 3, "b": 2})

    assert page(ask(describe_topic_partitions, request(limit=2), context, 0)) == ([("a", [0, 1])], ("a", 2))
    assert page(ask(describe_topic_partitions, request(limit=2, cursor=("a", 2)), context, 0)) == (
        [("a", [2]), ("b", [0])],
        ("b", 1),
    )
    assert page(ask(describe_topic_partitions, request(limit=3), context, 0)) == ([("a", [0, 1, 2])], ("b", 0))


def test_a_limit_below_one_still_gets_on() -> None:
    context = fake_context(topics={"a": 2})

    assert page(ask(describe_topic_partitions, request(limit=0), context, 0)) == ([("a", [0])], ("a", 1))


def test_a_topic_that_is_not_there_has_an_error_and_is_not_created() -> None:
    context = fake_context(topics={"b": 1})

    response = ask(describe_topic_partitions, request("c", "b", "a a"), context, 0)

    assert [(topic.name, topic.error_code) for topic in response.topics] == [
        ("a a", Code.INVALID_TOPIC_EXCEPTION),
        ("b", Code.NONE),
        ("c", Code.UNKNOWN_TOPIC_OR_PARTITION),
    ]
    assert list(context.metadata.image.topics) == ["b"]


def test_a_partition_without_a_leader_names_nobody() -> None:
    context = fake_context(topics={"a": 1})
    context.metadata.image.apply(PartitionChangeRecord(0, context.metadata.image.topics["a"].id, leader=NO_LEADER))

    [topic] = ask(describe_topic_partitions, request("a"), context, 0).topics

    assert [(one.leader_id, one.error_code) for one in topic.partitions] == [(-1, Code.LEADER_NOT_AVAILABLE)]


def test_who_may_lead_without_being_in_sync_is_shown_and_who_led_last() -> None:
    context = fake_context(topics={"a": 2})
    image = context.metadata.image
    change = PartitionChangeRecord(0, image.topics["a"].id, isr=(1,), replicas=(1, 2, 3), eligible_leader_replicas=(2,))
    image.apply(change)
    image.apply(replace(change, partition_id=1, leader=NO_LEADER, isr=(3,)))

    [topic] = ask(describe_topic_partitions, request("a"), context, 0).topics

    assert [(one.isr_nodes, one.eligible_leader_replicas, one.last_known_elr) for one in topic.partitions] == [
        ((1,), (2,), ()),
        ((3,), (2,), (3,)),
    ]


def test_who_lost_its_log_is_not_known_to_have_everything() -> None:
    context = fake_context(topics={"a": 1})
    image = context.metadata.image
    image.apply(
        PartitionChangeRecord(0, image.topics["a"].id, leader=NO_LEADER, isr=(1,), replicas=(1, 2), lost_replicas=(1,))
    )

    [topic] = ask(describe_topic_partitions, request("a"), context, 0).topics

    assert [one.last_known_elr for one in topic.partitions] == [()]


@pytest.mark.parametrize(
    "asked", [request("a", cursor=("b", 0)), request("a", cursor=("a", -1)), request(cursor=("a", -1))]
)
def test_a_cursor_that_cannot_be_is_refused(asked: Any) -> None:
    response = ask(describe_topic_partitions, asked, fake_context(topics={"a": 1}), 0)

    assert [(topic.name, topic.error_code) for topic in response.topics] == [("a", Code.INVALID_REQUEST)]


@given(st.dictionaries(st.sampled_from("abcdef"), st.integers(1, 7), max_size=6), st.integers(1, 9))
def test_the_pages_together_show_every_partition_once(topics: dict[str, int], limit: int) -> None:
    context = fake_context(topics=topics)
    seen: list[tuple[str, int]] = []
    cursor: tuple[str, int] | None = None
    while True:
        shown, cursor = page(ask(describe_topic_partitions, request(limit=limit, cursor=cursor), context, 0))
        assert sum(len(partitions) for _, partitions in shown) <= limit
        seen += [(name, number) for name, partitions in shown for number in partitions]
        if cursor is None:
            break

    assert seen == [(name, number) for name in sorted(topics) for number in range(topics[name])]
