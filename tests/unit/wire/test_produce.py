"""The direct parser and encoder of Produce against kio's, in every version."""

from __future__ import annotations

import datetime
import struct
import uuid
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chronik.core.errors import Code, RecordError
from chronik.wire import produce
from chronik.wire.errors import Malformed
from chronik.wire.leaders import CurrentLeader, NodeEndpoint
from chronik.wire.produce import PartitionAnswer
from tests.unit.wire.hot_requests import Topics, produce_request
from tests.unit.wire.messages import filled, read, request_type, response_type, write

VERSIONS = range(3, 14)
OLD_VERSIONS = range(3)
IDS = [uuid.UUID(int=number).bytes for number in (7, 2**100)]
NAMES = ["first-topic", "zwölf"]


def plain(request: produce.ProduceRequest) -> tuple[str | None, int, int, Topics]:
    topics: Topics = [
        (topic, [(partition, None if records is None else bytes(records)) for partition, records in partitions])
        for topic, partitions in request.topics
    ]
    return request.transactional_id, request.acks, request.timeout_ms, topics


def topics_of(version: int) -> list[str | bytes]:
    return list(IDS) if version >= 13 else list(NAMES)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("transactional_id", [None, "", "my-transaction"])
def test_a_request_of_several_topics_and_partitions_is_read_as_kio_writes_it(
    version: int, transactional_id: str | None
) -> None:
    first, second = topics_of(version)
    topics: Topics = [(first, [(0, b"records of 0"), (7, None), (2**31 - 1, b"")]), (second, [(1, bytes(1000))])]
    content = produce_request(version, transactional_id, -1, 30_000, topics)

    request = produce.parse(memoryview(b"head" + content), 4, version)

    assert plain(request) == (transactional_id, -1, 30_000, topics)


@pytest.mark.parametrize("version", VERSIONS)
def test_a_request_without_topics_is_read(version: int) -> None:
    content = produce_request(version, None, 0, -1, [])

    assert plain(produce.parse(memoryview(content), 0, version)) == (None, 0, -1, [])


@settings(max_examples=60)
@given(
    version=st.sampled_from(VERSIONS),
    transactional_id=st.none() | st.text(max_size=10),
    acks=st.integers(-(2**15), 2**15 - 1),
    timeout_ms=st.integers(-(2**31), 2**31 - 1),
    partitions=st.lists(
        st.lists(st.tuples(st.integers(-(2**31), 2**31 - 1), st.none() | st.binary(max_size=300)), max_size=4),
        max_size=3,
    ),
)
def test_any_request_is_read_as_kio_writes_it(
    version: int,
    transactional_id: str | None,
    acks: int,
    timeout_ms: int,
    partitions: list[list[tuple[int, bytes | None]]],
) -> None:
    topics: Topics = [
        (uuid.UUID(int=number + 1).bytes if version >= 13 else f"topic-{number}", of_topic)
        for number, of_topic in enumerate(partitions)
    ]
    content = produce_request(version, transactional_id, acks, timeout_ms, topics)

    assert plain(produce.parse(memoryview(content), 0, version)) == (transactional_id, acks, timeout_ms, topics)


@pytest.mark.parametrize("version", [9, 12, 13])
def test_tagged_fields_unknown_to_us_are_passed_over(version: int) -> None:
    topic = topics_of(version)[0]
    plain_content = produce_request(version, None, 1, 5, [(topic, [(3, b"records")])])
    tags = b"\x02\x09\x03abc\x64\x00"
    # The request ends with the tags of its partition, its topic and itself, one zero byte each.
    content = plain_content[:-3] + tags * 3

    assert plain(produce.parse(memoryview(content), 0, version)) == (None, 1, 5, [(topic, [(3, b"records")])])


@pytest.mark.parametrize("version", VERSIONS)
def test_a_request_cut_anywhere_is_malformed(version: int) -> None:
    content = produce_request(version, "t", 1, 5, [(topics_of(version)[0], [(3, b"records"), (4, b"more")])])
    needed = len(content) - 1 if version >= 9 else len(content)  # nothing of ours stands in the last tags

    for end in range(needed):
        with pytest.raises(Malformed):
            produce.parse(memoryview(content)[:end], 0, version)


@pytest.mark.parametrize("version", VERSIONS)
@settings(max_examples=30)
@given(content=st.binary(max_size=120))
def test_random_bytes_are_a_request_or_malformed(version: int, content: bytes) -> None:
    try:
        produce.parse(memoryview(content), 0, version)
    except Malformed:
        return


@pytest.mark.parametrize("version", VERSIONS)
def test_a_count_that_lies_is_malformed(version: int) -> None:
    content = produce_request(version, None, 1, 5, [])
    lie = b"\xff\xff\xff\xff\x0f" if version >= 9 else struct.pack(">i", 2**31 - 1)
    count_bytes = 1 if version >= 9 else 4
    head = content[: -count_bytes - 1] if version >= 9 else content[:-count_bytes]

    with pytest.raises(Malformed, match="array"):
        produce.parse(memoryview(head + lie + b"abc"), 0, version)


@pytest.mark.parametrize("version", VERSIONS)
def test_a_null_array_is_malformed_and_not_an_empty_one(version: int) -> None:
    empty, null = (b"\x01\x00", b"\x00\x00") if version >= 9 else (struct.pack(">i", 0), struct.pack(">i", -1))
    content = produce_request(version, None, 1, 5, [])
    assert content.endswith(empty)

    with pytest.raises(Malformed, match="array"):
        produce.parse(memoryview(content[: -len(empty)] + null), 0, version)


def test_records_are_a_view_of_the_frame_that_can_be_stamped() -> None:
    frame = bytearray(produce_request(7, None, 1, 5, [("t", [(0, b"records")])]))

    ((_, [(_, records)]),) = produce.parse(memoryview(frame), 0, 7).topics
    assert records is not None
    records[0:1] = b"R"

    assert frame.endswith(b"Records")


# --- answers


def sent(
    version: int, topics: list[tuple[str | bytes, list[PartitionAnswer]]], endpoints: Sequence[NodeEndpoint] = ()
) -> Any:
    """What kio reads in the frame that we send."""
    frame = produce.encode(version, 99, topics, endpoints)
    kind = response_type(0, version)
    head = write(kind.__header_schema__(correlation_id=99))
    assert frame[:4] == struct.pack(">i", len(frame) - 4)
    assert frame[4 : 4 + len(head)] == head
    return read(kind, frame[4 + len(head) :])


@pytest.mark.parametrize("version", VERSIONS)
def test_an_answer_is_read_by_kio_as_it_was_meant(version: int) -> None:
    first, second = topics_of(version)
    good = PartitionAnswer(0, 0, 1000, -1, 10)
    timed = PartitionAnswer(1, 0, 2**40, 1_700_000_000_000, 0)
    named = (RecordError(0, "kein Schlüssel"), RecordError(2**31 - 1, None))
    bad = PartitionAnswer(2, Code.INVALID_RECORD, -1, -1, -1, "zu groß", None, named)

    response = sent(version, [(first, [good, timed]), (second, [bad])])

    assert response.throttle_time == datetime.timedelta(0)
    for topic, (name, answers) in zip(response.responses, [(first, [good, timed]), (second, [bad])], strict=True):
        assert (topic.topic_id.bytes if version >= 13 else topic.name) == name
        for partition, answer in zip(topic.partition_responses, answers, strict=True):
            assert (partition.index, partition.error_code, partition.base_offset) == answer[:3]
            written_ms = (
                -1 if partition.log_append_time is None else round(partition.log_append_time.timestamp() * 1000)
            )
            assert written_ms == answer.append_time_ms
            if version >= 5:
                assert partition.log_start_offset == answer.start_offset
            if version >= 8:
                errors = [(error.batch_index, error.batch_index_error_message) for error in partition.record_errors]
                assert errors == list(answer.record_errors)
                assert partition.error_message == answer.message


@pytest.mark.parametrize("version", VERSIONS)
def test_a_client_at_the_wrong_node_is_told_who_leads_and_where_that_is(version: int) -> None:
    endpoints = [NodeEndpoint(3, "höst", 9092, "rack"), NodeEndpoint(2**31 - 1, "h" * 200, 65535)]
    misled = PartitionAnswer(0, Code.NOT_LEADER_OR_FOLLOWER, -1, -1, -1, None, CurrentLeader(3, 9))
    good = PartitionAnswer(1, 0, 5, -1, 0)

    response = sent(version, [(topics_of(version)[0], [misled, good])], endpoints)

    if version >= 10:
        leaders = [partition.current_leader for partition in response.responses[0].partition_responses]
        assert [(leader.leader_id, leader.leader_epoch) for leader in leaders] == [(3, 9), (-1, -1)]
        assert [(at.node_id, at.host, at.port, at.rack) for at in response.node_endpoints] == endpoints


@pytest.mark.parametrize("version", VERSIONS)
def test_an_answer_without_topics_is_read_by_kio(version: int) -> None:
    assert sent(version, []).responses == ()


@pytest.mark.parametrize("version", [9, 13])
def test_more_topics_and_partitions_than_fit_a_byte_are_counted_right(version: int) -> None:
    topics: list[tuple[str | bytes, list[PartitionAnswer]]] = []
    for number in range(200):
        name: str | bytes = uuid.UUID(int=number + 1).bytes if version >= 13 else f"topic-{'x' * 150}-{number}"
        topics.append((name, [PartitionAnswer(index, 0, index, -1, 0) for index in range(150)]))

    response = sent(version, topics)

    assert [len(topic.partition_responses) for topic in response.responses] == [150] * 200


# --- versions 0-2


@pytest.mark.parametrize("version", OLD_VERSIONS)
def test_an_old_request_is_refused_partition_by_partition(version: int) -> None:
    body = struct.pack(">hi", 1, 1000)
    body += struct.pack(">i", 2)
    for name in (b"one", b"two"):
        body += struct.pack(">h", len(name)) + name + struct.pack(">i", 2)
        for partition in (0, 5):
            body += struct.pack(">ii", partition, 3) + b"old"

    frame = produce.refuse_old(memoryview(body), 0, version, 42)

    assert frame is not None
    size, correlation_id, topic_count = struct.unpack_from(">iii", frame, 0)
    assert (size, correlation_id, topic_count) == (len(frame) - 4, 42, 2)
    entry = ">ihqq" if version == 2 else ">ihq"
    position = 12
    for name in (b"one", b"two"):
        assert frame[position : position + 9] == struct.pack(">h", 3) + name + struct.pack(">i", 2)
        position += 9
        for partition in (0, 5):
            found = struct.unpack_from(entry, frame, position)
            assert found[:3] == (partition, Code.UNSUPPORTED_VERSION, -1)
            position += struct.calcsize(entry)
    assert frame[position:] == (b"" if version == 0 else bytes(4))


@pytest.mark.parametrize("version", OLD_VERSIONS)
def test_an_old_request_with_acks_0_gets_no_answer_at_all(version: int) -> None:
    """Its client does not read one: it would take it for the answer to the next request."""
    body = struct.pack(">hii", 0, 1000, 0)

    assert produce.refuse_old(memoryview(body), 0, version, 42) is None


def test_an_old_request_that_is_cut_short_is_malformed() -> None:
    with pytest.raises(Malformed):
        produce.refuse_old(memoryview(b"\x00\x01"), 0, 1, 42)


def test_every_variant_kio_can_fill_is_parsed() -> None:
    for version in VERSIONS:
        for variant in ("full", "null", "sparse"):
            request = filled(request_type(0, version), variant)
            assert len(produce.parse(memoryview(write(request)), 0, version).topics) == len(request.topic_data)
