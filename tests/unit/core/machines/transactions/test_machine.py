"""What becomes of transactional ids: Kafka's states, fences and refusals, in both protocols."""

from __future__ import annotations

from dataclasses import replace
from typing import get_args

import pytest

from chronik.core.config.sections.transactions import TransactionsConfig
from chronik.core.errors import Code
from chronik.core.machines.transactions.commands import (
    AddPartitions,
    AnyTransactionCommand,
    DescribeTransaction,
    EndTransaction,
    MarkersWritten,
    PartitionsAdded,
    PartitionsVerified,
    ProducerIdentity,
    TransactionCommand,
    TransactionCompleted,
    VerifyPartitions,
)
from chronik.core.machines.transactions.facts import TransactionSet
from chronik.core.machines.transactions.machine import ID_CHARS_MAX
from chronik.core.machines.transactions.transaction import (
    LAST_EPOCH,
    LAST_EPOCH_FOR_PRODUCERS,
    TransactionStatus,
)
from chronik.core.types import TopicPartition
from tests.unit.core.machines.transactions.machine_host import BILLS_0, ID, NOW_MS, ORDERS_0, ORDERS_1, Host

S = TransactionStatus
TV2 = 2
HOUR_MS = 3_600_000


def test_every_command_is_one_that_the_machine_decides() -> None:
    declared = {command.__name__ for command in TransactionCommand.__subclasses__()}
    assert declared == {command.__name__ for command in get_args(AnyTransactionCommand)}


# --- the way of a transaction


@pytest.mark.parametrize("commit", [True, False])
def test_a_transaction_of_the_older_protocol_keeps_its_epoch(commit: bool) -> None:
    host = Host()
    producer = host.producer()
    assert producer == (1001, 0)
    assert host.add(producer, ORDERS_0) == PartitionsAdded()
    assert host.add(producer, BILLS_0) == PartitionsAdded()
    assert host.status() is S.ONGOING
    assert host.transaction.partitions == {ORDERS_0, BILLS_0}

    assert host.end(producer, commit=commit) == producer
    assert host.status() is (S.PREPARE_COMMIT if commit else S.PREPARE_ABORT)
    assert [one.transactional_id for one in host.machine.prepared()] == [ID]
    assert host.markers() == TransactionCompleted(is_new=True)
    assert host.status() is (S.COMPLETE_COMMIT if commit else S.COMPLETE_ABORT)
    assert not host.transaction.partitions
    assert host.transaction.producer_epoch == 0
    assert not list(host.machine.prepared())

    assert host.add(producer, ORDERS_1) == PartitionsAdded()
    assert host.transaction.partitions == {ORDERS_1}


def test_with_transaction_version_2_each_end_raises_the_epoch() -> None:
    host = Host()
    producer = host.producer()
    for epoch in range(3):
        assert host.add(ProducerIdentity(producer.producer_id, epoch), client=TV2) == PartitionsAdded()
        told = host.end(ProducerIdentity(producer.producer_id, epoch), commit=epoch != 1, client=TV2)
        assert told == (producer.producer_id, epoch + 1)
        assert host.transaction.producer_epoch == epoch + 1  # markers carry it, and fence what is late
        host.markers()
        assert host.transaction.producer_epoch == epoch + 1


def test_partitions_that_are_in_the_transaction_are_not_written_again() -> None:
    host = Host()
    producer = host.producer()
    host.add(producer, ORDERS_0, BILLS_0)
    written = len(host.log)
    assert host.add(producer, BILLS_0) == PartitionsAdded()
    assert len(host.log) == written


def test_markers_of_another_transaction_complete_nothing() -> None:
    host = Host()
    producer = host.producer()
    host.add(producer)
    host.end(producer, commit=True)
    late = MarkersWritten(ID, ProducerIdentity(producer.producer_id, producer.producer_epoch + 1))
    assert host.ask(late) == TransactionCompleted(is_new=False)
    assert host.status() is S.PREPARE_COMMIT
    host.markers()
    assert host.ask(replace(late, producer=producer)) == TransactionCompleted(is_new=False)


# --- fencing


def test_a_second_instance_fences_the_first() -> None:
    host = Host()
    first = host.producer()
    second = host.producer()
    assert second == (first.producer_id, 1)
    assert host.add(first) is Code.PRODUCER_FENCED
    assert host.end(first, commit=True) is Code.PRODUCER_FENCED
    assert host.add(second) == PartitionsAdded()


@pytest.mark.parametrize(("version", "last_epoch"), [(0, -1), (1, -1), (2, 0)])
def test_a_second_instance_aborts_what_the_first_has_begun(version: int, last_epoch: int) -> None:
    host = Host(version)
    first = host.producer()
    host.add(first)
    assert host.init() is Code.CONCURRENT_TRANSACTIONS
    fenced = host.transaction
    assert fenced.status is S.PREPARE_ABORT
    assert fenced.producer_epoch == 1
    assert fenced.last_producer_epoch == last_epoch
    assert host.init() is Code.CONCURRENT_TRANSACTIONS  # until the markers are written
    assert host.transaction == fenced
    assert host.end(first, commit=True) is Code.PRODUCER_FENCED
    assert host.add(first) is Code.PRODUCER_FENCED
    host.markers()
    assert host.init() == (first.producer_id, 2)


def test_a_transaction_past_its_timeout_is_aborted() -> None:
    """A transaction past its timeout is aborted with an epoch its producer does not have."""
    host = Host()
    answer = host.init(timeout_ms=5_000)
    assert isinstance(answer, ProducerIdentity)
    host.now_ms += 60_000  # a producer that does nothing has no transaction to time out
    host.expire()
    assert host.status() is S.EMPTY
    host.add(answer)
    host.now_ms += 4_999
    host.add(answer, BILLS_0)  # more partitions do not give it more time
    host.expire()
    assert host.status() is S.ONGOING
    host.now_ms += 1
    host.expire()
    assert host.status() is S.PREPARE_ABORT
    assert host.transaction.producer_epoch == 1
    assert host.end(answer, commit=True) is Code.PRODUCER_FENCED
    host.markers()
    assert host.machine.next_deadline_ms() == NOW_MS + HOUR_MS


def test_the_next_transaction_has_a_time_of_its_own() -> None:
    host = Host()
    answer = host.init(timeout_ms=5_000)
    assert isinstance(answer, ProducerIdentity)
    host.add(answer)
    host.end(answer, commit=True)
    host.markers()
    host.now_ms += 4_000
    host.add(answer)
    host.now_ms += 4_999
    host.expire()
    assert host.status() is S.ONGOING


def test_a_node_that_takes_over_gives_a_transaction_what_is_left_of_its_time() -> None:
    host = Host()
    answer = host.init(timeout_ms=5_000)
    assert isinstance(answer, ProducerIdentity)
    host.add(answer)
    host.now_ms += 3_000
    other = host.replayed()
    assert other.machine.next_deadline_ms() == NOW_MS + 5_000
    host.now_ms -= 60_000  # its clock is behind: all of its time, and no more
    assert host.replayed().machine.next_deadline_ms() == host.now_ms + 5_000


# --- KIP-360: a producer goes on after an error


def test_a_producer_that_names_its_identity_goes_on_with_the_next_epoch() -> None:
    host = Host()
    producer = host.producer()
    assert host.init(producer) == (producer.producer_id, 1)
    assert host.init(producer) == (producer.producer_id, 1)  # the answer was lost: the same again
    assert host.init(ProducerIdentity(producer.producer_id, 1)) == (producer.producer_id, 2)


def test_a_producer_that_was_fenced_cannot_go_on() -> None:
    host = Host()
    first = host.producer()
    host.producer()
    assert host.init(first) is Code.PRODUCER_FENCED
    assert host.init(ProducerIdentity(first.producer_id + 1, 0)) is Code.PRODUCER_FENCED


def test_one_with_another_id_does_not_abort_what_is_ongoing() -> None:
    host = Host()
    producer = host.producer()
    host.add(producer)
    assert host.init(ProducerIdentity(5, 0)) is Code.PRODUCER_FENCED
    assert host.status() is S.ONGOING
    assert host.init(producer) is Code.CONCURRENT_TRANSACTIONS
    assert host.status() is S.PREPARE_ABORT


# --- epochs that are used up


def at_epoch(epoch: int) -> tuple[Host, ProducerIdentity]:
    host = Host()
    producer = host.producer()
    host.machine.apply(TransactionSet(replace(host.transaction, producer_epoch=epoch)))
    return host, ProducerIdentity(producer.producer_id, epoch)


def test_a_producer_gets_a_new_id_when_its_epochs_are_used_up() -> None:
    host, producer = at_epoch(LAST_EPOCH_FOR_PRODUCERS - 1)
    assert host.init() == (producer.producer_id, LAST_EPOCH_FOR_PRODUCERS)
    rotated = host.init()
    assert rotated == (producer.producer_id + 1, 0)
    assert host.transaction.previous_producer_id == producer.producer_id


def test_a_retry_with_the_old_id_is_known() -> None:
    host, producer = at_epoch(LAST_EPOCH_FOR_PRODUCERS)
    assert host.init(producer) == (producer.producer_id + 1, 0)
    assert host.init(producer) == (producer.producer_id + 1, 0)
    assert host.init(ProducerIdentity(producer.producer_id, 3)) is Code.PRODUCER_FENCED


def test_there_is_always_an_epoch_left_to_fence_with() -> None:
    host, producer = at_epoch(LAST_EPOCH_FOR_PRODUCERS)
    host.add(producer)
    assert host.init() is Code.CONCURRENT_TRANSACTIONS
    assert host.transaction.producer_epoch == LAST_EPOCH
    host.markers()
    assert host.init() == (producer.producer_id + 1, 0)


def test_with_version_2_the_next_id_takes_over_when_the_markers_are_written() -> None:
    host, producer = at_epoch(LAST_EPOCH_FOR_PRODUCERS)
    host.add(producer, client=TV2)
    assert host.end(producer, commit=True, client=TV2) == (producer.producer_id + 1, 0)
    prepared = host.transaction
    assert (prepared.producer_id, prepared.producer_epoch) == (producer.producer_id, LAST_EPOCH)
    assert prepared.next_producer_id == producer.producer_id + 1
    host = host.replayed()
    assert host.transaction.next_producer_id == producer.producer_id + 1
    host.markers()
    assert (host.transaction.producer_id, host.transaction.producer_epoch) == (producer.producer_id + 1, 0)
    # The answer was lost: the producer asks again with what it had.
    assert host.end(producer, commit=True, client=TV2) == (producer.producer_id + 1, 0)
    assert host.end(producer, commit=False, client=TV2) is Code.INVALID_TXN_STATE


# --- ends that are asked for again, or make no sense


def test_the_older_protocol_answers_an_end_that_is_asked_for_again() -> None:
    host = Host()
    producer = host.producer()
    assert host.end(producer, commit=True) is Code.INVALID_TXN_STATE  # nothing has begun
    assert host.end(producer, commit=False) is Code.INVALID_TXN_STATE
    host.add(producer)
    host.end(producer, commit=True)
    assert host.end(producer, commit=True) is Code.CONCURRENT_TRANSACTIONS
    assert host.end(producer, commit=False) is Code.INVALID_TXN_STATE
    assert host.add(producer) is Code.CONCURRENT_TRANSACTIONS
    host.markers()
    assert host.end(producer, commit=True) == producer
    assert host.end(producer, commit=False) is Code.INVALID_TXN_STATE


def test_with_version_2_a_retry_is_known_by_its_epoch() -> None:
    host = Host()
    first = host.producer()
    second = ProducerIdentity(first.producer_id, 1)
    host.add(first, client=TV2)
    host.end(first, commit=True, client=TV2)
    assert host.end(first, commit=True, client=TV2) is Code.CONCURRENT_TRANSACTIONS
    assert host.end(first, commit=False, client=TV2) is Code.CONCURRENT_TRANSACTIONS
    assert host.end(second, commit=True, client=TV2) is Code.PRODUCER_FENCED  # it cannot know that epoch yet
    host.markers()
    assert host.end(first, commit=True, client=TV2) == second
    assert host.end(first, commit=False, client=TV2) is Code.INVALID_TXN_STATE
    assert host.end(second, commit=True, client=TV2) is Code.INVALID_TXN_STATE  # that one has not begun


def test_a_retry_does_not_end_the_next_transaction() -> None:
    """F61: a commit is retried after its answer was lost, and meanwhile the next transaction is ongoing."""
    host = Host()
    first = host.producer()
    host.add(first, client=TV2)
    host.end(first, commit=True, client=TV2)
    host.markers()
    host.add(ProducerIdentity(first.producer_id, 1), client=TV2)
    assert host.end(first, commit=True, client=TV2) is Code.PRODUCER_FENCED
    assert host.status() is S.ONGOING


@pytest.mark.parametrize("after", ["nothing", "commit", "abort"])
def test_with_version_2_a_transaction_without_partitions_can_be_aborted(after: str) -> None:
    """With version 2 a transaction without partitions can be aborted and not committed."""
    host = Host()
    producer = host.producer()
    if after != "nothing":
        host.add(producer, client=TV2)
        answer = host.end(producer, commit=after == "commit", client=TV2)
        assert isinstance(answer, ProducerIdentity)
        producer = answer
        host.markers()
    assert host.end(producer, commit=True, client=TV2) is Code.INVALID_TXN_STATE
    assert host.end(producer, commit=False, client=TV2) == (producer.producer_id, producer.producer_epoch + 1)
    assert host.status() is S.PREPARE_ABORT
    assert not host.transaction.partitions
    assert host.markers() == TransactionCompleted(is_new=True)


# --- verification


def test_a_leader_is_told_which_partitions_are_in_the_transaction() -> None:
    host = Host()
    producer = host.producer()
    asked = VerifyPartitions(ID, producer, (ORDERS_0, BILLS_0))
    assert host.ask(asked) == PartitionsVerified((Code.TRANSACTION_ABORTABLE, Code.TRANSACTION_ABORTABLE))
    host.add(producer, BILLS_0)
    assert host.ask(asked) == PartitionsVerified((Code.TRANSACTION_ABORTABLE, Code.NONE))
    fenced = replace(asked, producer=ProducerIdentity(producer.producer_id, 5))
    assert host.ask(fenced) is Code.PRODUCER_FENCED
    other = replace(asked, producer=ProducerIdentity(1, 0))
    assert host.ask(other) is Code.INVALID_PRODUCER_ID_MAPPING
    host.end(producer, commit=True)
    assert host.ask(asked) is Code.CONCURRENT_TRANSACTIONS
    host.markers()
    assert host.ask(asked) == PartitionsVerified((Code.TRANSACTION_ABORTABLE, Code.TRANSACTION_ABORTABLE))


# --- refused


def test_what_is_not_known_is_refused() -> None:
    host = Host()
    nobody = ProducerIdentity(1, 0)
    for command in (
        AddPartitions(ID, nobody, (ORDERS_0,)),
        VerifyPartitions(ID, nobody, (ORDERS_0,)),
        EndTransaction(ID, nobody, is_commit=True),
    ):
        assert host.ask(command) is Code.INVALID_PRODUCER_ID_MAPPING
    assert host.ask(DescribeTransaction(ID)) is Code.TRANSACTIONAL_ID_NOT_FOUND
    host.producer()
    assert host.add(nobody) is Code.INVALID_PRODUCER_ID_MAPPING
    assert host.end(nobody, commit=True) is Code.INVALID_PRODUCER_ID_MAPPING
    assert host.end(nobody, commit=True, client=TV2) is Code.INVALID_PRODUCER_ID_MAPPING
    assert host.ask(DescribeTransaction(ID)) == host.transaction


@pytest.mark.parametrize(
    ("timeout_ms", "is_fine"), [(0, False), (-1, False), (1, True), (900_000, True), (900_001, False)]
)
def test_a_timeout_is_within_what_the_cluster_allows(timeout_ms: int, is_fine: bool) -> None:
    answer = Host().init(timeout_ms=timeout_ms)
    assert (answer is Code.INVALID_TRANSACTION_TIMEOUT) is not is_fine


def test_ids_and_partitions_have_bounds() -> None:
    host = Host(ids_max=2)
    assert host.init(id="x" * (ID_CHARS_MAX + 1)) is Code.INVALID_REQUEST
    producer = host.producer()
    assert isinstance(host.init(id="another"), ProducerIdentity)
    assert host.init(id="a third") is Code.INVALID_REQUEST
    assert isinstance(host.init(id="another"), ProducerIdentity)
    many = tuple(TopicPartition("t", number) for number in range(150_000))
    assert host.add(producer, *many) is Code.INVALID_REQUEST
    assert host.add(producer, *many[:100_000]) == PartitionsAdded()
    assert host.add(producer, *many[100_000:]) is Code.INVALID_REQUEST


# --- ids that are not used any more


def test_an_id_that_is_not_used_expires_and_an_open_transaction_keeps_it() -> None:
    config = TransactionsConfig(
        transactional_id_expiration_ms=10_000,
        transaction_remove_expired_transaction_cleanup_interval_ms=1_000,
        transaction_max_timeout_ms=10**9,
    )
    host = Host(config=config)
    host.init(id="unused")
    answer = host.init(timeout_ms=10**8)
    assert isinstance(answer, ProducerIdentity)
    host.add(answer)
    host.now_ms += 9_999
    host.expire()
    assert set(host.machine.transactions) == {"unused", ID}
    host.now_ms += 1_001
    host.expire()
    assert set(host.machine.transactions) == {ID}
    assert set(host.replayed().machine.transactions) == {ID}
    host.end(answer, commit=True)
    host.now_ms += 100_000
    host.expire()
    assert set(host.machine.transactions) == {ID}  # its markers are not written yet
    host.markers()
    host.now_ms += 11_000
    host.expire()
    assert not host.machine.transactions
