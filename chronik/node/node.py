"""A node: all its parts, put together over the four doors it is given."""

from __future__ import annotations

import asyncio
import errno
import logging
from functools import partial
from typing import Any

from chronik.api.desk import Desk
from chronik.core.config.node import NodeConfig
from chronik.core.config.topic import FOREVER_MS, UNLIMITED, TopicConfig
from chronik.core.errors import Code, Corrupt
from chronik.core.fetch_sessions import FetchSessions
from chronik.core.machines.groups.config import GroupConfig
from chronik.core.machines.metadata.commands import RegisterBroker
from chronik.core.machines.metadata.image import MetadataImage
from chronik.core.machines.metadata.machine import MetadataMachine
from chronik.core.machines.metadata.names import METADATA_TOPIC, is_internal
from chronik.core.machines.metadata.producer_ids import ProducerIds
from chronik.core.machines.metadata.records import ConfigRecord, RemoveTopicRecord
from chronik.core.ports import Chance, Clock, Files, Listener, Network
from chronik.core.replica.replica import ACKS_ALL
from chronik.core.types import TopicPartition
from chronik.node.checkpoints import Checkpoints
from chronik.node.connection import Connections
from chronik.node.coordinators import Coordinators
from chronik.node.deadlines import Deadlines
from chronik.node.dispatch import Dispatch
from chronik.node.housekeeping import Housekeeping
from chronik.node.identity import Identity
from chronik.node.machine_host import MachineHost
from chronik.node.replicas import Replicas
from chronik.node.steady_time import SteadyTime
from chronik.node.waiting import Waiting
from chronik.trace.metrics import Metrics

log = logging.getLogger(__name__)

# The metadata log keeps everything, in batches as large as one command makes them (a topic of 10,000 partitions).
METADATA_CONFIG = TopicConfig(
    max_message_bytes=512 * 1024 * 1024,
    retention_ms=UNLIMITED,
    retention_bytes=UNLIMITED,
    message_timestamp_after_max_ms=FOREVER_MS,
)


class MetadataHost(MachineHost):
    """The host of the metadata machine; handlers read its image."""

    machine: MetadataMachine

    @property
    def image(self) -> MetadataImage:
        return self.machine.image

    @property
    def is_controller(self) -> bool:
        return True

    @property
    def controller_id(self) -> int | None:
        return self.machine.controller.own_id

    def ask_here(self, command: Any) -> asyncio.Future[Any]:
        return self.ask(command)


class Node:
    """One running node."""

    def __init__(
        self,
        config: NodeConfig,
        identity: Identity,
        files: Files,
        clock: Clock,
        network: Network,
        chance: Chance,
        data_dir: str,
    ) -> None:
        self.config = config
        self.identity = identity
        self.data_dir = data_dir
        self._files = files
        self._network = network
        self._chance = chance
        self.metrics = Metrics()
        self._deadlines = Deadlines(asyncio.get_running_loop(), self.metrics)
        self.waiting = Waiting(self._deadlines, self.metrics)
        self._time = SteadyTime(clock)
        self._checkpoints = Checkpoints(files)
        self.replicas = Replicas(
            files,
            self._checkpoints,
            self.waiting,
            clock,
            self.metrics,
            node_id=config.node_id,
            is_synced=config.durability == "sync",
            data_dir=data_dir,
        )
        self.metadata = self._open_metadata()
        self.coordinators = Coordinators(
            self.image, self.metadata.ask, self.replicas, self.waiting, self._time, chance, group_config(config)
        )
        self.sessions = FetchSessions(config.max_incremental_fetch_session_cache_slots)
        self._dispatch = Dispatch(self._desk(clock), self.metrics)
        self.connections = Connections(
            self._dispatch,
            frame_bytes_max=config.socket_request_max_bytes,
            under_way_max=config.queued_max_requests,
            send_now=network.send_now,
            open_max=lambda: self.image.node_config.max_connections,
        )
        self._housekeeping = Housekeeping(self, self._checkpoints, clock)
        self._listener: Listener | None = None
        self.is_ready = False

    @property
    def image(self) -> MetadataImage:
        return self.metadata.image

    def _open_metadata(self) -> MetadataHost:
        replica = self.replicas.open(METADATA_TOPIC, 0, bytes(15) + b"\x01", METADATA_CONFIG)
        if replica is None:
            reason = self.replicas.offline()[METADATA_TOPIC, 0]
            if self.replicas.wants_room(METADATA_TOPIC, 0):  # nothing is wrong with it
                raise OSError(errno.ENOSPC, f"the metadata log cannot be opened: {reason}")
            raise Corrupt(
                f"{METADATA_TOPIC}-0", f"the metadata log cannot be opened, so this node cannot start: {reason}"
            )
        machine = MetadataMachine(MetadataImage(self.identity.cluster_id, self.config))
        host = MetadataHost(machine, replica, self.replicas, self.waiting, self._time, self._metadata_applied)
        host.replay()
        self.replicas.follow(machine.image)
        return host

    def _metadata_applied(self, facts: list[Any]) -> None:
        if any(isinstance(fact, RemoveTopicRecord | ConfigRecord) for fact in facts):
            gone = list(self.replicas.metadata_changed())
            if gone:
                host = self.metadata
                end_offset = host.replica.log.end_offset
                self.waiting.when_safe(host.replica, end_offset, ACKS_ALL, -1, partial(self._remove, gone))
            self.coordinators.forget_deleted_topics()

    def _remove(self, directories: list[str], code: Code) -> None:
        """Only when the deletion is safe: a crash may take it back, and then the topic must have all it had."""
        if not code:
            for directory in directories:
                self._dispatch.watch(self._remove_later(directory))

    async def _remove_later(self, directory: str) -> None:
        await self._files.remove_later(directory)

    def _desk(self, clock: Clock) -> Desk:
        return Desk(
            node_id=self.config.node_id,
            cluster_id=self.identity.cluster_id,
            config=self.config,
            clock=clock,
            chance=self._chance,
            metadata=self.metadata,
            groups=self.coordinators,
            replicas=self.replicas,
            waiting=self.waiting,
            sessions=self.sessions,
            metrics=self.metrics,
            producer_ids=ProducerIds(),
            start=lambda work: self._dispatch.watch(work),
        )

    async def start(self) -> tuple[str, int]:
        """Recover, listen, register. Returns the address clients are listened for at."""
        self.replicas.remove_deleted()
        later = self._open_replicas()
        self.coordinators.start_all_on_disk()
        self._checkpoints.started()
        host, port = self.config.address
        self._listener = await self._network.listen(host, port, self.connections.accept)
        bound_port = self._listener.address[1]
        await self._register(bound_port)
        self._housekeeping.start()
        self._dispatch.watch(self._open_later(later))
        self.is_ready = True
        return host, bound_port

    def _open_replicas(self) -> list[TopicPartition]:
        """Open what is on disk; returns what can wait until clients are served: after an orderly stop, all but ours."""
        on_disk = self.replicas.on_disk()
        later: list[TopicPartition] = []
        for name in on_disk:
            if self._checkpoints.was_clean and not is_internal(name.topic):
                later.append(name)
            else:
                self.replicas.ensure_open(name)
        return later

    async def _open_later(self, names: list[TopicPartition]) -> None:
        """A partition is opened when it is asked for; this opens the others, a few at a time."""
        for name in names:
            self.replicas.ensure_open(name)
            await asyncio.sleep(0)

    async def _register(self, bound_port: int) -> None:
        advertised_host, advertised_port = self.config.advertised_address
        command = RegisterBroker(
            self.config.node_id,
            self._chance.uuid(),
            advertised_host,
            advertised_port or bound_port,
            self.config.broker_rack,
        )
        await self.metadata.ask(command)

    async def stop(self) -> None:
        """Orderly: no new requests, everything synced and closed, the stop marked as clean."""
        self.is_ready = False
        if self._listener is not None:
            await self._listener.close()
        await self.connections.close_all()
        self.coordinators.close()
        self.metadata.close()
        await self._dispatch.close()
        await self._housekeeping.stop()
        await self.replicas.commits.wait_until_idle()
        self._deadlines.close()
        try:
            self.replicas.close()
            self._checkpoints.write(self.replicas.held())
            self._checkpoints.stopped()
        except OSError as problem:  # the disk is full, say: what was acknowledged is safe all the same
            log.warning("this stop was not orderly, so the next start looks at every log: %s", problem)


def group_config(config: NodeConfig) -> GroupConfig:
    """The coordinator's part of a node's settings."""
    return GroupConfig(
        initial_rebalance_delay_ms=config.group_initial_rebalance_delay_ms,
        min_session_timeout_ms=config.group_min_session_timeout_ms,
        max_session_timeout_ms=config.group_max_session_timeout_ms,
        max_size=config.group_max_size,
        consumer_session_timeout_ms=config.group_consumer_session_timeout_ms,
        consumer_heartbeat_interval_ms=config.group_consumer_heartbeat_interval_ms,
        consumer_max_size=config.group_consumer_max_size,
        consumer_assignors=config.group_consumer_assignors,
        offset_metadata_max_bytes=config.offset_metadata_max_bytes,
        offsets_retention_ms=config.offsets_retention_minutes * 60_000,
        offsets_retention_check_interval_ms=config.offsets_retention_check_interval_ms,
    )
