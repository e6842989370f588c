"""The quorum's own records, held against another implementation of Kafka's formats (kio)."""

from __future__ import annotations

import struct
from uuid import UUID

import pytest
from kio.schema.leader_change_message.v0 import LeaderChangeMessage as KioLeaderChange
from kio.schema.voters_record.v0 import VotersRecord as KioVoters
from kio.serial import entity_reader

from chronik.core.errors import Corrupt
from chronik.core.raft.control_records import (
    Endpoint,
    LeaderChangeMessage,
    Voter,
    VoterId,
    VotersRecord,
    build,
    leader_change,
    read,
)
from chronik.core.raft.ready import LeaderChange
from chronik.core.records import payload
from chronik.core.records.batch import CONTROL_BIT, read_header

DIRECTORY = UUID("27c6803d-c7cb-42dd-9baa-cd494ffacc81")
CHANGE = leader_change(LeaderChange(leader=2, epoch=7, voters=(1, 2, 3), granting=(2, 3)))
VOTERS = VotersRecord(0, (Voter(2, DIRECTORY.bytes, (Endpoint("CONTROLLER", "localhost", 65535),), (0, 1)),))


def test_what_is_written_is_read_again_with_its_offset() -> None:
    batch = build([CHANGE, VOTERS], 1000, base_offset=40, leader_epoch=7)

    assert [*read(batch)] == [(40, CHANGE), (41, VOTERS)]


def test_the_batch_is_a_control_batch_of_its_epoch() -> None:
    header = read_header(build([CHANGE], 1000, base_offset=40, leader_epoch=7))

    assert header.attributes == CONTROL_BIT
    assert (header.base_offset, header.leader_epoch) == (40, 7)


def value_of(record: LeaderChangeMessage | VotersRecord, kind: int) -> bytes:
    written = next(payload.walk(build([record], 1000, base_offset=0, leader_epoch=1)))
    assert written.key == struct.pack(">hh", 0, kind)
    assert written.value is not None
    return written.value


def test_another_implementation_reads_the_leader_change() -> None:
    value = value_of(CHANGE, kind=2)

    message, size = entity_reader(KioLeaderChange)(value, 0)

    assert size == len(value)
    assert message.leader_id == 2
    assert [voter.voter_id for voter in message.voters] == [1, 2, 3]
    assert [voter.voter_id for voter in message.granting_voters] == [2, 3]


def test_another_implementation_reads_the_voters() -> None:
    value = value_of(VOTERS, kind=6)

    message, size = entity_reader(KioVoters)(value, 0)

    assert size == len(value)
    (voter,) = message.voters
    assert (voter.voter_id, voter.voter_directory_id) == (2, DIRECTORY)
    assert (voter.k_raft_version_feature.min_supported_version, voter.k_raft_version_feature.max_supported_version) == (
        0,
        1,
    )
    (endpoint,) = voter.endpoints
    assert (endpoint.name, endpoint.host, endpoint.port) == ("CONTROLLER", "localhost", 65535)


def test_control_records_of_other_types_are_passed_over() -> None:
    version = payload.KeyValue(struct.pack(">hh", 0, 5), b"\x00\x00\x00\x01\x00")

    assert [*read(payload.build([version], 1000, attributes=CONTROL_BIT))] == []


@pytest.mark.parametrize(
    "record",
    [
        payload.KeyValue(b"\x00", b""),
        payload.KeyValue(None, b"x"),
        payload.KeyValue(struct.pack(">hh", 0, 2), None),
        payload.KeyValue(struct.pack(">hh", 0, 2), b"\x00"),
        payload.KeyValue(struct.pack(">hh", 0, 6), b"\x00\x00\x7f"),
    ],
)
def test_a_control_record_that_does_not_decode_is_damage(record: payload.KeyValue) -> None:
    with pytest.raises(Corrupt):
        [*read(payload.build([record], 1000, attributes=CONTROL_BIT))]


def test_a_voter_id_alone_is_four_bytes_and_a_tag_count() -> None:
    assert value_of(LeaderChangeMessage(0, 1, (VoterId(5),), ()), kind=2).hex() == "0000000000010200000005000100"
