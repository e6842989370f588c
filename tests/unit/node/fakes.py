"""Stand-ins for the node's tests: a loop that is told the time, a clock, dice, a transport, replicas in memory."""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Callable, Sequence
from typing import Any, cast

from chronik.core.config.node import NodeConfig
from chronik.core.config.topic import TopicConfig
from chronik.core.log.log import Log
from chronik.core.machines.metadata.commands import CreateTopics, NewTopic, RegisterBroker
from chronik.core.machines.metadata.image import MetadataImage
from chronik.core.machines.metadata.machine import MetadataMachine
from chronik.core.replica.replica import Replica
from chronik.core.types import Buffer
from chronik.node.replication.checkpoints import Checkpoints
from chronik.node.replication.purgatory import Purgatory
from chronik.node.runtime.deadlines import Deadlines
from chronik.trace.metrics import Metrics
from chronik.trace.recorder import Recorder
from tests.unit.core.fakes import MemoryFiles
from tests.unit.node.replication_parts import Subscribers, build_replicas

NOW_MS = 1_700_000_000_000
NODE_ID = 1


class FakeTimer:
    def __init__(self, at: float, action: Callable[[], None]) -> None:
        self.at = at
        self.action: Callable[[], None] | None = action

    def cancel(self) -> None:
        self.action = None


class FakeLoop:
    """The part of an event loop that keeps time. `advance` lets time pass and calls what is due."""

    def __init__(self) -> None:
        self.now = 100.0
        self.timers: list[FakeTimer] = []
        self.timers_made = 0

    def time(self) -> float:
        return self.now

    def call_at(self, at: float, action: Callable[[], None]) -> FakeTimer:
        timer = FakeTimer(at, action)
        self.timers.append(timer)
        self.timers_made += 1
        return timer

    def live_timers(self) -> list[FakeTimer]:
        return [timer for timer in self.timers if timer.action is not None]

    def advance(self, ms: float) -> None:
        end = self.now + ms / 1000
        while due := [timer for timer in self.live_timers() if timer.at <= end]:
            timer = heapq.nsmallest(1, due, key=lambda timer: timer.at)[0]
            self.timers.remove(timer)
            self.now = max(self.now, timer.at)
            assert timer.action is not None  # live
            timer.action()
        self.now = end


def fake_deadlines(loop: FakeLoop, metrics: Metrics | None = None) -> Deadlines:
    return Deadlines(cast(asyncio.AbstractEventLoop, loop), metrics or Metrics())


class FakeClock:
    """Wall clock and monotonic clock, set by hand."""

    def __init__(self) -> None:
        self.wall_ms = NOW_MS
        self.steady_ms = 5_000

    def now_ms(self) -> int:
        return self.wall_ms

    def now_us(self) -> int:
        return self.wall_ms * 1000

    def now_ns(self) -> int:
        return self.wall_ms * 1_000_000

    def monotonic_ms(self) -> int:
        return self.steady_ms

    def advance(self, ms: int) -> None:
        self.wall_ms += ms
        self.steady_ms += ms


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


class FakeTransport:
    """Keeps what is written, and whether it is read from."""

    def __init__(self, host: str = "10.0.0.7") -> None:
        self.host = host
        self.written = bytearray()
        self.unsent_bytes = 0  # of what was written, what the other end has not taken
        self.writes = 0
        self.high_bytes = 65_536
        self.is_open = True
        self.reading = True

    def write(self, content: Buffer) -> None:
        assert self.is_open, "written to after it was closed"
        self.writes += 1
        self.written += content

    def writelines(self, contents: Sequence[Buffer]) -> None:
        self.write(b"".join(contents))

    def get_extra_info(self, name: str) -> Any:
        return (self.host, 4711) if name == "peername" else None

    def get_write_buffer_size(self) -> int:
        return self.unsent_bytes

    def set_write_buffer_limits(self, high: int) -> None:
        self.high_bytes = high

    def is_closing(self) -> bool:
        return not self.is_open

    def close(self) -> None:
        self.is_open = False

    def abort(self) -> None:
        self.is_open = False

    def is_reading(self) -> bool:
        return self.reading

    def pause_reading(self) -> None:
        assert self.reading
        self.reading = False

    def resume_reading(self) -> None:
        assert not self.reading
        self.reading = True


class House:
    """Real replicas over files in memory, and who waits for them, as a node has them. Needs a running loop."""

    def __init__(
        self,
        files: MemoryFiles | None = None,
        topics: dict[str, int] | None = None,
        *,
        ids: dict[str, bytes] | None = None,
        commands: Sequence[Any] = (),
        is_synced: bool = True,
        config: NodeConfig | None = None,
    ) -> None:
        self.files = files or MemoryFiles()
        self.clock = FakeClock()
        self.loop = FakeLoop()
        self.metrics = Metrics()
        self.deadlines = fake_deadlines(self.loop, self.metrics)
        self.trace = Recorder(NODE_ID, self.clock)
        self.waiting = Purgatory(self.deadlines, self.metrics, self.trace)
        self.checkpoints = Checkpoints(cast(Any, self.files))
        self.config = config or NodeConfig.from_settings({})
        self.metadata = MetadataMachine(MetadataImage("a-test-cluster", self.config))
        self.subscribers = Subscribers()
        self.replicas = build_replicas(
            self.files,
            self.checkpoints,
            self.waiting,
            self.clock,
            self.metrics,
            node_id=NODE_ID,
            is_synced=is_synced,
            listeners=self.subscribers.listeners,
            observation=self.trace,
        )
        self.tell(RegisterBroker(NODE_ID, bytes(16), "localhost", 9092))
        for command in commands:  # what the metadata log says already when the node starts
            self.tell(command)
        for name, partitions in (topics or {}).items():
            self.create(name, partitions, topic_id=(ids or {}).get(name))
        self.replicas.partitions.follow(self.image)

    @property
    def image(self) -> MetadataImage:
        return self.metadata.image

    def tell(self, command: Any) -> Any:
        """Let the metadata machine decide and apply."""
        decision = self.metadata.decide(0, command, NOW_MS)
        for fact in decision.facts:
            self.metadata.apply(fact)
        return decision.replies[0].answer

    def create(self, name: str, partitions: int = 1, *, topic_id: bytes | None = None, **configs: str) -> bytes:
        """A topic; settings have underscores for dots. Returns its id."""
        chosen = topic_id or name.encode().ljust(16, b"\x01")[:16]
        settings = tuple((key.replace("_", "."), value) for key, value in configs.items())
        (created,) = self.tell(CreateTopics((NewTopic(name, chosen, partitions, 1, configs=settings),)))
        assert not created.outcome.code, created.outcome
        return chosen

    async def settle(self) -> None:
        """Until everything due has been synced and what that sets free has happened."""
        await self.replicas.sync_rounds.wait_until_idle()
        await asyncio.sleep(0)


def memory_replica(
    files: MemoryFiles | None = None,
    topic: str = "topic",
    *,
    is_synced: bool = True,
    in_sync: tuple[int, ...] = (NODE_ID,),
    config: TopicConfig | None = None,
) -> Replica:
    """A replica of its own, outside any node."""
    log = Log.open(cast(Any, files or MemoryFiles()), f"{topic}-0", config or TopicConfig(), NOW_MS, was_clean=False)
    replica = Replica(topic, 0, bytes(16), log, node_id=NODE_ID, is_synced=is_synced)
    replica.lead(0, 0, in_sync, in_sync, 0)
    return replica
