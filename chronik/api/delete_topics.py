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
from chronik.api.authorization import gate_of
from chronik.api.context import Caller, RequestContext
from chronik.core.access.operations import AclOperation, AclResourceType
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
    gate = gate_of(context, caller, "delete_topics")
    allowed, refused = [], []
    for wanted in by_name + by_either:
        name = _name_of(wanted, context)
        if gate is None or name is None or gate.may(AclOperation.DELETE, AclResourceType.TOPIC, name):
            allowed.append(wanted)
            continue
        # An id must not reveal the name to a client that may not see it.
        shown = wanted.name or (name if gate.sees(AclOperation.DESCRIBE, AclResourceType.TOPIC, name) else None)
        topic_id = None if wanted.topic_id is None else topic_ids.to_wire(wanted.topic_id)
        refused.append(_result(shown, topic_id, Code.TOPIC_AUTHORIZATION_FAILED, None))
    if not allowed and refused:
        return _response(tuple(refused))
    deleted = await context.metadata.ask(DeleteTopics(tuple(allowed)))
    await wait_until_applied(context, request.timeout, began_ms)
    return _response(
        (
            *refused,
            *(
                _result(
                    one.name,
                    topic_ids.to_wire(one.topic_id) if one.topic_id is not None else None,
                    one.outcome.code,
                    one.outcome.message,
                )
                for one in deleted
            ),
        )
    )


def _name_of(wanted: TopicToDelete, context: RequestContext) -> str | None:
    """None: there is no topic of that id, which is said further on."""
    if wanted.topic_id is None:
        return wanted.name
    known = context.metadata.image.topic_by_id(wanted.topic_id)
    return None if known is None else known.name


def _result(name: str | None, topic_id: uuid.UUID | None, code: Code, message: str | None) -> Any:
    return DeletableTopicResult(name=name, topic_id=topic_id, error_code=code, error_message=message)


def _response(results: tuple[Any, ...]) -> Any:
    return DeleteTopicsResponse(throttle_time=datetime.timedelta(0), responses=results)


def refuse(request: Any, code: Code, message: str | None) -> Any:
    by_name = tuple(_result(name, None, code, message) for name in request.topic_names)
    by_either = tuple(_result(topic.name, topic.topic_id, code, message) for topic in request.topics)
    return _response(by_name + by_either)
