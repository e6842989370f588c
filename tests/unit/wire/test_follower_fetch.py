"""A follower's fetch: its request as kio and a leader read it, and answers as kio and a leader write them."""

from __future__ import annotations

import contextlib
import struct
import uuid
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chronik.core.errors import Code
from chronik.wire import fetch, follower_fetch
from chronik.wire.errors import Malformed
from chronik.wire.fetch import EpochEnd, FetchAnswer, FetchPartition, FetchRequest
from chronik.wire.follower_fetch import VERSION
from chronik.wire.framing import read_header
from chronik.wire.leaders import CurrentLeader
from tests.unit.wire.hot_requests import fetch_request
from tests.unit.wire.messages import VARIANTS, filled, response_type, write

IDS = [uuid.UUID(int=number).bytes for number in (7, 2**100)]
ANSWERED_ALIKE = range(13, 19)

offsets = st.integers(-(2**63), 2**63 - 1)
numbers = st.integers(-(2**31), 2**31 - 1)
codes = st.sampled_from(Code)


@settings(max_examples=80)
@given(
    limits=st.tuples(numbers, numbers, numbers, numbers, st.integers(-128, 127), numbers, numbers),
    partitions=st.lists(
        st.tuples(st.sampled_from(IDS), numbers, offsets, numbers, numbers, numbers, offsets, offsets), max_size=6
    ),
    forgotten=st.lists(st.tuples(st.sampled_from(IDS), numbers), max_size=4),
    who=st.tuples(st.text(max_size=5), st.none() | st.text(max_size=200), offsets),
    client_id=st.text(max_size=20),
)
def test_any_request_is_what_kio_writes_and_what_a_leader_reads(
    limits: Any, partitions: list[Any], forgotten: list[tuple[bytes, int]], who: Any, client_id: str
) -> None:
    asked = sorted(map(FetchPartition._make, partitions))
    request = FetchRequest._make((*limits, asked, sorted(forgotten), *who))

    frame = follower_fetch.encode(-5, client_id, request)

    header = read_header(frame)
    assert header[:4] == (1, VERSION, -5, client_id)
    assert fetch.parse(frame, header.body, VERSION) == request
    # kio leaves a tagged field out that has its default; a follower always says who it is.
    if (request.replica_id, request.replica_epoch) != (-1, -1):
        assert frame[header.body :] == fetch_request(VERSION, request)


def test_partitions_of_a_topic_need_not_stand_together() -> None:
    first, second = IDS
    asked = [FetchPartition(topic, number, 5, 100, 1) for number, topic in enumerate((first, second, first))]
    request = FetchRequest(2, 500, 1, 1000, 0, 0, 0, asked, [(first, 1), (second, 2), (first, 3)])

    frame = follower_fetch.encode(1, "node-2", request)

    parsed = fetch.parse(frame, read_header(frame).body, VERSION)
    assert [asked.partition for asked in parsed.partitions] == [0, 2, 1]
    assert parsed.forgotten == [(first, 1), (first, 3), (second, 2)]


def test_a_topic_by_its_name_is_refused() -> None:
    request = FetchRequest(2, 500, 1, 1000, 0, 0, 0, [FetchPartition("orders", 0, 5, 100, 1)], [])

    with pytest.raises(TypeError, match="orders"):
        follower_fetch.encode(1, "node-2", request)


# --- answers


@pytest.mark.parametrize("version", ANSWERED_ALIKE)
@pytest.mark.parametrize("variant", VARIANTS)
def test_an_answer_is_read_as_kio_writes_it(version: int, variant: str) -> None:
    response: Any = filled(response_type(1, version), variant)
    frame = memoryview(b"\x00\x00\x00\x07\x00" + write(response))

    fetched = follower_fetch.parse(frame)

    assert (fetched.error, fetched.session_id) == (response.error_code, response.session_id)
    expected = [(topic.topic_id, partition) for topic in response.responses for partition in topic.partitions]
    for found, (topic_id, partition) in zip(fetched.partitions, expected, strict=True):
        assert found.topic_id == (bytes(16) if topic_id is None else topic_id.bytes)
        assert (found.partition, found.error) == (partition.partition_index, partition.error_code)
        assert found.high_watermark == partition.high_watermark
        assert found.last_stable_offset == partition.last_stable_offset
        assert found.log_start_offset == partition.log_start_offset
        assert found.records == (partition.records or b"")
        diverging, leader, snapshot = partition.diverging_epoch, partition.current_leader, partition.snapshot_id
        assert found.diverging == EpochEnd(diverging.epoch, diverging.end_offset)
        assert found.leader == CurrentLeader(leader.leader_id, leader.leader_epoch)
        assert found.snapshot == EpochEnd(snapshot.epoch, snapshot.end_offset)


epoch_ends = st.none() | st.builds(EpochEnd, numbers, offsets)
answers = st.lists(
    st.builds(
        FetchAnswer,
        st.sampled_from(IDS),
        numbers,
        codes,
        offsets,
        offsets,
        offsets,
        st.binary(max_size=300),
        numbers,
        epoch_ends,
        st.none() | st.builds(CurrentLeader, numbers, numbers),
        epoch_ends,
        st.integers(0, 2**63 - 1),
        st.none() | st.lists(st.tuples(offsets, offsets), max_size=3),
    ),
    max_size=6,
)


@settings(max_examples=80)
@given(version=st.sampled_from(ANSWERED_ALIKE), error=codes, session_id=numbers, given_answers=answers)
def test_any_answer_is_read_as_a_leader_writes_it(
    version: int, error: Code, session_id: int, given_answers: list[FetchAnswer]
) -> None:
    given_answers.sort(key=lambda answer: answer.topic)
    frame = b"".join(map(bytes, fetch.encode(version, 9, error, session_id, given_answers)))

    fetched = follower_fetch.parse(memoryview(frame)[4:])

    assert (fetched.error, fetched.session_id) == (error, session_id)
    for found, answer in zip(fetched.partitions, given_answers, strict=True):
        assert found[:6] == answer[:6]
        assert found[6:9] == answer[8:11]
        assert found.tombstone_horizon == answer.tombstone_horizon
        assert found.records == answer.records


def an_answer() -> bytes:
    given_answers = [
        FetchAnswer(IDS[0], 0, 0, 10, 10, 0, b"records"),
        FetchAnswer(IDS[0], 1, 0, 10, 10, 0, b"", -1, EpochEnd(1, 2), CurrentLeader(3, 4), EpochEnd(5, 6)),
    ]
    return b"".join(map(bytes, fetch.encode(VERSION, 9, 0, 1, given_answers)))[4:]


def test_records_are_a_view_of_the_frame() -> None:
    frame = bytearray(an_answer())

    records = follower_fetch.parse(memoryview(frame)).partitions[0].records
    frame[frame.index(b"records")] = ord("R")

    assert bytes(records) == b"Records"


def test_an_answer_cut_anywhere_is_malformed() -> None:
    frame = memoryview(an_answer())

    for end in range(len(frame)):
        with pytest.raises(Malformed):
            follower_fetch.parse(frame[:end])


def test_a_code_that_kafka_does_not_have_is_malformed() -> None:
    frame = bytearray(an_answer())
    struct.pack_into(">h", frame, 9, 9999)

    with pytest.raises(Malformed):
        follower_fetch.parse(memoryview(frame))


def test_a_count_that_lies_is_malformed() -> None:
    lie = b"\xff\xff\xff\xff\x0f"

    with pytest.raises(Malformed, match="array"):
        follower_fetch.parse(memoryview(b"\x00\x00\x00\x07\x00" + bytes(10) + lie + b"abc"))


@settings(max_examples=300)
@given(content=st.binary(max_size=150))
def test_random_bytes_are_an_answer_or_malformed(content: bytes) -> None:
    with contextlib.suppress(Malformed):
        follower_fetch.parse(memoryview(content))


@settings(max_examples=300)
@given(changes=st.lists(st.tuples(st.integers(0, 10_000), st.integers(0, 255)), min_size=1, max_size=4))
def test_an_answer_with_wrong_bytes_in_it_is_another_answer_or_malformed(changes: list[tuple[int, int]]) -> None:
    frame = bytearray(an_answer())
    for at, value in changes:
        frame[at % len(frame)] = value

    with contextlib.suppress(Malformed):
        for partition in follower_fetch.parse(memoryview(frame)).partitions:
            assert len(partition.records) < len(frame)
