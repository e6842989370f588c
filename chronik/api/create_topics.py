"""CreateTopics (19), versions 2-7. From 5 the answer shows the settings of the topic, from 7 its id.

One bad topic does not hold back the others. The answer comes when the topics are safely in the metadata log and, but
for a moment at most, the live brokers know them (`applied`). Runs on the controller. `__consumer_offsets`, asked for
without any wish, is made as that topic has to be, or is there already.
"""

from __future__ import annotations

import datetime
from typing import Any

from kio.schema.create_topics.v7.request import CreateTopicsRequest
from kio.schema.create_topics.v7.response import CreatableTopicConfigs, CreatableTopicResult, CreateTopicsResponse

from chronik.api import topic_ids
from chronik.api.applied import wait_until_applied
from chronik.api.context import Caller, RequestContext
from chronik.api.throttling import EXCEEDED, mutation_quota, with_wait
from chronik.core.config.describe import describe_topic
from chronik.core.errors import Code
from chronik.core.machines.metadata.commands import (
    USE_DEFAULT,
    CreatedTopic,
    CreateInternalTopic,
    CreateTopics,
    NewTopic,
)
from chronik.core.machines.metadata.names import is_internal

STRICT_FROM = 6  # this version knows THROTTLING_QUOTA_EXCEEDED (KIP-599)
_EXCEEDED = EXCEEDED.code, EXCEEDED.message
REQUEST = CreateTopicsRequest
RESPONSE = CreateTopicsResponse


async def handle(request: CreateTopicsRequest, caller: Caller, context: RequestContext) -> Any:
    began_ms = context.clock.monotonic_ms()
    if _is_internal(request):
        own = await context.metadata.ask_here(CreateInternalTopic(request.topics[0].name, context.chance.uuid()))
        await wait_until_applied(context, request.timeout, began_ms)
        return _response((_result(own, context),))
    wanted = tuple(
        NewTopic(
            name=topic.name,
            topic_id=context.chance.uuid(),
            partition_count=topic.num_partitions,
            replication_factor=topic.replication_factor,
            assignments=tuple((one.partition_index, tuple(one.broker_ids)) for one in topic.assignments),
            configs=tuple((config.name, config.value) for config in topic.configs),
        )
        for topic in request.topics
    )
    quota = mutation_quota(caller, context, STRICT_FROM)
    allowed = tuple(topic for topic in wanted if quota.takes(_partitions_of(topic, context), began_ms))
    names = {topic.name for topic in allowed}
    over = tuple(_refused(topic.name, *_EXCEEDED) for topic in wanted if topic.name not in names)
    if over and not allowed:
        return with_wait(_response(over), quota)
    created = await context.metadata.ask_here(CreateTopics(allowed, request.validate_only))
    await wait_until_applied(context, request.timeout, began_ms)
    return with_wait(_response((*(_result(one, context) for one in created), *over)), quota)


def _partitions_of(topic: NewTopic, context: RequestContext) -> int:
    """What it takes of the quota; one that is there already is refused, and takes nothing."""
    image = context.metadata.image
    if image.topic(topic.name) is not None:
        return 0
    if topic.assignments:
        return len(topic.assignments)
    is_default = topic.partition_count == USE_DEFAULT
    return max(0, image.node_config.topics.num_partitions if is_default else topic.partition_count)


def _is_internal(request: CreateTopicsRequest) -> bool:
    """A node needs one of our own topics and leaves to us what it is like. So it is made for every node that asks that
    way."""
    if request.validate_only or len(request.topics) != 1:
        return False
    [topic] = request.topics
    is_left_to_us = topic.num_partitions == topic.replication_factor == USE_DEFAULT
    return is_internal(topic.name) and is_left_to_us and not topic.assignments and not topic.configs


def _result(created: CreatedTopic, context: RequestContext) -> Any:
    if created.outcome.code is not Code.NONE:
        return _refused(created.name, created.outcome.code, created.outcome.message)
    shown = describe_topic(context.metadata.image.node_config, dict(created.overrides))
    return CreatableTopicResult(
        name=created.name,
        topic_id=topic_ids.to_wire(created.topic_id),
        error_code=Code.NONE,
        error_message=None,
        num_partitions=created.partition_count,
        replication_factor=created.replication_factor,
        configs=tuple(
            CreatableTopicConfigs(
                name=config.name,
                value=config.value,
                read_only=config.is_read_only,
                config_source=config.source,
                is_sensitive=False,
            )
            for config in shown
        ),
    )


def _refused(name: str, code: Code, message: str | None) -> Any:
    return CreatableTopicResult(name=name, topic_id=None, error_code=code, error_message=message, configs=())


def _response(results: tuple[Any, ...]) -> Any:
    return CreateTopicsResponse(throttle_time=datetime.timedelta(0), topics=results)


def refuse(request: CreateTopicsRequest, code: Code, message: str | None) -> Any:
    return _response(tuple(_refused(topic.name, code, message) for topic in request.topics))
