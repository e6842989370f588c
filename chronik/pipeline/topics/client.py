"""A small Kafka client that blocks, for Spark's tasks: offsets, raw record batches in and out, and nothing per record.

It speaks each request in the newest version that both sides know, follows leaders when they move, and says in words
what it could not do. It works against any Kafka; what only newer ones have (topic ids) is used where it is there.
"""

from __future__ import annotations

import dataclasses
import datetime
import logging
import time
import typing
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple, TypeVar

from chronik.client.connection import ClientConnection, ConnectionFailed
from chronik.client.current_topics import Unsure, partitions_now
from chronik.client.options import ClientOptions
from chronik.client.security import Security
from chronik.core.errors import Code
from chronik.pipeline.topics.options import EARLIEST, LATEST
from chronik.wire.reader import default_of, shape_of

FETCH, LIST_OFFSETS, METADATA, PRODUCE = 1, 2, 3, 0
LARGE_BYTES = 1024 * 1024
RETRY_PAUSE_S = 0.1
FETCH_WAIT = datetime.timedelta(milliseconds=500)
NO_OFFSET = -1
ENDS = (EARLIEST, LATEST)
Answer = TypeVar("Answer")

log = logging.getLogger(__name__)

# The cluster is busy with itself; the same question is worth asking again.
PASSING = frozenset(
    {
        Code.LEADER_NOT_AVAILABLE,
        Code.NOT_LEADER_OR_FOLLOWER,
        Code.REQUEST_TIMED_OUT,
        Code.BROKER_NOT_AVAILABLE,
        Code.REPLICA_NOT_AVAILABLE,
        Code.NETWORK_EXCEPTION,
        Code.NOT_ENOUGH_REPLICAS,
        Code.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        Code.KAFKA_STORAGE_ERROR,
        Code.FENCED_LEADER_EPOCH,
        Code.UNKNOWN_LEADER_EPOCH,
        Code.OFFSET_NOT_AVAILABLE,
        Code.UNKNOWN_TOPIC_OR_PARTITION,
        Code.UNKNOWN_TOPIC_ID,
        Code.INCONSISTENT_TOPIC_ID,
    }
)


class Failed(Exception):
    """The cluster would not do it; the message says what and why."""


class NoSuchTopic(Failed):
    """It is not there."""


class OtherTopic(Failed):
    """A topic of that name is there, but it is not the one that was meant: it was deleted and created again."""


class OutOfRange(Failed):
    """The offset is not, or no longer, in the log."""


class ReadPartition(NamedTuple):
    topic: str
    number: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.number}"


@dataclass(frozen=True)
class TopicSeen:
    name: str
    topic_id: uuid.UUID | None
    """None on clusters older than topic ids."""
    leaders: Mapping[int, int]
    """The node that leads each partition; -1 for none."""
    is_internal: bool = False


@dataclass(frozen=True)
class FetchedRecords:
    records: bytes
    aborted: tuple[tuple[int, int], ...]
    """(producer id, first offset) of transactions that came to nothing."""
    log_start_offset: int
    last_readable: int
    """Below this offset a reader may read."""


@dataclass(frozen=True)
class FetchFrom:
    """A place in a partition, of the topic with this id if it is known."""

    partition: ReadPartition
    topic_id: uuid.UUID | None
    offset: int


class TopicClient:
    """Connections to the nodes of a cluster, made as they are needed. Use it in a `with`."""

    def __init__(self, options: ClientOptions) -> None:
        self._options = options
        self._connections: dict[tuple[str, int], ClientConnection] = {}
        self._addresses: dict[int, tuple[str, int]] = {}
        self._topics: dict[str, TopicSeen] = {}

    def __enter__(self) -> TopicClient:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        for connection in self._connections.values():
            connection.close()
        self._connections.clear()

    @property
    def security(self) -> Security:
        """How it is let in: for looks at its nodes."""
        return self._options.security

    # --- any question

    def ask_any(self, api_key: int, values: Mapping[str, Any], highest: int | None = None) -> Any:
        """The answer of any node, to a request in no newer version than `highest`. Raises Failed."""
        return self._anywhere(lambda connection: _ask(connection, api_key, values, highest))

    def ask_at(
        self, address: tuple[str, int], api_key: int, values: Mapping[str, Any], highest: int | None = None
    ) -> Any:
        """The answer of the node at this address. Raises ConnectionFailed."""
        try:
            return _ask(self._connected(address), api_key, values, highest)
        except ConnectionFailed:
            self._drop(address)
            raise

    def patiently(self, ask: Callable[[], Answer]) -> Answer:
        """What `ask` returns, once it raises neither Passing nor Unreachable. Raises Failed if that takes too long."""
        deadline = self._deadline()
        while True:
            try:
                return ask()
            except (Passing, ConnectionFailed) as problem:
                self._pause(deadline, str(problem))

    def nodes(self) -> list[tuple[str, int]]:
        """The addresses of all nodes."""
        self.topics([])
        return [address for _, address in sorted(self._addresses.items())]

    # --- what there is

    def topics(self, names: Iterable[str] | None) -> dict[str, TopicSeen]:
        """These topics (all: None) as the cluster has them now; one that is not there is left out."""
        asked = None if names is None else [{"name": name} for name in sorted(names)]
        found = self._anywhere(lambda connection: connection.ask(METADATA, self._metadata(connection, asked)))
        self._addresses.update({broker.node_id: (broker.host, broker.port) for broker in found.brokers})
        topics: dict[str, TopicSeen] = {}
        for topic in found.topics:
            if topic.error_code in (Code.UNKNOWN_TOPIC_OR_PARTITION, Code.INVALID_TOPIC_EXCEPTION):
                continue
            if topic.error_code not in (Code.NONE, Code.LEADER_NOT_AVAILABLE):
                raise Failed(f"topic {topic.name}: {Code(topic.error_code).name}")
            leaders = {each.partition_index: each.leader_id for each in topic.partitions}
            seen = TopicSeen(topic.name, getattr(topic, "topic_id", None), leaders, topic.is_internal)
            topics[seen.name] = seen
        self._topics.update(topics)
        return topics

    def topic(self, name: str) -> TopicSeen:
        found = self.topics([name]).get(name)
        if found is None:
            raise self.missing([name])
        return found

    def missing(self, names: Sequence[str]) -> Failed:
        """The error for topics that a node does not know: they are not there, or that is not sure, since it may have
        been cut off before they came."""
        named = ", ".join(map(repr, names))
        addresses = list(dict.fromkeys([*self._options.bootstrap, *self._addresses.values()]))
        try:
            counts = [partitions_now(addresses, name, self.security) for name in names]
        except Unsure as unsure:
            return Failed(str(unsure))
        if any(counts):
            return Failed(f"topic {named} is there, but the node that was asked is behind the others: ask again")
        return NoSuchTopic(f"there is no topic {named}")

    def known(self, name: str) -> TopicSeen:
        """The topic as it was last seen: enough for what does not change, or only grows."""
        return self._topics.get(name) or self.topic(name)

    def _metadata(self, connection: ClientConnection, asked: list[dict[str, Any]] | None) -> Any:
        version = connection.version_of(METADATA)
        return message(
            connection.request_type(METADATA, version), {"topics": asked, "allow_auto_topic_creation": False}
        )

    def _anywhere(self, ask: Callable[[ClientConnection], Any]) -> Any:
        """The answer of any node that gives one."""
        deadline = self._deadline()
        while True:
            problems = []
            for address in dict.fromkeys((*self._options.bootstrap, *self._addresses.values())):
                try:
                    return ask(self._connected(address))
                except ConnectionFailed as problem:
                    problems.append(str(problem))
                    self._drop(address)
            if time.monotonic() > deadline:
                raise Failed("no node answers: " + "; ".join(problems))
            time.sleep(RETRY_PAUSE_S)

    # --- offsets

    def offsets(self, wanted: Mapping[ReadPartition, int]) -> dict[ReadPartition, int]:
        """For each partition the offset at a time in ms, or EARLIEST or LATEST; NO_OFFSET when nothing is that late."""
        found: dict[ReadPartition, int] = {}
        deadline = self._deadline()
        while missing := {partition: at for partition, at in wanted.items() if partition not in found}:
            problem = "no leader"
            for leader, partitions in self._by_leader(missing).items():
                try:
                    problem = self._list_offsets(leader, {each: missing[each] for each in partitions}, found) or problem
                except ConnectionFailed as unreachable:
                    problem = str(unreachable)
                    self._forget(leader)
            if len(found) < len(wanted):
                self._pause(deadline, f"offsets of {', '.join(map(str, sorted(missing)[:3]))}: {problem}")
        return found

    def _list_offsets(
        self, leader: int, wanted: Mapping[ReadPartition, int], found: dict[ReadPartition, int]
    ) -> str | None:
        connection = self._to(leader)
        body = {
            "replica_id": -1,
            "isolation_level": int(self._options.is_committed_only),
            "topics": [
                {
                    "name": topic,
                    "partitions": [
                        {"partition_index": each.number, "current_leader_epoch": -1, "timestamp": at}
                        for each, at in wanted.items()
                        if each.topic == topic
                    ],
                }
                for topic in sorted({each.topic for each in wanted})
            ],
        }
        version = connection.version_of(LIST_OFFSETS)
        answer = connection.ask(LIST_OFFSETS, message(connection.request_type(LIST_OFFSETS, version), body))
        problem = None
        for topic in answer.topics:
            for each in topic.partitions:
                partition = ReadPartition(topic.name, each.partition_index)
                if each.error_code == Code.NONE and each.offset < 0 and wanted[partition] in ENDS:
                    problem = f"reported as {each.offset}"  # a log has both of its ends: this is no answer
                elif each.error_code == Code.NONE:
                    found[partition] = each.offset
                elif each.error_code in PASSING:
                    problem = Code(each.error_code).name
                else:
                    raise Failed(f"offsets of {partition}: {Code(each.error_code).name}")
        return problem

    # --- records

    def ask_for_records(self, place: FetchFrom) -> Callable[[], FetchedRecords]:
        """Ask the leader, and return how to get the answer: there is time for other things in between.

        The answer may have no records: then none came within half a second.
        """
        try:
            connection = self._to(self._leader_of(place.partition))
            version = connection.version_of(FETCH)
            if version >= 13 and place.topic_id is None:
                version = 12  # the last one that names topics
            connection.send(FETCH, message(connection.request_type(FETCH, version), self._fetch_body(place)))
        except (ConnectionFailed, NoSuchTopic, Passing) as problem:
            passing = problem if isinstance(problem, Passing) else Passing(str(problem))
            return lambda: self._fetch_again(place, passing)

        def receive() -> FetchedRecords:
            try:
                return self._fetched(place, connection.receive())
            except (ConnectionFailed, Passing) as problem:
                if isinstance(problem, ConnectionFailed):
                    self._drop(connection.address)
                return self._fetch_again(place, problem)

        return receive

    def _fetch_again(self, place: FetchFrom, problem: Exception) -> FetchedRecords:
        deadline = self._deadline()
        while True:
            self._pause(deadline, f"{place.partition} at offset {place.offset}: {problem}")
            self.check_id(place.partition.topic, place.topic_id)
            try:
                connection = self._to(self._leader_of(place.partition))
                version = (
                    connection.version_of(FETCH)
                    if place.topic_id is not None
                    else min(connection.version_of(FETCH), 12)
                )
                request = message(connection.request_type(FETCH, version), self._fetch_body(place))
                return self._fetched(place, connection.ask(FETCH, request))
            except ConnectionFailed as unreachable:
                problem = unreachable
                self._forget(self._topics[place.partition.topic].leaders.get(place.partition.number, -1))
            except Passing as passing:
                problem = passing

    def _fetch_body(self, place: FetchFrom) -> dict[str, Any]:
        partition = {
            "partition": place.partition.number,
            "current_leader_epoch": -1,
            "fetch_offset": place.offset,
            "last_fetched_epoch": -1,
            "log_start_offset": -1,
            "partition_max_bytes": self._options.fetch_bytes,
        }
        return {
            "replica_id": -1,
            "max_wait": FETCH_WAIT,
            "min_bytes": 1,
            "max_bytes": self._options.fetch_bytes,
            "isolation_level": int(self._options.is_committed_only),
            "session_id": 0,
            "session_epoch": -1,  # no session: a task asks for one partition, and is soon gone
            "topics": [{"topic": place.partition.topic, "topic_id": place.topic_id, "partitions": [partition]}],
        }

    def _fetched(self, place: FetchFrom, answer: Any) -> FetchedRecords:
        code = getattr(answer, "error_code", Code.NONE)
        given = [partition for topic in answer.responses for partition in topic.partitions]
        if code == Code.NONE and len(given) == 1:
            code = given[0].error_code
        if code in PASSING or (code == Code.NONE and len(given) != 1):
            raise Passing(Code(code).name)
        if code == Code.OFFSET_OUT_OF_RANGE:
            raise OutOfRange(f"{place.partition} has no offset {place.offset}")
        if code != Code.NONE:
            raise Failed(f"{place.partition} at offset {place.offset}: {Code(code).name}")
        partition = given[0]
        aborted = tuple((each.producer_id, each.first_offset) for each in partition.aborted_transactions or ())
        readable = partition.last_stable_offset if self._options.is_committed_only else partition.high_watermark
        return FetchedRecords(partition.records or b"", aborted, getattr(partition, "log_start_offset", -1), readable)

    def produce(
        self, batches: Mapping[ReadPartition, bytes], transactional_id: str | None = None
    ) -> dict[ReadPartition, int]:
        """Write one batch to each of these partitions, on all their replicas; returns where each of them is.

        Batches of an idempotent producer may be sent again, so they are, until they are there or time is up.
        """
        written: dict[ReadPartition, int] = {}
        deadline = self._deadline()
        while missing := [partition for partition in batches if partition not in written]:
            problem = "no leader"
            for leader, partitions in self._by_leader(missing).items():
                try:
                    sent = {partition: batches[partition] for partition in partitions}
                    problem = self._produce_to(leader, sent, written, transactional_id) or problem
                except ConnectionFailed as unreachable:
                    problem = str(unreachable)
                    self._forget(leader)
            if len(written) < len(batches):
                self._pause(deadline, f"writing to {', '.join(map(str, sorted(missing)[:3]))}: {problem}")
        return written

    def _produce_to(
        self,
        leader: int,
        batches: Mapping[ReadPartition, bytes],
        written: dict[ReadPartition, int],
        transactional_id: str | None,
    ) -> str | None:
        connection = self._to(leader)
        # By name; and from 12 on a partition is added to a transaction by the way (KIP-890), which is done apart here.
        version = min(connection.version_of(PRODUCE), 12 if transactional_id is None else 11)
        body = {
            "transactional_id": transactional_id,
            "acks": -1,
            "timeout": datetime.timedelta(milliseconds=min(self._options.timeout_ms, 30_000)),
            "topic_data": [
                {
                    "name": topic,
                    "partition_data": [
                        {"index": each.number, "records": batch}
                        for each, batch in batches.items()
                        if each.topic == topic
                    ],
                }
                for topic in sorted({each.topic for each in batches})
            ],
        }
        answer = connection.ask(PRODUCE, message(connection.request_type(PRODUCE, version), body))
        problem = None
        for topic in answer.responses:
            for each in topic.partition_responses:
                partition = ReadPartition(topic.name, each.index)
                # A duplicate that is older than what the leader remembers the place of is written all the same.
                if each.error_code in (Code.NONE, Code.DUPLICATE_SEQUENCE_NUMBER):
                    written[partition] = each.base_offset
                elif each.error_code in PASSING:
                    problem = Code(each.error_code).name
                else:
                    words = getattr(each, "error_message", None)
                    raise Failed(f"{partition}: {Code(each.error_code).name}" + (f": {words}" if words else ""))
        return problem

    # --- leaders, and how to reach them

    def check_id(self, topic: str, expected: uuid.UUID | None) -> TopicSeen:
        """The topic as it is now. Raises OtherTopic if it is not the one with this id, NoSuchTopic if it is gone."""
        seen = self.topic(topic)
        if expected is not None and seen.topic_id is not None and seen.topic_id != expected:
            raise OtherTopic(
                f"topic {topic!r} was deleted and created again: its id was {expected} and is {seen.topic_id}. Its "
                "offsets begin anew, so what was read before says nothing about it: start with a new checkpoint"
            )
        return seen

    def _by_leader(self, partitions: Iterable[ReadPartition]) -> dict[int, list[ReadPartition]]:
        wanted = list(partitions)
        if unknown := sorted({each.topic for each in wanted} - set(self._topics)):
            self.topics(unknown)
        leaders: dict[int, list[ReadPartition]] = {}
        for partition in wanted:
            try:
                leaders.setdefault(self._leader_of(partition), []).append(partition)
            except Passing:
                continue  # the caller tries again after a pause, with fresh metadata
        return leaders

    def _leader_of(self, partition: ReadPartition) -> int:
        topic = self.known(partition.topic)
        leader = topic.leaders.get(partition.number)
        if leader is None:
            raise Failed(
                f"topic {partition.topic!r} has {len(topic.leaders)} partitions, and no partition {partition.number}"
            )
        if leader < 0 or leader not in self._addresses:
            raise Passing("no leader")
        return leader

    def _pause(self, deadline: float, problem: str) -> None:
        """Before the next try: the leader may be known by then. Raises Failed when it has been tried long enough."""
        if time.monotonic() > deadline:
            raise Failed(f"tried for {self._options.timeout_ms / 1000:g} s: {problem}")
        log.debug("again in a moment: %s", problem)
        time.sleep(RETRY_PAUSE_S)
        self.topics(list(self._topics))

    def _deadline(self) -> float:
        return time.monotonic() + self._options.timeout_ms / 1000

    def _to(self, node_id: int) -> ClientConnection:
        return self._connected(self._addresses[node_id])

    def _connected(self, address: tuple[str, int]) -> ClientConnection:
        connection = self._connections.get(address)
        if connection is None:
            connection = self._connections[address] = ClientConnection(address, self._options, _unfilled)
        return connection

    def _forget(self, node_id: int) -> None:
        if node_id in self._addresses:
            self._drop(self._addresses[node_id])

    def _drop(self, address: tuple[str, int]) -> None:
        connection = self._connections.pop(address, None)
        if connection is not None:
            connection.close()


def _ask(connection: ClientConnection, api_key: int, values: Mapping[str, Any], highest: int | None) -> Any:
    version = connection.version_of(api_key)
    version = version if highest is None else min(version, highest)
    return connection.ask(api_key, message(connection.request_type(api_key, version), values))


class Passing(Exception):
    """Not now; the same may work in a moment."""


def message(kind: type, values: Mapping[str, Any]) -> Any:
    """A kio message of this type. Fields it does not have are left out, and those not given have their default."""
    made = {}
    for name, nested, default in _fields(kind):
        value = values.get(name, default)
        if nested is not None and isinstance(value, Sequence):
            value = tuple(message(nested, item) if isinstance(item, Mapping) else item for item in value)
        made[name] = value
    return kind(**made)


@cache
def _fields(kind: type) -> list[tuple[str, type | None, Any]]:
    hints = typing.get_type_hints(kind)
    return [
        (field.name, shape_of(hints[field.name])[2], default_of(field, hints[field.name]))
        for field in dataclasses.fields(kind)
    ]


def _unfilled(count: int) -> memoryview:
    """Room for the bytes of an answer. Megabytes are not set to zero first: they are written over at once."""
    if count < LARGE_BYTES:
        return memoryview(bytearray(count))
    import numpy as np

    room: Any = np.empty(count, np.uint8)
    return memoryview(room)
