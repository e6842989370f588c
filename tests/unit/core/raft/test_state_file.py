"""The file with the vote: Kafka's format, and no damage goes unnoticed."""

from __future__ import annotations

import json

import pytest

from chronik.core.errors import Corrupt
from chronik.core.raft.ready import ElectionState
from chronik.core.raft.state_file import decode, encode

# As Kafka's FileQuorumStateStore documents it.
OF_KAFKA = b'{"leaderId":-1,"leaderEpoch":2,"votedId":1,"votedDirectoryId":"J8aAPcfLQt2bqs1JT_rMgQ","data_version":1}'


@pytest.mark.parametrize(
    "election",
    [
        ElectionState(),
        ElectionState(5, 2, None),
        ElectionState(7, None, 3),
        ElectionState(8, 3, 3),
        ElectionState(2**31 - 1, 0, 0),
    ],
)
def test_what_is_written_is_read_again(election: ElectionState) -> None:
    assert decode(encode(election)) == election


def test_a_file_that_kafka_wrote_is_read() -> None:
    assert decode(OF_KAFKA) == ElectionState(epoch=2, voted_for=1, leader=None)


def test_kafka_finds_the_fields_it_knows() -> None:
    fields = json.loads(encode(ElectionState(2, 1, None), bytes.fromhex("27c6803dc7cb42dd9baacd494ffacc81")))

    fields.pop("crc32c")
    assert fields == json.loads(OF_KAFKA)


def test_any_flipped_bit_is_noticed() -> None:
    content = encode(ElectionState(5, 2, 3))
    for position in range(len(content)):
        for bit in range(8):
            damaged = bytearray(content)
            damaged[position] ^= 1 << bit
            with pytest.raises(Corrupt):
                decode(bytes(damaged))


def test_a_file_cut_anywhere_is_noticed() -> None:
    content = encode(ElectionState(5, 2, 3))
    for size in range(len(content)):
        with pytest.raises(Corrupt):
            decode(content[:size])


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("leaderEpoch", -1),
        ("leaderEpoch", 2**31),
        ("leaderEpoch", "2"),
        ("leaderEpoch", True),
        ("leaderId", -2),
        ("votedId", None),
        ("data_version", 0),
        ("data_version", 2),
    ],
)
def test_a_value_that_cannot_be_is_refused_also_without_a_checksum(field: str, value: object) -> None:
    fields = json.loads(OF_KAFKA) | {field: value}

    with pytest.raises(Corrupt):
        decode(json.dumps(fields).encode())


@pytest.mark.parametrize("content", [b"", b"[]", b"7", b"{}", b"\xff\xfe", OF_KAFKA[:-1] + b',"more":1}'])
def test_what_is_no_such_file_is_refused(content: bytes) -> None:
    with pytest.raises(Corrupt, match="quorum-state"):
        decode(content)
