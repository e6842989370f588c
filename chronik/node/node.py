"""A node: all its parts, put together over the four doors it is given."""

from __future__ import annotations

import asyncio
import errno
import logging
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

from chronik.api.call import Peer
from chronik.api.context import Caller, FetchContext, RequestContext, TransactionContext
from chronik.api.quorum_topic import METADATA_TOPIC_ID
from chronik.api.table import module_of
from chronik.core.access.authorizer import Authorizer
from chronik.core.access.delegation_tokens import DelegationToken
from chronik.core.access.oauth import TokenKeys
from chronik.core.access.principal import ANONYMOUS, KafkaPrincipal
from chronik.core.access.sasl import NotReady
from chronik.core.access.scram import ScramCredential, ScramMechanism
from chronik.core.config.node import NodeConfig
from chronik.core.errors import Code, Corrupt, Refused
from chronik.core.fetch_sessions import FetchSessions
from chronik.core.machines.metadata.features import finalized
from chronik.core.machines.metadata.image import MetadataImage
from chronik.core.machines.metadata.names import METADATA_TOPIC, is_internal
from chronik.core.machines.metadata.producer_ids import ProducerIds
from chronik.core.machines.metadata.records import (
    TRANSACTION_VERSION,
    ClientQuotaRecord,
    RegisterBrokerRecord,
    RemoveDelegationTokenRecord,
    RemoveTopicRecord,
    RemoveUserScramCredentialRecord,
    UnregisterBrokerRecord,
    UserScramCredentialRecord,
)
from chronik.core.machines.metadata.sessions import ControllerConfig
from chronik.core.ports import Doors, Listener
from chronik.core.quotas.client_quotas import ClientQuotas
from chronik.core.quotas.connection_rates import ConnectionRates
from chronik.core.raft.quorum_replica import QuorumReplica
from chronik.core.replica.replica import Replica
from chronik.core.replica.throttle import follower_throttle, leader_throttle
from chronik.core.types import TopicPartition
from chronik.node.background import Background
from chronik.node.cleaner import Cleaner
from chronik.node.cluster.controller_link import ControllerLink
from chronik.node.cluster.failure_detector import FailureDetector
from chronik.node.cluster.identity import Identity
from chronik.node.cluster.liveness import BrokerSetup, Liveness
from chronik.node.cluster.member import ClusterMember
from chronik.node.cluster.metadata import METADATA_CONFIG, Metadata
from chronik.node.cluster.node_principals import NodePrincipals
from chronik.node.cluster.quorum import Quorum, QuorumSetup
from chronik.node.coordinators.group_coordinator import GroupCoordinator
from chronik.node.coordinators.group_settings import group_config
from chronik.node.coordinators.transaction_coordinator import TransactionCoordinator
from chronik.node.coordinators.transaction_markers import WRITE_TXN_MARKERS, MarkerSender
from chronik.node.coordinators.transaction_verification import ADD_PARTITIONS_TO_TXN, TransactionVerifier
from chronik.node.housekeeping import Housekeeping
from chronik.node.net.authentication import Authentication
from chronik.node.net.connection import Connections
from chronik.node.net.connection_quotas import UNLIMITED, ConnectionLimits, ConnectionQuotas
from chronik.node.net.link_login import node_login, node_principal
from chronik.node.net.peers import Peers
from chronik.node.net.request_memory import DEFAULT_BYTES
from chronik.node.observe.audit_store import AuditStore
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
from chronik.trace.audit import AuditTrail
from chronik.trace.metrics import Metrics
from chronik.trace.recorder import Recorder
from chronik.wire.unions.add_partitions_to_txn import AnyAddPartitionsRequest, AnyAddPartitionsResponse
from chronik.wire.versions import APIS, node_name

if TYPE_CHECKING:
    from kio.schema.write_txn_markers.v2.request import WriteTxnMarkersRequest
    from kio.schema.write_txn_markers.v2.response import WriteTxnMarkersResponse

log = logging.getLogger(__name__)

LOOK_AGAIN_MS = 5_000
NO_CONNECTION = -1
CREDENTIALS = (UserScramCredentialRecord, RemoveUserScramCredentialRecord, RemoveDelegationTokenRecord)

Inspect: TypeAlias = "Callable[[Node, str, dict[str, Any]], Awaitable[bytes]]"


class Node:
    """One running node."""

    def __init__(
        self,
        config: NodeConfig,
        identity: Identity,
        doors: Doors,
        data_dir: str,
        *,
        connections_max: int = UNLIMITED,  # what the process has descriptors for
        request_bytes_max: int = DEFAULT_BYTES,  # what the machine has memory for, if no setting says
        inspect: Inspect | None = None,  # None in the simulator, where nothing inspects a node over the wire
        token_keys: TokenKeys | None = None,  # where clients log in with signed tokens
        principal: KafkaPrincipal = ANONYMOUS,  # as what other nodes see it, where that is by its certificate
    ) -> None:
        self.config = config
        self.identity = identity
        self._doors = doors
        self.metrics = Metrics()
        self._deadlines = Deadlines(asyncio.get_running_loop(), self.metrics)
        self.trace = Recorder(
            config.node_id,
            doors.clock,
            config.trace.chronik_trace_ring_events,
            later=self._deadlines.after_ms,
            soon=lambda action: asyncio.get_running_loop().call_soon(action),
        )
        self.waiting = Purgatory(self._deadlines, self.metrics, self.trace)
        self.replicas = self._host_partitions(data_dir)
        time = SteadyTime(doors.clock)
        self.cluster = self._join_cluster(time, principal)
        self.groups = self._coordinate_groups(time)
        self.transactions = self._coordinate_transactions(time)
        self._verifier = self._verify_transactions()
        self.forwarding = self._forward_requests()
        self.audit = AuditTrail(
            config.node_id, doors.clock, logs=lambda: self.image.node_config.audit.chronik_audit_log
        )
        self._request_context = self._context(inspect)
        self._dispatch = Dispatch(
            self._request_context,
            self.metrics,
            self.forwarding,
            may_be=self.cluster.principals.may_be,
            serves_clients=False,  # until it has started
            lets_clients_wait=config.is_alone,
        )
        self.connections = self._accept_connections(connections_max, request_bytes_max, token_keys)
        self._background = self._work_in_background()
        self._listeners: dict[str, Listener] = {}  # by name
        self.is_ready = False

    def _open_metadata(self, quorum: Quorum, time: SteadyTime) -> Metadata:
        return Metadata(
            MetadataImage(self.identity.cluster_id, self.config),
            quorum,
            self.replicas,
            self.waiting,
            time,
            self._doors.files,
            self.metrics,
            ControllerConfig.of(self.config),
            subscribers=(
                # The partitions come first: what hears of the records next looks for replicas, and batches that waited
                # for a leader may go to this node itself.
                self._metadata_applied,
                lambda facts: self.cluster.liveness.metadata_applied(facts),
                lambda facts: self.forwarding.metadata_applied(facts),
                lambda facts: self._background.tracing.metadata_applied(facts),
            ),
        )

    def _host_partitions(self, data_dir: str) -> Replicas:
        config, purgatory, metrics = self.config, self.waiting, self.metrics
        files, clock = self._doors.files, self._doors.clock
        hosted = HostedPartitions()
        logs = PartitionLogs(
            files,
            Checkpoints(files),
            clock,
            hosted,
            node_id=config.node_id,
            is_synced=config.server.durability == "sync",
            data_dir=data_dir,
            metadata_log_synced=lambda: self.cluster.quorum.log_grew(),
        )
        listeners = ReplicaListeners(
            role_changed=self._replica_role_changed,
            went_offline=self._replica_went_offline,
            removed=self._replica_removed,
            follower_progressed=lambda replica: self._background.in_sync_upkeep.look_at(replica),
            start_moved=lambda replica: self._background.fetchers.start_moved(replica),
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
        self.transactions.runtime.role_changed(replica)
        self._background.fetchers.role_changed(replica)
        self._background.in_sync_upkeep.look_whether_served(replica)

    def _replica_went_offline(self, replica: Replica) -> None:
        self.cluster.quorum.replica_offline(replica)
        self.groups.runtime.leadership_lost(replica)
        self.transactions.runtime.leadership_lost(replica)
        self._background.fetchers.role_changed(replica)
        self._background.in_sync_upkeep.look_whether_served(replica)

    def _replica_removed(self, replica: Replica) -> None:
        self.groups.runtime.leadership_lost(replica)
        self.transactions.runtime.leadership_lost(replica)
        self._background.fetchers.role_changed(replica)

    def _coordinate_groups(self, time: SteadyTime) -> GroupCoordinator:
        return GroupCoordinator(
            self.image,
            self.cluster.controller.ask,
            self.replicas,
            self.waiting,
            time,
            self._doors.chance,
            group_config(self.config.groups, self.config.offsets),
            self.trace,
        )

    def _coordinate_transactions(self, time: SteadyTime) -> TransactionCoordinator:
        image, config = self.image, self.config
        # The leaders of partitions hear of ends, and coordinators of beginnings, by request; this node from itself too.
        markers = MarkerSender(
            image,
            self.cluster.peers,
            self.waiting,
            self.metrics,
            config.node_id,
            lambda request: self._write_markers(request),
        )
        return TransactionCoordinator(
            image,
            self.cluster.controller.ask,
            self.replicas,
            self.waiting,
            time,
            self._doors.chance,
            config.transactions,
            markers,
            lambda: finalized(image.features)[TRANSACTION_VERSION],
            self.trace,
        )

    def _forward_requests(self) -> Forwarding:
        cluster, groups, transactions = self.cluster, self.groups, self.transactions
        return Forwarding(
            self.config.node_id, cluster.metadata, groups, transactions, cluster.peers, self._deadlines, self.metrics
        )

    def _verify_transactions(self) -> TransactionVerifier:
        return TransactionVerifier(
            self.transactions.coordinator_now,
            self.cluster.peers,
            self.waiting,
            self.metrics,
            self.config.node_id,
            lambda: self.image.node_config.transactions,
            lambda request: self._add_partitions(request),
        )

    def _write_markers(self, request: WriteTxnMarkersRequest) -> Awaitable[WriteTxnMarkersResponse]:
        return self._ask_itself(WRITE_TXN_MARKERS, request)

    def _add_partitions(self, request: AnyAddPartitionsRequest) -> Awaitable[AnyAddPartitionsResponse]:
        return self._ask_itself(ADD_PARTITIONS_TO_TXN, request)

    def _ask_itself(self, api_key: int, request: object) -> Awaitable[Any]:
        """As another node would ask it."""
        node_id = self.config.node_id
        caller = Caller(node_name(node_id), "", APIS[api_key].highest, NO_CONNECTION, is_node=True, node_id=node_id)
        answer: Awaitable[Any] = module_of(api_key).handle(request, caller, self._request_context)
        return answer

    def _accept_connections(
        self, connections_max: int, request_bytes_max: int, token_keys: TokenKeys | None
    ) -> Connections:
        config = self.config
        return Connections(
            self._dispatch,
            frame_bytes_max=config.connections.socket_request_max_bytes,
            under_way_max=config.connections.queued_max_requests,
            send_now=self._doors.network.send_now,
            quotas=ConnectionQuotas(
                lambda: ConnectionLimits.of(config, self.image.node_config.connections),
                connections_max,
                ConnectionRates(self.image.quotas, config.quotas),
                self._doors.clock.monotonic_ms,
            ),
            request_bytes_max=config.connections.request_bytes_max(request_bytes_max),
            on_closed=self.forwarding.connection_closed,
            on_login=self._logged_in,
            authentication=Authentication(
                config, self._doors.clock, self._doors.chance, self._credential, token_keys, self._delegation_token
            ),
            frame_bytes_max_before_login=config.sasl.sasl_server_max_receive_size,
            login_s=config.sasl.chronik_authentication_timeout_ms / 1000,
        )

    def _logged_in(self, peer: Peer, problem: str | None) -> None:
        """By a certificate; or not."""
        caller = Caller("", peer.host, 0, peer.connection_id, principal=peer.principal, listener=peer.listener)
        if problem is None:
            self.audit.login(caller, "SSL")
        else:
            self.audit.login_refused(caller, problem)

    def make_authorizer(self) -> Authorizer | None:
        """Who may do what, by the image of this node; None where everything is allowed."""
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

    def _delegation_token(self, token_id: str) -> DelegationToken | None:
        if not self._dispatch.serves_clients:
            raise NotReady
        return self.image.access.tokens.get(token_id)

    def _join_cluster(self, time: SteadyTime, principal: KafkaPrincipal) -> ClusterMember:
        """The parts that have to do with other nodes. A node alone has them too, and they have nothing to do."""
        config, doors, metrics = self.config, self._doors, self.metrics
        peers = Peers(
            doors.network, self._deadlines, metrics, config.node_id, self._address_of, node_login(config, doors.chance)
        )
        quorum = self._open_quorum(peers, time)
        metadata = self._open_metadata(quorum, time)
        controller = ControllerLink(metadata, peers, config.node_id)
        return ClusterMember(
            peers,
            quorum,
            metadata,
            controller,
            Liveness(
                controller,
                BrokerSetup.of(config, node_principal(config, principal)),
                self.identity,
                doors.files,
                doors.chance,
                metrics,
            ),
            FailureDetector(
                metadata,
                peers,
                self._deadlines,
                config.node_id,
                interval_ms=config.liveness.broker_heartbeat_interval_ms,
            ),
            NodePrincipals(config.security.node_principals, metadata.image, doors.files),
        )

    def _work_in_background(self) -> Background:
        config, metrics, deadlines, clock = self.config, self.metrics, self._deadlines, self._doors.clock
        ask = self.cluster.controller.ask
        store = TraceStore(self.trace, self.image, self.replicas, ask, clock, self._doors.chance, metrics)

        def broker_epoch() -> int:
            return self.cluster.liveness.broker_epoch

        return Background(
            Fetchers(
                self.cluster.peers,
                self.replicas,
                deadlines,
                clock,
                metrics,
                config.replication,
                node_id=config.node_id,
                broker_epoch=broker_epoch,
                throttle=follower_throttle(config.node_id, lambda: self.image.node_config.replication),
            ),
            InSyncUpkeep(
                self.image,
                self.replicas,
                deadlines,
                clock,
                config.replication,
                metrics,
                node_id=config.node_id,
                broker_epoch=broker_epoch,
                ask=ask,
            ),
            Housekeeping(self.image, self.replicas, self.connections, clock, metrics),
            Cleaner(self.image, self.replicas, clock, metrics),
            Tracing(self.trace, store, self.image, self.replicas, self.groups, self.transactions, clock, metrics),
            AuditStore(self.audit, self.image, self.replicas, ask, clock, self._doors.chance, metrics, config.node_id),
        )

    @property
    def image(self) -> MetadataImage:
        return self.cluster.metadata.image

    @property
    def quotas(self) -> ClientQuotas:
        return self._request_context.quotas

    @property
    def sessions(self) -> FetchSessions:
        return self._request_context.fetching.sessions

    def _address_of(self, node_id: int) -> tuple[str, int] | None:
        """Where another node is reached by this one: as configured, or as it registered; and before it is known who
        registered, as the metadata log says of its voters."""
        broker = self.image.brokers.get(node_id)
        if node_id in self.config.voters:
            return self.config.voters[node_id]
        if broker is None:
            return self.cluster.quorum.log.voter_addresses.get(node_id)
        return broker.internal_host, broker.internal_port

    def _open_quorum(self, peers: Peers, time: SteadyTime) -> Quorum:
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
            self._doors.files,
            self.waiting,
            peers,
            time,
            self._doors.chance,
            self.metrics,
            QuorumSetup.of(self.config, self.identity.cluster_id),
        )

    def _metadata_applied(self, facts: list[Any]) -> None:
        for directory in self.replicas.partitions.metadata_changed(facts):
            self._dispatch.watch(self._remove_later(directory))
        if any(isinstance(fact, RegisterBrokerRecord | UnregisterBrokerRecord) for fact in facts):
            self._node_registered()
        if any(isinstance(fact, CREDENTIALS) for fact in facts):
            self.connections.end_where(
                lambda peer: peer.login is not None and peer.login.is_revoked,
                "its user or token was removed, or has another password",
            )
        if any(isinstance(fact, RemoveTopicRecord) for fact in facts):
            self.groups.forget_deleted_topics()
        if any(isinstance(fact, ClientQuotaRecord) for fact in facts):
            self._dispatch.quotas_changed()

    def _node_registered(self) -> None:
        """An id may be another principal's from now on: what used it before is no node any more."""
        principals = self.cluster.principals
        principals.metadata_changed(is_caught_up=self.cluster.metadata.is_caught_up)
        self.connections.end_where(
            lambda peer: peer.node_id >= 0 and not principals.may_be(peer.node_id, peer.authenticated_as),
            "its node id is another principal's",
        )

    async def _remove_later(self, directory: str) -> None:
        try:
            await self._doors.files.remove_later(directory)
        except OSError as problem:  # it has another name already, and the next start tries again
            log.warning("%s of a partition that is not on this node any more cannot be removed: %s", directory, problem)

    def _context(self, inspect: Inspect | None) -> RequestContext:
        def inspect_here(view: str, arguments: dict[str, Any]) -> Awaitable[bytes]:
            if inspect is None:
                raise Refused(Code.INVALID_REQUEST, "this node cannot be looked at")
            return inspect(self, view, arguments)

        return RequestContext(
            node_id=self.config.node_id,
            cluster_id=self.identity.cluster_id,
            fetching=FetchContext(
                self.config.fetch,
                FetchSessions(self.config.fetch.max_incremental_fetch_session_cache_slots),
                leader_throttle(self.config.node_id, lambda: self.image.node_config.replication),
                is_slow=lambda connection_id: self.connections.is_slow(connection_id),
            ),
            clock=self._doors.clock,
            chance=self._doors.chance,
            metadata=self.cluster.controller,
            groups=self.groups,
            transactional=TransactionContext(self.transactions, self._verifier),
            replicas=self.replicas,
            waiting=self.waiting,
            metrics=self.metrics,
            observation=self.trace,
            producer_ids=ProducerIds(),
            start=lambda work: self._dispatch.watch(work),
            forwarding=self.forwarding,
            quorum=self.cluster.quorum,
            quotas=ClientQuotas(self.image.quotas, self.config.quotas),
            audit=self.audit,
            authorizer=self.make_authorizer(),
            look=inspect_here,
        )

    async def start(self) -> tuple[str, int]:
        """Listen, learn what the cluster is like, recover, register; then clients are served. Returns the address they
        are listened for at. Raises OSError, Corrupt, CannotStart."""
        ports = await self._listen()
        self.replicas.partitions.follow(self.image, is_caught_up=False)
        self.cluster.quorum.start(self.cluster.metadata)
        await self.cluster.metadata.wait_until_started()
        self.cluster.principals.metadata_changed(is_caught_up=True)
        # What the metadata says of an earlier process of this node does not hold for this one: it may have lost what
        # was not synced, or its whole disk. Whatever it leads it leads in a new epoch.
        await self.cluster.liveness.register(ports)
        while not await self.cluster.metadata.wait_for(lambda: self.cluster.liveness.is_registered, LOOK_AGAIN_MS):
            log.info("waiting to hear of this node's own registration")
        self.replicas.partitions.follow(self.image)
        self.replicas.partitions.remove_deleted()
        later = self._open_replicas()
        for directory in self.replicas.partitions.metadata_changed(
            None
        ):  # what it follows, and what moved away meanwhile
            self._dispatch.watch(self._remove_later(directory))
        self.groups.runtime.start_all_on_disk()
        self.transactions.runtime.start_all_on_disk()
        self.replicas.logs.checkpoints.started()
        self._background.start()
        self.cluster.liveness.start()
        self.cluster.failure_detector.start()
        self._dispatch.watch(self._open_later(later))
        self._dispatch.serve_clients()
        await self._wait_until_unfenced()
        self.is_ready = True
        first = self.config.listeners.for_clients[0]
        return first.host, ports[first.name]

    async def _listen(self) -> dict[str, int]:
        """On every listener; the ports by name. Raises OSError."""
        for point in self.config.listeners.all:
            listener = await self._doors.network.listen(
                point.host,
                point.port,
                partial(self.connections.accept, point.name),
                protocol=point.protocol,
            )
            self._listeners[point.name] = listener
        return {name: listener.address[1] for name, listener in self._listeners.items()}

    async def _wait_until_unfenced(self) -> None:
        """Until the controller lets this node lead, and this node has heard of it."""
        while not await self.cluster.metadata.wait_for(lambda: not self.cluster.liveness.is_fenced, LOOK_AGAIN_MS):
            log.info("waiting for the controller to let this node serve")

    def _open_replicas(self) -> list[TopicPartition]:
        """Open what is on disk; returns what can wait until clients are served: after an orderly stop, all but ours."""
        on_disk = self.replicas.partitions.on_disk()
        later: list[TopicPartition] = []
        for name in on_disk:
            if self.replicas.logs.checkpoints.was_clean and not is_internal(name.topic):
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
        """A start that came to nothing: no request is read any more, and nothing is written."""
        for listener in self._listeners.values():
            await listener.close()
        await self.connections.close_all()
        await self.cluster.stop()
        self.cluster.peers.close()
        await self.replicas.sync_rounds.wait_until_idle()
        self.replicas.sync_rounds.close()
        self._deadlines.close()

    async def stop(self) -> None:
        """Orderly: no new requests, everything synced and closed, the stop marked as clean."""
        self.is_ready = False
        self._background.audit_store.flush()
        self._background.tracing.flush()  # while it still leads where that goes
        await self.cluster.liveness.shut_down()  # clients are served until others lead what was led here
        for listener in self._listeners.values():
            await listener.close()
        await self.connections.close_all()
        self._background.tracing.stop()
        self._background.audit_store.stop()
        self.groups.runtime.close()
        self.transactions.close()
        self._verifier.close()
        self.cluster.failure_detector.stop()
        await self._background.stop_replication()
        await self.cluster.stop()
        self.forwarding.close()
        self.cluster.peers.close()
        await self._dispatch.close()
        await self._background.stop_upkeep()
        await self.replicas.sync_rounds.wait_until_idle()
        self.replicas.sync_rounds.close()
        self._deadlines.close()
        try:
            self.replicas.logs.close_all()
            self.replicas.logs.checkpoints.write(self.replicas.held())
            self.replicas.logs.checkpoints.stopped()
        except OSError as problem:  # the disk is full, say: what was acknowledged is safe all the same
            log.warning("this stop was not orderly, so the next start looks at every log: %s", problem)
