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
from chronik.api.throttling import EXCEEDED, mutation_quota, with_wait
from chronik.core.access.operations import AclOperation, AclResourceType
from chronik.core.errors import Code, Refused
from chronik.core.machines.metadata.commands import DeletedTopic, DeleteTopics, TopicToDelete
from chronik.wire.unions.delete_topics import AnyDeleteTopicsRequest

STRICT_FROM = 5  # this version knows THROTTLING_QUOTA_EXCEEDED (KIP-599)
REQUEST = AnyDeleteTopicsRequest
RESPONSE = DeleteTopicsResponse


async def handle(request: AnyDeleteTopicsRequest, caller: Caller, context: RequestContext) -> Any:
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
        refused.append(_result(shown, _id_of(wanted), Code.TOPIC_AUTHORIZATION_FAILED, None))
    quota = mutation_quota(caller, context, STRICT_FROM)
    within = [wanted for wanted in allowed if quota.takes(_partitions_of(wanted, context), began_ms)]
    refused += [_over(wanted) for wanted in allowed if wanted not in within]
    if not within and refused:
        return with_wait(_response(tuple(refused)), quota)
    deleted = await context.metadata.ask(DeleteTopics(tuple(within)))
    await wait_until_applied(context, request.timeout, began_ms)
    results = (_result(one.name, _id_of(one), one.outcome.code, one.outcome.message) for one in deleted)
    return with_wait(_response((*refused, *results)), quota)


def _id_of(topic: DeletedTopic | TopicToDelete) -> uuid.UUID | None:
    return None if topic.topic_id is None else topic_ids.to_wire(topic.topic_id)


def _partitions_of(wanted: TopicToDelete, context: RequestContext) -> int:
    """What it takes of the quota; one that is not there takes nothing."""
    image = context.metadata.image
    known = image.topic(wanted.name or "") if wanted.topic_id is None else image.topic_by_id(wanted.topic_id)
    return 0 if known is None else len(known.partitions)


def _over(wanted: TopicToDelete) -> Any:
    return _result(wanted.name, _id_of(wanted), EXCEEDED.code, EXCEEDED.message)


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


def refuse(request: AnyDeleteTopicsRequest, code: Code, message: str | None) -> Any:
    by_name = tuple(_result(name, None, code, message) for name in request.topic_names)
    by_either = tuple(_result(topic.name, topic.topic_id, code, message) for topic in request.topics)
    return _response(by_name + by_either)
