"""TxnOffsetCommit (28), versions 0-6. Where a group will go on reading, if the producer's transaction commits.

From 2 a leader epoch is kept beside. From 3 the consumer that the offsets come from is named, and fenced if it is a
member no longer (KIP-447). From 4 a client knows TRANSACTION_ABORTABLE. Up to 4 the client has added the group to its
transaction (AddOffsetsToTxn), and the coordinator of the transaction is asked whether that is so; from 5 the client
does not, and the coordinator is asked to add it (transaction version 2, KIP-890). Before 2 a client does not know
COORDINATOR_LOAD_IN_PROGRESS. From 6 topics are named by id, and a client knows STALE_MEMBER_EPOCH and
GROUP_ID_NOT_FOUND, which are ILLEGAL_GENERATION before (Kafka 4.4).
"""

from __future__ import annotations

from kio.schema.txn_offset_commit.v5.response import TxnOffsetCommitResponsePartition

from chronik.api.context import Caller, RequestContext
from chronik.api.topics_to_commit import TopicsToCommit
from chronik.api.transactional import checked_id, verification
from chronik.core.errors import Code, Refused
from chronik.core.machines.groups.commands import CommitOffsetsInTransaction
from chronik.core.machines.transactions.commands import ProducerIdentity
from chronik.core.types import TopicPartition
from chronik.wire.unions.txn_offset_commit import (
    AnyTxnOffsetCommitRequest,
    AnyTxnOffsetCommitResponse,
    AnyTxnOffsetCommitTopic,
    AnyTxnOffsetCommitTopicResponse,
)

REQUEST = AnyTxnOffsetCommitRequest
RESPONSE = AnyTxnOffsetCommitResponse

LOADING_FROM = 2
ABORTABLE_FROM = 4
ADDS_FROM = 5
TOPIC_IDS_FROM = KNOWS_EPOCHS_FROM = 6

# The transaction's coordinator cannot say it now. A client that got this code would look for the group's
# coordinator, which has nothing to do with it: this one makes it ask again.
_AGAIN = (Code.NETWORK_EXCEPTION, Code.COORDINATOR_NOT_AVAILABLE, Code.NOT_COORDINATOR)


async def handle(
    request: AnyTxnOffsetCommitRequest, caller: Caller, context: RequestContext
) -> AnyTxnOffsetCommitResponse:
    transactional_id = checked_id(request.transactional_id)
    desk = verification(context)
    if not request.group_id:
        raise Refused(Code.INVALID_GROUP_ID)
    wanted = TopicsToCommit(request.topics, caller.version >= TOPIC_IDS_FROM, context.metadata.image)
    codes: list[Code] = []
    if wanted.offsets:
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
            offsets=wanted.offsets,
            producer_id=request.producer_id,
            knows_epochs=caller.version >= KNOWS_EPOCHS_FROM,
        )
        try:
            codes = list((await context.groups.ask_in_transaction(command, producer, confirm)).codes)
        except Refused as refused:
            raise Refused(_known_code(refused.code, caller.version), refused.message) from refused
    topics = map(_topic, request.topics, wanted.codes(codes))
    return AnyTxnOffsetCommitResponse(topics=tuple(topics))


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


def _topic(topic: AnyTxnOffsetCommitTopic, codes: list[Code]) -> AnyTxnOffsetCommitTopicResponse:
    return AnyTxnOffsetCommitTopicResponse(
        name=topic.name,
        topic_id=topic.topic_id,
        partitions=tuple(
            TxnOffsetCommitResponsePartition(partition_index=partition.partition_index, error_code=code)
            for partition, code in zip(topic.partitions, codes, strict=True)
        ),
    )


def refuse(request: AnyTxnOffsetCommitRequest, code: Code, message: str | None) -> AnyTxnOffsetCommitResponse:
    return AnyTxnOffsetCommitResponse(
        topics=tuple(_topic(topic, [code] * len(topic.partitions)) for topic in request.topics)
    )
