"""CreatePartitions (37), versions 0-3. `count` is the number there shall be, not how many to add.

The answer waits for the live brokers, as that of CreateTopics.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from typing import Any

from kio.schema.create_partitions.v3.request import CreatePartitionsRequest
from kio.schema.create_partitions.v3.response import CreatePartitionsResponse, CreatePartitionsTopicResult

from chronik.api.applied import wait_until_applied
from chronik.api.context import Caller, RequestContext
from chronik.api.throttling import EXCEEDED, mutation_quota, with_wait
from chronik.core.errors import Code
from chronik.core.machines.metadata.commands import ChangeOutcome, CreatePartitions, MorePartitions

STRICT_FROM = 3  # this version knows THROTTLING_QUOTA_EXCEEDED (KIP-599)
REQUEST = CreatePartitionsRequest
RESPONSE = CreatePartitionsResponse


async def handle(request: CreatePartitionsRequest, caller: Caller, context: RequestContext) -> Any:
    began_ms = context.clock.monotonic_ms()
    wanted = tuple(MorePartitions(topic.name, topic.count, _by_hand(topic)) for topic in request.topics)
    quota = mutation_quota(caller, context, STRICT_FROM)
    are_allowed = [quota.takes(_added(topic, context), began_ms) for topic in wanted]
    allowed = tuple(topic for topic, is_allowed in zip(wanted, are_allowed, strict=True) if is_allowed)
    done: Iterator[ChangeOutcome] = iter(())
    if allowed or not wanted:
        done = iter(await context.metadata.ask(CreatePartitions(allowed, request.validate_only)))
        await wait_until_applied(context, request.timeout, began_ms)
    outcomes = tuple(next(done) if is_allowed else EXCEEDED for is_allowed in are_allowed)
    return with_wait(_response(request, outcomes), quota)


def _added(topic: MorePartitions, context: RequestContext) -> int:
    """What it takes of the quota."""
    known = context.metadata.image.topic(topic.name)
    return 0 if known is None else max(0, topic.count - len(known.partitions))


def _by_hand(topic: Any) -> tuple[tuple[int, ...], ...] | None:
    if topic.assignments is None:
        return None
    return tuple(tuple(assignment.broker_ids) for assignment in topic.assignments)


def _response(request: CreatePartitionsRequest, outcomes: tuple[ChangeOutcome, ...]) -> Any:
    results = tuple(
        CreatePartitionsTopicResult(name=topic.name, error_code=outcome.code, error_message=outcome.message)
        for topic, outcome in zip(request.topics, outcomes, strict=True)
    )
    return CreatePartitionsResponse(throttle_time=datetime.timedelta(0), results=results)


def refuse(request: CreatePartitionsRequest, code: Code, message: str | None) -> Any:
    return _response(request, (ChangeOutcome(code, message),) * len(request.topics))
