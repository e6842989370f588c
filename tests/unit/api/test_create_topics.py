"""CreateTopics."""

from __future__ import annotations

import datetime
from typing import Any

import pytest
from kio.schema.create_topics.v7.request import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)

from chronik.api import create_topics, topic_ids
from chronik.api.applied import APPLIED_MS_MAX
from chronik.core.config.definitions import Source
from chronik.core.config.topic import TOPIC_SETTINGS
from chronik.core.errors import Code, Refused
from tests.unit.api.fake_context import ask, fake_context, metadata_of


def wanted(name: str, count: int = 1, factor: int = 1, assignments: tuple[Any, ...] = (), **configs: str) -> Any:
    return CreatableTopic(
        name=name,
        num_partitions=count,
        replication_factor=factor,
        assignments=assignments,
        configs=tuple(CreatableTopicConfig(name=key.replace("_", "."), value=value) for key, value in configs.items()),
    )


def request(*topics: Any, validate_only: bool = False) -> Any:
    return CreateTopicsRequest(topics=topics, timeout=datetime.timedelta(seconds=1), validate_only=validate_only)


def test_all_topics_of_a_request_are_created_each_with_its_own_id() -> None:
    context = fake_context()

    response = ask(create_topics, request(wanted("a", 2), wanted("b", 3)), context, version=7)

    assert [(one.name, one.error_code, one.num_partitions, one.replication_factor) for one in response.topics] == [
        ("a", Code.NONE, 2, 1),
        ("b", Code.NONE, 3, 1),
    ]
    for one in response.topics:
        assert one.topic_id == topic_ids.to_wire(context.metadata.image.topics[one.name].id)
    assert len({one.topic_id for one in response.topics}) == 2


def test_each_topic_has_its_own_error() -> None:
    context = fake_context(topics={"there": 1})

    response = ask(
        create_topics, request(wanted("there"), wanted("b", 0), wanted("c"), wanted("d", factor=9)), context, 7
    )

    assert [one.error_code for one in response.topics] == [
        Code.TOPIC_ALREADY_EXISTS,
        Code.INVALID_PARTITIONS,
        Code.NONE,
        Code.INVALID_REPLICATION_FACTOR,
    ]
    assert response.topics[0].error_message == "Topic 'there' already exists."
    assert response.topics[0].topic_id is None
    assert sorted(context.metadata.image.topics) == ["c", "there"]


def test_the_answer_shows_the_settings_with_their_source() -> None:
    response = ask(create_topics, request(wanted("a", retention_ms="5")), fake_context(), version=5)

    shown = {config.name: config for config in response.topics[0].configs}
    assert list(shown) == list(TOPIC_SETTINGS)
    assert (shown["retention.ms"].value, shown["retention.ms"].config_source) == ("5", Source.TOPIC)
    assert (shown["cleanup.policy"].value, shown["cleanup.policy"].config_source) == ("delete", Source.DEFAULT)


def test_replicas_assigned_by_hand_are_taken() -> None:
    context = fake_context(brokers=(1, 2))
    by_hand = tuple(CreatableReplicaAssignment(partition_index=n, broker_ids=(2 - n,)) for n in (0, 1))

    response = ask(create_topics, request(wanted("a", -1, -1, by_hand)), context, version=7)

    assert response.topics[0].error_code is Code.NONE
    assert [partition.leader for partition in context.metadata.image.topics["a"].partitions] == [2, 1]


def test_validate_only_creates_nothing() -> None:
    context = fake_context()

    response = ask(create_topics, request(wanted("a", 4), validate_only=True), context, version=7)

    assert (response.topics[0].error_code, response.topics[0].num_partitions) == (Code.NONE, 4)
    assert not context.metadata.image.topics


def test_a_refusal_is_on_every_topic() -> None:
    context = fake_context()
    metadata_of(context).refusing = Refused(Code.NOT_CONTROLLER, "ask another")

    response = ask(create_topics, request(wanted("a"), wanted("b")), context, version=7)

    assert [(one.name, one.error_code, one.error_message) for one in response.topics] == [
        ("a", Code.NOT_CONTROLLER, "ask another"),
        ("b", Code.NOT_CONTROLLER, "ask another"),
    ]


@pytest.mark.parametrize("name", ["__consumer_offsets", "__transaction_state"])
def test_a_coordinators_topic_is_made_as_it_has_to_be_when_a_node_asks_for_it(name: str) -> None:
    context = fake_context(brokers=(1, 2, 3, 4))
    request = CreateTopicsRequest(topics=(wanted(name, -1, -1),), timeout=datetime.timedelta(0), validate_only=False)

    first = ask(create_topics, request, context, version=7)
    again = ask(create_topics, request, context, version=7)

    [created], [there] = first.topics, again.topics
    assert (created.error_code, created.num_partitions, created.replication_factor) == (Code.NONE, 50, 3)
    assert (there.error_code, there.topic_id) == (Code.NONE, created.topic_id)
    assert context.metadata.image.topic_config(name).cleanup_policy == ("compact",)


def test_another_node_is_the_controller() -> None:
    context = fake_context()
    metadata_of(context).controller_id = 2
    request = CreateTopicsRequest(topics=(wanted("a"),), timeout=datetime.timedelta(0), validate_only=False)

    [result] = ask(create_topics, request, context, version=7).topics

    assert result.error_code == Code.NOT_CONTROLLER


def test_the_answer_waits_for_the_live_brokers_no_longer_than_its_bound() -> None:
    """The answer waits for the live brokers no longer than its bound and its timeout."""
    context = fake_context()

    for seconds in (60, 0.3, 0):
        asked = CreateTopicsRequest(topics=(wanted(f"t{seconds}"),), timeout=datetime.timedelta(seconds=seconds))
        ask(create_topics, asked, context, version=7)

    assert metadata_of(context).waited_ms == [APPLIED_MS_MAX, 300]
