"""This node's registration, heartbeats and controlled shutdown (Kafka's BrokerLifecycleManager).

Registering says where this node is reached and gives it an epoch; heartbeats say how far it has followed the metadata
and make the controller let it serve (unfence it). Both go on whatever happens: without them this node leads nothing. A
node that is alone is unfenced from the start, and sends no reports.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from chronik.core.access.principal import ANONYMOUS, KafkaPrincipal
from chronik.core.config.addresses import SECURITY_PROTOCOLS
from chronik.core.config.node import NodeConfig
from chronik.core.config.sections.listeners import EVERYWHERE, ListenersConfig
from chronik.core.errors import Code, Refused
from chronik.core.machines.metadata.commands import RegisterBroker
from chronik.core.machines.metadata.controller_commands import BrokerHeartbeat, HeartbeatAnswer
from chronik.core.machines.metadata.image import Broker, MetadataImage
from chronik.core.machines.metadata.records import (
    FENCE,
    BrokerEndpoint,
    BrokerRegistrationChangeRecord,
    RegisterBrokerRecord,
)
from chronik.core.ports import Chance, Files
from chronik.node.cluster.controller_link import ControllerLink
from chronik.node.cluster.identity import CannotStart, Identity, registered
from chronik.node.replication.checkpoints import CLEAN
from chronik.trace.metrics import Metrics

log = logging.getLogger(__name__)

NO_EPOCH = -1
SYNC = "sync"  # durability
UNSYNCED = ".chronik_unsynced"  # there since a process acknowledged what was not synced, until it is known to be
REGISTER_MS = 2_000  # one try
RETRY_MS = 100
SHUT_DOWN_MS_MAX = 3_000  # then this node stops all the same, as after a kill
SHUT_DOWN_BEAT_MS = 50
TWIN_MS_MIN = 20_000  # the controller's file may give sessions much more time than this node's
BEAT_MS_MIN = 50  # however short the session is that the controller's file gives

# No later try would go better.
FINAL = (Code.INCONSISTENT_CLUSTER_ID, Code.INVALID_REGISTRATION, Code.UNSUPPORTED_VERSION)


class NotTakenIn(CannotStart):
    """The cluster does not want this node."""


@dataclass(frozen=True, slots=True)
class _Twin:
    """Another process that is registered with this node's number, as a controller says."""

    controller_epoch: int
    since_s: float


@dataclass(frozen=True, slots=True)
class BrokerSetup:
    """What of a node's settings its registration and its heartbeats need."""

    node_id: int
    is_alone: bool
    is_synced: bool
    rack: str | None
    listeners: ListenersConfig
    voter_address: tuple[str, int] | None  # where other nodes reach it, if it is one of the voters
    heartbeat_interval_ms: int
    session_timeout_ms: int
    principal: KafkaPrincipal = ANONYMOUS  # as what other nodes see it

    @classmethod
    def of(cls, config: NodeConfig, principal: KafkaPrincipal = ANONYMOUS) -> BrokerSetup:
        return cls(
            config.node_id,
            config.is_alone,
            config.server.durability == SYNC,
            config.server.broker_rack,
            config.listeners,
            config.voters.get(config.node_id),
            config.liveness.broker_heartbeat_interval_ms,
            config.liveness.broker_session_timeout_ms,
            principal,
        )


class Liveness:
    """Registration, heartbeats, controlled shutdown."""

    def __init__(
        self,
        controller: ControllerLink,
        setup: BrokerSetup,
        identity: Identity,
        files: Files,
        chance: Chance,
        metrics: Metrics,
    ) -> None:
        self.broker_epoch = NO_EPOCH
        self._controller = controller
        self._setup = setup
        self._identity = identity
        self._files = files
        self._metrics = metrics
        self._incarnation_id = chance.uuid()
        self._command: RegisterBroker | None = None
        self._nudge = asyncio.Event()  # there is something to report before the next heartbeat is due
        self._task: asyncio.Task[None] | None = None
        self._is_heard = True
        self._heard_s: float | None = None  # when the last report was sent that was answered
        self._interval_ms = setup.heartbeat_interval_ms
        self.has_to_end = asyncio.Event()  # another process has this node's number, and stays
        self._twin: _Twin | None = None
        self._is_new = False  # it was registered with a new disk, and has not heard yet what that means

    @property
    def _image(self) -> MetadataImage:
        return self._controller.image

    @property
    def _own(self) -> Broker | None:
        """This very registration, when this node's image has it."""
        own = self._image.brokers.get(self._setup.node_id)
        return own if own is not None and own.epoch == self.broker_epoch else None

    @property
    def is_registered(self) -> bool:
        """Whether this node's image has this very registration."""
        return self._own is not None

    @property
    def is_fenced(self) -> bool:
        """Whether nothing may be led here, as far as this node knows."""
        return self._own is None or self._own.is_fenced

    # --- coming

    async def register(self, ports: Mapping[str, int]) -> None:
        """Until it works; this node listens on these ports, by listener. Raises NotTakenIn when it never will."""
        is_new = not self._identity.was_registered and not self._setup.is_alone
        is_shortened = self._identity.was_registered and self._may_have_lost_its_tail()
        command = self._registration(ports, has_lost_its_log=is_new)
        self._command = replace(command, has_lost_its_tail=is_shortened)
        await self._register(self._command)
        # Before it is unfenced, so that it never counts as new again once it may have had something to lose.
        self._store_epoch()
        self._command = replace(self._command, has_lost_its_log=False, has_lost_its_tail=False)
        self._is_new = is_new

    def _may_have_lost_its_tail(self) -> bool:
        """Whether an earlier process may have acknowledged what is gone: it did not wait for syncs, and its stop was
        not orderly. Nothing tells a kill, which loses nothing, from a power cut."""
        is_synced = self._setup.is_synced
        if not self._files.exists(CLEAN):
            return not is_synced or self._files.exists(UNSYNCED)
        if is_synced:  # and what was not is so since that stop
            self._files.remove(UNSYNCED)
        return False

    def _store_epoch(self) -> None:
        """By it the cluster knows this disk again after a restart. Raises OSError."""
        broker_epoch = NO_EPOCH if self._setup.is_alone else self.broker_epoch
        self._identity = registered(self._files, self._identity, broker_epoch)

    def _registration(self, ports: Mapping[str, int], *, has_lost_its_log: bool) -> RegisterBroker:
        setup = self._setup
        advertised_points = [
            point._replace(port=point.port or ports[point.name]) for point in setup.listeners.advertised
        ]
        inter_node = setup.listeners.inter_node
        listening = inter_node.host, ports[inter_node.name]
        internal_host, internal_port = setup.voter_address or listening
        reached_at = next(point.host for point in advertised_points if point.name == inter_node.name)
        return RegisterBroker(
            broker_id=setup.node_id,
            incarnation_id=self._incarnation_id,
            host=advertised_points[0].host,
            port=advertised_points[0].port,
            rack=setup.rack,
            # Fenced, whatever it led is led in a new epoch. One without followers needs no epochs to tell them apart.
            is_fenced=not setup.is_alone or any(other != setup.node_id for other in self._image.brokers),
            has_lost_its_log=has_lost_its_log,
            previous_epoch=self._identity.broker_epoch,
            internal_host=reached_at if internal_host in EVERYWHERE else internal_host,
            internal_port=internal_port or listening[1],
            end_points=tuple(
                BrokerEndpoint(point.name, point.host, point.port, SECURITY_PROTOCOLS[point.protocol])
                for point in advertised_points
            ),
            principal=setup.principal,
        )

    async def _register(self, command: RegisterBroker) -> None:
        said: str | None = None
        while True:
            try:
                self.broker_epoch = await self._controller.ask(command, REGISTER_MS)
                self._twin = None
                return
            except Refused as refused:
                if refused.code in FINAL:
                    raise NotTakenIn(f"the cluster {self._image.cluster_id} refuses this node: {refused}") from refused
                # A node that was killed while it registered finds itself still registered, until its session is over.
                if refused.code == Code.DUPLICATE_BROKER_REGISTRATION and self._has_a_living_twin():
                    raise NotTakenIn(self.same_id()) from refused
                if str(refused) != said:
                    said = str(refused)
                    log.info("not registered yet: %s", said)
            await asyncio.sleep(RETRY_MS / 1000)

    def _has_a_living_twin(self) -> bool:
        """Asked whenever the controller says that this node's number is taken: whether it has said so for long enough
        that no session of a process that is gone can be the reason. A new controller begins every session anew, so
        that no broker is fenced by an election: then this waits anew as well."""
        epoch, now_s = self._controller.controller_epoch, asyncio.get_running_loop().time()
        if self._twin is None or self._twin.controller_epoch != epoch:
            self._twin = _Twin(epoch, now_s)
        patience_ms = max(TWIN_MS_MIN, 2 * self._setup.session_timeout_ms)
        return (now_s - self._twin.since_s) * 1000 >= patience_ms

    def same_id(self) -> str:
        """What is wrong when another node has this one's number."""
        other = self._image.brokers.get(self._setup.node_id)
        where = "" if other is None else f" at {other.internal_host}:{other.internal_port}"
        return f"another node with id {self._setup.node_id} is alive{where}: give this one an id of its own (node.id)"

    def _tell_what_was_lost(self) -> None:
        """A new disk in a cluster that knows this node: partitions that were nowhere else are empty from now on."""
        own_id = self._setup.node_id
        lost = [
            f"{topic.name}-{number}"
            for topic in self._image.topics.values()
            for number, partition in enumerate(topic.partitions)
            if partition.replicas == (own_id,)
        ]
        if lost:
            log.error("%d partitions had their only copy on this node and are lost with its disk: %s", len(lost), lost)

    # --- staying

    def start(self) -> None:
        """Raises OSError."""
        if not self._setup.is_synced:
            # Each time: it also makes sure that the mark of the last orderly stop, removed before this, does not come
            # back with a power cut.
            self._files.replace(UNSYNCED, b"")
        self._task = asyncio.get_running_loop().create_task(self._run(), name="liveness")

    async def _run(self) -> None:
        while True:
            if self._has_to_report:
                try:
                    await self._beat()
                except Exception:
                    self._metrics.faults += 1
                    log.exception("fault in a heartbeat")
            await self._wait_until_due()

    async def _wait_until_due(self) -> None:
        try:
            async with asyncio.timeout(self._interval_ms / 1000):
                await self._nudge.wait()
        except TimeoutError:
            pass
        self._nudge.clear()

    @property
    def _has_to_report(self) -> bool:
        """The only node of its cluster has nothing to report, unless it was unregistered or fenced by mistake."""
        brokers = self._image.brokers
        return not self._setup.is_alone or len(brokers) > 1 or not self._image.is_active(self._setup.node_id)

    async def _beat(self) -> None:
        sent_s = asyncio.get_running_loop().time()
        try:
            answer = await self._report(self._setup.session_timeout_ms // 2)
        except Refused as refused:
            if refused.code == Code.STALE_BROKER_EPOCH and self._command is not None:
                await self._register_again(self._command)
            elif self._is_heard:
                log.warning("the controller does not hear of this node: %s", refused)
            self._is_heard = False
            return
        if not self._is_heard:
            log.info("the controller hears of this node again")
        self._is_heard, self._heard_s, self._twin = True, sent_s, None
        if self._is_new and answer.is_caught_up:
            self._is_new = False
            self._tell_what_was_lost()

    async def _register_again(self, command: RegisterBroker) -> None:
        """It was unregistered by an administrator, or replaced: by another process with its number, if that lives."""
        try:
            self.broker_epoch = await self._controller.ask(command, REGISTER_MS)
            self._command = replace(command, previous_epoch=self.broker_epoch)
            log.warning("this node was not registered any longer, and is again")
            self._nudge.set()
            self._store_epoch()
        except OSError as problem:  # a restart is then taken for the session of another, and waits until that is over
            log.warning("the new registration could not be stored: %s", problem)
        except Refused as refused:
            if refused.code == Code.DUPLICATE_BROKER_REGISTRATION:
                self._has_a_twin()
            else:
                log.error("this node serves no client: %s", refused)

    def _has_a_twin(self) -> None:
        """A copy of this node's disk on a machine that takes itself for this one, say. It serves, so this node has to
        go: one that runs and serves nothing looks as if it were alive."""
        if self._twin is None:
            log.error("this node serves no client: %s", self.same_id())
        if self._has_a_living_twin():
            self.has_to_end.set()

    async def _report(self, timeout_ms: int, *, wants_shut_down: bool = False) -> HeartbeatAnswer:
        command = BrokerHeartbeat(
            self._setup.node_id, self.broker_epoch, self._image.version, wants_shut_down=wants_shut_down
        )
        answer: HeartbeatAnswer = await self._controller.ask(command, timeout_ms)
        return answer

    def metadata_applied(self, facts: list[Any]) -> None:
        """Report at once what the controller waits for: that this node knows it is registered, or another leaves."""
        for fact in facts:
            match fact:
                case RegisterBrokerRecord(broker_id=self._setup.node_id):
                    self._nudge.set()
                case BrokerRegistrationChangeRecord(in_controlled_shutdown=1):
                    self._nudge.set()
                case BrokerRegistrationChangeRecord(broker_id=self._setup.node_id) if fact.fenced == FENCE:
                    self._was_fenced()

    def _was_fenced(self) -> None:
        """In spite of reports that were heard, the session was over: the controller's file gives it less time than this
        node's file. It would be fenced again between any two reports, and serve no client in between: so it reports
        more often from now on. (Kafka's broker keeps to its interval, and flaps.)"""
        if self._heard_s is None or self._task is None:
            return
        silent_ms = (asyncio.get_running_loop().time() - self._heard_s) * 1000
        if silent_ms <= self._setup.session_timeout_ms and self._interval_ms > BEAT_MS_MIN:
            self._interval_ms = max(BEAT_MS_MIN, self._interval_ms // 2)
            log.warning(
                "this node was fenced %d ms after a report that was heard: broker.session.timeout.ms of the controller"
                " is shorter than here, so it reports every %d ms from now on",
                silent_ms,
                self._interval_ms,
            )
            self._nudge.set()

    # --- going

    async def shut_down(self) -> None:
        """Let others lead what is led here, and know of it, before this node stops; not for longer than a few
        seconds. Then no more is reported."""
        await self._stop()
        if self.broker_epoch == NO_EPOCH:
            return
        loop = asyncio.get_running_loop()
        until = loop.time() + SHUT_DOWN_MS_MAX / 1000
        why = "the controller did not let it go"
        while (left_ms := round((until - loop.time()) * 1000)) > 0:
            if not self._is_followed:
                return
            try:
                answer = await self._report(min(left_ms, self._setup.session_timeout_ms), wants_shut_down=True)
            except Refused as refused:
                if refused.code == Code.STALE_BROKER_EPOCH:
                    return
                why = str(refused)
            else:
                if answer.should_shut_down:
                    return
            await asyncio.sleep(SHUT_DOWN_BEAT_MS / 1000)
        log.warning("this node stops after %d ms without having handed over all it leads: %s", SHUT_DOWN_MS_MAX, why)

    @property
    def _is_followed(self) -> bool:
        """Whether another node is there to take over: if not, there is nothing to hand over."""
        return any(broker.is_active for broker in self._image.brokers.values() if broker.id != self._setup.node_id)

    async def _stop(self) -> None:
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
