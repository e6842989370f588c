"""OffsetCommit (8), versions 2-10. Where a group will go on reading.

Versions 2-4 may say how long the offsets are to be kept. From 6 a leader epoch is kept beside, from 7 the member may be
static, from 9 it may be a KIP-848 member with an epoch in place of a generation, from 10 topics are named by id.
"""

from __future__ import annotations

from kio.schema.offset_commit.v10.response import OffsetCommitResponsePartition

from chronik.api.context import Caller, RequestContext
from chronik.api.durations import milliseconds
from chronik.api.refusals import trace_refusal
from chronik.api.topics_to_commit import TopicsToCommit
from chronik.core.errors import Code
from chronik.core.machines.groups.commands import CommitOffsets
from chronik.wire.unions.offset_commit import (
    AnyOffsetCommitRequest,
    AnyOffsetCommitResponse,
    AnyOffsetCommitTopic,
    AnyOffsetCommitTopicResponse,
)

REQUEST = AnyOffsetCommitRequest
RESPONSE = AnyOffsetCommitResponse

EPOCHS_FROM = 9
TOPIC_IDS_FROM = 10


async def handle(request: AnyOffsetCommitRequest, caller: Caller, context: RequestContext) -> AnyOffsetCommitResponse:
    wanted = TopicsToCommit(request.topics, caller.version >= TOPIC_IDS_FROM, context.metadata.image)
    codes: list[Code] = []
    if wanted.offsets:
        command = CommitOffsets(
            group_id=request.group_id,
            member_id=request.member_id,
            instance_id=request.group_instance_id,
            generation=request.generation_id_or_member_epoch,
            offsets=wanted.offsets,
            retention_ms=milliseconds(request.retention_time),
            knows_epochs=caller.version >= EPOCHS_FROM,
        )
        codes = list((await context.groups.ask(request.group_id, command)).codes)
        if context.observation.observer.is_observing:
            _report(command, codes, caller, context)
    topics = map(_topic, request.topics, wanted.codes(codes))
    return AnyOffsetCommitResponse(topics=tuple(topics))


def _report(command: CommitOffsets, codes: list[Code], caller: Caller, context: RequestContext) -> None:
    """What was committed, and by which client: its fetches are this group's."""
    group, observer = command.group_id, context.observation.observer
    observer.reader_heard(group, caller.client_id, caller.client_host)
    for (topic, partition, offset, *_), code in zip(command.offsets, codes, strict=True):
        if code:
            trace_refusal(context, "offset_commit", caller, code, f"group {group}", topic, partition)
        else:
            observer.committed(topic, partition, group, caller, offset)


def _topic(topic: AnyOffsetCommitTopic, codes: list[Code]) -> AnyOffsetCommitTopicResponse:
    return AnyOffsetCommitTopicResponse(
        name=topic.name,
        topic_id=topic.topic_id,
        partitions=tuple(
            OffsetCommitResponsePartition(partition_index=partition.partition_index, error_code=code)
            for partition, code in zip(topic.partitions, codes, strict=True)
        ),
    )


def refuse(request: AnyOffsetCommitRequest, code: Code, message: str | None) -> AnyOffsetCommitResponse:
    return AnyOffsetCommitResponse(
        topics=tuple(_topic(topic, [code] * len(topic.partitions)) for topic in request.topics)
    )
