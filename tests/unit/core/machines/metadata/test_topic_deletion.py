"""Topics are deleted."""

from __future__ import annotations

from chronik.core.errors import Code
from chronik.core.machines.metadata.commands import (
    CreateInternalTopic,
    CreateTopics,
    DeleteTopics,
    NewTopic,
    TopicToDelete,
)
from tests.unit.core.machines.metadata.machine_asked import Asked, topic_id


def create(asked: Asked, *names: str) -> list[Code]:
    """Their ids count from 100."""
    wanted = tuple(NewTopic(name, topic_id(100 + number)) for number, name in enumerate(names))
    return [created.outcome.code for created in asked.ask(CreateTopics(wanted))]


def test_a_deleted_topic_leaves_its_name_free_and_collides_no_more() -> None:
    asked = Asked()
    create(asked, "a.b")

    asked.ask(DeleteTopics((TopicToDelete("a.b"),)))

    assert create(asked, "a_b") == [Code.NONE]


def test_topics_are_deleted_by_name_and_by_id() -> None:
    asked = Asked()
    create(asked, "a", "b", "c")

    results = asked.ask(DeleteTopics((TopicToDelete("a"), TopicToDelete(topic_id=topic_id(101)))))

    assert [(one.name, one.topic_id, one.outcome.code) for one in results] == [
        ("a", topic_id(100), Code.NONE),
        ("b", topic_id(101), Code.NONE),
    ]
    assert list(asked.image.topics) == ["c"]
    assert asked.image.topic_by_id(topic_id(100)) is None


def test_what_cannot_be_deleted_is_told_why() -> None:
    asked = Asked()
    create(asked, "a")
    asked.ask(CreateInternalTopic("__consumer_offsets", topic_id(1)))
    wanted = (
        TopicToDelete("nope"),
        TopicToDelete(topic_id=topic_id(77)),
        TopicToDelete("a", topic_id(100)),
        TopicToDelete(),
        TopicToDelete("__consumer_offsets"),
        TopicToDelete("a"),
    )

    results = asked.ask(DeleteTopics(wanted))

    assert [one.outcome.code for one in results] == [
        Code.UNKNOWN_TOPIC_OR_PARTITION,
        Code.UNKNOWN_TOPIC_ID,
        Code.INVALID_REQUEST,
        Code.INVALID_REQUEST,
        Code.INVALID_REQUEST,
        Code.NONE,
    ]


def test_a_topic_that_is_to_be_deleted_twice_is_not_deleted() -> None:
    asked = Asked()
    create(asked, "a", "b", "c", "d")
    named = (TopicToDelete("a"), TopicToDelete("d"), TopicToDelete("a"))
    by_id = (TopicToDelete(topic_id=topic_id(101)),) * 2
    by_either = (TopicToDelete("c"), TopicToDelete(topic_id=topic_id(102)))
    unknown = (TopicToDelete("nope"),) * 3

    results = asked.ask(DeleteTopics((*named, *by_id, *by_either, *unknown)))

    assert [(one.name, one.topic_id, one.outcome.code) for one in results] == [
        ("a", None, Code.INVALID_REQUEST),
        ("d", topic_id(103), Code.NONE),
        (None, topic_id(101), Code.INVALID_REQUEST),
        ("c", None, Code.INVALID_REQUEST),
        (None, topic_id(102), Code.INVALID_REQUEST),
        ("nope", None, Code.INVALID_REQUEST),
    ]
    assert sorted(asked.image.topics) == ["a", "b", "c"]
