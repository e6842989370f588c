"""AddPartitionsToTxn (24), versions 0-5. Partitions that a producer is about to write to in its transaction.

Up to 3 a client asks for one transaction. From 4 partitions' leaders ask, for many at once: with `verify_only`
whether the partitions are in the transaction, else (transaction version 2, where clients do not ask by themselves) to
add them. A partition that does not exist fails its whole transaction: the others are OPERATION_NOT_ATTEMPTED. Before
2 a client does not know PRODUCER_FENCED.
"""

from __future__ import annotations

import asyncio

from chronik.api.context import Caller, RequestContext
from chronik.api.transactional import checked_id, fenced_code, transactions
from chronik.core.errors import Code, Refused
from chronik.core.machines.metadata.image import MetadataImage
from chronik.core.machines.metadata.names import is_internal
from chronik.core.machines.transactions.commands import AddPartitions, ProducerIdentity, VerifyPartitions
from chronik.core.types import TopicPartition
from chronik.wire.unions.add_partitions_to_txn import (
    AnyAddPartitionsPartitionResult,
    AnyAddPartitionsRequest,
    AnyAddPartitionsResponse,
    AnyAddPartitionsResult,
    AnyAddPartitionsTopicResult,
    AnyAddPartitionsTransaction,
)

REQUEST = AnyAddPartitionsRequest
RESPONSE = AnyAddPartitionsResponse

BATCHED_FROM = 4
FENCED_FROM = 2
EPOCH_BUMP_CLIENT = 2  # transaction.version of a client whose leader asks for it


async def handle(request: AnyAddPartitionsRequest, caller: Caller, context: RequestContext) -> AnyAddPartitionsResponse:
    if caller.version < BATCHED_FROM:
        codes = await _codes(_only(request), caller, context)
        return AnyAddPartitionsResponse(results_by_topic_v3_and_below=_results(_only(request), codes))
    if not caller.is_node:  # as Kafka asks for CLUSTER_ACTION
        raise Refused(Code.CLUSTER_AUTHORIZATION_FAILED)
    # Together: each waits until it is durable, and one round of that is enough for all.
    asked = await asyncio.gather(*(_codes(transaction, caller, context) for transaction in request.transactions))
    return AnyAddPartitionsResponse(
        results_by_transaction=tuple(
            AnyAddPartitionsResult(
                transactional_id=transaction.transactional_id, topic_results=_results(transaction, codes)
            )
            for transaction, codes in zip(request.transactions, asked, strict=True)
        )
    )


def _only(request: AnyAddPartitionsRequest) -> AnyAddPartitionsTransaction:
    return AnyAddPartitionsTransaction(
        transactional_id=request.v3_and_below_transactional_id,
        producer_id=request.v3_and_below_producer_id,
        producer_epoch=request.v3_and_below_producer_epoch,
        topics=request.v3_and_below_topics,
    )


async def _codes(
    transaction: AnyAddPartitionsTransaction, caller: Caller, context: RequestContext
) -> dict[TopicPartition, Code]:
    partitions = _partitions(transaction)
    problems = _problems(partitions, caller, context.metadata.image)
    if any(problems.values()):
        return {partition: code or Code.OPERATION_NOT_ATTEMPTED for partition, code in problems.items()}
    producer = ProducerIdentity(transaction.producer_id, transaction.producer_epoch)
    try:
        desk, transactional_id = transactions(context), checked_id(transaction.transactional_id)
        if transaction.verify_only:
            verified = await desk.ask(transactional_id, VerifyPartitions(transactional_id, producer, partitions))
            return dict(zip(partitions, verified.codes, strict=True))
        client_version = 0 if caller.version < BATCHED_FROM else EPOCH_BUMP_CLIENT
        await desk.ask(transactional_id, AddPartitions(transactional_id, producer, partitions, client_version))
    except Refused as refused:
        return dict.fromkeys(partitions, fenced_code(refused.code, caller.version, FENCED_FROM))
    return dict.fromkeys(partitions, Code.NONE)


def _partitions(transaction: AnyAddPartitionsTransaction) -> tuple[TopicPartition, ...]:
    return tuple(
        dict.fromkeys(TopicPartition(topic.name, number) for topic in transaction.topics for number in topic.partitions)
    )


def _problems(
    partitions: tuple[TopicPartition, ...], caller: Caller, image: MetadataImage
) -> dict[TopicPartition, Code]:
    """Of each partition. A client may not write to our own topics; a leader may ask about the offsets in one."""
    problems = {}
    for partition in partitions:
        topic = image.topic(partition.topic)
        if is_internal(partition.topic) and not caller.is_node:
            problems[partition] = Code.TOPIC_AUTHORIZATION_FAILED
        elif topic is None or not 0 <= partition.partition < len(topic.partitions):
            problems[partition] = Code.UNKNOWN_TOPIC_OR_PARTITION
        else:
            problems[partition] = Code.NONE
    return problems


def _results(
    transaction: AnyAddPartitionsTransaction, codes: dict[TopicPartition, Code]
) -> tuple[AnyAddPartitionsTopicResult, ...]:
    topics: dict[str, list[AnyAddPartitionsPartitionResult]] = {}
    for partition in _partitions(transaction):
        result = AnyAddPartitionsPartitionResult(
            partition_index=partition.partition, partition_error_code=codes[partition]
        )
        topics.setdefault(partition.topic, []).append(result)
    return tuple(
        AnyAddPartitionsTopicResult(name=name, results_by_partition=tuple(results)) for name, results in topics.items()
    )


def refuse(request: AnyAddPartitionsRequest, code: Code, message: str | None) -> AnyAddPartitionsResponse:
    """In the shape of all versions: up to 3 a code for each partition, from 4 one for all."""
    only = _only(request)
    return AnyAddPartitionsResponse(
        error_code=code,
        results_by_topic_v3_and_below=_results(only, dict.fromkeys(_partitions(only), code)),
    )
