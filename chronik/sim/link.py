"""A client's connection in the simulated network: Kafka requests out, answers in, in the order of the requests."""

from __future__ import annotations

import asyncio
import struct
import typing
from collections import deque
from functools import cache
from typing import Any, NamedTuple

from kio.serial import entity_reader

from chronik.sim.network import SimNetwork
from chronik.sim.story import WorldStory
from chronik.wire import schemas
from chronik.wire.framing import response_head
from chronik.wire.versions import APIS
from chronik.wire.writer import encode_into

REQUEST_S = 8.0

# The versions these clients speak: flexible ones that still name topics by their names.
VERSIONS = {
    "produce": 11,  # from 10 on a refusal names the leader (KIP-951)
    "fetch": 12,
    "list_offsets": 7,
    "offset_commit": 9,
    "offset_fetch": 9,
    "metadata": 12,
    "find_coordinator": 3,
    "join_group": 7,
    "heartbeat": 4,
    "leave_group": 4,
    "sync_group": 5,
    "consumer_group_heartbeat": 1,
    "consumer_group_describe": 0,
    "create_topics": 7,
    "delete_topics": 5,
    "delete_records": 2,
    "init_producer_id": 4,
    "txn_offset_commit": 5,  # topics by name
    "alter_partition_reassignments": 1,
    "elect_leaders": 2,
    "create_partitions": 3,
    "incremental_alter_configs": 1,
    "describe_configs": 4,
    "add_raft_voter": 0,
    "remove_raft_voter": 0,
}
# The same request in another version: transactional clients speak two protocols.
OTHER_VERSIONS = {
    "produce_v12": ("produce", 12),
    "add_partitions_to_txn_v3": ("add_partitions_to_txn", 3),
    "txn_offset_commit_v4": ("txn_offset_commit", 4),
    "end_txn_v4": ("end_txn", 4),
}
# What only the hostile ones send is sent in its newest version.
VERSIONS |= {api.name: api.highest for api in APIS.values() if api.name not in VERSIONS}
_SIZE_AND_HEADER = struct.Struct(">ihhih")
_KEYS = {api.name: api.key for api in APIS.values()}


def _key_and_version(name: str) -> tuple[int, int]:
    api_name, version = OTHER_VERSIONS.get(name) or (name, VERSIONS[name])
    return _KEYS[api_name], version


class AskedOverLink(NamedTuple):
    """A request under way."""

    name: str
    correlation_id: int
    answer: asyncio.Future[Any]


@cache
def request_type(name: str) -> Any:
    return schemas.request_type(*_key_and_version(name))


@cache
def response_type(name: str) -> Any:
    return schemas.response_type(*_key_and_version(name))


@cache
def part_of(name: str, *path: str) -> Any:
    """The type of a nested part of a request: of the items of its array `path[0]`, and so on."""
    kind = request_type(name)
    for step in path:
        hint = typing.get_type_hints(kind)[step]
        arrays = (hint, *typing.get_args(hint))  # an array, or an array or null
        kind = next(typing.get_args(array)[0] for array in arrays if typing.get_origin(array) is tuple)
    return kind


class SimLink(asyncio.Protocol):
    """One connection."""

    def __init__(self, who: str, story: WorldStory, address: tuple[str, int]) -> None:
        self.address = address
        self._who = who
        self._story = story
        self._transport: asyncio.BaseTransport | None = None
        self._received = bytearray()
        self._asked: deque[AskedOverLink] = deque()
        self._next_id = 1

    @classmethod
    async def open(cls, who: str, story: WorldStory, network: SimNetwork, address: tuple[str, int]) -> SimLink:
        """Raises OSError."""
        link = cls(who, story, address)
        await network.connect(*address, link)
        return link

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        for asked in self._asked:
            if not asked.answer.done():
                asked.answer.set_exception(ConnectionError("the connection ended"))
                asked.answer.exception()  # a caller that still wants it sees it; no other needs to
        self._asked.clear()

    def abort(self) -> None:
        if isinstance(self._transport, asyncio.Transport):
            self._transport.abort()

    def send(self, name: str, *, is_answered: bool = True, **fields: Any) -> asyncio.Future[Any]:
        """Send a request; the future has its answer. Raises ConnectionError."""
        if not isinstance(self._transport, asyncio.Transport):
            raise ConnectionError("the connection has ended")
        (key, version), correlation_id = _key_and_version(name), self._next_id
        self._next_id += 1
        kind = request_type(name)
        client_id = self._who.encode()
        frame = bytearray(_SIZE_AND_HEADER.size)
        frame += client_id
        frame.append(0)
        encode_into(frame, kind(**fields))
        _SIZE_AND_HEADER.pack_into(frame, 0, len(frame) - 4, key, version, correlation_id, len(client_id))
        answer = asyncio.get_running_loop().create_future()
        if is_answered:
            self._asked.append(AskedOverLink(name, correlation_id, answer))
        self._transport.write(frame)
        return answer

    async def ask(self, name: str, **fields: Any) -> Any:
        """Send a request and wait for its answer. Raises OSError (ConnectionError, TimeoutError)."""
        return await self.wait_for(self.send(name, **fields))

    async def wait_for(self, answer: asyncio.Future[Any]) -> Any:
        """Raises OSError when the connection ends or too much time passes; it is of no use then."""
        try:
            async with asyncio.timeout(REQUEST_S):
                return await answer
        except TimeoutError:
            self.abort()
            raise

    def data_received(self, data: bytes) -> None:
        self._received += data
        while len(self._received) >= 4:
            (size,) = struct.unpack_from(">i", self._received)
            if len(self._received) < 4 + size:
                return
            frame = bytes(self._received[4 : 4 + size])
            del self._received[: 4 + size]
            self._answered(frame)

    def _answered(self, frame: bytes) -> None:
        (correlation_id,) = struct.unpack_from(">i", frame)
        if not self._asked or self._asked[0].correlation_id != correlation_id:
            expected = self._asked[0].correlation_id if self._asked else None
            raise self._story.break_promise(f"{self._who}: answer {correlation_id} where {expected} is due")
        asked = self._asked.popleft()
        key, version = _key_and_version(asked.name)
        head = response_head(key, version, correlation_id)
        answer, _ = entity_reader(response_type(asked.name))(frame, len(head))
        if not asked.answer.done():
            asked.answer.set_result(answer)
