"""The group coordinators of this node: a machine for each partition of `__consumer_offsets` that it leads.

A machine comes with the leadership of its partition and goes with it. Before it answers anything it has read its log
to the end, and all of that is safe: what it tells could be lost otherwise. Logs are read a part at a time, so that a
node which takes over many groups at once still serves everybody else.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from chronik.core.config.group import GroupSettings
from chronik.core.errors import Code, Corrupt, Refused, shortage_of
from chronik.core.machines.groups.config import GroupConfig
from chronik.core.machines.groups.offsets import NO_TOPIC_ID
from chronik.core.machines.metadata.commands import CreateInternalTopic
from chronik.core.machines.metadata.image import Broker, MetadataImage, Topic
from chronik.core.machines.metadata.names import OFFSETS_TOPIC
from chronik.core.ports import Chance
from chronik.core.replica.replica import ACKS_ALL, Replica
from chronik.node.machine_host import MachineHost
from chronik.node.replication.purgatory import Purgatory
from chronik.node.replication.replicas import Replicas
from chronik.node.runtime.steady_time import SteadyTime
from chronik.trace.recorder import Recorder

if TYPE_CHECKING:
    from chronik.core.machines.groups.classic_group import ClassicGroup
    from chronik.core.machines.groups.consumer_group import ConsumerGroup
    from chronik.core.machines.groups.machine import GroupsMachine
    from chronik.node.coordinators.group_changes import GroupChanges

REPLAYED_AT_ONCE = 1000  # records of all logs together, until others have their turn

# What went wrong with a coordinator's log, in the words that a client's coordinator code understands.
CODES = {
    Code.KAFKA_STORAGE_ERROR: Code.NOT_COORDINATOR,
    Code.NOT_LEADER_OR_FOLLOWER: Code.NOT_COORDINATOR,
    Code.FENCED_LEADER_EPOCH: Code.NOT_COORDINATOR,
    Code.LEADER_NOT_AVAILABLE: Code.COORDINATOR_NOT_AVAILABLE,
    Code.UNKNOWN_TOPIC_OR_PARTITION: Code.COORDINATOR_NOT_AVAILABLE,
    Code.NOT_ENOUGH_REPLICAS: Code.COORDINATOR_NOT_AVAILABLE,
    Code.NOT_ENOUGH_REPLICAS_AFTER_APPEND: Code.COORDINATOR_NOT_AVAILABLE,
    Code.REQUEST_TIMED_OUT: Code.COORDINATOR_NOT_AVAILABLE,
}


def partition_of(group_id: str, partition_count: int) -> int:
    """Where a group lives: Java's string hash, as Kafka has it, so that tools look in the right place."""
    value = 0
    encoded = group_id.encode("utf-16-be", "surrogatepass")
    for index in range(0, len(encoded), 2):
        value = (31 * value + int.from_bytes(encoded[index : index + 2], "big")) & 0xFFFFFFFF
    return (value & 0x7FFFFFFF) % partition_count


def _seen(answer: asyncio.Future[Any]) -> None:
    """Nobody waits for this answer, and if it is a refusal that is no fault."""
    if not answer.cancelled():
        answer.exception()


class Coordinators:
    """Finds the machine of a group, and has those of this node's partitions."""

    def __init__(
        self,
        image: MetadataImage,
        ask_metadata: Callable[[Any], Awaitable[Any]],
        replicas: Replicas,
        waiting: Purgatory,
        time: SteadyTime,
        chance: Chance,
        config: GroupConfig,
        trace: Recorder | None = None,
    ) -> None:
        self._trace = trace
        self._image = image
        self._ask_metadata = ask_metadata
        self._replicas = replicas
        self._waiting = waiting
        self._time = time
        self._chance = chance
        self._config = config
        self._hosts: dict[int, MachineHost] = {}
        self._loading: dict[int, MachineHost] = {}  # of those, what cannot answer yet
        self._unread: deque[MachineHost] = deque()  # of those, what is still reading its log, one after the other
        self._replayed = 0  # records, since others last had their turn
        self._is_turn_due = False
        self._changes: GroupChanges | None = None  # comes with the first machine

    # --- which machines there are

    def start_all_on_disk(self) -> None:
        """Start every machine whose log is open here."""
        for replica in list(self._replicas.held()):
            if replica.topic == OFFSETS_TOPIC:
                with contextlib.suppress(Refused):  # offline, or led elsewhere
                    self.leadership_gained(self._replicas.leader(OFFSETS_TOPIC, replica.partition))

    def leadership_gained(self, replica: Replica) -> None:
        """This node leads the partition from now on: its groups are read from its log."""
        if replica.topic != OFFSETS_TOPIC or replica.partition in self._hosts:
            return
        # Loaded with the first group: a node without groups starts a quarter sooner.
        from chronik.core.machines.groups.machine import GroupsMachine
        from chronik.node.coordinators.group_changes import GroupChanges

        if self._changes is None:
            self._changes = GroupChanges(self._trace, self._time)
        machine = GroupsMachine(replica.partition, self._config, self._config_of)
        host = MachineHost(
            machine,
            replica,
            self._replicas,
            self._waiting,
            self._time,
            partial(self._changes.applied, machine),
            codes=CODES,
            safe_within_ms=self._config.offsets_commit_timeout_ms,
        )
        self._hosts[replica.partition] = self._loading[replica.partition] = host
        self._unread.append(host)
        self._read()

    def _config_of(self, group_id: str) -> GroupConfig:
        """With the settings that this group has of its own."""
        overrides = self._image.group_overrides(group_id)
        if not overrides:
            return self._config
        node = self._image.node_config
        own = GroupSettings.from_overrides(node, overrides).within(node)
        return replace(
            self._config,
            consumer_session_timeout_ms=own.consumer_session_timeout_ms,
            consumer_heartbeat_interval_ms=own.consumer_heartbeat_interval_ms,
        )

    def leadership_lost(self, replica: Replica) -> None:
        """It leads no longer, or its log is lost: waiting requests are answered that this is the wrong node."""
        host = self._hosts.get(replica.partition)
        if host is not None and host.replica is replica:
            del self._hosts[replica.partition]
            self._loading.pop(replica.partition, None)
            with contextlib.suppress(ValueError):
                self._unread.remove(host)
            if self._changes is not None:
                self._changes.lost(cast("GroupsMachine", host.machine))
            host.close()

    def role_changed(self, replica: Replica) -> None:
        if replica.is_leader:
            self.leadership_gained(replica)
        else:
            self.leadership_lost(replica)

    def _read(self) -> None:
        """Replay as much as this turn allows; the next turn goes on."""
        while self._unread and self._replayed < REPLAYED_AT_ONCE:
            host, room = self._unread[0], REPLAYED_AT_ONCE - self._replayed
            try:
                count = host.replay_part(room)
            except (Corrupt, OSError) as problem:
                if shortage_of(problem) is None:
                    self._replicas.partitions.take_offline(host.replica, f"replay failed: {problem}")
                else:  # the next one to ask for a group of it has it read again
                    self._replicas.read_failed(host.replica, cast("OSError", problem))
                    self.leadership_lost(host.replica)
                continue  # either has ended this machine
            self._replayed += count
            if count < room:
                self._unread.popleft()
                end_offset = host.replica.log.end_offset
                self._waiting.when_safe(host.replica, end_offset, ACKS_ALL, -1, partial(self._loaded, host))
        if self._replayed and not self._is_turn_due:
            self._is_turn_due = True
            self._waiting.after_ms(0, self._next_turn)

    def _next_turn(self) -> None:
        self._replayed, self._is_turn_due = 0, False
        self._read()

    def _loaded(self, host: MachineHost, code: Code) -> None:
        """What was read is safe, or will never be: then leadership goes as well, and that is told in its own way."""
        partition = host.replica.partition
        is_safe = code in (Code.NONE, Code.NOT_ENOUGH_REPLICAS_AFTER_APPEND)  # by as many as there are
        if is_safe and self._loading.get(partition) is host:
            del self._loading[partition]
            if self._changes is not None:
                self._changes.begin([cast("GroupsMachine", host.machine)])
            host.begin()
            self._forget_deleted_topics(host)

    def forget_deleted_topics(self) -> None:
        """Offsets committed for topics that are gone go as well: a new topic of that name begins anew."""
        for host in list(self._loaded_hosts()):
            self._forget_deleted_topics(host)

    def _forget_deleted_topics(self, host: MachineHost) -> None:
        machine = cast("GroupsMachine", host.machine)  # only those are started here
        gone = frozenset(topic for topic in machine.offsets.topics() if self._is_gone(*topic))
        if gone:
            from chronik.core.machines.groups.commands import TopicsDeleted

            with contextlib.suppress(Refused):  # its log takes nothing now: done at the next deletion or start
                host.ask(TopicsDeleted(gone)).add_done_callback(_seen)

    def _is_gone(self, name: str, topic_id: bytes) -> bool:
        """Also when there is a new one of that name: nobody may have looked in between."""
        known = self._image.topic(name)
        return known is None or topic_id not in (NO_TOPIC_ID, known.id)

    def _loaded_hosts(self) -> Iterator[MachineHost]:
        for partition, host in sorted(self._hosts.items()):
            if partition not in self._loading:
                yield host

    def machines(self) -> Iterator[GroupsMachine]:
        """Those that have read their logs."""
        for host in self._loaded_hosts():
            yield cast("GroupsMachine", host.machine)  # only those are started here

    def state_ms(self, group: ClassicGroup | ConsumerGroup) -> int:
        """How long a group has been in its state (a KIP-848 group: has had its epoch); -1 when that is not known."""
        return -1 if self._changes is None else self._changes.state_ms(group)

    def trace_from_now(self) -> None:
        """Something is traced that was not before."""
        if self._changes is not None:
            self._changes.begin(self.machines())

    @property
    def is_loading(self) -> bool:
        """Whether some groups of this node are not known yet."""
        return bool(self._loading)

    # --- asking

    async def ask(self, group_id: str, command: Any) -> Any:
        """Raises Refused (NOT_COORDINATOR, COORDINATOR_LOAD_IN_PROGRESS, COORDINATOR_NOT_AVAILABLE)."""
        topic = self._image.topic(OFFSETS_TOPIC) or await self._offsets_topic()
        host = self._host(partition_of(group_id, len(topic.partitions)))
        if self._changes is None or self._trace is None or self._trace.steps is None:
            return await host.ask(command)
        self._changes.asked(command)
        try:
            asked = host.ask(command)
        finally:
            self._changes.answered()
        return await asked

    async def coordinator(self, group_id: str) -> tuple[int, str, int]:
        """Node id, host and port of the group's coordinator. Raises Refused (COORDINATOR_NOT_AVAILABLE)."""
        await self._offsets_topic()
        broker = self.coordinator_now(group_id)
        if broker is None:
            raise Refused(Code.COORDINATOR_NOT_AVAILABLE)
        return broker.id, broker.host, broker.port

    def coordinator_now(self, group_id: str) -> Broker | None:
        """The node that leads the group's partition, as far as the image says."""
        topic = self._image.topic(OFFSETS_TOPIC)
        if topic is None:
            return None
        leader = topic.partitions[partition_of(group_id, len(topic.partitions))].leader
        broker = self._image.brokers.get(leader)
        return None if broker is None or broker.is_fenced else broker

    async def _offsets_topic(self) -> Topic:
        topic = self._image.topic(OFFSETS_TOPIC)
        if topic is None:
            try:
                await self._ask_metadata(CreateInternalTopic(OFFSETS_TOPIC, self._chance.uuid()))
            except Refused as refused:  # no controller, or nobody to have it: clients ask again
                raise Refused(Code.COORDINATOR_NOT_AVAILABLE, refused.message) from refused
            topic = self._image.topic(OFFSETS_TOPIC)
        if topic is None:
            raise Refused(Code.COORDINATOR_NOT_AVAILABLE)
        return topic

    def _host(self, partition: int) -> MachineHost:
        host = self._hosts.get(partition)
        if host is None:
            self.leadership_gained(self._leader(partition))  # a log is opened when it is first asked for
            host = self._hosts.get(partition)
            if host is None:  # it cannot be read
                raise Refused(Code.COORDINATOR_NOT_AVAILABLE)
        if partition in self._loading:
            raise Refused(Code.COORDINATOR_LOAD_IN_PROGRESS)
        return host

    def _leader(self, partition: int) -> Replica:
        try:
            return self._replicas.leader(OFFSETS_TOPIC, partition)
        except Refused as refusal:
            if refusal.code == Code.NOT_LEADER_OR_FOLLOWER:
                raise Refused(Code.NOT_COORDINATOR) from refusal
            raise Refused(Code.COORDINATOR_NOT_AVAILABLE, refusal.message) from refusal

    def close(self) -> None:
        self._unread.clear()
        for host in self._hosts.values():
            host.close()
