"""ConsumerGroupDescribe over the wire."""

from __future__ import annotations

from typing import Any

from kio.schema.consumer_group_describe.v1.request import ConsumerGroupDescribeRequest

from chronik.api import consumer_group_describe
from chronik.api.topic_shapes import TopicShapes
from chronik.core.errors import Code
from tests.unit.api.fake_context import ask
from tests.unit.api.grouped_context import grouped_context
from tests.unit.core.machines.groups.host import TOPICS, consumer_beat, join, subscription


def request(*groups: str, operations: bool = False) -> ConsumerGroupDescribeRequest:
    return ConsumerGroupDescribeRequest(group_ids=groups, include_authorized_operations=operations)


def test_a_group_is_described_with_epochs_and_named_partitions() -> None:
    context, host = grouped_context({"orders": 2})
    shapes = TopicShapes(context.metadata.image)
    host.ask(consumer_beat("m", 0, topics=shapes, instance_id="i", rack_id="r", subscribed_regex="x.*"))
    (group,) = ask(consumer_group_describe, request("g", operations=True), context, version=1).groups
    assert (group.error_code, group.group_state, group.group_epoch, group.assignment_epoch) == (
        Code.NONE,
        "Stable",
        1,
        1,
    )
    assert (group.assignor_name, group.authorized_operations) == ("uniform", 0b1101_0100_1000)
    (member,) = group.members
    assert (member.member_id, member.instance_id, member.rack_id, member.member_type) == ("m", "i", "r", 1)
    assert (member.subscribed_topic_names, member.subscribed_topic_regex) == (("orders",), "x.*")
    for assignment in (member.assignment, member.target_assignment):
        assert [(one.topic_name, one.partitions) for one in assignment.topic_partitions] == [("orders", (0, 1))]


def test_a_member_of_the_classic_protocol_is_told_apart() -> None:
    context, host = grouped_context({"orders": 2})
    shapes = TopicShapes(context.metadata.image)
    host.ask(consumer_beat("m", 0, topics=shapes))
    host.ask(join("old", protocols=(("range", subscription("orders")),), topics=shapes))
    (group,) = ask(consumer_group_describe, request("g"), context, version=1).groups
    assert {member.member_id: member.member_type for member in group.members} == {"m": 1, "old": 0}


def test_partitions_of_topics_that_are_gone_are_left_out() -> None:
    context, host = grouped_context()
    host.ask(consumer_beat("m", 0, topics=TOPICS))
    (group,) = ask(consumer_group_describe, request("g"), context, version=0).groups
    assert group.members[0].assignment.topic_partitions == ()


def test_groups_of_the_other_kind_and_none_at_all_are_not_found() -> None:
    context, host = grouped_context()
    host.stable_group("a")
    classic, missing, nameless = ask(consumer_group_describe, request("g", "none", ""), context, version=1).groups
    assert classic.error_code is Code.GROUP_ID_NOT_FOUND
    assert classic.error_message == "Group g is not a consumer group."
    assert missing.error_code is Code.GROUP_ID_NOT_FOUND
    assert nameless.error_code is Code.INVALID_GROUP_ID


def test_a_refusal_names_every_group() -> None:
    refused: Any = consumer_group_describe.refuse(request("g", "h"), Code.UNKNOWN_SERVER_ERROR, "why")
    assert [(one.group_id, one.error_code) for one in refused.groups] == [
        ("g", Code.UNKNOWN_SERVER_ERROR),
        ("h", Code.UNKNOWN_SERVER_ERROR),
    ]
