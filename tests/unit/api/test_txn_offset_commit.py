"""TxnOffsetCommit: the transaction is confirmed first; then the offsets are the group's to take."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from kio.schema.txn_offset_commit.v5.request import TxnOffsetCommitRequestPartition

from chronik.api import txn_offset_commit
from chronik.api.context import RequestContext, TransactionContext
from chronik.core.errors import Code, Refused
from chronik.core.machines.groups.commands import CommitOffsetsInTransaction, OffsetToCommit
from chronik.core.machines.transactions.commands import ProducerIdentity
from chronik.core.types import TopicPartition
from chronik.wire.unions.txn_offset_commit import AnyTxnOffsetCommitRequest, AnyTxnOffsetCommitTopic
from tests.unit.api.fake_context import ask, groups_of
from tests.unit.api.grouped_context import grouped_context, refusing_desk
from tests.unit.core.machines.groups.host import Host, fetch

VERSIONS = range(6)
GROUP = "g"


class FakeVerification:
    """A transaction's coordinator that says the same to all."""

    def __init__(self, code: Code = Code.NONE) -> None:
        self.code = code
        self.asked: list[tuple[str, ProducerIdentity, tuple[TopicPartition, ...], bool]] = []

    async def confirm(
        self, transactional_id: str, producer: ProducerIdentity, partitions: Sequence[TopicPartition], *, adds: bool
    ) -> dict[TopicPartition, Code]:
        self.asked.append((transactional_id, producer, tuple(partitions), adds))
        return dict.fromkeys(partitions, self.code)


def desk(code: Code = Code.NONE) -> tuple[RequestContext, Host, FakeVerification]:
    context, host = grouped_context({"orders": 2, "bills": 1})
    verification = FakeVerification(code)
    return replace(context, transactional=TransactionContext(verification=verification)), host, verification


def request(*offsets: tuple[str, int, int], **fields: Any) -> AnyTxnOffsetCommitRequest:
    partition: Any = TxnOffsetCommitRequestPartition
    topics: dict[str, list[Any]] = {}
    for topic, number, offset in offsets or (("orders", 0, 9),):
        topics.setdefault(topic, []).append(
            partition(
                partition_index=number, committed_offset=offset, committed_leader_epoch=3, committed_metadata="note"
            )
        )
    return AnyTxnOffsetCommitRequest(
        **{
            "transactional_id": "tx",
            "group_id": GROUP,
            "producer_id": 7,
            "producer_epoch": 2,
            "generation_id": -1,
            "member_id": "",
            "group_instance_id": None,
            **fields,
        },
        topics=tuple(AnyTxnOffsetCommitTopic(name=name, partitions=tuple(own)) for name, own in topics.items()),
    )


def codes(response: Any) -> list[tuple[str, int, Code]]:
    return [(topic.name, one.partition_index, one.error_code) for topic in response.topics for one in topic.partitions]


@pytest.mark.parametrize("version", VERSIONS)
def test_offsets_are_pending_once_the_transaction_is_confirmed(version: int) -> None:
    """From version 5 its coordinator is asked to add the group's partition; before, whether the client has."""
    context, host, verification = desk()

    response = ask(txn_offset_commit, request(("orders", 1, 9), ("bills", 0, 4)), context, version)

    assert codes(response) == [("orders", 1, Code.NONE), ("bills", 0, Code.NONE)]
    offsets_partition = TopicPartition("__consumer_offsets", len(GROUP))
    assert verification.asked == [("tx", ProducerIdentity(7, 2), (offsets_partition,), version >= 5)]
    assert groups_of(context).producers == [ProducerIdentity(7, 2)]
    host.mark(7)
    assert [one.offset for one in host.ask(fetch(("orders", 1), ("bills", 0))).offsets] == [9, 4]


def test_all_that_the_request_says_reaches_the_machine() -> None:
    context, _, _ = desk()
    ask(txn_offset_commit, request(member_id="m", generation_id=5, group_instance_id="i"), context, 5)
    topic_id = context.metadata.image.topics["orders"].id
    offset = OffsetToCommit("orders", 0, 9, 3, "note", topic_id)
    assert groups_of(context).asked == [(GROUP, CommitOffsetsInTransaction(GROUP, "m", "i", 5, (offset,), 7))]


@pytest.mark.parametrize(
    ("said", "version", "told"),
    [
        (Code.PRODUCER_FENCED, 5, Code.INVALID_PRODUCER_EPOCH),
        (Code.TRANSACTION_ABORTABLE, 4, Code.TRANSACTION_ABORTABLE),
        (Code.TRANSACTION_ABORTABLE, 3, Code.INVALID_TXN_STATE),
        (Code.CLUSTER_AUTHORIZATION_FAILED, 5, Code.INVALID_TXN_STATE),
        (Code.INVALID_PRODUCER_ID_MAPPING, 5, Code.INVALID_PRODUCER_ID_MAPPING),
        (Code.CONCURRENT_TRANSACTIONS, 5, Code.CONCURRENT_TRANSACTIONS),
        (Code.NETWORK_EXCEPTION, 2, Code.COORDINATOR_LOAD_IN_PROGRESS),
        (Code.NOT_COORDINATOR, 5, Code.COORDINATOR_LOAD_IN_PROGRESS),
        (Code.COORDINATOR_NOT_AVAILABLE, 5, Code.COORDINATOR_LOAD_IN_PROGRESS),
        (Code.NETWORK_EXCEPTION, 1, Code.COORDINATOR_NOT_AVAILABLE),
    ],
)
def test_an_unconfirmed_transaction_commits_nothing(said: Code, version: int, told: Code) -> None:
    """An unconfirmed transaction commits nothing and its client hears a code it knows."""
    context, host, _ = desk(said)
    response = ask(txn_offset_commit, request(("orders", 0, 9), ("bills", 0, 4)), context, version)
    assert codes(response) == [("orders", 0, told), ("bills", 0, told)]
    assert (groups_of(context).asked, host.machine.groups) == ([], {})


@pytest.mark.parametrize(
    ("code", "version", "told"),
    [
        (Code.COORDINATOR_LOAD_IN_PROGRESS, 1, Code.COORDINATOR_NOT_AVAILABLE),
        (Code.COORDINATOR_LOAD_IN_PROGRESS, 2, Code.COORDINATOR_LOAD_IN_PROGRESS),
        (Code.ILLEGAL_GENERATION, 3, Code.ILLEGAL_GENERATION),
        (Code.INVALID_PRODUCER_EPOCH, 5, Code.INVALID_PRODUCER_EPOCH),
    ],
)
def test_a_refusal_of_the_group_is_each_partitions(code: Code, version: int, told: Code) -> None:
    context = replace(
        refusing_desk(Refused(code), {"orders": 2}), transactional=TransactionContext(verification=FakeVerification())
    )
    response = ask(txn_offset_commit, request(("orders", 0, 9), ("orders", 1, 4)), context, version)
    assert codes(response) == [("orders", 0, told), ("orders", 1, told)]


def test_a_partition_that_does_not_exist_is_refused_and_the_others_are_taken() -> None:
    context, host, _ = desk()
    response = ask(txn_offset_commit, request(("nowhere", 0, 1), ("orders", 2, 1), ("orders", 0, 9)), context, 5)
    unknown = Code.UNKNOWN_TOPIC_OR_PARTITION
    assert codes(response) == [("nowhere", 0, unknown), ("orders", 2, unknown), ("orders", 0, Code.NONE)]
    host.mark(7)
    assert host.ask(fetch(("orders", 0))).offsets[0].offset == 9


def test_where_no_partition_exists_nobody_is_asked() -> None:
    context, _, verification = desk()
    ask(txn_offset_commit, request(("nowhere", 0, 1)), context, 5)
    assert (verification.asked, groups_of(context).asked) == ([], [])


@pytest.mark.parametrize(
    ("fields", "code"),
    [({"transactional_id": ""}, Code.INVALID_REQUEST), ({"group_id": ""}, Code.INVALID_GROUP_ID)],
)
def test_an_empty_id_is_refused(fields: dict[str, str], code: Code) -> None:
    context, _, verification = desk()
    assert codes(ask(txn_offset_commit, request(**fields), context, 5)) == [("orders", 0, code)]
    assert verification.asked == []


def test_a_node_without_transactions_refuses_for_good() -> None:
    context, _ = grouped_context({"orders": 1})
    refused = codes(ask(txn_offset_commit, request(), context, 5))
    assert refused == [("orders", 0, Code.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)]


def test_version_6_names_topics_by_id_and_is_answered_so() -> None:
    context, host, _ = desk()
    known, gone = uuid.UUID(bytes=context.metadata.image.topics["orders"].id), uuid.UUID(int=99)
    asked = request(("a", 1, 9), ("b", 0, 4), ("c", 0, 4), ("d", 2, 1), generation_id=-1)
    ids = (known, gone, None, known)
    topics = tuple(replace(topic, name="", topic_id=one) for topic, one in zip(asked.topics, ids, strict=True))

    response = ask(txn_offset_commit, replace(asked, topics=topics), context, 6)

    assert [(topic.name, topic.topic_id, topic.partitions[0].error_code) for topic in response.topics] == [
        ("", known, Code.NONE),
        ("", gone, Code.UNKNOWN_TOPIC_ID),
        ("", None, Code.UNKNOWN_TOPIC_ID),
        ("", known, Code.UNKNOWN_TOPIC_OR_PARTITION),
    ]
    host.mark(7)
    assert [one.offset for one in host.ask(fetch(("orders", 1))).offsets] == [9]


@pytest.mark.parametrize(("version", "code"), [(5, Code.ILLEGAL_GENERATION), (6, Code.GROUP_ID_NOT_FOUND)])
def test_a_group_that_is_not_there_is_said_in_words_that_the_version_knows(version: int, code: Code) -> None:
    context, _, _ = desk()
    asked = request(generation_id=3)
    topic_id = uuid.UUID(bytes=context.metadata.image.topics["orders"].id)
    topics = tuple(replace(topic, topic_id=topic_id) for topic in asked.topics)
    assert codes(ask(txn_offset_commit, replace(asked, topics=topics), context, version)) == [("orders", 0, code)]
