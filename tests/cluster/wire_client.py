"""Kafka requests by hand, for what a client library would hide: which node is asked, and what exactly it answers."""

from __future__ import annotations

import datetime
import io
import socket
import struct
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Any, NamedTuple

from kio.schema.fetch.v11 import request as fetch_v11
from kio.schema.list_offsets.v5 import request as list_offsets_v5
from kio.schema.metadata.v9 import request as metadata_v9
from kio.schema.produce.v9 import request as produce_v9
from kio.serial import entity_reader, entity_writer

from chronik.core.records.payload import KeyValue, build, walk
from chronik.core.types import NO_EPOCH, NO_PRODUCER_ID, NO_SEQUENCE
from chronik.wire.schemas import response_type
from chronik.wire.versions import API_VERSIONS, APIS

TIMEOUT_S = 30.0
LATEST = -1
CLIENT_ID = b"trial"
Address = tuple[str, int]


class WireClient:
    """One connection to one node. Requests are answered in the order they are sent."""

    def __init__(self, host: str, port: int, timeout_s: float = TIMEOUT_S, client_id: bytes = CLIENT_ID) -> None:
        self._client_id = client_id
        self._socket = socket.create_connection((host, port), timeout=timeout_s)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._sent = 0

    def __enter__(self) -> WireClient:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        self._socket.close()

    def ask(self, request: Any) -> Any:
        """Send one of kio's requests, and return its answer."""
        self.send(request)
        return self.receive(request)

    def send(self, request: Any) -> None:
        api_key, version = int(request.__api_key__), int(request.__version__)
        out = io.BytesIO()
        out.write(struct.pack(">hhih", api_key, version, self._sent, len(self._client_id)) + self._client_id)
        if APIS[api_key].is_flexible(version):
            out.write(b"\x00")
        entity_writer(type(request))(out, request)
        self._sent += 1
        content = out.getvalue()
        self._socket.sendall(struct.pack(">i", len(content)) + content)

    def receive(self, request: Any) -> Any:
        """The answer to the oldest request that has none yet: this one."""
        api_key, version = int(request.__api_key__), int(request.__version__)
        (size,) = struct.unpack(">i", self._read(4))
        content = self._read(size)
        head_bytes = 5 if APIS[api_key].is_flexible(version) and api_key != API_VERSIONS else 4
        answer, _ = entity_reader(response_type(api_key, version))(content, head_bytes)
        return answer

    def _read(self, size: int) -> bytes:
        content = bytearray()
        while len(content) < size:
            came = self._socket.recv(size - len(content))
            if not came:
                raise ConnectionError("the node hung up")
            content += came
        return bytes(content)


class Produced(NamedTuple):
    """The answer to a batch: Kafka's error code (0 for none) and the offset of its first record."""

    code: int
    base_offset: int


NOBODY = (NO_PRODUCER_ID, NO_EPOCH, NO_SEQUENCE)


def produce_request(
    topic: str,
    partition: int,
    *values: bytes,
    acks: int = -1,
    timeout_ms: int = 10_000,
    producer: tuple[int, int, int] = NOBODY,
) -> produce_v9.ProduceRequest:
    """One batch; `producer` is the id, epoch and sequence of an idempotent one."""
    return _produce_request(topic, {partition: _batch(values, producer)}, acks, timeout_ms)


def several_partitions_request(topic: str, values: Mapping[int, bytes]) -> produce_v9.ProduceRequest:
    """One record to each of these partitions, in one request."""
    batches = {partition: _batch((value,), NOBODY) for partition, value in values.items()}
    return _produce_request(topic, batches, acks=-1, timeout_ms=10_000)


def _batch(values: Iterable[bytes], producer: tuple[int, int, int]) -> bytes:
    now_ms = int(datetime.datetime.now(datetime.UTC).timestamp() * 1000)
    producer_id, epoch, sequence = producer
    records = [KeyValue(None, value) for value in values]
    return bytes(build(records, now_ms, producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence))


def _produce_request(topic: str, batches: Mapping[int, bytes], acks: int, timeout_ms: int) -> produce_v9.ProduceRequest:
    partitions = (produce_v9.PartitionProduceData(index=index, records=batch) for index, batch in batches.items())
    return produce_v9.ProduceRequest(
        transactional_id=None,
        acks=acks,
        timeout=datetime.timedelta(milliseconds=timeout_ms),
        topic_data=(produce_v9.TopicProduceData(name=topic, partition_data=tuple(partitions)),),
    )


def produce(
    client: WireClient, topic: str, partition: int, *values: bytes, acks: int = -1, timeout_ms: int = 10_000
) -> Produced:
    """One batch to the node of this connection, whatever leads the partition."""
    return produced(client.ask(produce_request(topic, partition, *values, acks=acks, timeout_ms=timeout_ms)))


def produced(answer: Any) -> Produced:
    told = answer.responses[0].partition_responses[0]
    return Produced(int(told.error_code), int(told.base_offset))


class Fetched(NamedTuple):
    """The answer to a fetch of one partition."""

    code: int
    high_watermark: int
    values: list[bytes]


def fetch(client: WireClient, topic: str, partition: int, offset: int, wait_ms: int = 500) -> Fetched:
    """What this node gives a consumer that asks from `offset` on."""
    return fetched(client.ask(fetch_request(topic, partition, offset, wait_ms)), offset)


def fetch_request(topic: str, partition: int, offset: int, wait_ms: int) -> fetch_v11.FetchRequest:
    asked = fetch_v11.FetchPartition(
        partition=partition,
        current_leader_epoch=-1,
        fetch_offset=offset,
        log_start_offset=-1,
        partition_max_bytes=1 << 20,
    )
    return fetch_v11.FetchRequest(
        replica_id=-1,
        max_wait=datetime.timedelta(milliseconds=wait_ms),
        min_bytes=1,
        max_bytes=1 << 22,
        isolation_level=0,
        session_id=0,
        session_epoch=-1,
        topics=(fetch_v11.FetchTopic(topic=topic, partitions=(asked,)),),
        forgotten_topics_data=(),
        rack_id="",
    )


def fetched(answer: Any, offset: int) -> Fetched:
    told = answer.responses[0].partitions[0]
    values = [bytes(each.value or b"") for each in walk(bytes(told.records or b"")) if each.offset >= offset]
    return Fetched(int(told.error_code), int(told.high_watermark), values)


def watermark_delays(leader: Address, follower: Address, topic: str, count: int) -> list[float]:
    """Seconds from the acknowledgement of a message (acks=all) until a consumer at a follower has it.

    The topic has one partition and is empty. The fetch waits at the follower before the message is sent.
    """
    delays: list[float] = []
    with WireClient(*leader) as producing, WireClient(*follower) as reading:
        for offset in range(count):
            request = fetch_request(topic, 0, offset, wait_ms=10_000)
            reading.send(request)
            time.sleep(0.01)
            answer = produce(producing, topic, 0, b"%d" % offset)
            acknowledged = time.perf_counter()
            found = fetched(reading.receive(request), offset)
            delays.append(time.perf_counter() - acknowledged)
            if answer.code or found.values != [b"%d" % offset]:
                raise RuntimeError(f"produced with code {answer.code}, then fetched {found}")
    return delays


def latest_offset(client: WireClient, topic: str, partition: int) -> tuple[int, int]:
    """Error code, and the offset after the last record that consumers may read, as this node tells it."""
    asked = list_offsets_v5.ListOffsetsPartition(partition_index=partition, current_leader_epoch=-1, timestamp=LATEST)
    answer = client.ask(
        list_offsets_v5.ListOffsetsRequest(
            replica_id=-1,
            isolation_level=0,
            topics=(list_offsets_v5.ListOffsetsTopic(name=topic, partitions=(asked,)),),
        )
    )
    told = answer.topics[0].partitions[0]
    return int(told.error_code), int(told.offset)


Place = tuple[str, int]
"""Topic and partition."""


@dataclass(frozen=True)
class Told:
    """What one node says about the cluster."""

    brokers: Mapping[int, tuple[str, int]]
    controller_id: int
    leaders: Mapping[Place, int]
    in_sync: Mapping[Place, tuple[int, ...]]
    codes: Mapping[Place, int]


def metadata(client: WireClient, topics: Iterable[str] | None = None) -> Told:
    """The node's Metadata answer; about all topics if none is named."""
    asked = None if topics is None else tuple(metadata_v9.MetadataRequestTopic(name=each) for each in topics)
    answer = client.ask(
        metadata_v9.MetadataRequest(
            topics=asked,
            allow_auto_topic_creation=False,
            include_cluster_authorized_operations=False,
            include_topic_authorized_operations=False,
        )
    )
    partitions = {
        (str(topic.name), int(each.partition_index)): each for topic in answer.topics for each in topic.partitions
    }
    return Told(
        {int(broker.node_id): (str(broker.host), int(broker.port)) for broker in answer.brokers},
        int(answer.controller_id),
        {place: int(each.leader_id) for place, each in partitions.items()},
        {place: tuple(map(int, each.isr_nodes)) for place, each in partitions.items()},
        {place: int(each.error_code) for place, each in partitions.items()},
    )
