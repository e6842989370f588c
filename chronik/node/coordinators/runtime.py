"""The coordinator runtime: hosts a machine for each partition of one internal topic that this node leads.

It owns the machines' lives. A machine comes with the leadership of its partition and goes with it; before it answers
anything it has read its log to the end, and all of that is durable: what it says could be lost otherwise. Logs are
read a part at a time, so that a node which takes over many partitions at once still serves everything else.

A guest (the group coordinator, the transaction coordinator) says which topic, how to make a machine, and what to do
when one has been loaded or lost. It calls `ask`; nothing else changes a machine. Roles of replicas come from the
partition registry.

Invariants: one machine a partition and leadership, never two; no machine that is still loading is asked; whatever
goes wrong with a log reaches clients as a coordinator's error (`CODES`).
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import Awaitable, Iterator
from functools import partial
from typing import Generic, Protocol, TypeVar, cast

from chronik.core.errors import Code, Corrupt, Refused, shortage_of
from chronik.core.machines.machine import FactT, Machine
from chronik.core.machines.metadata.commands import CreateInternalTopic, MetadataCommand
from chronik.core.machines.metadata.image import Broker, MetadataImage, Topic
from chronik.core.ports import Chance
from chronik.core.replica.replica import ACKS_ALL, Replica
from chronik.node.machine_host import MachineHost
from chronik.node.replication.purgatory import Purgatory
from chronik.node.replication.replicas import Replicas
from chronik.node.runtime.steady_time import SteadyTime

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

CommandT = TypeVar("CommandT")
AnswerT = TypeVar("AnswerT")


def partition_of(key: str, partition_count: int) -> int:
    """Where a group or a transactional id lives: Java's string hash, as in Kafka, so tools look in the right place."""
    value = 0
    encoded = key.encode("utf-16-be", "surrogatepass")
    for index in range(0, len(encoded), 2):
        value = (31 * value + int.from_bytes(encoded[index : index + 2], "big")) & 0xFFFFFFFF
    return (value & 0x7FFFFFFF) % partition_count


class AskMetadata(Protocol):
    """The way to the controller (api/context.py: MetadataDesk.ask)."""

    def __call__(self, command: MetadataCommand[AnswerT], /) -> Awaitable[AnswerT]: ...


class CoordinatorGuest(Protocol[CommandT, FactT]):
    """What the runtime has to know of the coordinator that it hosts, and what it reports to it."""

    @property
    def topic(self) -> str:
        """The internal topic that has the machines' logs."""

    @property
    def append_timeout_ms(self) -> int:
        """How long an answer may wait for its records to be durable."""

    def new_machine(self, replica: Replica) -> Machine[CommandT, FactT]:
        """An empty machine for a partition that this node leads from now on."""

    def loaded(self, host: MachineHost[CommandT, FactT]) -> None:
        """It has read its log, and time counts for it from now on."""

    def lost(self, host: MachineHost[CommandT, FactT]) -> None:
        """Another node leads its partition, or its log is lost."""

    def applied(self, machine: Machine[CommandT, FactT], facts: list[FactT]) -> None:
        """These facts hold now, and are in the log as far as they go there: not yet durable."""


class CoordinatorRuntime(Generic[CommandT, FactT]):
    """The machines of one internal topic, those of this node's partitions, and the way to the others."""

    def __init__(
        self,
        guest: CoordinatorGuest[CommandT, FactT],
        image: MetadataImage,
        ask_metadata: AskMetadata,
        replicas: Replicas,
        waiting: Purgatory,
        time: SteadyTime,
        chance: Chance,
    ) -> None:
        self._guest = guest
        self._image = image
        self._ask_metadata = ask_metadata
        self._replicas = replicas
        self._waiting = waiting
        self._time = time
        self._chance = chance
        self._hosts: dict[int, MachineHost[CommandT, FactT]] = {}
        self._loading: dict[int, MachineHost[CommandT, FactT]] = {}  # of those, what cannot answer yet
        self._unread: deque[MachineHost[CommandT, FactT]] = deque()  # of those, what is still reading its log, in turn
        self._replayed = 0  # records, since others last had their turn
        self._is_turn_due = False

    # --- which machines there are

    def start_all_on_disk(self) -> None:
        """Start every machine whose log is open here."""
        for replica in list(self._replicas.held()):
            if replica.topic == self._guest.topic:
                with contextlib.suppress(Refused):  # offline, or led elsewhere
                    self.leadership_gained(self._replicas.leader(self._guest.topic, replica.partition))

    def role_changed(self, replica: Replica) -> None:
        if replica.is_leader:
            self.leadership_gained(replica)
        else:
            self.leadership_lost(replica)

    def leadership_gained(self, replica: Replica) -> None:
        """This node leads the partition from now on: its machine is read from its log."""
        if replica.topic != self._guest.topic or replica.partition in self._hosts:
            return
        machine = self._guest.new_machine(replica)
        host = MachineHost(
            machine,
            replica,
            self._replicas,
            self._waiting,
            self._time,
            partial(self._guest.applied, machine),
            codes=CODES,
            safe_within_ms=self._guest.append_timeout_ms,
        )
        self._hosts[replica.partition] = self._loading[replica.partition] = host
        self._unread.append(host)
        self._read()

    def leadership_lost(self, replica: Replica) -> None:
        """It leads no longer, or its log is lost: waiting requests are answered that this is the wrong node."""
        if replica.topic != self._guest.topic:
            return
        host = self._hosts.get(replica.partition)
        if host is not None and host.replica is replica:
            del self._hosts[replica.partition]
            self._loading.pop(replica.partition, None)
            if host in self._unread:
                self._unread.remove(host)
            self._guest.lost(host)
            host.close()

    def _read(self) -> None:
        """Replay as much as this turn allows; the next turn goes on."""
        while self._unread and self._replayed < REPLAYED_AT_ONCE:
            host, room = self._unread[0], REPLAYED_AT_ONCE - self._replayed
            try:
                count = host.replay_part(room)
            except (Corrupt, OSError) as problem:
                if shortage_of(problem) is None:
                    self._replicas.partitions.take_offline(host.replica, f"replay failed: {problem}")
                else:  # the next request for this partition has it read again
                    self._replicas.read_failed(host.replica, cast("OSError", problem))
                    self.leadership_lost(host.replica)
                continue  # either has ended this machine
            self._replayed += count
            if count < room:
                self._unread.popleft()
                end_offset = host.replica.log.end_offset
                self._waiting.when_safe(host.replica, end_offset, ACKS_ALL, -1, partial(self._read_is_durable, host))
        if self._replayed and not self._is_turn_due:
            self._is_turn_due = True
            self._waiting.after_ms(0, self._next_turn)

    def _next_turn(self) -> None:
        self._replayed, self._is_turn_due = 0, False
        self._read()

    def _read_is_durable(self, host: MachineHost[CommandT, FactT], code: Code) -> None:
        """Or it will never be: then leadership goes as well, and is reported in its own way."""
        partition = host.replica.partition
        is_durable = code in (Code.NONE, Code.NOT_ENOUGH_REPLICAS_AFTER_APPEND)  # by as many as there are
        if is_durable and self._loading.get(partition) is host:
            del self._loading[partition]
            host.begin()
            self._guest.loaded(host)

    def hosts(self) -> Iterator[MachineHost[CommandT, FactT]]:
        """Those that have read their logs."""
        for partition, host in sorted(self._hosts.items()):
            if partition not in self._loading:
                yield host

    @property
    def is_loading(self) -> bool:
        """Whether some machines of this node cannot answer yet."""
        return bool(self._loading)

    def close(self) -> None:
        self._unread.clear()
        for host in self._hosts.values():
            host.close()

    # --- asking

    async def wait_for_host(self, key: str) -> MachineHost[CommandT, FactT]:
        """The machine that has this group or transactional id. Waits only where the topic has to be created.
        Raises Refused (NOT_COORDINATOR, COORDINATOR_LOAD_IN_PROGRESS, COORDINATOR_NOT_AVAILABLE)."""
        topic = self._image.topic(self._guest.topic) or await self._wait_for_topic()
        return self.host(partition_of(key, len(topic.partitions)))

    async def wait_for_partition(self, key: str) -> int:
        """Where the key lives. Raises Refused (COORDINATOR_NOT_AVAILABLE): the topic cannot be created now."""
        return partition_of(key, len((await self._wait_for_topic()).partitions))

    def host(self, partition: int) -> MachineHost[CommandT, FactT]:
        """The machine of a partition. Raises Refused as `wait_for_host`."""
        host = self._hosts.get(partition)
        if host is None:
            self.leadership_gained(self._leader(partition))  # a log is opened when it is first asked for
            host = self._hosts.get(partition)
            if host is None:  # it cannot be read
                raise Refused(Code.COORDINATOR_NOT_AVAILABLE)
        if partition in self._loading:
            raise Refused(Code.COORDINATOR_LOAD_IN_PROGRESS)
        return host

    def ask_loaded(self, host: MachineHost[CommandT, FactT], command: CommandT) -> None:
        """Something that no client waits for. If the log takes nothing now, the caller asks again some time."""
        with contextlib.suppress(Refused):
            host.ask(command).add_done_callback(_outcome_ignored)

    async def coordinator(self, key: str) -> tuple[int, str, int]:
        """Node id, host and port of the key's coordinator. Raises Refused (COORDINATOR_NOT_AVAILABLE)."""
        await self._wait_for_topic()
        broker = self.coordinator_now(key)
        if broker is None:
            raise Refused(Code.COORDINATOR_NOT_AVAILABLE)
        return broker.id, broker.host, broker.port

    def coordinator_now(self, key: str) -> Broker | None:
        """The node that leads the key's partition, as far as the image says."""
        topic = self._image.topic(self._guest.topic)
        if topic is None:
            return None
        leader = topic.partitions[partition_of(key, len(topic.partitions))].leader
        broker = self._image.brokers.get(leader)
        return None if broker is None or broker.is_fenced else broker

    async def _wait_for_topic(self) -> Topic:
        name = self._guest.topic
        topic = self._image.topic(name)
        if topic is None:
            try:
                await self._ask_metadata(CreateInternalTopic(name, self._chance.uuid()))
            except Refused as refused:  # no controller, or no broker to have it: clients ask again
                raise Refused(Code.COORDINATOR_NOT_AVAILABLE, refused.message) from refused
            topic = self._image.topic(name)
        if topic is None:
            raise Refused(Code.COORDINATOR_NOT_AVAILABLE)
        return topic

    def _leader(self, partition: int) -> Replica:
        try:
            return self._replicas.leader(self._guest.topic, partition)
        except Refused as refusal:
            if refusal.code == Code.NOT_LEADER_OR_FOLLOWER:
                raise Refused(Code.NOT_COORDINATOR) from refusal
            raise Refused(Code.COORDINATOR_NOT_AVAILABLE, refusal.message) from refusal


def _outcome_ignored(answer: asyncio.Future[object]) -> None:
    """No request waits for this answer; a refusal of it is no fault."""
    if not answer.cancelled():
        answer.exception()
