"""TxnOffsetCommit (28), versions 0-5. Where a group will go on reading, if the producer's transaction commits.

From 2 a leader epoch is kept beside. From 3 the consumer that the offsets come from is named, and fenced if it is a
member no longer (KIP-447). From 4 a client knows TRANSACTION_ABORTABLE. Up to 4 the client has added the group to its
transaction (AddOffsetsToTxn), and the coordinator of the transaction is asked whether that is so; from 5 the client
does not, and the coordinator is asked to add it (transaction version 2, KIP-890). Before 2 a client does not know
COORDINATOR_LOAD_IN_PROGRESS.
"""

from __future__ import annotations

import datetime

from kio.schema.txn_offset_commit.v5.request import TxnOffsetCommitRequest, TxnOffsetCommitRequestTopic
from kio.schema.txn_offset_commit.v5.response import (
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)

from chronik.api.context import Caller, RequestContext
from chronik.api.transactional import checked_id, verification
from chronik.core.errors import Code, Refused
from chronik.core.machines.groups.commands import CommitOffsetsInTransaction, OffsetToCommit
from chronik.core.machines.metadata.image import MetadataImage
from chronik.core.machines.metadata.image import Topic as KnownTopic
from chronik.core.machines.transactions.commands import ProducerIdentity
from chronik.core.types import TopicPartition

REQUEST = TxnOffsetCommitRequest
RESPONSE = TxnOffsetCommitResponse

LOADING_FROM = 2
ABORTABLE_FROM = 4
ADDS_FROM = 5

# The transaction's coordinator cannot say it now. A client that got this code would look for the group's
# coordinator, which has nothing to do with it: this one makes it ask again.
_AGAIN = (Code.NETWORK_EXCEPTION, Code.COORDINATOR_NOT_AVAILABLE, Code.NOT_COORDINATOR)


async def handle(request: TxnOffsetCommitRequest, caller: Caller, context: RequestContext) -> TxnOffsetCommitResponse:
    transactional_id = checked_id(request.transactional_id)
    desk = verification(context)
    if not request.group_id:
        raise Refused(Code.INVALID_GROUP_ID)
    # Looked up once: while coordinators are asked, topics come, go and grow.
    found = [_find(topic, context.metadata.image) for topic in request.topics]
    offsets = tuple(
        OffsetToCommit(
            known.name, p.partition_index, p.committed_offset, p.committed_leader_epoch, p.committed_metadata, known.id
        )
        for topic, (known, problems) in zip(request.topics, found, strict=True)
        for p, problem in zip(topic.partitions, problems, strict=True)
        if known is not None and not problem
    )
    codes: list[Code] = []
    if offsets:
        producer = ProducerIdentity(request.producer_id, request.producer_epoch)

        async def confirm(partition: TopicPartition) -> None:
            confirmed = await desk.confirm(transactional_id, producer, (partition,), adds=caller.version >= ADDS_FROM)
            if confirmed[partition]:
                raise _unconfirmed(confirmed[partition], caller.version)

        command = CommitOffsetsInTransaction(
            group_id=request.group_id,
            member_id=request.member_id,
            instance_id=request.group_instance_id,
            generation=request.generation_id,
            offsets=offsets,
            producer_id=request.producer_id,
        )
        try:
            codes = list((await context.groups.ask_in_transaction(command, producer, confirm)).codes)
        except Refused as refused:
            raise Refused(_known_code(refused.code, caller.version), refused.message) from refused
    given = iter(codes)
    topics = [
        _topic(topic, [problem or next(given) for problem in problems])
        for topic, (_, problems) in zip(request.topics, found, strict=True)
    ]
    return _response(topics)


def _unconfirmed(code: Code, version: int) -> Refused:
    if code in _AGAIN:
        return Refused(Code.COORDINATOR_LOAD_IN_PROGRESS, f"the transaction cannot be verified now: {code.name}")
    if code is Code.PRODUCER_FENCED:
        return Refused(Code.INVALID_PRODUCER_EPOCH, "another producer has this transactional id by now")
    if code is Code.CLUSTER_AUTHORIZATION_FAILED or (code is Code.TRANSACTION_ABORTABLE and version < ABORTABLE_FROM):
        return Refused(Code.INVALID_TXN_STATE, "the group was not added to the transaction")
    return Refused(code)


def _known_code(code: Code, version: int) -> Code:
    is_unknown = code is Code.COORDINATOR_LOAD_IN_PROGRESS and version < LOADING_FROM
    return Code.COORDINATOR_NOT_AVAILABLE if is_unknown else code


def _find(topic: TxnOffsetCommitRequestTopic, image: MetadataImage) -> tuple[KnownTopic | None, list[Code]]:
    """The topic, and for each partition why nothing can be committed for it: NONE where something can."""
    known = image.topic(topic.name)
    exists = range(0 if known is None else len(known.partitions))
    return known, [
        Code.NONE if partition.partition_index in exists else Code.UNKNOWN_TOPIC_OR_PARTITION
        for partition in topic.partitions
    ]


def _topic(topic: TxnOffsetCommitRequestTopic, codes: list[Code]) -> TxnOffsetCommitResponseTopic:
    return TxnOffsetCommitResponseTopic(
        name=topic.name,
        partitions=tuple(
            TxnOffsetCommitResponsePartition(partition_index=partition.partition_index, error_code=code)
            for partition, code in zip(topic.partitions, codes, strict=True)
        ),
    )


def _response(topics: list[TxnOffsetCommitResponseTopic]) -> TxnOffsetCommitResponse:
    return TxnOffsetCommitResponse(throttle_time=datetime.timedelta(0), topics=tuple(topics))


def refuse(request: TxnOffsetCommitRequest, code: Code, message: str | None) -> TxnOffsetCommitResponse:
    return _response([_topic(topic, [code] * len(topic.partitions)) for topic in request.topics])
