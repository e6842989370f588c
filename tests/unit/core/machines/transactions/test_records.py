"""The records of `__transaction_state`, byte for byte as Kafka has them."""

from __future__ import annotations

import pytest

from chronik.core.errors import Corrupt
from chronik.core.machines.machine import LogRecord
from chronik.core.machines.transactions.facts import ExpiryLookedAt, TransactionForgotten, TransactionSet
from chronik.core.machines.transactions.records import decode, encode
from chronik.core.machines.transactions.transaction import Transaction, TransactionStatus
from chronik.core.types import TopicPartition

ONGOING = Transaction(
    "tx",
    producer_id=9,
    producer_epoch=3,
    timeout_ms=60_000,
    status=TransactionStatus.ONGOING,
    partitions=frozenset({TopicPartition("b", 0), TopicPartition("a", 1), TopicPartition("a", 0)}),
    start_ms=100,
    last_update_ms=200,
    previous_producer_id=8,
    next_producer_id=10,
    client_version=2,
)
KEY = "000000027478"


def test_version_0_is_kafkas_classic_encoding() -> None:
    record = encode(TransactionSet(ONGOING, record_version=0))
    assert record.key == bytes.fromhex(KEY)
    assert record.value == bytes.fromhex(
        "0000" "0000000000000009" "0003" "0000ea60" "01"
        "00000002" "000161" "00000002" "00000000" "00000001" "000162" "00000001" "00000000"
        "00000000000000c8" "0000000000000064"
    )  # fmt: skip


def test_version_1_is_flexible_and_has_three_tags() -> None:
    record = encode(TransactionSet(ONGOING, record_version=1))
    assert record.key == bytes.fromhex(KEY)
    assert record.value == bytes.fromhex(
        "0001" "0000000000000009" "0003" "0000ea60" "01"
        "03" "0261" "03" "00000000" "00000001" "00" "0262" "02" "00000000" "00"
        "00000000000000c8" "0000000000000064"
        "03" "00" "08" "0000000000000008" "01" "08" "000000000000000a" "02" "02" "0002"
    )  # fmt: skip


def test_an_empty_transaction_has_no_partitions_and_an_ended_one_an_empty_list() -> None:
    empty = Transaction("tx", 9, 0, 60_000, last_update_ms=200)
    first = encode(TransactionSet(empty, record_version=1)).value
    assert first is not None
    assert first[17:18] == b"\x00"
    ended = Transaction("tx", 9, 0, 60_000, TransactionStatus.COMPLETE_COMMIT, last_update_ms=200)
    second = encode(TransactionSet(ended, record_version=1)).value
    assert second is not None
    assert second[17:18] == b"\x01"


def test_what_was_written_is_read_again() -> None:
    assert decode(encode(TransactionSet(ONGOING))) == TransactionSet(ONGOING)
    older = decode(encode(TransactionSet(ONGOING, record_version=0)))
    assert isinstance(older, TransactionSet)
    assert older.transaction.partitions == ONGOING.partitions
    assert (older.transaction.previous_producer_id, older.transaction.client_version) == (-1, 0)
    assert decode(encode(TransactionForgotten("tx"))) == TransactionForgotten("tx")
    assert encode(TransactionForgotten("tx")).value is None


def test_a_key_of_a_later_version_is_passed_over() -> None:
    assert decode(LogRecord(b"\x00\x09anything", b"x")) is None


def test_what_cannot_be_read_is_corrupt() -> None:
    key = bytes.fromhex(KEY)
    for record in (
        LogRecord(None, b"x"),
        LogRecord(key, b"\x00"),
        LogRecord(key, b"\x00\x02"),
        LogRecord(key, b"\x00\x01\x00"),
        LogRecord(key, encode(TransactionSet(ONGOING)).value[:13] + b"\x09"),  # type: ignore[index]
    ):
        with pytest.raises(Corrupt):
            decode(record)


def test_a_volatile_fact_has_no_record() -> None:
    with pytest.raises(TypeError):
        encode(ExpiryLookedAt(1))
