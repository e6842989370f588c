"""The bytes of the metadata log. Expected bytes are written out by hand from Kafka's schemas."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chronik.core.errors import Corrupt
from chronik.core.machines.metadata.records import (
    AccessControlEntryRecord,
    BrokerEndpoint,
    BrokerFeature,
    BrokerRegistrationChangeRecord,
    ConfigRecord,
    FeatureLevelRecord,
    PartitionChangeRecord,
    PartitionRecord,
    ProducerIdsRecord,
    RegisterBrokerRecord,
    RemoveAccessControlEntryRecord,
    RemoveTopicRecord,
    RemoveUserScramCredentialRecord,
    TopicRecord,
    UnregisterBrokerRecord,
    UserScramCredentialRecord,
    decode,
    encode,
)

ID = bytes(range(16))


def hexed(*parts: str) -> bytes:
    return bytes.fromhex("".join(parts).replace(" ", ""))


EXAMPLES: list[tuple[Any, bytes]] = [
    (
        AccessControlEntryRecord(ID, 2, "t", 3, "User:a", "*", 4, 3),
        hexed("01 12 00", ID.hex(), "02 02 74 03", "07 557365723a61", "02 2a", "04 03 00"),
    ),
    (RemoveAccessControlEntryRecord(ID), hexed("01 13 00", ID.hex(), "00")),
    (
        UserScramCredentialRecord("a", 1, b"\x01", b"\x02\x03", b"\x04", 4096),
        hexed("01 0b 00", "02 61 01", "02 01", "03 0203", "02 04", "00001000 00"),
    ),
    (RemoveUserScramCredentialRecord("a", 2), hexed("01 16 00", "02 61 02 00")),
    (
        RegisterBrokerRecord(
            broker_id=1,
            incarnation_id=ID,
            broker_epoch=5,
            end_points=(BrokerEndpoint("PLAINTEXT", "h", 65_000, 0),),
            features=(BrokerFeature("f", 1, 7),),
            rack=None,
            fenced=False,
            in_controlled_shutdown=False,
        ),
        # frame 1, key 0, version 1; broker id, incarnation, epoch
        hexed("01 00 01", "00000001", ID.hex(), "0000000000000005")
        # one end point: name, host, port, protocol, no tags
        + hexed("02", "0a 504c41494e54455854", "02 68", "fde8", "0000", "00")
        # one feature: name, from, to, no tags; no rack, not fenced, not stopping, no tags
        + hexed("02", "02 66", "0001", "0007", "00", "00", "00", "00", "00"),
    ),
    (TopicRecord("t", ID), hexed("01 02 00", "02 74", ID.hex(), "00")),
    (
        PartitionRecord(3, ID, (1, 2), (1,), (), (), leader=1, leader_epoch=4, partition_epoch=6),
        hexed("01 03 00", "00000003", ID.hex(), "03 00000001 00000002", "02 00000001", "01", "01")
        + hexed("00000001", "00000004", "00000006", "00"),
    ),
    (ConfigRecord(2, "t", "k", "v"), hexed("01 04 00", "02", "02 74", "02 6b", "02 76", "00")),
    (ConfigRecord(4, "", "k", None), hexed("01 04 00", "04", "01", "02 6b", "00", "00")),
    (
        PartitionChangeRecord(3, ID, isr=(1,), leader=2),
        # two tags: 0 (in-sync, 5 bytes) and 1 (leader, 4 bytes)
        hexed("01 05 00", "00000003", ID.hex(), "02", "00 05 02 00000001", "01 04 00000002"),
    ),
    (PartitionChangeRecord(0, ID), hexed("01 05 00", "00000000", ID.hex(), "00")),
    (
        PartitionChangeRecord(3, ID, (), -1, (1, 2), (2,), (1,), 1, (2, 3)),
        # version 2 for its tag 6; tags 0 to 6: in-sync, leader, replicas, removing, adding, recovering, eligible
        hexed("01 05 02", "00000003", ID.hex(), "07", "00 01 01", "01 04 ffffffff", "02 09 03 00000001 00000002")
        + hexed("03 05 02 00000002", "04 05 02 00000001", "05 01 01", "06 09 03 00000002 00000003"),
    ),
    (
        PartitionChangeRecord(3, ID, removing_replicas=(), adding_replicas=(), leader_recovery_state=0),
        hexed("01 05 00", "00000003", ID.hex(), "03", "03 01 01", "04 01 01", "05 01 00"),
    ),
    (
        BrokerRegistrationChangeRecord(2, 5, fenced=1),
        hexed("01 11 01", "00000002", "0000000000000005", "01", "00 01 01"),
    ),
    (
        BrokerRegistrationChangeRecord(2, 5, fenced=-1),
        hexed("01 11 01", "00000002", "0000000000000005", "01", "00 01 ff"),
    ),
    (
        BrokerRegistrationChangeRecord(2, 5, in_controlled_shutdown=1),
        hexed("01 11 01", "00000002", "0000000000000005", "01", "01 01 01"),
    ),
    (UnregisterBrokerRecord(2, 5), hexed("01 01 00", "00000002", "0000000000000005", "00")),
    (RemoveTopicRecord(ID), hexed("01 09 00", ID.hex(), "00")),
    (
        FeatureLevelRecord("metadata.version", 7),
        hexed("01 0c 00", "11", b"metadata.version".hex(), "0007", "00"),
    ),
    (ProducerIdsRecord(1, 5, 1000), hexed("01 0f 00", "00000001", "0000000000000005", "00000000000003e8", "00")),
]


@pytest.mark.parametrize(("record", "expected"), EXAMPLES)
def test_a_record_has_kafkas_bytes(record: Any, expected: bytes) -> None:
    assert encode(record) == expected
    assert decode(expected) == record


def test_a_record_of_a_kind_we_do_not_know_is_passed_over() -> None:
    assert decode(hexed("01 19 00", "00")) is None


def test_a_change_written_by_kafka_is_read_with_the_tags_we_do_not_use() -> None:
    # Last known eligible leaders (7) and directories (8) of version 2.
    value = hexed("01 05 02", "00000003", ID.hex(), "03", "01 04 00000002", "07 05 02 00000001", "08 11 02", ID.hex())

    assert decode(value) == PartitionChangeRecord(3, ID, leader=2)


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (b"", "no frame"),
        (hexed("01 02"), "no frame"),
        (hexed("02 02 00", "02 74", ID.hex(), "00"), "unknown frame version 2"),
        (hexed("01 02 05", "02 74", ID.hex(), "00"), "TopicRecord of version 5"),
        (hexed("01 02 00", "02 74", ID.hex()[:-2]), "does not decode"),
    ],
)
def test_bytes_that_are_no_record_are_corrupt(value: bytes, words: str) -> None:
    with pytest.raises(Corrupt, match=words):
        decode(value)


@given(st.sampled_from(EXAMPLES), st.data())
def test_a_record_cut_short_is_never_taken_for_whole(example: tuple[Any, bytes], data: st.DataObject) -> None:
    _, whole = example
    cut = whole[: data.draw(st.integers(0, len(whole) - 1))]

    with pytest.raises(Corrupt):
        decode(cut)
