"""A snapshot's bytes: whole or not at all."""

from __future__ import annotations

import pytest

from chronik.core.errors import Corrupt
from chronik.core.raft.control_records import NO_DIRECTORY, Endpoint, Voter, VotersRecord
from chronik.core.raft.messages import LogPoint
from chronik.core.raft.snapshot_file import RECORDS_A_BATCH, MetadataSnapshot, decode, encode
from chronik.core.records.batch import read_header
from chronik.core.records.payload import KeyValue, build

POINT = LogPoint(3, 100)
VOTERS = VotersRecord(0, (Voter(1, NO_DIRECTORY, (Endpoint("CONTROLLER", "h", 9),), (0, 1)),))


def content(values: list[bytes], voters: VotersRecord | None = None) -> bytes:
    return b"".join(encode(POINT, values, voters, 1_000))


@pytest.mark.parametrize("count", [0, 1, RECORDS_A_BATCH, 2 * RECORDS_A_BATCH + 1])
def test_what_is_written_is_read_again(count: int) -> None:
    values = [b"record %d" % number for number in range(count)]

    assert decode(content(values)) == MetadataSnapshot(values, None)


def test_the_voters_are_kept() -> None:
    assert decode(content([b"a"], VOTERS)).voters == VOTERS


def test_it_begins_and_ends_with_control_batches_in_the_epoch_of_its_end() -> None:
    """KIP-630: Kafka's tools look for them."""
    pieces = list(encode(POINT, [b"a", b"b"], None, 1_000))

    headers = [read_header(piece) for piece in pieces]

    assert [header.is_control for header in headers] == [True, False, True]
    assert [header.base_offset for header in headers] == [0, 1, 3]
    assert {header.leader_epoch for header in headers} == {3}


def test_one_that_is_cut_anywhere_is_refused() -> None:
    whole = content([b"a", b"b"], VOTERS)

    for size in range(len(whole)):
        with pytest.raises(Corrupt):
            decode(whole[:size])


def test_any_flipped_bit_in_its_records_is_noticed() -> None:
    whole = content([b"a", b"b"])
    first = len(next(iter(encode(POINT, [b"a", b"b"], None, 1_000))))

    for position in range(first + 17, first + read_header(whole, first).size_bytes):
        damaged = bytearray(whole)
        damaged[position] ^= 1
        with pytest.raises(Corrupt):
            decode(damaged)


def test_nothing_may_follow_its_end() -> None:
    later = bytes(build([KeyValue(None, b"later")], 0, base_offset=100))

    with pytest.raises(Corrupt, match="behind its end"):
        decode(content([b"a"]) + later)
