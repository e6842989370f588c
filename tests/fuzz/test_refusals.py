"""What must be refused is refused, in every version, and leaves nothing in the log: a fault is never a success."""

from __future__ import annotations

import dataclasses
import socket
import struct
import time
import typing
import uuid
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicCollection, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from crc32c import crc32c
from kio.index import load_request_schema
from kio.schema.errors import ErrorCode

from chronik.core.records.payload import KeyValue, build
from chronik.testing import RunningNode, node
from chronik.wire.reader import shape_of
from chronik.wire.versions import APIS, FETCH, PRODUCE
from tests.fuzz import oracle
from tests.fuzz.requests import Frame, header, sized
from tests.unit.wire.messages import write

TIMEOUT_S = 30.0
TOPIC = "taken"
NOW_MS = int(time.time() * 1000)


@dataclasses.dataclass(frozen=True)
class Asked:
    """A produce request, sound as it stands."""

    records: bytes | None = bytes(build([KeyValue(b"key", b"value")], NOW_MS))
    topic: str = TOPIC
    partition: int = 0
    acks: int = -1
    transactional_id: str | None = None


def changed(at: int, value: bytes, *, sealed: bool = True) -> bytes:
    """The sound batch with other bytes at a place, its checksum made anew or not."""
    batch = bytearray(Asked().records or b"")
    batch[at : at + len(value)] = value
    if sealed:
        batch[17:21] = struct.pack(">I", crc32c(bytes(batch[21:])))
    return bytes(batch)


SOUND = Asked().records or b""
REFUSED: dict[str, Asked] = {
    "checksum": Asked(changed(70, b"x", sealed=False)),
    "format v1": Asked(changed(16, b"\x01")),
    "truncated": Asked(SOUND[:-1]),
    "two batches": Asked(SOUND + SOUND),
    "no bytes": Asked(b""),
    "null": Asked(None),
    "record count": Asked(changed(57, struct.pack(">i", 2))),
    "no records": Asked(changed(57, bytes(4))),
    "control batch": Asked(changed(21, struct.pack(">h", 0x20))),
    "unknown compression": Asked(changed(21, struct.pack(">h", 7))),
    "unknown topic": Asked(topic="no-such-topic"),
    "internal topic": Asked(topic="__consumer_offsets"),
    "metadata log": Asked(topic="__cluster_metadata"),
    "unknown partition": Asked(partition=7),
    "negative partition": Asked(partition=-1),
    "acks": Asked(acks=2),
    "transaction without its id": Asked(changed(21, struct.pack(">h", 0x10))),
    "transaction without a producer": Asked(changed(21, struct.pack(">h", 0x10)), transactional_id="t"),
    "transaction that was not begun": Asked(
        bytes(build([KeyValue(b"key", b"value")], NOW_MS, producer_id=0, base_sequence=0, attributes=0x10)),
        transactional_id="t",
    ),
    "transactional id as long as can be": Asked(
        bytes(build([KeyValue(b"key", b"value")], NOW_MS, producer_id=0, base_sequence=0, attributes=0x10)),
        transactional_id="t" * 30_000,
    ),
}
VERSIONS = range(APIS[PRODUCE].supported, APIS[PRODUCE].highest + 1)


class Node:
    """A node with one topic, and its ids."""

    def __init__(self, running: RunningNode) -> None:
        self.running = running
        admin = AdminClient({"bootstrap.servers": running.bootstrap})
        admin.create_topics([NewTopic(TOPIC, 1, 1)])[TOPIC].result(TIMEOUT_S)
        described = admin.describe_topics(TopicCollection([TOPIC]))[TOPIC].result(TIMEOUT_S)
        self.topic_id = uuid.UUID(int=_unsigned(described.topic_id))

    def end_offset(self) -> int:
        consumer = Consumer({"bootstrap.servers": self.running.bootstrap, "group.id": "-"})
        try:
            return int(consumer.get_watermark_offsets(TopicPartition(TOPIC, 0), timeout=TIMEOUT_S)[1])
        finally:
            consumer.close()

    def ask(self, api_key: int, version: int, message: Any) -> Any:
        frame = Frame(api_key, version, 9, sized(header(api_key, version, 9) + write(message)), True)
        with socket.create_connection((self.running.host, self.running.port), TIMEOUT_S) as connected:
            connected.sendall(frame.content)
            (size,) = struct.unpack(">i", connected.recv(4, socket.MSG_WAITALL))
            return oracle.answer_of(frame, connected.recv(size, socket.MSG_WAITALL))

    def produce(self, version: int, asked: Asked) -> Any:
        known = self.topic_id if asked.topic == TOPIC else uuid.UUID(int=4711)
        message = message_of(
            load_request_schema(PRODUCE, version),
            transactional_id=asked.transactional_id,
            acks=asked.acks,
            timeout=timedelta(seconds=30),
            name=asked.topic,
            topic_id=known,
            index=asked.partition,
            records=asked.records,
        )
        return self.ask(PRODUCE, version, message).responses[0].partition_responses[0]


def _unsigned(topic_id: Any) -> int:
    most, least = topic_id.get_most_significant_bits(), topic_id.get_least_significant_bits()
    return (most % 2**64 << 64) | least % 2**64


def message_of(message_type: Any, **values: Any) -> Any:
    """A message with these values wherever a field has the name, and one element in each array of messages."""
    hints = typing.get_type_hints(message_type)
    filled = {}
    for field in dataclasses.fields(message_type):
        _, is_array, nested, _ = shape_of(hints[field.name])
        if field.name in values:
            filled[field.name] = values[field.name]
        elif nested is not None and is_array and field.name != "forgotten_topics_data":
            filled[field.name] = (message_of(nested, **values),)
    return message_type(**filled)


@pytest.fixture(scope="module")
def served() -> Iterator[Node]:
    with node({"auto.create.topics.enable": "false"}) as running:
        yield Node(running)


@pytest.mark.parametrize("version", VERSIONS)
def test_a_batch_that_must_be_refused_is_refused_and_not_kept(served: Node, version: int) -> None:
    before = served.end_offset()
    wrong = []
    for reason, asked in REFUSED.items():
        answer = served.produce(version, asked)
        if answer.error_code in (ErrorCode.none, ErrorCode.unknown_server_error) or answer.base_offset != -1:
            wrong.append((reason, answer))

    assert wrong == []
    assert served.end_offset() == before
    taken = served.produce(version, Asked())
    assert (taken.error_code, taken.base_offset) == (ErrorCode.none, before)


# What is asked for, and the first version that can say it.
REFUSED_FETCHES: dict[str, tuple[int, Callable[[int], dict[str, Any]]]] = {
    "unknown topic": (4, lambda _: {"topic": "no-such-topic", "topic_id": uuid.UUID(int=4711)}),
    "unknown partition": (4, lambda _: {"partition": 9}),
    "below the start": (4, lambda _: {"fetch_offset": -1}),
    "beyond the end": (4, lambda end: {"fetch_offset": end + 1}),
    "another leader": (9, lambda _: {"current_leader_epoch": 77}),
    "unknown session": (7, lambda _: {"session_id": 4711, "session_epoch": 5}),
}


@pytest.mark.parametrize("version", range(APIS[FETCH].supported, APIS[FETCH].highest + 1))
def test_a_fetch_that_must_be_refused_is_refused(served: Node, version: int) -> None:
    sound: dict[str, Any] = {
        "topic": TOPIC, "topic_id": served.topic_id, "partition": 0, "current_leader_epoch": -1, "fetch_offset": 0,
        "partition_max_bytes": 1000, "max_wait": timedelta(0), "min_bytes": 0, "max_bytes": 1000, "isolation_level": 0,
        "replica_id": -1, "last_fetched_epoch": -1, "log_start_offset": -1, "session_id": 0, "session_epoch": -1,
        "forgotten_topics_data": (), "rack_id": "",
    }  # fmt: skip
    end_offset = served.end_offset()
    for what, (first_version, changes) in REFUSED_FETCHES.items():
        if version < first_version:
            continue
        message = message_of(load_request_schema(FETCH, version), **(sound | changes(end_offset)))
        answer = served.ask(FETCH, version, message)
        codes = [code for code in oracle.codes_in(answer) if code is not ErrorCode.none]
        assert codes, (what, answer)
        assert ErrorCode.unknown_server_error not in codes, what
        assert not any(part.records for topic in answer.responses for part in topic.partitions), what
