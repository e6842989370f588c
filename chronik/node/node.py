"""A node: all its parts, put together over the four doors it is given."""

from __future__ import annotations

import asyncio
import errno
import logging
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

from chronik.api.context import RequestContext
from chronik.api.quorum_topic import METADATA_TOPIC_ID
from chronik.core.access.authorizer import Authorizer
from chronik.core.access.sasl import NotReady
from chronik.core.access.scram import ScramCredential, ScramMechanism
from chronik.core.config.node import NodeConfig
from chronik.core.config.sections.groups import GroupsConfig
from chronik.core.config.sections.offsets import OffsetsConfig
from chronik.core.errors import Code, Corrupt, Refused
from chronik.core.fetch_sessions import FetchSessions
from chronik.core.machines.groups.config import GroupConfig
from chronik.core.machines.metadata.image import MetadataImage
from chronik.core.machines.metadata.names import METADATA_TOPIC, is_internal
from chronik.core.machines.metadata.producer_ids import ProducerIds
from chronik.core.machines.metadata.records import RemoveTopicRecord
from chronik.core.machines.metadata.sessions import ControllerConfig
from chronik.core.ports import Chance, Clock, Files, Listener, Network
from chronik.core.raft.quorum_replica import QuorumReplica
from chronik.core.replica.replica import Replica
from chronik.core.replica.throttle import follower_throttle, leader_throttle
from chronik.core.types import TopicPartition
from chronik.node.cleaner import Cleaner
from chronik.node.cluster.controller_link import ControllerLink
from chronik.node.cluster.failure_detector import FailureDetector
from chronik.node.cluster.identity import Identity
from chronik.node.cluster.liveness import Liveness
from chronik.node.cluster.metadata import METADATA_CONFIG, Metadata
from chronik.node.cluster.quorum import Quorum
from chronik.node.coordinators.group_coordinator import GroupCoordinator
from chronik.node.housekeeping import Housekeeping
from chronik.node.net.authentication import Authentication
from chronik.node.net.connection import Connections
from chronik.node.net.connection_quotas import UNLIMITED, ConnectionLimits, ConnectionQuotas
from chronik.node.net.link_login import node_login
from chronik.node.net.peers import Peers
from chronik.node.net.request_memory import DEFAULT_BYTES
from chronik.node.observe.trace_store import TraceStore, is_sync_awaited
from chronik.node.observe.tracing import Tracing
from chronik.node.replication.checkpoints import Checkpoints
from chronik.node.replication.fetchers import Fetchers
from chronik.node.replication.hosted_partitions import HostedPartitions
from chronik.node.replication.in_sync_upkeep import InSyncUpkeep
from chronik.node.replication.partition_logs import PartitionLogs
from chronik.node.replication.partition_registry import PartitionRegistry, ReplicaListeners
from chronik.node.replication.purgatory import Purgatory
from chronik.node.replication.replicas import Replicas
from chronik.node.replication.sync_rounds import SyncRounds
from chronik.node.routing.dispatch import Dispatch
from chronik.node.routing.forwarding import Forwarding
from chronik.node.runtime.deadlines import Deadlines
from chronik.node.runtime.steady_time import SteadyTime
from chronik.trace.metrics import Metrics
from chronik.trace.recorder import Recorder

log = logging.getLogger(__name__)

LOOK_AGAIN_MS = 5_000


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
        *,
        connections_max: int = UNLIMITED,
        request_bytes_max: int = DEFAULT_BYTES,
        inspect: Callable[[Node, str, dict[str, Any]], Awaitable[bytes]] | None = None,
    ) -> None:
        self.config = config
        self._connections_max = connections_max  # what the process has descriptors for
        self._inspect = inspect  # None in the simulator, where nothing inspects a node over the wire
        self._request_bytes_max = request_bytes_max  # what the machine has memory for, if no setting says
        self.identity = identity
        self.data_dir = data_dir
        self._files = files
        self._network = network
        self._chance = chance
        self.metrics = Metrics()
        self._deadlines = Deadlines(asyncio.get_running_loop(), self.metrics)
        self.trace = Recorder(
            config.node_id,
            clock,
            config.trace.chronik_trace_ring_events,
            later=self._deadlines.after_ms,
            soon=lambda action: asyncio.get_running_loop().call_soon(action),
        )
        self.waiting = Purgatory(self._deadlines, self.metrics, self.trace)
        self._time = SteadyTime(clock)
        self._checkpoints = Checkpoints(files)
        self.replicas = self._host_partitions(clock)
        self.peers = Peers(
            network, self._deadlines, self.metrics, config.node_id, self._address_of, node_login(config, chance)
        )
        self.quorum = self._open_quorum()
        self.metadata = self._open_metadata()
        self.controller = ControllerLink(self.metadata, self.peers, config.node_id)
        self.groups = self._coordinate_groups()
        self._join_cluster(clock)
        self._tracing = self._trace(clock)
        self._prepare_for_clients(clock)
        self._housekeeping = Housekeeping(self.image, self.replicas, self.connections, clock, self.metrics)
        self._cleaner = Cleaner(self.image, self.replicas, clock, self.metrics)
        self._listeners: dict[str, Listener] = {}  # by name
        self.is_ready = False

    def _open_metadata(self) -> Metadata:
        return Metadata(
            MetadataImage(self.identity.cluster_id, self.config),
            self.quorum,
            self.replicas,
            self.waiting,
            self._time,
            self._files,
            self.metrics,
            ControllerConfig.of(self.config),
            subscribers=(
                # The partitions come first: what hears of the records next looks for replicas, and batches that waited
                # for a leader may go to this node itself.
                self._metadata_applied,
                lambda facts: self.liveness.metadata_applied(facts),
                lambda facts: self.forwarding.metadata_applied(facts),
                lambda facts: self._tracing.metadata_applied(facts),
            ),
        )

    def _host_partitions(self, clock: Clock) -> Replicas:
        config, files, purgatory, metrics = self.config, self._files, self.waiting, self.metrics
        hosted = HostedPartitions()
        logs = PartitionLogs(
            files,
            self._checkpoints,
            clock,
            hosted,
            node_id=config.node_id,
            is_synced=config.server.durability == "sync",
            data_dir=self.data_dir,
        )
        listeners = ReplicaListeners(
            role_changed=self._replica_role_changed,
            went_offline=self._replica_went_offline,
            removed=self._replica_removed,
            follower_progressed=lambda replica: self._in_sync_upkeep.look_at(replica),
            start_moved=lambda replica: self._fetchers.start_moved(replica),
        )
        partitions = PartitionRegistry(
            hosted,
            logs,
            purgatory,
            clock,
            metrics,
            node_id=config.node_id,
            listeners=listeners,
            observation=self.trace,
        )
        sync_rounds = SyncRounds(
            files, purgatory.moved, partitions.sync_failed, logs.store_recovery_points, is_awaited=is_sync_awaited
        )
        return Replicas(
            partitions,
            logs,
            sync_rounds,
            purgatory,
            files,
            clock,
            metrics,
            listeners=listeners,
            observation=self.trace,
        )

    # What happens to a replica, in the order in which the parts hear of it. A coordinator goes first: it must not
    # answer from a log that is not this node's to write. Then the log is fetched from its leader, or not any more; and
    # last the controller is asked for what follows from that.

    def _replica_role_changed(self, replica: Replica) -> None:
        self.groups.runtime.role_changed(replica)
        self._fetchers.role_changed(replica)
        self._in_sync_upkeep.look_whether_served(replica)

    def _replica_went_offline(self, replica: Replica) -> None:
        self.quorum.replica_offline(replica)
        self.groups.runtime.leadership_lost(replica)
        self._fetchers.role_changed(replica)
        self._in_sync_upkeep.look_whether_served(replica)

    def _replica_removed(self, replica: Replica) -> None:
        self.groups.runtime.leadership_lost(replica)
        self._fetchers.role_changed(replica)

    def _coordinate_groups(self) -> GroupCoordinator:
        return GroupCoordinator(
            self.image,
            self.controller.ask,
            self.replicas,
            self.waiting,
            self._time,
            self._chance,
            group_config(self.config.groups, self.config.offsets),
            self.trace,
        )

    def _trace(self, clock: Clock) -> Tracing:
        trace, image, replicas, metrics = self.trace, self.image, self.replicas, self.metrics
        store = TraceStore(trace, image, replicas, self.controller.ask, clock, self._chance, metrics)
        tracing = Tracing(trace, store, image, replicas, self.groups, clock, metrics)
        return tracing

    def _prepare_for_clients(self, clock: Clock) -> None:
        config = self.config
        self.sessions = FetchSessions(config.fetch.max_incremental_fetch_session_cache_slots)
        self._dispatch = Dispatch(
            self._context(clock),
            self.metrics,
            self.forwarding,
            serves_clients=False,  # until it has started
            lets_clients_wait=config.is_alone,
        )
        self.connections = Connections(
            self._dispatch,
            frame_bytes_max=config.connections.socket_request_max_bytes,
            under_way_max=config.connections.queued_max_requests,
            send_now=self._network.send_now,
            quotas=ConnectionQuotas(self._connection_limits, self._connections_max),
            request_bytes_max=config.connections.request_bytes_max(self._request_bytes_max),
            on_closed=self.forwarding.connection_closed,
            authentication=Authentication(config, clock, self._chance, self._credential),
            frame_bytes_max_before_login=config.sasl.sasl_server_max_receive_size,
            login_s=config.sasl.chronik_authentication_timeout_ms / 1000,
        )

    def _authorizer(self) -> Authorizer | None:
        security = self.config.security
        if not security.authorizer_class_name:
            return None
        return Authorizer(
            lambda: self.image.access.acls,
            security.super_principals,
            allows_everyone_without_acl=security.allow_everyone_if_no_acl_found,
        )

    def _credential(self, user: str, mechanism: ScramMechanism) -> ScramCredential | None:
        if not self._dispatch.serves_clients:
            raise NotReady  # the metadata may have it, and this node does not yet
        return self.image.access.scram.get((user, mechanism))

    def _connection_limits(self) -> ConnectionLimits:
        config = self.image.node_config.connections
        return ConnectionLimits(config.max_connections, config.max_connections_per_ip, config.connection_overrides)

    def _join_cluster(self, clock: Clock) -> None:
        """The parts that have to do with other nodes. A node alone has them too, and they have nothing to do."""
        config, metrics, deadlines = self.config, self.metrics, self._deadlines
        self.liveness = Liveness(self.controller, config, self.identity, self._files, self._chance, metrics)
        self._watch = FailureDetector(
            self.metadata,
            self.peers,
            deadlines,
            config.node_id,
            interval_ms=config.liveness.broker_heartbeat_interval_ms,
        )

        def broker_epoch() -> int:
            return self.liveness.broker_epoch

        self._fetchers = Fetchers(
            self.peers,
            self.replicas,
            deadlines,
            clock,
            metrics,
            config.replication,
            node_id=config.node_id,
            broker_epoch=broker_epoch,
            throttle=follower_throttle(config.node_id, lambda: self.image.node_config.replication),
        )
        self._in_sync_upkeep = InSyncUpkeep(
            self.image,
            self.replicas,
            deadlines,
            clock,
            config.replication,
            metrics,
            node_id=config.node_id,
            broker_epoch=broker_epoch,
            ask=self.controller.ask,
        )
        self.forwarding = Forwarding(
            config.node_id,
            self.metadata,
            self.groups,
            self.peers,
            deadlines,
            metrics,
            carries_principals=bool(config.security.authorizer_class_name),
        )

    @property
    def image(self) -> MetadataImage:
        return self.metadata.image

    def _address_of(self, node_id: int) -> tuple[str, int] | None:
        """Where another node is reached by this one: as configured, or as it registered; and before it is known who
        registered, as the metadata log says of its voters."""
        broker = self.image.brokers.get(node_id)
        if node_id in self.config.voters:
            return self.config.voters[node_id]
        if broker is None:
            return self.quorum.log.voter_addresses.get(node_id)
        return broker.internal_host, broker.internal_port

    def _open_quorum(self) -> Quorum:
        replica = self.replicas.partitions.open(METADATA_TOPIC, 0, METADATA_TOPIC_ID, METADATA_CONFIG)
        if replica is None:
            reason = self.replicas.partitions.offline()[METADATA_TOPIC, 0]
            if self.replicas.partitions.is_put_off(METADATA_TOPIC, 0):  # nothing is wrong with it
                raise OSError(errno.EAGAIN, f"the metadata log cannot be opened: {reason}")
            raise Corrupt(
                f"{METADATA_TOPIC}-0", f"the metadata log cannot be opened, so this node cannot start: {reason}"
            )
        assert isinstance(replica, QuorumReplica)  # as this topic's are
        return Quorum(
            replica,
            self.replicas,
            self._files,
            self.waiting,
            self.peers,
            self._time,
            self._chance,
            self.metrics,
            self.config,
            self.identity.cluster_id,
        )

    def _metadata_applied(self, facts: list[Any]) -> None:
        for directory in self.replicas.partitions.metadata_changed(facts):
            self._dispatch.watch(self._remove_later(directory))
        if any(isinstance(fact, RemoveTopicRecord) for fact in facts):
            self.groups.forget_deleted_topics()

    async def _remove_later(self, directory: str) -> None:
        try:
            await self._files.remove_later(directory)
        except OSError as problem:  # it has another name already, and the next start tries again
            log.warning("%s of a partition that is not on this node any more cannot be removed: %s", directory, problem)

    def _context(self, clock: Clock) -> RequestContext:
        return RequestContext(
            node_id=self.config.node_id,
            cluster_id=self.identity.cluster_id,
            fetch_config=self.config.fetch,
            clock=clock,
            chance=self._chance,
            metadata=self.controller,
            groups=self.groups,
            replicas=self.replicas,
            waiting=self.waiting,
            sessions=self.sessions,
            metrics=self.metrics,
            observation=self.trace,
            leader_throttle=leader_throttle(self.config.node_id, lambda: self.image.node_config.replication),
            producer_ids=ProducerIds(),
            start=lambda work: self._dispatch.watch(work),
            forwarding=self.forwarding,
            quorum=self.quorum,
            authorizer=self._authorizer(),
            look=self._look,
            is_slow=lambda connection_id: self.connections.is_slow(connection_id),
        )

    def _look(self, view: str, arguments: dict[str, Any]) -> Awaitable[bytes]:
        if self._inspect is None:
            raise Refused(Code.INVALID_REQUEST, "this node cannot be looked at")
        return self._inspect(self, view, arguments)

    async def start(self) -> tuple[str, int]:
        """Listen, learn what the cluster is like, recover, register; then clients are served. Returns the address they
        are listened for at. Raises OSError, Corrupt, CannotStart."""
        ports = await self._listen()
        self.replicas.partitions.follow(self.image, is_caught_up=False)
        self.quorum.start(self.metadata)
        await self.metadata.wait_until_started()
        # What the metadata says of an earlier process of this node does not hold for this one: it may have lost what
        # was not synced, or its whole disk. Whatever it leads it leads in a new epoch.
        await self.liveness.register(ports)
        while not await self.metadata.wait_for(lambda: self.liveness.is_registered, LOOK_AGAIN_MS):
            log.info("waiting to hear of this node's own registration")
        self.replicas.partitions.follow(self.image)
        self.replicas.partitions.remove_deleted()
        later = self._open_replicas()
        for directory in self.replicas.partitions.metadata_changed(
            None
        ):  # what it follows, and what moved away meanwhile
            self._dispatch.watch(self._remove_later(directory))
        self.groups.runtime.start_all_on_disk()
        self._checkpoints.started()
        self._fetchers.start()
        self._in_sync_upkeep.start()
        self.liveness.start()
        self._watch.start()
        self._housekeeping.start()
        self._cleaner.start()
        self._tracing.start()
        self._dispatch.watch(self._open_later(later))
        self._dispatch.serve_clients()
        await self._wait_until_unfenced()
        self.is_ready = True
        first = self.config.listeners.for_clients[0]
        return first.host, ports[first.name]

    async def _listen(self) -> dict[str, int]:
        """On every listener; the ports by name. Raises OSError."""
        for point in self.config.listeners.all:
            listener = await self._network.listen(
                point.host,
                point.port,
                partial(self.connections.accept, point.name),
                protocol=point.protocol,
            )
            self._listeners[point.name] = listener
        return {name: listener.address[1] for name, listener in self._listeners.items()}

    async def _wait_until_unfenced(self) -> None:
        """Until the controller lets this node lead, and this node has heard of it."""
        while not await self.metadata.wait_for(lambda: not self.liveness.is_fenced, LOOK_AGAIN_MS):
            log.info("waiting for the controller to let this node serve")

    def _open_replicas(self) -> list[TopicPartition]:
        """Open what is on disk; returns what can wait until clients are served: after an orderly stop, all but ours."""
        on_disk = self.replicas.partitions.on_disk()
        later: list[TopicPartition] = []
        for name in on_disk:
            if self._checkpoints.was_clean and not is_internal(name.topic):
                later.append(name)
            else:
                self.replicas.partitions.ensure_open(name)
        return later

    async def _open_later(self, names: list[TopicPartition]) -> None:
        """A partition is opened when it is asked for; this opens the others, a few at a time."""
        for name in names:
            self.replicas.partitions.ensure_open(name)
            await asyncio.sleep(0)

    async def give_up(self) -> None:
        """A start that came to nothing: nobody is heard any more, and nothing is written."""
        for listener in self._listeners.values():
            await listener.close()
        await self.connections.close_all()
        await self.quorum.stop()
        await self.metadata.stop()
        self.peers.close()
        await self.replicas.sync_rounds.wait_until_idle()
        self.replicas.sync_rounds.close()
        self._deadlines.close()

    async def stop(self) -> None:
        """Orderly: no new requests, everything synced and closed, the stop marked as clean."""
        self.is_ready = False
        self._tracing.flush()  # while it still leads where that goes
        await self.liveness.shut_down()  # clients are served until others lead what was led here
        for listener in self._listeners.values():
            await listener.close()
        await self.connections.close_all()
        self._tracing.stop()
        self.groups.runtime.close()
        self._watch.stop()
        await self._in_sync_upkeep.stop()
        await self._fetchers.stop()
        await self.quorum.stop()
        await self.metadata.stop()
        self.forwarding.close()
        self.peers.close()
        await self._dispatch.close()
        await self._cleaner.stop()
        await self._housekeeping.stop()
        await self.replicas.sync_rounds.wait_until_idle()
        self.replicas.sync_rounds.close()
        self._deadlines.close()
        try:
            self.replicas.logs.close_all()
            self._checkpoints.write(self.replicas.held())
            self._checkpoints.stopped()
        except OSError as problem:  # the disk is full, say: what was acknowledged is safe all the same
            log.warning("this stop was not orderly, so the next start looks at every log: %s", problem)


def group_config(groups: GroupsConfig, offsets: OffsetsConfig) -> GroupConfig:
    """What the coordinator needs of these settings."""
    return GroupConfig(
        initial_rebalance_delay_ms=groups.group_initial_rebalance_delay_ms,
        min_session_timeout_ms=groups.group_min_session_timeout_ms,
        max_session_timeout_ms=groups.group_max_session_timeout_ms,
        max_size=groups.group_max_size,
        consumer_session_timeout_ms=groups.group_consumer_session_timeout_ms,
        consumer_heartbeat_interval_ms=groups.group_consumer_heartbeat_interval_ms,
        consumer_max_size=groups.group_consumer_max_size,
        consumer_assignors=groups.group_consumer_assignors,
        can_upgrade=groups.group_consumer_migration_policy in ("bidirectional", "upgrade"),
        can_downgrade=groups.group_consumer_migration_policy in ("bidirectional", "downgrade"),
        offset_metadata_max_bytes=offsets.offset_metadata_max_bytes,
        offsets_commit_timeout_ms=offsets.offsets_commit_timeout_ms,
        offsets_retention_ms=offsets.offsets_retention_minutes * 60_000,
        offsets_retention_check_interval_ms=offsets.offsets_retention_check_interval_ms,
    )
