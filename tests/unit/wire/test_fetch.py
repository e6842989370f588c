"""The direct parser and encoder of Fetch against kio's, in every version."""

from __future__ import annotations

import datetime
import struct
import uuid
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chronik.core.errors import Code
from chronik.wire import fetch
from chronik.wire.errors import Malformed
from chronik.wire.fetch import EpochEnd, FetchAnswer, FetchPartition, FetchRequest
from chronik.wire.leaders import CurrentLeader, NodeEndpoint
from tests.unit.wire.hot_requests import fetch_request
from tests.unit.wire.messages import filled, read, request_type, response_type, write

VERSIONS = range(4, 19)
IDS = [uuid.UUID(int=number).bytes for number in (7, 2**100)]
NAMES = ["first-topic", "zwölf"]
ENDPOINTS = [NodeEndpoint(3, "höst", 9092, None), NodeEndpoint(2**31 - 1, "h" * 200, 65535, "rack")]


def topics_of(version: int) -> list[str | bytes]:
    return list(IDS) if version >= 13 else list(NAMES)


def as_carried(version: int, request: FetchRequest) -> FetchRequest:
    """What is left of a request in a version that does not carry all of it."""
    lost_by_partition: dict[str, Any] = {}
    lost: dict[str, Any] = {}
    if version < 18:
        lost_by_partition["high_watermark"] = fetch.NOT_SENT
    if version < 15:
        lost["replica_epoch"] = -1
    if version < 12:
        lost_by_partition["last_fetched_epoch"] = -1
        lost["cluster_id"] = None
    if version < 11:
        lost["rack_id"] = ""
    if version < 9:
        lost_by_partition["leader_epoch"] = -1
    if version < 7:
        lost |= {"session_id": 0, "session_epoch": -1, "forgotten": []}
    if version < 5:
        lost_by_partition["log_start_offset"] = -1
    partitions = [asked._replace(**lost_by_partition) for asked in request.partitions]
    return request._replace(partitions=partitions, **lost)


def example(version: int) -> FetchRequest:
    first, second = topics_of(version)
    partitions = [
        FetchPartition(first, 0, 100, 1_048_576, 5, 4, 17),
        FetchPartition(first, 3, 2**40, 1, -1),
        FetchPartition(second, 2**31 - 1, 0, 2**31 - 1, 0, 0, 2**41, 2**42),
    ]
    forgotten = [(first, 9), (first, 10), (second, 0)]
    return FetchRequest(
        3, 500, 1, 52_428_800, 1, 77, 3, partitions, forgotten, "rack", "some cluster", replica_epoch=2**40
    )


@pytest.mark.parametrize("version", VERSIONS)
def test_a_request_of_several_topics_and_partitions_is_read_as_kio_writes_it(version: int) -> None:
    content = fetch_request(version, example(version))

    assert fetch.parse(b"head" + content, 4, version) == as_carried(version, example(version))


@pytest.mark.parametrize("version", VERSIONS)
def test_a_request_without_partitions_is_read(version: int) -> None:
    request = FetchRequest(-1, 0, 0, 0, 0, 1, 1, [], [])

    assert fetch.parse(fetch_request(version, request), 0, version) == as_carried(version, request)


offsets = st.integers(-(2**63), 2**63 - 1)
numbers = st.integers(-(2**31), 2**31 - 1)


@settings(max_examples=80)
@given(
    version=st.sampled_from(VERSIONS),
    limits=st.tuples(numbers, numbers, numbers, numbers, st.integers(-128, 127), numbers, numbers),
    partitions=st.lists(
        st.tuples(st.integers(0, 1), numbers, offsets, numbers, numbers, numbers, offsets, offsets), max_size=6
    ),
    forgotten=st.lists(st.tuples(st.integers(0, 1), numbers), max_size=4),
    who=st.tuples(st.text(max_size=5), st.none() | st.text(max_size=200), offsets),
)
def test_any_request_is_read_as_kio_writes_it(
    version: int, limits: Any, partitions: list[tuple[int, ...]], forgotten: list[tuple[int, int]], who: Any
) -> None:
    topics = topics_of(version)
    asked = [FetchPartition(topics[which], *rest) for which, *rest in sorted(partitions)]
    request = FetchRequest._make(
        (*limits, asked, [(topics[which], partition) for which, partition in sorted(forgotten)], *who)
    )

    assert fetch.parse(fetch_request(version, request), 0, version) == as_carried(version, request)


@pytest.mark.parametrize("version", VERSIONS)
def test_every_variant_kio_can_fill_is_parsed(version: int) -> None:
    for variant in ("full", "null", "sparse"):
        request = filled(request_type(1, version), variant)

        parsed = fetch.parse(write(request), 0, version)

        assert parsed.max_bytes == request.max_bytes
        assert len(parsed.partitions) == sum(len(topic.partitions) for topic in request.topics)


@pytest.mark.parametrize("version", [12, 13, 17, 18])
def test_tagged_fields_unknown_to_us_are_passed_over(version: int) -> None:
    request = example(version)._replace(partitions=example(version).partitions[:1], forgotten=[])
    content = bytearray(fetch_request(version, request))
    tags = b"\x02\x60\x03abc\x64\x00"
    # The topics end with the tags of partition and topic, a zero byte each; then no forgotten topics, rack, cluster id.
    at = content.index(b"\x00\x00\x01\x05rack")
    content[at : at + 2] = tags * 2

    assert fetch.parse(content, 0, version) == as_carried(version, request)


@pytest.mark.parametrize("version", VERSIONS)
def test_a_request_cut_anywhere_is_malformed(version: int) -> None:
    content = fetch_request(version, example(version))

    for end in range(len(content)):
        with pytest.raises(Malformed):
            fetch.parse(content[:end], 0, version)


@pytest.mark.parametrize("version", VERSIONS)
@settings(max_examples=30)
@given(content=st.binary(max_size=150))
def test_random_bytes_are_a_request_or_malformed(version: int, content: bytes) -> None:
    try:
        fetch.parse(content, 0, version)
    except Malformed:
        return


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("count", [2**31 - 1, -1, 1_000_001])
def test_a_count_that_lies_is_malformed(version: int, count: int) -> None:
    head = bytes(4) * (version <= 14) + bytes(13) + bytes(8) * (version >= 7)
    lie = bytes([0]) if count < 0 else b"\xff\xff\xff\xff\x07"

    with pytest.raises(Malformed, match="array"):
        fetch.parse(head + (lie if version >= 12 else struct.pack(">i", count)) + b"abc", 0, version)


# --- answers


def sent(
    version: int, error_code: int, session_id: int, answers: list[FetchAnswer], endpoints: Sequence[NodeEndpoint] = ()
) -> Any:
    """What kio reads in the frame that we send."""
    frame = b"".join(bytes(buffer) for buffer in fetch.encode(version, 99, error_code, session_id, answers, endpoints))
    kind = response_type(1, version)
    head = write(kind.__header_schema__(correlation_id=99))
    assert frame[:4] == struct.pack(">i", len(frame) - 4)
    assert frame[4 : 4 + len(head)] == head
    return read(kind, frame[4 + len(head) :])


@pytest.mark.parametrize("version", VERSIONS)
def test_an_answer_is_read_by_kio_as_it_was_meant(version: int) -> None:
    first, second = topics_of(version)
    answers = [
        FetchAnswer(first, 0, 0, 2**40, 2**40 - 1, 5, b"records of 0"),
        FetchAnswer(first, 1, Code.OFFSET_OUT_OF_RANGE, 10, 10, 0),
        FetchAnswer(first, 2, 0, 0, 0, 0, memoryview(bytes(100_000))),
        FetchAnswer(second, 0, Code.UNKNOWN_TOPIC_OR_PARTITION, -1, -1, -1),
        FetchAnswer(
            second, 3, 0, 7, 7, 7, bytearray(b"with tags"), 2, EpochEnd(5, 2**40), CurrentLeader(3, 9), EpochEnd(1, 2)
        ),
        FetchAnswer(second, 4, Code.NOT_LEADER_OR_FOLLOWER, -1, -1, -1, leader=CurrentLeader(2**31 - 1, 0)),
        FetchAnswer(second, 5, 0, 7, 7, 7, bytearray(b"last"), 2**31 - 1, snapshot=EpochEnd(0, 0)),
        FetchAnswer(second, 6, 0, 7, 7, 7, b"committed", aborted=[(2**40, 5), (1, 0)]),
        FetchAnswer(second, 7, 0, 7, 7, 7, aborted=[]),
    ]

    response = sent(version, 0, 1234, answers, ENDPOINTS)

    assert response.throttle_time == datetime.timedelta(0)
    if version >= 7:
        assert (response.error_code, response.session_id) == (0, 1234)
    found = [(topic, partition) for topic in response.responses for partition in topic.partitions]
    for (topic, partition), answer in zip(found, answers, strict=True):
        assert (topic.topic_id.bytes if version >= 13 else topic.topic) == answer.topic
        assert (partition.partition_index, partition.error_code, partition.high_watermark) == answer[1:4]
        assert partition.last_stable_offset == answer.last_stable_offset
        told = partition.aborted_transactions
        aborted = None if told is None else [(one.producer_id, one.first_offset) for one in told]
        assert aborted == answer.aborted
        assert (partition.records or b"") == bytes(answer.records)
        if version >= 5:
            assert partition.log_start_offset == answer.start_offset
        if version >= 11:
            assert partition.preferred_read_replica == answer.preferred_read_replica
        if version >= 12:
            diverging, leader, snapshot = partition.diverging_epoch, partition.current_leader, partition.snapshot_id
            assert (diverging.epoch, diverging.end_offset) == (answer.diverging or (-1, -1))
            assert (leader.leader_id, leader.leader_epoch) == (answer.leader or (-1, -1))
            assert (snapshot.epoch, snapshot.end_offset) == (answer.snapshot or (-1, -1))
    if version >= 16:
        found_endpoints = [(at.node_id, at.host, at.port, at.rack) for at in response.node_endpoints]
        assert found_endpoints == ENDPOINTS


@pytest.mark.parametrize("version", VERSIONS)
def test_an_empty_answer_is_read_by_kio(version: int) -> None:
    response = sent(version, Code.INVALID_FETCH_SESSION_EPOCH, 0, [])

    assert response.responses == ()
    if version >= 7:
        assert (response.error_code, response.session_id) == (Code.INVALID_FETCH_SESSION_EPOCH, 0)


@pytest.mark.parametrize("version", VERSIONS)
def test_answers_of_one_topic_stand_together_whatever_their_order(version: int) -> None:
    first, second = topics_of(version)
    answers = [FetchAnswer(topic, number, 0, 1, 1, 0, b"r") for number, topic in enumerate((first, second, first))]

    response = sent(version, 0, 0, answers)

    assert [[partition.partition_index for partition in topic.partitions] for topic in response.responses] == [
        [0, 2],
        [1],
    ]


@pytest.mark.parametrize("version", [4, 11, 12, 18])
def test_records_are_sent_from_where_they_lie(version: int) -> None:
    records = memoryview(b"many records")

    buffers = fetch.encode(version, 1, 0, 0, [FetchAnswer(topics_of(version)[0], 0, 0, 1, 1, 0, records)])

    assert any(buffer is records for buffer in buffers)
