"""ConsumerGroupHeartbeat over the wire."""

from __future__ import annotations

from typing import Any

from kio.schema.consumer_group_describe.v1.request import ConsumerGroupDescribeRequest
from kio.schema.consumer_group_heartbeat.v1.request import ConsumerGroupHeartbeatRequest, TopicPartitions

from chronik.api import consumer_group_describe, consumer_group_heartbeat, topic_ids
from chronik.api.durations import duration
from chronik.api.topic_shapes import TopicShapes
from chronik.core.errors import Code
from chronik.core.machines.groups.answers import TopicIdPartitions
from chronik.core.machines.groups.commands import TopicShape
from chronik.core.machines.metadata.features import SAFE_DOWNGRADE, FeatureUpdate, UpdateFeatures
from tests.unit.api.fake_context import ask, fake_context, groups_of, metadata_of
from tests.unit.api.grouped_context import grouped_context


def request(**changes: Any) -> ConsumerGroupHeartbeatRequest:
    fields: dict[str, Any] = {
        "group_id": "g",
        "member_id": "m",
        "member_epoch": 0,
        "instance_id": None,
        "rack_id": None,
        "rebalance_timeout": duration(60_000),
        "subscribed_topic_names": ("orders",),
        "subscribed_topic_regex": None,
        "server_assignor": None,
        "topic_partitions": (),
    }
    return ConsumerGroupHeartbeatRequest(**{**fields, **changes})


def test_a_member_joins_and_gets_its_partitions_by_topic_id() -> None:
    context, _ = grouped_context({"orders": 3})
    topic = context.metadata.image.topic("orders")
    assert topic is not None
    response = ask(consumer_group_heartbeat, request(), context, version=1)
    assert (response.error_code, response.member_id, response.member_epoch) == (Code.NONE, "m", 1)
    assert response.heartbeat_interval == duration(5_000)
    (given,) = response.assignment.topic_partitions
    assert (given.topic_id, given.partitions) == (topic_ids.to_wire(topic.id), (0, 1, 2))
    quiet = request(member_epoch=1, rebalance_timeout=duration(-1), subscribed_topic_names=None, topic_partitions=None)
    assert ask(consumer_group_heartbeat, quiet, context, version=1).assignment is None


def test_in_version_0_the_coordinator_makes_the_id_and_from_1_the_client_must() -> None:
    context, _ = grouped_context({"orders": 3})
    made = ask(consumer_group_heartbeat, request(member_id=""), context, version=0)
    assert made.error_code is Code.NONE
    assert len(made.member_id) == 22
    missing = ask(consumer_group_heartbeat, request(member_id=""), context, version=1)
    assert (missing.error_code, missing.member_id) == (Code.INVALID_REQUEST, None)


def test_what_a_member_owns_reaches_the_group_as_bytes() -> None:
    context, _ = grouped_context({"orders": 3})
    topic = context.metadata.image.topic("orders")
    assert topic is not None
    ask(consumer_group_heartbeat, request(), context, version=1)
    owned = (TopicPartitions(topic_id=topic_ids.to_wire(topic.id), partitions=(0, 2)),)
    ask(consumer_group_heartbeat, request(member_epoch=1, topic_partitions=owned), context, version=1)
    (_, command) = groups_of(context).asked[-1]
    assert command.owned == (TopicIdPartitions(topic.id, (0, 2)),)


def test_refusals_say_why() -> None:
    context, _ = grouped_context()
    response = ask(consumer_group_heartbeat, request(server_assignor="mine"), context, version=1)
    assert response.error_code is Code.UNSUPPORTED_ASSIGNOR
    assert "Supported assignors: uniform, range." in response.error_message
    assert ask(consumer_group_heartbeat, request(group_id=""), context, version=1).error_code is Code.INVALID_REQUEST


def test_the_image_is_seen_as_names_with_shapes() -> None:
    image = fake_context(topics={"orders": 3, "bills": 1}).metadata.image
    shapes = TopicShapes(image)
    assert sorted(shapes) == ["bills", "orders"]
    assert len(shapes) == 2
    assert "orders" in shapes
    assert "missing" not in shapes
    assert shapes["orders"] == TopicShape(image.topics["orders"].id, 3)


def test_with_the_feature_switched_off_there_are_no_groups_of_the_new_protocol() -> None:
    context, _ = grouped_context({"orders": 3})
    metadata_of(context).tell(UpdateFeatures((FeatureUpdate("group.version", 0, SAFE_DOWNGRADE),)))

    assert ask(consumer_group_heartbeat, request(), context, version=1).error_code is Code.UNSUPPORTED_VERSION
    describing = ConsumerGroupDescribeRequest(group_ids=("g",), include_authorized_operations=False)
    described = ask(consumer_group_describe, describing, context, version=1)
    assert [one.error_code for one in described.groups] == [Code.UNSUPPORTED_VERSION]

    metadata_of(context).tell(UpdateFeatures((FeatureUpdate("group.version", 1),)))
    assert ask(consumer_group_heartbeat, request(), context, version=1).error_code is Code.NONE
