"""Nodes with copies of each other's partitions, without a quorum: the test says what the metadata is, and when it is
known where. Fetches go from one to the other as frames, over a network that can be cut."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, cast

from chronik.api import fetch
from chronik.api.context import Caller, FetchContext, RequestContext
from chronik.core.config.node import NodeConfig
from chronik.core.fetch_sessions import FetchSessions
from chronik.core.machines.metadata.image import MetadataImage
from chronik.core.machines.metadata.records import (
    CLIENTS_END_POINT,
    BrokerEndpoint,
    PartitionChangeRecord,
    PartitionRecord,
    ProducerIdsRecord,
    RegisterBrokerRecord,
    TopicRecord,
)
from chronik.core.replica.replica import Replica
from chronik.core.replica.throttle import follower_throttle, leader_throttle
from chronik.core.types import Buffer
from chronik.node.net.peers import Unreachable
from chronik.node.replication.checkpoints import Checkpoints
from chronik.node.replication.fetchers import Fetchers
from chronik.node.replication.purgatory import Purgatory
from chronik.node.runtime.deadlines import Deadlines
from chronik.sim.loop import SimLoop
from chronik.trace.metrics import Metrics
from chronik.trace.recorder import Recorder
from chronik.wire import fetch as wire
from chronik.wire import follower_fetch as follower_wire
from chronik.wire.fetch import FetchPartition, FetchRequest
from chronik.wire.framing import RequestHeader, read_header
from chronik.wire.versions import FETCH
from tests.unit.api.calls import call_of
from tests.unit.api.house_context import Asked
from tests.unit.core.fakes import MemoryFiles
from tests.unit.core.log.logs import batch_of
from tests.unit.node.fakes import NOW_MS, FakeChance
from tests.unit.node.replication_parts import Subscribers, build_replicas
from tests.unit.wire.hot_requests import fetch_request

TOPIC = "orders"
TOPIC_ID = b"orders".ljust(16, b"\x01")


class LoopClock:
    """The simulated loop's time."""

    def __init__(self, loop: SimLoop) -> None:
        self._loop = loop

    def now_ms(self) -> int:
        return NOW_MS + self.monotonic_ms()

    def now_us(self) -> int:
        return self.now_ms() * 1000

    def now_ns(self) -> int:
        return self.now_us() * 1000

    def monotonic_ms(self) -> int:
        return round(self._loop.time() * 1000)


class Link:
    def __init__(self, network: Network, source: int, target: int) -> None:
        self._network, self._source, self._target = network, source, target

    def ask_frame(self, pieces: Sequence[Buffer], *, timeout_ms: int) -> asyncio.Future[memoryview]:
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[memoryview] = loop.create_future()
        loop.call_later(0.001, self._arrive, b"".join(pieces), answer)
        return answer

    def _arrive(self, frame: bytes, answer: asyncio.Future[memoryview]) -> None:
        node = self._network.nodes.get(self._target)
        if node is None or (self._source, self._target) in self._network.cut:
            asyncio.get_running_loop().call_later(0.1, self._fail, answer)
            return
        header = read_header(frame)
        self._network.asked.append(wire.parse(frame, header.body, header.version))

        def answered(buffers: Sequence[Any] | None) -> None:
            assert buffers is not None
            content = b"".join(bytes(piece) for piece in buffers)[4:]
            asyncio.get_running_loop().call_later(0.001, self._give, answer, content)

        caller = Caller("test", "10.0.0.7", header.version, 1, True, self._source)
        fetch.start(call_of(frame, header, caller, answered), node.context)

    def _give(self, answer: asyncio.Future[memoryview], content: bytes) -> None:
        if (self._target, self._source) in self._network.cut:
            self._fail(answer)
        elif not answer.done():
            answer.set_result(memoryview(content))

    def _fail(self, answer: asyncio.Future[memoryview]) -> None:
        if not answer.done():
            answer.set_exception(Unreachable(f"node {self._target} cannot be reached"))
            answer.exception()  # as the real link: if nothing waits any longer, that is no fault


class Network:
    """Who there is, which ways are cut, and every fetch that arrived."""

    def __init__(self) -> None:
        self.nodes: dict[int, CopyNode] = {}
        self.cut: set[tuple[int, int]] = set()
        self.asked: list[FetchRequest] = []


class Peers:
    def __init__(self, network: Network, node_id: int) -> None:
        self._network, self._node_id = network, node_id

    def link(self, node_id: int, purpose: str) -> Link:
        return Link(self._network, self._node_id, node_id)


class CopyNode:
    """What a node has for its partitions."""

    def __init__(
        self, loop: SimLoop, network: Network, node_id: int, files: MemoryFiles, *, is_synced: bool, config: NodeConfig
    ) -> None:
        self.node_id = node_id
        self.broker_epoch = 10 + node_id
        self.files = files
        self.clock = LoopClock(loop)
        self.metrics = Metrics()
        self.deadlines = Deadlines(loop, self.metrics)
        self.trace = Recorder(node_id, self.clock)
        self.waiting = Purgatory(self.deadlines, self.metrics, self.trace)
        self.checkpoints = Checkpoints(cast(Any, files))
        self.image = MetadataImage("a-test-cluster", config)
        self.image.apply(ProducerIdsRecord(node_id, -1, 1000))
        self.subscribers = Subscribers()
        self.replicas = build_replicas(
            files,
            self.checkpoints,
            self.waiting,
            self.clock,
            self.metrics,
            node_id=node_id,
            is_synced=is_synced,
            listeners=self.subscribers.listeners,
            observation=self.trace,
        )
        self.replicas.partitions.follow(self.image, is_caught_up=False)
        self.tasks: list[asyncio.Task[None]] = []
        self.context = RequestContext(
            node_id=node_id,
            cluster_id="a-test-cluster",
            fetching=FetchContext(
                config.fetch,
                FetchSessions(100),
                leader_throttle(node_id, lambda: self.image.node_config.replication),
            ),
            clock=self.clock,
            chance=FakeChance(),
            metadata=cast(Any, self),
            groups=cast(Any, None),
            replicas=self.replicas,
            waiting=self.waiting,
            start=lambda work: self.tasks.append(loop.create_task(work)),
            metrics=self.metrics,
            observation=self.trace,
        )
        self.fetchers = Fetchers(
            cast(Any, Peers(network, node_id)),
            self.replicas,
            self.deadlines,
            self.clock,
            self.metrics,
            config.replication,
            node_id=node_id,
            broker_epoch=lambda: self.broker_epoch,
            throttle=follower_throttle(node_id, lambda: self.image.node_config.replication),
        )
        for hears in (self.subscribers.role_changed, self.subscribers.went_offline, self.subscribers.removed):
            hears.append(self.fetchers.role_changed)
        self.subscribers.start_moved.append(self.fetchers.start_moved)

    def tell(self, *facts: Any) -> None:
        """What was committed reaches this node."""
        for fact in facts:
            self.image.apply(fact)
        self.replicas.partitions.metadata_changed(facts)

    def replica(self, partition: int = 0) -> Replica:
        return next(one for one in self.replicas.held() if (one.topic, one.partition) == (TOPIC, partition))

    def produce(self, *values: bytes, acks: int = -1, partition: int = 0) -> None:
        replica = self.replicas.leader(TOPIC, partition)
        for value in values:
            self.replicas.append(replica, batch_of(value=value), acks)

    def values(self, partition: int = 0) -> list[bytes]:
        """What its log holds."""
        log = self.replica(partition).log
        found: list[bytes] = []
        offset = log.start_offset
        while offset < log.end_offset:
            plan = log.read(offset, log.end_offset, 1, at_least_one=True)
            assert plan is not None
            found.append(bytes(plan.file.read(plan.position, plan.length))[-6:].strip(b"\x00"))
            offset = plan.next_offset
        return found

    def offsets(self, partition: int = 0) -> tuple[int, int, int]:
        """Start, watermark and end."""
        replica = self.replica(partition)
        return replica.log.start_offset, replica.high_watermark, replica.log.end_offset


def registration(node_id: int, broker_epoch: int) -> RegisterBrokerRecord:
    end_point = BrokerEndpoint(CLIENTS_END_POINT, f"host-{node_id}", 9092, 0)
    return RegisterBrokerRecord(node_id, bytes(16), broker_epoch, (end_point,), (), f"rack-{node_id}", False, False)


class Copies:
    """Nodes 1 to 3, and a topic on all of them that node 1 leads."""

    def __init__(self, loop: SimLoop, *, is_synced: bool = True, partitions: int = 1, **settings: str) -> None:
        self.loop = loop
        self.network = Network()
        self.partitions = partitions
        self._is_synced = is_synced
        self._config = NodeConfig.from_settings({key.replace("_", "."): value for key, value in settings.items()})
        self.facts: list[Any] = [registration(node_id, 10 + node_id) for node_id in (1, 2, 3)]
        self.facts.append(TopicRecord(TOPIC, TOPIC_ID))
        self.facts += [
            PartitionRecord(number, TOPIC_ID, (1, 2, 3), (1, 2, 3), (), (), 1, 0, 0) for number in range(partitions)
        ]
        for node_id in (1, 2, 3):
            self.start(node_id, MemoryFiles())

    def start(self, node_id: int, files: MemoryFiles, *, knows: int | None = None) -> CopyNode:
        node = CopyNode(self.loop, self.network, node_id, files, is_synced=self._is_synced, config=self._config)
        for fact in self.facts[:knows]:
            node.image.apply(fact)
        node.replicas.partitions.metadata_changed(None)
        node.fetchers.start()
        self.network.nodes[node_id] = node
        return node

    def register(self, node_id: int, broker_epoch: int) -> None:
        """The node registers anew, and all hear of it."""
        self[node_id].broker_epoch = broker_epoch
        self.facts.append(registration(node_id, broker_epoch))
        for node in self.network.nodes.values():
            node.image.apply(self.facts[-1])

    def __getitem__(self, node_id: int) -> CopyNode:
        return self.network.nodes[node_id]

    async def stop(self, node_id: int) -> MemoryFiles:
        """Its files, as it left them."""
        node = self.network.nodes.pop(node_id)
        await node.fetchers.stop()
        await node.replicas.sync_rounds.wait_until_idle()
        node.checkpoints.write(node.replicas.held())
        return node.files

    def change(self, *, to: Sequence[int] = (1, 2, 3), partition: int = 0, **changes: Any) -> None:
        """A change of the partition is committed; who hears of it at once, if not all."""
        fact = PartitionChangeRecord(partition, TOPIC_ID, **changes)
        self.facts.append(fact)
        for node_id in to:
            if node_id in self.network.nodes:
                self[node_id].tell(fact)

    def tell_all(self, node_id: int) -> None:
        """A node that was behind hears of the last change."""
        self[node_id].tell(self.facts[-1])


def with_copies(
    **options: Any,
) -> Callable[[Callable[[Copies], Coroutine[Any, Any, None]]], Callable[[], None]]:
    """Runs a test on a simulated loop. No fault may have happened."""

    def decorate(test: Callable[[Copies], Coroutine[Any, Any, None]]) -> Callable[[], None]:
        def wrapped() -> None:
            loop = SimLoop()

            async def through() -> None:
                copies = Copies(loop, **options)
                await test(copies)
                for node_id in list(copies.network.nodes):
                    metrics = copies[node_id].metrics
                    await copies.stop(node_id)
                    assert metrics.faults == 0

            try:
                loop.run_until_complete(through())
            finally:
                loop.close()

        wrapped.__name__ = test.__name__
        return wrapped

    return decorate


class SlowFiles(MemoryFiles):
    """A disk whose syncs wait until the test lets them."""

    def __init__(self) -> None:
        super().__init__()
        self.may_sync = asyncio.Event()
        self.may_sync.set()

    def sync_later(self, files: Sequence[Any]) -> Any:
        return self._sync_when_allowed(files)

    async def _sync_when_allowed(self, files: Sequence[Any]) -> Any:
        await self.may_sync.wait()
        return await super().sync_later(files)


def follower_asks(
    node: CopyNode,
    follower_id: int,
    *partitions: FetchPartition,
    session: tuple[int, int] = (0, -1),
) -> follower_wire.FollowerFetched:
    """A follower's fetch that does not wait, and the answer."""
    request = FetchRequest(follower_id, 0, 1, 10**7, 0, *session, list(partitions), [], replica_epoch=10 + follower_id)
    frame = follower_wire.encode(9, "test", request)
    answers: list[Any] = []
    header = read_header(frame)
    caller = Caller("test", "10.0.0.7", header.version, 1, True, follower_id)
    fetch.start(call_of(frame, header, caller, answers.append), node.context)
    ((*buffers,),) = answers
    return follower_wire.parse(memoryview(b"".join(bytes(piece) for piece in buffers)[4:]))


def consumer_fetch(context: RequestContext, *, version: int, rack: str) -> Any:
    """What a consumer is given of the partition from offset 0 on."""
    topic = TOPIC if version < wire.TOPIC_IDS_FROM else TOPIC_ID
    asked = [FetchPartition(topic, 0, 0, 1_000_000, -1)]
    request = FetchRequest(-1, 0, 1, 10**7, 0, 0, -1, asked, [], rack_id=rack)
    answer = Asked(FETCH, version)
    header = RequestHeader(FETCH, version, 9, "test", 0)
    body = bytearray(fetch_request(version, request))
    fetch.start(call_of(body, header, Caller("test", "10.0.0.7", version, 1), answer), context)
    ((partition,),) = (topic.partitions for topic in answer.response.responses)
    return partition


async def pass_time(ms: int) -> None:
    done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    asyncio.get_running_loop().call_later(ms / 1000, done.set_result, None)
    await done
