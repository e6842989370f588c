"""DeleteTopics."""

from __future__ import annotations

import datetime
import uuid

import pytest

from chronik.api import delete_topics
from chronik.api.applied import APPLIED_MS_MAX
from chronik.core.config.node import NodeConfig
from chronik.core.errors import Code
from chronik.wire.unions.delete_topics import AnyDeleteTopicsRequest, AnyDeleteTopicsTopic
from tests.unit.api.fake_context import ask, fake_context, metadata_of


def test_topics_are_deleted_by_name_as_in_the_old_versions() -> None:
    context = fake_context(topics={"a": 1, "b": 1})

    response = ask(delete_topics, AnyDeleteTopicsRequest(topic_names=("a", "nope")), context, version=5)

    assert [(one.name, one.error_code) for one in response.responses] == [
        ("a", Code.NONE),
        ("nope", Code.UNKNOWN_TOPIC_OR_PARTITION),
    ]
    assert list(context.metadata.image.topics) == ["b"]


def test_topics_are_deleted_by_name_or_id_as_in_the_new() -> None:
    context = fake_context(topics={"a": 1, "b": 1})
    a, b = (uuid.UUID(bytes=context.metadata.image.topics[name].id) for name in "ab")
    wanted = (
        AnyDeleteTopicsTopic(name="a"),
        AnyDeleteTopicsTopic(topic_id=b),
        AnyDeleteTopicsTopic(topic_id=uuid.UUID(int=77)),
        AnyDeleteTopicsTopic(name="a", topic_id=a),
    )

    response = ask(delete_topics, AnyDeleteTopicsRequest(topics=wanted), context, version=6)

    assert [(one.name, one.topic_id, one.error_code) for one in response.responses] == [
        ("a", a, Code.NONE),
        ("b", b, Code.NONE),
        (None, uuid.UUID(int=77), Code.UNKNOWN_TOPIC_ID),
        ("a", a, Code.INVALID_REQUEST),
    ]
    assert not context.metadata.image.topics


@pytest.mark.parametrize(("version", "code"), [(2, Code.INVALID_REQUEST), (3, Code.TOPIC_DELETION_DISABLED)])
def test_a_node_that_deletes_nothing_says_so_in_a_code_the_version_knows(version: int, code: Code) -> None:
    context = fake_context(topics={"a": 1}, config=NodeConfig.from_settings({"delete.topic.enable": "false"}))

    response = ask(delete_topics, AnyDeleteTopicsRequest(topic_names=("a",)), context, version)

    assert [(one.name, one.error_code) for one in response.responses] == [("a", code)]
    assert list(context.metadata.image.topics) == ["a"]


def test_a_refusal_is_on_every_topic() -> None:
    topic_id = uuid.UUID(int=5)
    request = AnyDeleteTopicsRequest(
        topic_names=("a",), topics=(AnyDeleteTopicsTopic(name="b"), AnyDeleteTopicsTopic(topic_id=topic_id))
    )

    response = delete_topics.refuse(request, Code.NOT_CONTROLLER, "no")

    assert [(one.name, one.topic_id, one.error_code) for one in response.responses] == [
        ("a", None, Code.NOT_CONTROLLER),
        ("b", None, Code.NOT_CONTROLLER),
        (None, topic_id, Code.NOT_CONTROLLER),
    ]


def test_the_answer_waits_for_the_live_brokers() -> None:
    context = fake_context(topics={"a": 1})

    ask(
        delete_topics,
        AnyDeleteTopicsRequest(topic_names=("a",), timeout=datetime.timedelta(seconds=60)),
        context,
        version=5,
    )

    assert metadata_of(context).waited_ms == [APPLIED_MS_MAX]
