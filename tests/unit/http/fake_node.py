"""A node for the views: real nouns (metrics, replicas, image, sessions) without files, sockets or a loop."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any, cast

from chronik.core.config.node import NodeConfig
from chronik.core.config.topic import TopicConfig
from chronik.core.fetch_sessions import FetchSessions
from chronik.core.log.epochs import Epochs
from chronik.core.log.producers import Producers, ProducerState
from chronik.core.machines.groups.config import GroupConfig
from chronik.core.machines.groups.machine import GroupsMachine
from chronik.core.machines.metadata.image import MetadataImage
from chronik.core.quotas.client_quotas import ClientQuotas
from chronik.core.replica.replica import Replica
from chronik.node.cluster.identity import Identity
from chronik.node.node import Node
from chronik.trace.metrics import Metrics
from chronik.trace.recorder import Recorder
from tests.unit.api.fake_context import FakeClock

CLUSTER_ID = "a-test-cluster"


class FakeLog:
    """A log that knows its numbers and has no bytes."""

    def __init__(self, start_offset: int, end_offset: int, size_bytes: int, producer_count: int) -> None:
        self.config = TopicConfig()
        self.start_offset = start_offset
        self.end_offset = end_offset
        self.epochs = Epochs()
        self.producers = Producers(ProducerState(producer_id) for producer_id in range(producer_count))
        self._size_bytes = size_bytes

    def first_undecided(self, high_watermark: int) -> int | None:
        return self.producers.undecided.first_undecided(high_watermark)

    def size_bytes(self) -> int:
        return self._size_bytes


class FakeReplicas:
    """The replicas that were added."""

    def __init__(self) -> None:
        self.partitions = self  # the registry, as far as views look at it
        self.sync_rounds = SimpleNamespace(rounds=0, sync_seconds=0.0)
        self.shortage: str | None = None
        self.failed: dict[tuple[str, int], str] = {}  # could not be opened
        self._held: dict[tuple[str, int], Replica] = {}

    def add(
        self,
        topic: str,
        partition: int,
        start: int = 0,
        watermark: int = 0,
        end: int = 0,
        size: int = 0,
        producers: int = 0,
    ) -> Replica:
        """A replica whose log goes from `start` to `end` and is safe up to `watermark`."""
        log = FakeLog(start, watermark, size, producers)
        replica = Replica(
            topic, partition, bytes(16), cast(Any, log), node_id=1, is_synced=True, high_watermark=watermark
        )
        replica.lead(0, 0, (1, 2), (1, 2), 0)
        log.end_offset = end
        self._held[topic, partition] = replica
        return replica

    def held(self) -> Iterator[Replica]:
        for _, replica in sorted(self._held.items()):
            yield replica

    def offline(self) -> dict[tuple[str, int], str]:
        reasons = {key: replica.offline for key, replica in self._held.items() if replica.offline is not None}
        return {**self.failed, **reasons}

    def disk_bytes(self) -> tuple[int, int]:
        return 1000, 400


class FakeNode:
    """What the views read of a node."""

    def __init__(self) -> None:
        self.config = NodeConfig.from_settings({"node.id": "7"})
        self.identity = Identity(7, CLUSTER_ID)
        self.metrics = Metrics()
        self.connections = SimpleNamespace(
            open={},
            quotas=SimpleNamespace(open_max=100, nodes_open=2, refused_total=4, delayed_total=5),
            memory=SimpleNamespace(used_bytes=5, limit_bytes=6, waiting=7, given_up_total=8),
            accepted_total=0,
            malformed_total=0,
            idle_total=9,
            unfinished_total=10,
        )
        self.replicas = FakeReplicas()
        self.waiting_now = (0, 0)
        self.waiting = SimpleNamespace(counts=lambda: self.waiting_now)
        self.sessions = FetchSessions(10)
        self.machines = [GroupsMachine(0, GroupConfig())]
        self.groups = SimpleNamespace(machines=lambda: self.machines, state_ms=lambda group: 0)
        self.unfinished: list[tuple[Any, dict[Any, str]]] = []  # transactions, and where markers are missing
        self.transactions = SimpleNamespace(unfinished=lambda: iter(self.unfinished))
        self.image = MetadataImage(CLUSTER_ID, self.config)
        self.cluster = SimpleNamespace(
            metadata=SimpleNamespace(is_controller=False, controller_id=None), quorum=SimpleNamespace(epoch=0)
        )
        self.quotas = ClientQuotas(self.image.quotas, self.config.quotas)
        self.clock = FakeClock()
        self.trace = Recorder(7, self.clock, ring_events=100)
        self.is_ready = True

    @property
    def as_node(self) -> Node:
        return cast(Node, self)
