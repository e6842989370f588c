"""DeleteTopics (20), versions 1-6. Up to 5 by name, from 6 by name or id. Messages from 5.

With `delete.topic.enable=false` everything is refused: TOPIC_DELETION_DISABLED, which versions below 3 do not know.
Internal topics are not deleted; Kafka would, and every group with them. The answer waits for the live brokers, as that
of CreateTopics.
"""

from __future__ import annotations

import datetime
import uuid
from typing import Any

from kio.schema.delete_topics.v6.response import DeletableTopicResult, DeleteTopicsResponse

from chronik.api import topic_ids
from chronik.api.applied import wait_until_applied
from chronik.api.context import Caller, RequestContext
from chronik.core.errors import Code, Refused
from chronik.core.machines.metadata.commands import DeleteTopics, TopicToDelete
from chronik.wire.unions.delete_topics import AnyDeleteTopicsRequest

REQUEST = AnyDeleteTopicsRequest
RESPONSE = DeleteTopicsResponse


async def handle(request: Any, caller: Caller, context: RequestContext) -> Any:
    if not context.metadata.image.node_config.topics.delete_topic_enable:
        raise Refused(Code.TOPIC_DELETION_DISABLED if caller.version >= 3 else Code.INVALID_REQUEST)
    began_ms = context.clock.monotonic_ms()
    by_name = tuple(TopicToDelete(name=name) for name in request.topic_names)
    by_either = tuple(TopicToDelete(topic.name, topic_ids.from_wire(topic.topic_id)) for topic in request.topics)
    deleted = await context.metadata.ask(DeleteTopics(by_name + by_either))
    await wait_until_applied(context, request.timeout, began_ms)
    return _response(
        tuple(
            _result(
                one.name,
                topic_ids.to_wire(one.topic_id) if one.topic_id is not None else None,
                one.outcome.code,
                one.outcome.message,
            )
            for one in deleted
        )
    )


def _result(name: str | None, topic_id: uuid.UUID | None, code: Code, message: str | None) -> Any:
    return DeletableTopicResult(name=name, topic_id=topic_id, error_code=code, error_message=message)


def _response(results: tuple[Any, ...]) -> Any:
    return DeleteTopicsResponse(throttle_time=datetime.timedelta(0), responses=results)


def refuse(request: Any, code: Code, message: str | None) -> Any:
    by_name = tuple(_result(name, None, code, message) for name in request.topic_names)
    by_either = tuple(_result(topic.name, topic.topic_id, code, message) for topic in request.topics)
    return _response(by_name + by_either)
