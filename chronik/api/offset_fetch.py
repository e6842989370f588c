"""OffsetFetch (9), versions 1-10. Where a group stopped reading; -1 for a partition without a committed offset.

Version 1 has no error of its own: it is on every partition. From 2 null topics means all. Up to 7 there is one group,
from 8 many. From 9 a KIP-848 member shows its epoch. From 10 topics are named by id. With `require_stable` (from 7,
KIP-447) a partition with an offset in an open transaction is UNSTABLE_OFFSET_COMMIT: the client asks again.
"""

from __future__ import annotations

from collections.abc import Iterable

from chronik.api import topic_ids
from chronik.api.authorization import gate_of
from chronik.api.context import Caller, RequestContext
from chronik.core.access.operations import AclOperation, AclResourceType
from chronik.core.errors import Code, Refused
from chronik.core.machines.groups.answers import FetchedOffset
from chronik.core.machines.groups.commands import FetchOffsets
from chronik.core.machines.groups.offsets import NO_TOPIC_ID
from chronik.core.machines.metadata.image import MetadataImage
from chronik.wire.unions.offset_fetch import (
    AnyOffsetFetchRequest,
    AnyOffsetFetchResponse,
    AnyOffsetFetchTopic,
    AnyOffsetFetchTopicResponse,
    Group,
    GroupResponse,
    PartitionResponse,
)

REQUEST = AnyOffsetFetchRequest
RESPONSE = AnyOffsetFetchResponse

GROUP_ERRORS_FROM = 2
MANY_GROUPS_FROM = 8
TOPIC_IDS_FROM = 10
_DESCRIBE = (AclOperation.DESCRIBE, AclResourceType.TOPIC)


async def handle(request: AnyOffsetFetchRequest, caller: Caller, context: RequestContext) -> AnyOffsetFetchResponse:
    if caller.version < MANY_GROUPS_FROM:
        only = Group(group_id=request.group_id, topics=request.topics)
        return _response((await _group(only, request.require_stable, caller, context),))
    return _response(tuple([await _group(group, request.require_stable, caller, context) for group in request.groups]))


async def _group(group: Group, requires_stable: bool, caller: Caller, context: RequestContext) -> GroupResponse:
    by_id = caller.version >= TOPIC_IDS_FROM
    gate = gate_of(context, caller, "offset_fetch")
    try:
        if gate is not None:
            gate.need(AclOperation.DESCRIBE, AclResourceType.GROUP, group.group_id)
        if group.topics is None:
            fetched = await _ask(group, None, requires_stable, context)
            if gate is not None:
                fetched = tuple(one for one in fetched if gate.sees(*_DESCRIBE, one.topic))
            return GroupResponse(group_id=group.group_id, topics=tuple(_all_topics(fetched, by_id, context)))
        names = [_name(topic, by_id, context.metadata.image) for topic in group.topics]
        denied = {name for name in names if name is not None and gate is not None and not gate.may(*_DESCRIBE, name)}
        wanted = tuple(
            (name, number)
            for name, topic in zip(names, group.topics, strict=True)
            if name is not None and name not in denied
            for number in topic.partition_indexes
        )
        found = {(one.topic, one.partition): one for one in await _ask(group, wanted, requires_stable, context)}
        topics = tuple(
            _errors(topic, Code.UNKNOWN_TOPIC_ID)
            if name is None
            else _errors(topic, Code.TOPIC_AUTHORIZATION_FAILED)
            if name in denied
            else _topic(topic, [found[name, number] for number in topic.partition_indexes])
            for name, topic in zip(names, group.topics, strict=True)
        )
        return GroupResponse(group_id=group.group_id, topics=topics)
    except Refused as refused:
        return _refused(group, refused.code, caller.version < GROUP_ERRORS_FROM)


async def _ask(
    group: Group, partitions: tuple[tuple[str, int], ...] | None, requires_stable: bool, context: RequestContext
) -> tuple[FetchedOffset, ...]:
    command = FetchOffsets(group.group_id, partitions, group.member_id, group.member_epoch, requires_stable)
    try:
        offsets: tuple[FetchedOffset, ...] = (await context.groups.ask(group.group_id, command)).offsets
    except Refused as refused:
        if refused.code == Code.COORDINATOR_NOT_AVAILABLE:  # which Java's consumers before 3.9 take for final here
            raise Refused(Code.NOT_COORDINATOR, refused.message) from refused
        raise
    image = context.metadata.image
    if partitions is None:
        return tuple(one for one in offsets if not _is_of_another(one, image))
    return tuple(FetchedOffset(one.topic, one.partition) if _is_of_another(one, image) else one for one in offsets)


def _is_of_another(fetched: FetchedOffset, image: MetadataImage) -> bool:
    """Committed for an earlier topic of that name: this one begins anew, though that is not cleared away yet."""
    known = image.topic(fetched.topic)
    return known is not None and fetched.topic_id not in (NO_TOPIC_ID, known.id)


def _name(topic: AnyOffsetFetchTopic, by_id: bool, image: MetadataImage) -> str | None:
    if not by_id:
        return topic.name  # what was committed for a topic can be read even if the topic is gone
    known = None if topic.topic_id is None else image.topic_by_id(topic.topic_id.bytes)
    return None if known is None else known.name


def _all_topics(
    fetched: Iterable[FetchedOffset], by_id: bool, context: RequestContext
) -> Iterable[AnyOffsetFetchTopicResponse]:
    by_name: dict[str, list[FetchedOffset]] = {}
    for one in fetched:
        by_name.setdefault(one.topic, []).append(one)
    for name, offsets in by_name.items():
        known = context.metadata.image.topic(name)
        if by_id and known is None:
            continue  # a topic that is gone has no id to name it by
        topic_id = None if known is None else topic_ids.to_wire(known.id)
        yield _topic(AnyOffsetFetchTopic(name=name, topic_id=topic_id), offsets)


def _topic(topic: AnyOffsetFetchTopic, offsets: Iterable[FetchedOffset]) -> AnyOffsetFetchTopicResponse:
    return AnyOffsetFetchTopicResponse(
        name=topic.name,
        topic_id=topic.topic_id,
        partitions=tuple(
            PartitionResponse(
                partition_index=one.partition,
                committed_offset=one.offset,
                committed_leader_epoch=one.leader_epoch,
                metadata=one.metadata,
                error_code=one.code,
            )
            for one in offsets
        ),
    )


def _errors(topic: AnyOffsetFetchTopic, code: Code) -> AnyOffsetFetchTopicResponse:
    partitions = tuple(PartitionResponse(partition_index=number, error_code=code) for number in topic.partition_indexes)
    return AnyOffsetFetchTopicResponse(name=topic.name, topic_id=topic.topic_id, partitions=partitions)


def _refused(group: Group, code: Code, on_partitions: bool) -> GroupResponse:
    topics = tuple(_errors(topic, code) for topic in group.topics or ()) if on_partitions else ()
    return GroupResponse(group_id=group.group_id, topics=topics, error_code=code)


def _response(groups: tuple[GroupResponse, ...]) -> AnyOffsetFetchResponse:
    """In the shape of all versions: those before 8 take the first."""
    first = groups[0] if groups else GroupResponse()
    return AnyOffsetFetchResponse(groups=groups, topics=first.topics, error_code=first.error_code)


def refuse(request: AnyOffsetFetchRequest, code: Code, message: str | None) -> AnyOffsetFetchResponse:
    groups = request.groups or (Group(group_id=request.group_id, topics=request.topics),)
    return _response(tuple(_refused(group, code, on_partitions=True) for group in groups))
