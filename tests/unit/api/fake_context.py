"""A desk for handlers under test: a real metadata machine that is safe at once, and replicas over a log of numbers.

desk = fake_desk(topics={"orders": 3})
response = ask(metadata, Request(topics=None), desk, version=13)
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Iterable, Mapping
from types import ModuleType
from typing import Any, cast

from chronik.api.context import Caller, FetchContext, RequestContext
from chronik.core.config.node import NodeConfig
from chronik.core.config.topic import TopicConfig
from chronik.core.errors import Code, Corrupt, Refused
from chronik.core.fetch_sessions import FetchSessions
from chronik.core.log.epochs import Epochs
from chronik.core.log.producers import Producers
from chronik.core.log.times import TimedOffset
from chronik.core.machines.metadata.commands import CreateTopics, NewTopic, RegisterBroker
from chronik.core.machines.metadata.image import MetadataImage
from chronik.core.machines.metadata.machine import MetadataMachine
from chronik.core.machines.metadata.names import OFFSETS_TOPIC
from chronik.core.records.steps import Steps
from chronik.core.replica.replica import Replica
from chronik.core.replica.throttle import leader_throttle
from chronik.core.types import TopicPartition
from chronik.node.runtime.long_work import LongWork
from chronik.sim.memory_files import MemoryFiles

CLUSTER_ID = "a-test-cluster"


class FakeClock:
    """Stands still until it is told otherwise."""

    def __init__(self, now_ms: int = 1_700_000_000_000) -> None:
        self.time_ms = now_ms

    def now_ms(self) -> int:
        return self.time_ms

    def now_us(self) -> int:
        return self.time_ms * 1000

    def now_ns(self) -> int:
        return self.time_ms * 1_000_000

    def monotonic_ms(self) -> int:
        return self.time_ms


class FakeChance:
    """Counts instead of throwing dice."""

    def __init__(self) -> None:
        self._count = 0

    def below(self, bound: int) -> int:
        self._count += 1
        return self._count % bound

    def uuid(self) -> bytes:
        self._count += 1
        return self._count.to_bytes(16, "big")


class FakeMetadata:
    """The real machine with a log that is safe at once. `refusing` refuses whatever is asked next."""

    def __init__(self, config: NodeConfig) -> None:
        self.machine = MetadataMachine(MetadataImage(CLUSTER_ID, config))
        self.asked: list[Any] = []
        self.refusing: Refused | None = None
        self.controller_id: int | None = 1
        self.waited_ms: list[int] = []

    @property
    def is_controller(self) -> bool:
        return self.controller_id == 1

    @property
    def image(self) -> MetadataImage:
        return self.machine.image

    def tell(self, command: Any) -> Any:
        self.asked.append(command)
        if self.refusing is not None:
            raise self.refusing
        decision = self.machine.decide(0, command, now_ms=0)
        for fact in decision.facts:
            self.machine.apply(fact)
        return decision.replies[0].answer

    async def ask(self, command: Any) -> Any:
        return self.tell(command)

    async def ask_here(self, command: Any) -> Any:
        if not self.is_controller:
            raise Refused(Code.NOT_CONTROLLER)
        return self.tell(command)

    async def wait_until_applied(self, timeout_ms: int) -> None:
        self.waited_ms.append(timeout_ms)


class FakeGroups:
    """Answers each command with what `answer` makes of it, or raises what it raises."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, Any]] = []
        self.producers: list[Any] = []  # in whose transactions
        self.answer: Callable[[str, Any], Any] = lambda group_id, command: None
        self.all_machines: list[Any] = []
        self.is_loading = False
        self.refusing: Refused | None = None

    async def ask(self, group_id: str, command: Any) -> Any:
        self.asked.append((group_id, command))
        return self.answer(group_id, command)

    async def ask_in_transaction(self, command: Any, producer: Any, confirm: Any) -> Any:
        """As if this were the first of the transaction."""
        await confirm(TopicPartition(OFFSETS_TOPIC, await self.wait_for_partition(command.group_id)))
        self.producers.append(producer)
        return await self.ask(command.group_id, command)

    def append_marker(self, partition: int, *marker: Any) -> Any:
        raise NotImplementedError("tests of markers have real replicas")

    async def wait_for_partition(self, group_id: str) -> int:
        return len(group_id)  # any will do

    async def coordinator(self, group_id: str) -> tuple[int, str, int]:
        if self.refusing is not None:
            raise self.refusing
        return 1, "host-1", 9092

    def machines(self) -> Iterable[Any]:
        return self.all_machines


class FakeLog:
    """A log that knows its offsets and times, and has no bytes."""

    def __init__(self, start_offset: int = 0, end_offset: int = 0, config: TopicConfig | None = None) -> None:
        self.start_offset = start_offset
        self.end_offset = end_offset
        self.config = config or TopicConfig()
        self.epochs = Epochs()
        self.producers = Producers()
        self.times: list[TimedOffset] = []
        self.bytes_on_disk = 0

    def offset_for_time(self, timestamp: int, bound_offset: int) -> Steps[TimedOffset | None]:
        yield None  # as if there were much to look through
        found = (timed for timed in self.times if timed.timestamp >= timestamp and timed.offset < bound_offset)
        return next(found, None)

    def offset_of_max_timestamp(self, bound_offset: int) -> Steps[TimedOffset | None]:
        yield None
        below = [timed for timed in self.times if timed.offset < bound_offset]
        return max(below, key=lambda timed: timed.timestamp, default=None)

    def first_undecided(self, high_watermark: int) -> int | None:
        return self.producers.undecided.first_undecided(high_watermark)

    def size_bytes(self) -> int:
        return self.bytes_on_disk

    def advance_start(self, offset: int) -> None:
        self.start_offset = offset


class FakeReplicas:
    """The replicas that were added, all led here."""

    def __init__(self) -> None:
        self.replicas: dict[tuple[str, int], Replica] = {}
        self.refusing: dict[tuple[str, int], Code] = {}
        self.stored_starts: dict[tuple[str, int], int] | None = None
        self.is_full = False
        self.long_work = LongWork(MemoryFiles())

    def delete_records(self, replica: Replica, offset: int) -> int:
        return replica.delete_records(offset)

    def read_failed(self, replica: Replica, problem: Corrupt | OSError) -> Code:
        replica.take_offline(str(problem))
        return Code.KAFKA_STORAGE_ERROR

    async def store_starts(self) -> None:
        if self.is_full:
            raise Refused(Code.KAFKA_STORAGE_ERROR)
        self.stored_starts = {key: replica.log.start_offset for key, replica in self.replicas.items()}

    def add(self, topic: str, partition: int, log: FakeLog | None = None, *, leader_epoch: int = 0) -> Replica:
        replica = Replica(
            topic,
            partition,
            bytes(16),
            cast(Any, log or FakeLog()),
            node_id=1,
            is_synced=True,
        )
        replica.lead_alone(leader_epoch)
        self.replicas[topic, partition] = replica
        return replica

    def leader(self, topic: str, partition: int) -> Replica:
        if (topic, partition) in self.refusing:
            raise Refused(self.refusing[topic, partition])
        if (topic, partition) not in self.replicas:
            raise Refused(Code.UNKNOWN_TOPIC_OR_PARTITION)
        return self.replicas[topic, partition]

    def held(self) -> Iterable[Replica]:
        return [self.replicas[key] for key in sorted(self.replicas)]

    def log_directory(self) -> str:
        return "/data"

    def disk_bytes(self) -> tuple[int, int]:
        return 1000, 400


def fake_context(
    *, topics: Mapping[str, int] | None = None, config: NodeConfig | None = None, brokers: Iterable[int] = (1,)
) -> RequestContext:
    """A desk on node 1, with these brokers registered and these topics (name to number of partitions) created."""
    config = config or NodeConfig()
    metadata = FakeMetadata(config)
    chance = FakeChance()
    for broker_id in brokers:
        metadata.tell(RegisterBroker(broker_id, bytes(16), f"host-{broker_id}", 9092))
    wanted = tuple(NewTopic(name, chance.uuid(), count) for name, count in (topics or {}).items())
    metadata.tell(CreateTopics(wanted))
    metadata.asked.clear()
    replicas = FakeReplicas()
    for name, count in (topics or {}).items():
        for partition in range(count):
            replicas.add(name, partition)
    return RequestContext(
        node_id=1,
        cluster_id=CLUSTER_ID,
        fetching=FetchContext(
            config.fetch,
            FetchSessions(10),
            leader_throttle(1, lambda: metadata.image.node_config.replication),
        ),
        clock=FakeClock(),
        chance=chance,
        metadata=metadata,
        groups=FakeGroups(),
        replicas=cast(Any, replicas),
        waiting=cast(Any, None),
        start=lambda work: work.close(),
    )


def caller(version: int, node_id: int = -1) -> Caller:
    is_node = node_id >= 0
    return Caller("test", "127.0.0.1", version, connection_id=1, is_node=is_node, node_id=node_id)


def ask(module: ModuleType, request: Any, context: RequestContext, version: int, node_id: int = -1) -> Any:
    """What the module answers; a refusal is given its shape, as dispatch does."""

    async def wait_for_answer() -> Any:
        try:
            answer = module.handle(request, caller(version, node_id), context)
            return await answer if inspect.isawaitable(answer) else answer
        except Refused as refused:
            return module.refuse(request, refused.code, refused.message)

    return asyncio.run(wait_for_answer())


def metadata_of(context: RequestContext) -> FakeMetadata:
    return cast(FakeMetadata, context.metadata)


def replicas_of(context: RequestContext) -> FakeReplicas:
    return cast(FakeReplicas, context.replicas)


def groups_of(context: RequestContext) -> FakeGroups:
    return cast(FakeGroups, context.groups)
