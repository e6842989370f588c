"""Facts in Kafka's bytes and back."""

from __future__ import annotations

from typing import Any

import pytest

from chronik.core.errors import Corrupt
from chronik.core.machines.groups.classic_group import ClassicGroup, ClassicMember, ClassicState
from chronik.core.machines.groups.commands import TopicShape
from chronik.core.machines.groups.consumer_group import ClassicMetadata, Current, MemberState, Subscriber
from chronik.core.machines.groups.facts import (
    ClassicGroupForgotten,
    ClassicGroupSaved,
    CurrentSet,
    GroupEpochSet,
    GroupTopicsSet,
    OffsetSet,
    SubscriberSet,
    TargetEpochSet,
    TargetSet,
    TimerCleared,
)
from chronik.core.machines.groups.offsets import CommittedOffset
from chronik.core.machines.groups.records import decode, encode
from chronik.core.machines.groups.timers import TimerKey, TimerKind
from chronik.core.machines.machine import LogRecord

ID = bytes(range(16))
GROUP_OF_ONE = ClassicGroup(
    "g",
    ClassicState.STABLE,
    7,
    "consumer",
    "range",
    "a",
    1_000,
    {"a": ClassicMember("a", "i", "client", "/host", 10_000, 60_000, (("range", b"sub"),), b"assigned")},
)

FACTS: list[Any] = [
    OffsetSet("g", "t", 3, CommittedOffset(42, 5, "note", 1_000)),
    OffsetSet("g", "t", 3, CommittedOffset(42, -1, "note", 1_000, 9_000)),
    OffsetSet("g", "t", 3, None),
    ClassicGroupSaved(GROUP_OF_ONE),
    ClassicGroupSaved(ClassicGroup("g", ClassicState.EMPTY, 8, "consumer", None, None, 2_000)),
    ClassicGroupForgotten("g"),
    GroupEpochSet("g", 5),
    GroupEpochSet("g", None),
    GroupTopicsSet("g", {"t": TopicShape(ID, 4)}),
    GroupTopicsSet("g", None),
    SubscriberSet("g", "m", Subscriber("i", "rack", "client", "/host", ("t", "u"), "a.*", 60_000, "range")),
    SubscriberSet("g", "m", Subscriber()),
    SubscriberSet("g", "m", None),
    TargetEpochSet("g", 6),
    TargetEpochSet("g", None),
    TargetSet("g", "m", frozenset({(ID, 0), (ID, 2)})),
    TargetSet("g", "m", None),
    CurrentSet("g", "m", Current(6, 5, MemberState.UNREVOKED_PARTITIONS, frozenset({(ID, 0)}), frozenset({(ID, 1)}))),
    CurrentSet("g", "m", None),
    SubscriberSet("g", "m", Subscriber(topics=("t",), classic=ClassicMetadata(10_000, (("range", b"sub"),)))),
    OffsetSet("g", "t", 3, CommittedOffset(42, 5, "note", 1_000, topic_id=ID)),
]


@pytest.mark.parametrize("fact", FACTS, ids=lambda fact: type(fact).__name__)
def test_every_durable_fact_comes_back_as_it_was(fact: Any) -> None:
    assert fact.durable
    assert decode(encode(fact)) == fact


def test_the_bytes_of_a_member_of_the_classic_protocol_are_kafka_s() -> None:
    classic = ClassicMetadata(10_000, (("range", b"\x01\x02\x03"),))
    member = Subscriber(client_id="c", client_host="/h", topics=("t",), rebalance_timeout_ms=60_000, classic=classic)
    # As Kafka 4.3.1 writes a ConsumerGroupMemberMetadataValue: what is classic about it is behind tag 0.
    value = encode(SubscriberSet("g", "m", member)).value
    assert value is not None
    head, tagged = "0000" + "0000" + "0263" + "032f68" + "020274" + "00" + "0000ea60" + "00", "01" + "00" + "12"
    classic_bytes = "01" + "00002710" + "02" + "0672616e6765" + "04010203" + "00" + "00"
    assert value.hex() == head + tagged + classic_bytes


def test_the_bytes_of_a_commit_are_kafka_s() -> None:
    record = encode(FACTS[0])
    assert record.key is not None
    assert record.value is not None
    # key: version 1, group, topic, partition. value: version 3, offset, leader epoch, metadata, commit timestamp
    assert record.key.hex() == "0001" + "000167" + "000174" + "00000003"
    assert record.value.hex() == "0003" + "000000000000002a" + "00000005" + "00046e6f7465" + "00000000000003e8"


def test_a_commit_with_the_id_of_its_topic_has_kafka_s_bytes_too() -> None:
    value = encode(FACTS[-1]).value
    assert value is not None
    # version 4 is a flexible one: the id is a field with a tag
    assert (
        value.hex()
        == "0004" + "000000000000002a" + "00000005" + "056e6f7465" + "00000000000003e8" + "010010" + ID.hex()
    )


def test_the_bytes_of_a_classic_group_are_kafka_s() -> None:
    record = encode(FACTS[3])
    assert record.key is not None
    assert record.value is not None
    assert record.key.hex() == "0002" + "000167"
    member = "000161" + "000169" + "0006636c69656e74" + "00052f686f7374" + "0000ea60" + "00002710"
    member += "00000003737562" + "0000000861737369676e6564"
    head = "0003" + "0008636f6e73756d6572" + "00000007" + "000572616e6765" + "000161" + "00000000000003e8"
    assert record.value.hex() == head + "00000001" + member


def test_the_bytes_of_a_current_assignment_are_kafka_s() -> None:
    record = encode(FACTS[17])
    assert record.key is not None
    assert record.value is not None
    assert record.key.hex() == "0008" + "000167" + "00016d"
    assigned, revoking = ("02" + ID.hex() + "02" + f"{number:08x}" + "00" for number in (0, 1))
    assert record.value.hex() == "0000" + "00000006" + "00000005" + "01" + assigned + revoking + "00"


def test_values_of_newer_kafka_are_read() -> None:
    record = encode(FACTS[0])
    flexible = bytes.fromhex("0004" + "000000000000002a" + "00000005" + "056e6f7465" + "00000000000003e8" + "00")
    assert decode(LogRecord(record.key, flexible)) == FACTS[0]
    key = encode(FACTS[4]).key
    value = "0004" + "09" + b"consumer".hex() + "00000008" + "00" + "00" + "00000000000007d0" + "01" + "00"
    assert decode(LogRecord(key, bytes.fromhex(value))) == FACTS[4]


def test_keys_of_a_kind_we_do_not_know_are_passed_over() -> None:
    assert decode(LogRecord(b"\x00\x10\x00\x01g", b"\x00\x00")) is None


@pytest.mark.parametrize(
    "record",
    [
        LogRecord(None, b"\x00\x03"),
        LogRecord(b"\x00", b""),
        LogRecord(b"\x00\x01\x00\x09g", b"\x00\x03"),
        LogRecord(encode(FACTS[0]).key, b"\x00\x63"),
        LogRecord(encode(FACTS[0]).key, b"\x00\x03\x00"),
        LogRecord(encode(FACTS[3]).key, b"\x00\x63"),
        LogRecord(encode(FACTS[17]).key, b"\x00\x00\x01"),
    ],
)
def test_bytes_that_do_not_fit_are_corrupt(record: LogRecord) -> None:
    with pytest.raises(Corrupt):
        decode(record)


def test_a_passing_fact_has_no_record() -> None:
    with pytest.raises(TypeError):
        encode(TimerCleared(TimerKey(TimerKind.JOIN, "g")))
