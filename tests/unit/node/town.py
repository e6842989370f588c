"""A node among others, for tests of what it sends on: real replicas and dispatch, and links that keep what is asked."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, cast

from chronik.api.call import Peer
from chronik.api.context import RequestContext, TransactionContext
from chronik.core.machines.metadata.commands import CreateInternalTopic, RegisterBroker
from chronik.core.machines.metadata.image import MetadataImage
from chronik.core.machines.metadata.names import OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from chronik.core.types import Buffer
from chronik.node.coordinators.runtime import partition_of
from chronik.node.net.connection import Slot
from chronik.node.routing.dispatch import Dispatch
from chronik.node.routing.forwarding import Forwarding
from chronik.sim.loop import SimLoop
from chronik.wire.codec import decode_request, encode_request, encode_response
from chronik.wire.framing import RequestHeader, read_header
from tests.unit.api.fake_context import FakeGroups
from tests.unit.api.fake_transactions import FakeTransactions
from tests.unit.api.house_context import HouseContext
from tests.unit.node.fakes import House
from tests.unit.wire.messages import read, response_type, write

HERE, SECOND, THIRD = 1, 2, 3
CORRELATION_ID = 4711


class Sent:
    """A request that a link was given."""

    def __init__(self, link: FakeLink, pieces: Sequence[Buffer], timeout_ms: int) -> None:
        self.node_id = link.node_id
        self.frame = memoryview(b"".join(bytes(piece) for piece in pieces))
        self.timeout_ms = timeout_ms
        self.answer: asyncio.Future[memoryview] = asyncio.get_running_loop().create_future()
        self.header: RequestHeader = read_header(self.frame)

    def decoded(self, kind: type) -> Any:
        return decode_request(self.header.api_key, self.header.version, self.frame, self.header.body, kind)

    def respond(self, response: Any) -> None:
        header = self.header
        self.reply(encode_response(header.api_key, header.version, header.correlation_id, response))

    def reply(self, frame: bytes) -> None:
        """With its size, as it comes over the wire."""
        self.answer.set_result(memoryview(bytearray(frame))[4:])

    def fail(self, problem: Exception) -> None:
        self.answer.set_exception(problem)
        self.answer.exception()  # as the real link: if nothing waits any longer, that is no fault


class FakeLink:
    """Keeps what it is asked."""

    def __init__(self, peers: FakePeers, node_id: int) -> None:
        self.node_id = node_id
        self.is_closed = False
        self._peers = peers

    def ask_frame(self, pieces: Sequence[Buffer], *, timeout_ms: int) -> asyncio.Future[memoryview]:
        assert not self.is_closed, "asked after it was closed"
        sent = Sent(self, pieces, timeout_ms)
        self._peers.sent.append(sent)
        return sent.answer

    def close(self) -> None:
        self.is_closed = True


class FakePeers:
    """All links that were made, and all that was sent on them, in order."""

    def __init__(self) -> None:
        self.links: list[FakeLink] = []
        self.sent: list[Sent] = []

    def new_link(self, node_id: int, client: object = None) -> FakeLink:
        self.links.append(FakeLink(self, node_id))
        return self.links[-1]

    def address_of(self, node_id: int) -> tuple[str, int] | None:
        return (f"host-{node_id}", 9092) if node_id in (HERE, SECOND, THIRD) else None

    def to(self, node_id: int) -> list[Sent]:
        return [sent for sent in self.sent if sent.node_id == node_id]


class FakeCluster:
    """Which node is the controller is up to the test."""

    def __init__(self, house: House) -> None:
        self.image = house.image
        self.controller_id: int | None = SECOND
        self.caught_up = 0
        self._gate: asyncio.Event | None = None
        self.asked: list[Any] = []
        self._house = house

    @property
    def is_controller(self) -> bool:
        return self.controller_id == HERE

    async def ask(self, command: Any) -> Any:
        self.asked.append(command)
        return self._house.tell(command)

    ask_here = ask

    async def wait_until_applied(self, timeout_ms: int) -> None:
        """They are at once."""

    async def wait_until_caught_up(self, timeout_ms: int) -> bool:
        self.caught_up += 1
        if self._gate is not None:
            await self._gate.wait()
        return True

    def hold(self) -> asyncio.Event:
        """What this node is to catch up with has not come yet."""
        self._gate = asyncio.Event()
        return self._gate


class TownGroups(FakeGroups):
    """Coordinators as the image names them."""

    def __init__(self, image: MetadataImage) -> None:
        super().__init__()
        self._image = image

    def coordinator_now(self, group_id: str) -> Any:
        topic = self._image.topic(OFFSETS_TOPIC)
        if topic is None:
            return None
        return self._image.brokers.get(topic.partitions[partition_of(group_id, len(topic.partitions))].leader)


class TownTransactions(FakeTransactions):
    """The same for transactional ids."""

    def __init__(self, image: MetadataImage) -> None:
        super().__init__()
        self._image = image

    def coordinator_now(self, transactional_id: str) -> Any:
        topic = self._image.topic(TRANSACTIONS_TOPIC)
        if topic is None:
            return None
        return self._image.brokers.get(topic.partitions[partition_of(transactional_id, len(topic.partitions))].leader)


class Answers:
    """A connection that keeps its answers."""

    def slot_filled(self, slot: Slot) -> None:
        pass


class Town:
    """Node 1 of three. It leads partition 0 of 'orders', node 2 leads 1 and 2, node 3 leads 3, no node leads 4."""

    def __init__(self, *, one_address: bool = False) -> None:
        self.desk_in_house = HouseContext({"orders": 5})
        self.house = self.desk_in_house.house
        for node_id in (SECOND, THIRD):
            host = "localhost" if one_address else f"host-{node_id}"
            self.house.tell(RegisterBroker(node_id, bytes([node_id]) * 16, host, 9092))
        self.peers = FakePeers()
        self.cluster = FakeCluster(self.house)
        self.groups = TownGroups(self.house.image)
        self.transactions = TownTransactions(self.house.image)
        self.forwarding = Forwarding(
            HERE,
            self.cluster,
            cast(Any, self.groups),
            cast(Any, self.transactions),
            cast(Any, self.peers),
            self.house.deadlines,
            self.house.metrics,
        )
        self.context: RequestContext = dataclasses.replace(
            self.desk_in_house.context,
            forwarding=self.forwarding,
            groups=cast(Any, self.groups),
            transactional=TransactionContext(cast(Any, self.transactions)),
            metadata=self.cluster,
        )
        self.dispatch = Dispatch(self.context, self.house.metrics, self.forwarding)
        self.lead("orders", 1, SECOND)
        self.lead("orders", 2, SECOND)
        self.lead("orders", 3, THIRD)
        self.lead("orders", 4, -1)

    @property
    def image(self) -> MetadataImage:
        return self.house.image

    def lead(self, topic: str, number: int, leader: int) -> None:
        """The metadata name another leader."""
        partitions = self.image.topics[topic].partitions
        old = partitions[number]
        partitions[number] = dataclasses.replace(old, leader=leader, leader_epoch=old.leader_epoch + 1)
        self.forwarding.metadata_applied([])

    def fence(self, node_id: int) -> None:
        self.image.brokers[node_id] = dataclasses.replace(self.image.brokers[node_id], is_fenced=True)
        self.forwarding.metadata_applied([])

    def coordinate(self, group_id: str, node_id: int) -> None:
        if self.image.topic(OFFSETS_TOPIC) is None:
            self.house.tell(CreateInternalTopic(OFFSETS_TOPIC, b"o" * 16))
        self.lead(OFFSETS_TOPIC, partition_of(group_id, 50), node_id)

    def coordinate_transactions(self, transactional_id: str, node_id: int) -> None:
        if self.image.topic(TRANSACTIONS_TOPIC) is None:
            self.house.tell(CreateInternalTopic(TRANSACTIONS_TOPIC, b"t" * 16))
        self.lead(TRANSACTIONS_TOPIC, partition_of(transactional_id, 50), node_id)

    def start(self, frame: bytes, peer: Peer | None = None) -> Slot:
        """A frame without its size."""
        slot = Slot(cast(Any, Answers()))
        self.dispatch.start(memoryview(bytearray(frame)), peer or Peer(1, "10.0.0.7"), slot)
        return slot

    def ask(self, api_key: int, version: int, message: Any, peer: Peer | None = None) -> Slot:
        return self.start(encode_request(api_key, version, CORRELATION_ID, "test", message)[4:], peer)

    async def settle(self) -> None:
        for _ in range(20):
            await asyncio.sleep(0)
        await self.house.settle()
        for _ in range(20):
            await asyncio.sleep(0)


def response_in(slot: Slot, api_key: int, version: int) -> Any:
    """What kio reads in the answer."""
    assert slot.is_filled
    assert slot.buffers is not None
    frame = b"".join(bytes(buffer) for buffer in slot.buffers)
    assert int.from_bytes(frame[:4], "big") == len(frame) - 4
    assert int.from_bytes(frame[4:8], "big") == CORRELATION_ID
    kind = response_type(api_key, version)
    head = write(kind.__header_schema__(correlation_id=CORRELATION_ID))
    return read(kind, frame[4 + len(head) :])


def in_town(**options: Any) -> Callable[[Callable[[Town], Coroutine[Any, Any, None]]], Callable[[], None]]:
    """The test in a loop of its own. No fault may go unnoticed, no task be left."""

    def decorate(test: Callable[[Town], Coroutine[Any, Any, None]]) -> Callable[[], None]:
        async def through() -> None:
            town = Town(**options)
            await test(town)
            assert town.house.metrics.faults == 0
            await town.dispatch.close()

        def wrapped() -> None:
            asyncio.run(through())

        wrapped.__name__ = test.__name__
        wrapped.__doc__ = test.__doc__
        return wrapped

    return decorate


def in_time(test: Callable[[Town], Coroutine[Any, Any, None]]) -> Callable[[], None]:
    """On a simulated loop: hours pass in no time."""

    def wrapped() -> None:
        loop = SimLoop()

        async def through() -> None:
            town = Town()
            await test(town)
            assert town.house.metrics.faults == 0
            await town.dispatch.close()

        try:
            loop.run_until_complete(through())
        finally:
            loop.close()

    wrapped.__name__ = test.__name__
    return wrapped


async def until(condition: Callable[[], bool]) -> None:
    """In simulated time, a millisecond at a time."""
    for _ in range(60_000):
        if condition():
            return
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(0.001):
                await asyncio.Event().wait()
    raise AssertionError("it never happened")
