"""CreatePartitions."""

from __future__ import annotations

import datetime
from dataclasses import replace
from typing import Any

from kio.schema.create_partitions.v3.request import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)

from chronik.api import create_partitions
from chronik.api.applied import APPLIED_MS_MAX
from chronik.core.errors import Code
from tests.unit.api.fake_context import ask, fake_context, metadata_of


def request(*topics: tuple[str, int, tuple[tuple[int, ...], ...] | None], validate_only: bool = False) -> Any:
    return CreatePartitionsRequest(
        topics=tuple(
            CreatePartitionsTopic(
                name=name,
                count=count,
                assignments=None
                if by_hand is None
                else tuple(CreatePartitionsAssignment(broker_ids=replicas) for replicas in by_hand),
            )
            for name, count, by_hand in topics
        ),
        timeout=datetime.timedelta(0),
        validate_only=validate_only,
    )


def test_the_number_asked_for_is_how_many_there_are_then() -> None:
    context = fake_context(topics={"a": 2, "b": 2})

    response = ask(create_partitions, request(("a", 5, None), ("b", 1, None), ("c", 3, None)), context, version=3)

    assert [(one.name, one.error_code) for one in response.results] == [
        ("a", Code.NONE),
        ("b", Code.INVALID_PARTITIONS),
        ("c", Code.UNKNOWN_TOPIC_OR_PARTITION),
    ]
    assert "would not be an increase" in response.results[1].error_message
    assert len(context.metadata.image.topics["a"].partitions) == 5


def test_new_partitions_go_where_the_request_says() -> None:
    context = fake_context(topics={"a": 1}, brokers=(1, 2))

    ask(create_partitions, request(("a", 3, ((2,), (2,)))), context, version=3)

    assert [partition.leader for partition in context.metadata.image.topics["a"].partitions] == [1, 2, 2]


def test_validate_only_adds_nothing() -> None:
    context = fake_context(topics={"a": 1})

    response = ask(create_partitions, request(("a", 3, None), validate_only=True), context, version=3)

    assert response.results[0].error_code is Code.NONE
    assert len(context.metadata.image.topics["a"].partitions) == 1


def test_the_answer_waits_for_the_live_brokers() -> None:
    context = fake_context(topics={"a": 2})

    asked = replace(request(("a", 5, None)), timeout=datetime.timedelta(seconds=60))
    ask(create_partitions, asked, context, version=3)

    assert metadata_of(context).waited_ms == [APPLIED_MS_MAX]
