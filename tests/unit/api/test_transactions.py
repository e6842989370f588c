"""The requests of a transactional producer, from its first to its last: what each version is told."""

from __future__ import annotations

import datetime
from dataclasses import replace
from typing import Any

import pytest
from kio.schema.add_offsets_to_txn.v4.request import AddOffsetsToTxnRequest
from kio.schema.describe_transactions.v0.request import DescribeTransactionsRequest
from kio.schema.end_txn.v5.request import EndTxnRequest
from kio.schema.init_producer_id.v5.request import InitProducerIdRequest
from kio.schema.list_transactions.v2.request import ListTransactionsRequest

from chronik.api import (
    add_offsets_to_txn,
    add_partitions_to_txn,
    describe_transactions,
    end_txn,
    find_coordinator,
    init_producer_id,
    list_transactions,
)
from chronik.api.context import RequestContext
from chronik.core.errors import Code
from chronik.core.machines.transactions.transaction import TransactionStatus
from chronik.core.types import TopicPartition
from chronik.wire.unions.add_partitions_to_txn import (
    AnyAddPartitionsRequest,
    AnyAddPartitionsTopic,
    AnyAddPartitionsTransaction,
)
from chronik.wire.unions.find_coordinator import AnyFindCoordinatorRequest
from tests.unit.api.fake_context import ask, fake_context
from tests.unit.api.fake_transactions import FakeTransactions, context_with_transactions

S = TransactionStatus
ID = "tx"
A_NODE = 2


@pytest.fixture
def desk() -> tuple[RequestContext, FakeTransactions]:
    return context_with_transactions(topics={"orders": 2, "bills": 1})


def init(context: RequestContext, version: int = 5, **fields: Any) -> Any:
    request = InitProducerIdRequest(
        transactional_id=fields.get("id", ID),
        transaction_timeout=datetime.timedelta(milliseconds=fields.get("timeout_ms", 60_000)),
        producer_id=fields.get("producer_id", -1),
        producer_epoch=fields.get("epoch", -1),
    )
    return ask(init_producer_id, request, context, version)


def add(context: RequestContext, version: int = 3, epoch: int = 0, **topics: tuple[int, ...]) -> dict[str, Any]:
    named = tuple(AnyAddPartitionsTopic(name=name, partitions=numbers) for name, numbers in topics.items())
    request = AnyAddPartitionsRequest(
        v3_and_below_transactional_id=ID,
        v3_and_below_producer_id=0,
        v3_and_below_producer_epoch=epoch,
        v3_and_below_topics=named,
    )
    answer = ask(add_partitions_to_txn, request, context, version)
    return {
        topic.name: [one.partition_error_code for one in topic.results_by_partition]
        for topic in answer.results_by_topic_v3_and_below
    }


def end(context: RequestContext, version: int = 4, epoch: int = 0, *, commit: bool = True, id: str = ID) -> Any:
    request = EndTxnRequest(transactional_id=id, producer_id=0, producer_epoch=epoch, committed=commit)
    return ask(end_txn, request, context, version)


def test_a_transaction_from_its_beginning_to_its_end(desk: tuple[RequestContext, FakeTransactions]) -> None:
    context, transactions = desk
    begun = init(context)
    assert (begun.error_code, begun.producer_id, begun.producer_epoch) == (Code.NONE, 0, 0)
    assert add(context, orders=(0, 1), bills=(0,)) == {"orders": [Code.NONE, Code.NONE], "bills": [Code.NONE]}
    offsets = AddOffsetsToTxnRequest(transactional_id=ID, producer_id=0, producer_epoch=0, group_id="abc")
    assert ask(add_offsets_to_txn, offsets, context, 4).error_code is Code.NONE
    partitions = transactions.machine.transactions[ID].partitions
    assert TopicPartition("__consumer_offsets", 3) in partitions
    assert len(partitions) == 4
    ended = end(context)
    assert (ended.error_code, ended.producer_epoch) == (Code.NONE, 0)
    assert transactions.machine.transactions[ID].status is S.PREPARE_COMMIT
    assert end(context).error_code is Code.CONCURRENT_TRANSACTIONS
    transactions.write_markers(ID)
    assert end(context).error_code is Code.NONE


def test_from_version_5_an_end_gives_the_next_epoch(desk: tuple[RequestContext, FakeTransactions]) -> None:
    context, _ = desk
    init(context)
    add(context, orders=(0,))
    ended = end(context, 5, commit=False)
    assert (ended.error_code, ended.producer_id, ended.producer_epoch) == (Code.NONE, 0, 1)


@pytest.mark.parametrize(
    ("version", "code"), [(0, Code.INVALID_PRODUCER_EPOCH), (1, Code.INVALID_PRODUCER_EPOCH), (2, Code.PRODUCER_FENCED)]
)
def test_a_fenced_producer_is_told_in_words_that_its_version_knows(version: int, code: Code) -> None:
    context, _ = context_with_transactions(topics={"orders": 1})
    init(context)
    init(context)
    assert add(context, version, orders=(0,)) == {"orders": [code]}
    assert end(context, version).error_code is code
    offsets = AddOffsetsToTxnRequest(transactional_id=ID, producer_id=0, producer_epoch=0, group_id="g")
    assert ask(add_offsets_to_txn, offsets, context, version).error_code is code


@pytest.mark.parametrize(("version", "code"), [(3, Code.INVALID_PRODUCER_EPOCH), (4, Code.PRODUCER_FENCED)])
def test_so_is_one_that_wants_to_go_on(version: int, code: Code) -> None:
    context, _ = context_with_transactions()
    init(context)
    init(context)
    refused = init(context, version, producer_id=0, epoch=0)
    assert (refused.error_code, refused.producer_id, refused.producer_epoch) == (code, -1, -1)


def test_what_makes_no_sense_is_refused(desk: tuple[RequestContext, FakeTransactions]) -> None:
    context, transactions = desk
    assert init(context, id="").error_code is Code.INVALID_REQUEST
    assert init(context, producer_id=5).error_code is Code.INVALID_REQUEST
    assert init(context, timeout_ms=0).error_code is Code.INVALID_TRANSACTION_TIMEOUT
    assert init(context, timeout_ms=10**9).error_code is Code.INVALID_TRANSACTION_TIMEOUT
    assert init(context, id="x" * 10_000).error_code is Code.INVALID_REQUEST
    assert end(context, id="").error_code is Code.INVALID_REQUEST
    assert end(context).error_code is Code.INVALID_PRODUCER_ID_MAPPING
    assert not transactions.machine.transactions


def test_one_partition_that_does_not_exist_fails_them_all(desk: tuple[RequestContext, FakeTransactions]) -> None:
    context, transactions = desk
    init(context)
    unknown, skipped = Code.UNKNOWN_TOPIC_OR_PARTITION, Code.OPERATION_NOT_ATTEMPTED
    assert add(context, orders=(0, 2, -1), bills=(0,)) == {"orders": [skipped, unknown, unknown], "bills": [skipped]}
    assert add(context, __transaction_state=(0,)) == {"__transaction_state": [Code.TOPIC_AUTHORIZATION_FAILED]}
    assert transactions.machine.transactions[ID].status is S.EMPTY


def batch(*transactions: AnyAddPartitionsTransaction) -> AnyAddPartitionsRequest:
    return AnyAddPartitionsRequest(transactions=transactions)


def test_leaders_ask_for_many_transactions_at_once(desk: tuple[RequestContext, FakeTransactions]) -> None:
    context, transactions = desk
    init(context)
    add(context, orders=(0,))
    topics = (AnyAddPartitionsTopic(name="orders", partitions=(0, 1)),)
    known = AnyAddPartitionsTransaction(
        transactional_id=ID, producer_id=0, producer_epoch=0, verify_only=True, topics=topics
    )
    unknown = replace(known, transactional_id="another")
    answer = ask(add_partitions_to_txn, batch(known, unknown), context, 5, node_id=A_NODE)
    assert [one.transactional_id for one in answer.results_by_transaction] == [ID, "another"]
    codes = [
        [part.partition_error_code for topic in one.topic_results for part in topic.results_by_partition]
        for one in answer.results_by_transaction
    ]
    assert codes == [[Code.NONE, Code.TRANSACTION_ABORTABLE], 2 * [Code.INVALID_PRODUCER_ID_MAPPING]]
    ask(add_partitions_to_txn, batch(replace(known, verify_only=False)), context, 5, node_id=A_NODE)
    one = transactions.machine.transactions[ID]
    assert (len(one.partitions), one.client_version) == (2, 2)


def test_a_client_may_not_ask_as_a_leader_does(desk: tuple[RequestContext, FakeTransactions]) -> None:
    context, transactions = desk
    answer = ask(add_partitions_to_txn, batch(AnyAddPartitionsTransaction(transactional_id=ID)), context, 5)
    assert answer.error_code is Code.CLUSTER_AUTHORIZATION_FAILED
    assert not transactions.asked


def test_a_whole_request_that_is_refused_says_so_for_each_partition() -> None:
    topics = (AnyAddPartitionsTopic(name="orders", partitions=(0, 1)),)
    refused = add_partitions_to_txn.refuse(
        AnyAddPartitionsRequest(v3_and_below_topics=topics), Code.UNKNOWN_SERVER_ERROR, None
    )
    (topic,) = refused.results_by_topic_v3_and_below
    assert [one.partition_error_code for one in topic.results_by_partition] == 2 * [Code.UNKNOWN_SERVER_ERROR]
    assert refused.error_code is Code.UNKNOWN_SERVER_ERROR


def test_a_transactional_id_has_its_coordinator(desk: tuple[RequestContext, FakeTransactions]) -> None:
    context, _ = desk
    for version in (3, 6):
        request = AnyFindCoordinatorRequest(key=ID, key_type=1, coordinator_keys=(ID,))
        (found,) = ask(find_coordinator, request, context, version).coordinators
        assert (found.error_code, found.node_id, found.port) == (Code.NONE, 3, 9094)


def test_a_node_that_coordinates_no_transactions_says_so_for_good() -> None:
    """The code that clients take as final: with any other some would ask for ever."""
    final = Code.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    context = fake_context(topics={"orders": 1})
    assert init(context).error_code is final
    assert end(context).error_code is final
    assert add(context, orders=(0,)) == {"orders": [final]}
    request = AnyFindCoordinatorRequest(key=ID, key_type=1)
    assert ask(find_coordinator, request, context, 3).error_code is final


def test_a_transaction_is_described(desk: tuple[RequestContext, FakeTransactions]) -> None:
    context, _ = desk
    init(context)
    add(context, orders=(0, 1), bills=(0,))
    request = DescribeTransactionsRequest(transactional_ids=(ID, "unknown", ""))
    found, unknown, empty = ask(describe_transactions, request, context, 0).transaction_states
    assert (found.transaction_state, found.producer_id, found.producer_epoch) == ("Ongoing", 0, 0)
    assert [(topic.topic, topic.partitions) for topic in found.topics] == [("bills", (0,)), ("orders", (0, 1))]
    assert found.transaction_start_time.timestamp() == 1_700_000_000
    assert found.transaction_timeout == datetime.timedelta(minutes=1)
    assert unknown.error_code is Code.TRANSACTIONAL_ID_NOT_FOUND
    assert empty.error_code is Code.INVALID_REQUEST


def listed(context: RequestContext, **fields: Any) -> list[str]:
    request = ListTransactionsRequest(
        state_filters=fields.get("states", ()),
        producer_id_filters=fields.get("producers", ()),
        duration_filter=fields.get("duration_ms", -1),
        transactional_id_pattern=fields.get("pattern"),
    )
    answer = ask(list_transactions, request, context, 2)
    assert answer.error_code is Code.NONE
    return [one.transactional_id for one in answer.transaction_states]


def test_transactions_are_listed_by_what_one_looks_for(desk: tuple[RequestContext, FakeTransactions]) -> None:
    context, transactions = desk
    init(context)
    init(context, id="tx-2")
    init(context, id="other")
    add(context, orders=(0,))
    assert listed(context) == [ID, "tx-2", "other"]
    assert listed(context, states=("Ongoing",)) == [ID]
    assert listed(context, states=("Empty", "Ongoing")) == [ID, "tx-2", "other"]
    assert listed(context, states=("NoSuch",)) == []
    assert listed(context, producers=(1, 2)) == ["tx-2", "other"]
    assert listed(context, pattern="tx.*") == [ID, "tx-2"]
    assert listed(context, pattern="x") == []
    assert listed(context, states=("Ongoing",), duration_ms=10**14) == []
    unknown = ListTransactionsRequest(
        state_filters=("NoSuch", "Empty"), producer_id_filters=(), duration_filter=-1, transactional_id_pattern=None
    )
    assert ask(list_transactions, unknown, context, 2).unknown_state_filters == ("NoSuch",)
    bad = replace(unknown, transactional_id_pattern="(")
    assert ask(list_transactions, bad, context, 2).error_code is Code.INVALID_REGULAR_EXPRESSION
    transactions.is_loading = True
    assert ask(list_transactions, unknown, context, 2).error_code is Code.COORDINATOR_LOAD_IN_PROGRESS
