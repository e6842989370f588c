"""A part of a produce request passed on: as kio and a leader read it; its answer as kio and a leader write it."""

from __future__ import annotations

import contextlib
import datetime
import uuid
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chronik.core.errors import Code, RecordError
from chronik.wire import forwarded_produce, produce
from chronik.wire.errors import Malformed
from chronik.wire.framing import read_header, response_head
from chronik.wire.leaders import CurrentLeader, NodeEndpoint
from chronik.wire.produce import PartitionAnswer, ProduceRequest
from tests.unit.wire.hot_requests import Topics, produce_request
from tests.unit.wire.messages import VARIANTS, filled, response_type, write

VERSIONS = range(3, 14)

offsets = st.integers(-(2**63), 2**63 - 1)
numbers = st.integers(-(2**31), 2**31 - 1)
records = st.none() | st.binary(max_size=300)


def topic_of(version: int, number: int) -> str | bytes:
    return uuid.UUID(int=number + 1).bytes if version >= 13 else f"thema-ä-{number}"


@settings(max_examples=100)
@given(
    version=st.sampled_from(VERSIONS),
    client_id=st.text(max_size=20),
    transactional_id=st.none() | st.text(max_size=10),
    acks=st.integers(-(2**15), 2**15 - 1),
    timeout_ms=numbers,
    partitions=st.lists(st.lists(st.tuples(numbers, records), max_size=4), max_size=3),
)
def test_any_request_is_what_kio_writes_and_what_a_leader_reads(
    version: int,
    client_id: str,
    transactional_id: str | None,
    acks: int,
    timeout_ms: int,
    partitions: list[list[tuple[int, bytes | None]]],
) -> None:
    topics: Topics = [(topic_of(version, number), of_topic) for number, of_topic in enumerate(partitions)]
    content = produce_request(version, transactional_id, acks, timeout_ms, topics)
    request = produce.parse(memoryview(content), 0, version)

    frame = b"".join(forwarded_produce.encode(version, -5, client_id, request))

    header = read_header(frame)
    assert header[:4] == (0, version, -5, client_id)
    assert frame[header.body :] == content
    assert produce.parse(memoryview(frame), header.body, version) == request


@pytest.mark.parametrize("version", VERSIONS)
def test_records_are_sent_from_where_they_lie(version: int) -> None:
    batch = memoryview(b"many records")
    request = ProduceRequest(None, -1, 1000, [(topic_of(version, 0), [(0, batch), (1, memoryview(b"more"))])])

    pieces = forwarded_produce.encode(version, 1, "a client", request)

    assert any(piece is batch for piece in pieces)
    assert len(pieces[0]) >= 8  # a link puts its own correlation id into the first piece


# --- answers


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("variant", VARIANTS)
def test_an_answer_is_read_as_kio_writes_it(version: int, variant: str) -> None:
    response: Any = filled(response_type(0, version), variant)
    frame = memoryview(response_head(0, version, 7) + write(response))

    answer = forwarded_produce.parse(frame, version)

    for (topic, parts), expected in zip(answer.topics, response.responses, strict=True):
        if version >= 13:
            assert topic == (bytes(16) if expected.topic_id is None else expected.topic_id.bytes)
        else:
            assert topic == expected.name
        for part, partition in zip(parts, expected.partition_responses, strict=True):
            assert part[:3] == (partition.index, partition.error_code, partition.base_offset)
            assert part.append_time_ms == _milliseconds(partition.log_append_time)
            assert part.start_offset == (partition.log_start_offset if version >= 5 else -1)
            assert part.message == (partition.error_message if version >= 8 else None)
            named = (
                [(one.batch_index, one.batch_index_error_message) for one in partition.record_errors]
                if version >= 8
                else []
            )
            assert list(part.record_errors) == named
            if version >= 10:
                current = partition.current_leader
                assert part.leader == CurrentLeader(current.leader_id, current.leader_epoch)
    if version >= 10:
        assert answer.endpoints == [(at.node_id, at.host, at.port, at.rack) for at in response.node_endpoints]


def _milliseconds(time: datetime.datetime | None) -> int:
    return -1 if time is None else round(time.timestamp() * 1000)


part_answers = st.builds(
    PartitionAnswer,
    numbers,
    st.sampled_from(Code),
    offsets,
    offsets,
    offsets,
    st.none() | st.text(max_size=200),
    st.none() | st.builds(CurrentLeader, numbers, numbers),
    st.lists(st.builds(RecordError, numbers, st.none() | st.text(max_size=200)), max_size=3).map(tuple),
)
some_endpoints = st.lists(
    st.builds(NodeEndpoint, numbers, st.text(max_size=200), numbers, st.none() | st.text(max_size=9)), max_size=3
)


@settings(max_examples=100)
@given(st.sampled_from(VERSIONS), st.lists(st.lists(part_answers, max_size=4), max_size=3), some_endpoints)
def test_any_answer_is_read_as_a_leader_writes_it(
    version: int, parts: list[list[PartitionAnswer]], endpoints: list[NodeEndpoint]
) -> None:
    topics = [(topic_of(version, number), of_topic) for number, of_topic in enumerate(parts)]
    frame = produce.encode(version, 9, topics, endpoints)

    answer = forwarded_produce.parse(memoryview(frame)[4:], version)

    lost: dict[str, Any] = {}
    if version < 10:
        lost["leader"] = None
    if version < 8:
        lost |= {"message": None, "record_errors": ()}
    if version < 5:
        lost["start_offset"] = -1
    assert answer.topics == [(topic, [part._replace(**lost) for part in of_topic]) for topic, of_topic in topics]
    assert answer.endpoints == (endpoints if version >= 10 else [])


def an_answer(version: int) -> bytes:
    good = PartitionAnswer(0, 0, 1000, -1, 10)
    bad = PartitionAnswer(
        1, Code.NOT_LEADER_OR_FOLLOWER, -1, -1, -1, "zu groß", CurrentLeader(3, 4), (RecordError(7, "no key"),)
    )
    frame = produce.encode(version, 9, [(topic_of(version, 0), [good, bad])], [NodeEndpoint(3, "host", 9092)])
    return frame[4:]


@pytest.mark.parametrize("version", VERSIONS)
def test_an_answer_cut_anywhere_is_malformed(version: int) -> None:
    frame = memoryview(an_answer(version))

    for end in range(len(frame)):
        with pytest.raises(Malformed):
            forwarded_produce.parse(frame[:end], version)


@settings(max_examples=300)
@given(version=st.sampled_from(VERSIONS), content=st.binary(max_size=120))
def test_random_bytes_are_an_answer_or_malformed(version: int, content: bytes) -> None:
    with contextlib.suppress(Malformed):
        forwarded_produce.parse(memoryview(content), version)


@settings(max_examples=300)
@given(
    version=st.sampled_from(VERSIONS),
    changes=st.lists(st.tuples(st.integers(0, 10_000), st.integers(0, 255)), min_size=1, max_size=4),
)
def test_an_answer_with_wrong_bytes_in_it_is_another_answer_or_malformed(
    version: int, changes: list[tuple[int, int]]
) -> None:
    frame = bytearray(an_answer(version))
    for at, value in changes:
        frame[at % len(frame)] = value

    with contextlib.suppress(Malformed):
        forwarded_produce.parse(memoryview(frame), version)


@pytest.mark.parametrize("version", VERSIONS)
def test_a_count_that_lies_is_malformed(version: int) -> None:
    head = response_head(0, version, 1)
    lie = b"\xff\xff\xff\xff\x0f" if version >= 9 else b"\x7f\xff\xff\xff"

    with pytest.raises(Malformed, match="array"):
        forwarded_produce.parse(memoryview(head + lie + b"abc"), version)
