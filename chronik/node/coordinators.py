"""The group coordinators of this node: a machine for each partition of `__consumer_offsets` that it leads."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Iterator
from typing import TYPE_CHECKING, Any, cast

from chronik.core.errors import Code, Corrupt, Refused
from chronik.core.machines.groups.config import GroupConfig
from chronik.core.machines.metadata.commands import CreateInternalTopic
from chronik.core.machines.metadata.image import MetadataImage
from chronik.core.machines.metadata.names import OFFSETS_TOPIC
from chronik.core.ports import Chance
from chronik.core.replica.replica import Replica
from chronik.node.machine_host import MachineHost
from chronik.node.replicas import Replicas
from chronik.node.steady_time import SteadyTime
from chronik.node.waiting import Waiting

if TYPE_CHECKING:
    from chronik.core.machines.groups.machine import GroupsMachine

# What went wrong with a coordinator's log, in the words that a client's coordinator code understands.
CODES = {
    Code.KAFKA_STORAGE_ERROR: Code.NOT_COORDINATOR,
    Code.NOT_LEADER_OR_FOLLOWER: Code.NOT_COORDINATOR,
    Code.UNKNOWN_TOPIC_OR_PARTITION: Code.COORDINATOR_NOT_AVAILABLE,
    Code.NOT_ENOUGH_REPLICAS: Code.COORDINATOR_NOT_AVAILABLE,
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
    """Finds the machine of a group, starting it when it is first needed."""

    def __init__(
        self,
        image: MetadataImage,
        ask_metadata: Callable[[Any], asyncio.Future[Any]],
        replicas: Replicas,
        waiting: Waiting,
        time: SteadyTime,
        chance: Chance,
        config: GroupConfig,
    ) -> None:
        self._image = image
        self._ask_metadata = ask_metadata
        self._replicas = replicas
        self._waiting = waiting
        self._time = time
        self._chance = chance
        self._config = config
        self._hosts: dict[int, MachineHost] = {}
        replicas.on_offline.append(self._lost)

    def start_all_on_disk(self) -> None:
        """Start every machine whose log has something in it."""
        for replica in list(self._replicas.held()):
            if replica.topic == OFFSETS_TOPIC and replica.offline is None:
                with contextlib.suppress(Refused):  # it is offline now, and its groups are told so when they ask
                    self._start(replica)
        self.forget_deleted_topics()

    def forget_deleted_topics(self) -> None:
        """Offsets committed for topics that are gone go as well: a new topic of that name begins anew."""
        for host in list(self._hosts.values()):
            machine = cast("GroupsMachine", host.machine)  # only those are started here
            gone = tuple(topic for topic in machine.offsets.topics() if self._image.topic(topic) is None)
            if gone:
                from chronik.core.machines.groups.commands import TopicsDeleted

                with contextlib.suppress(Refused):  # its log takes nothing now: done at the next deletion or start
                    host.ask(TopicsDeleted(gone)).add_done_callback(_seen)

    def ask(self, group_id: str, command: Any) -> Awaitable[Any]:
        return self._host(group_id).ask(command)

    def machines(self) -> Iterator[GroupsMachine]:
        for _, host in sorted(self._hosts.items()):
            yield cast("GroupsMachine", host.machine)  # only those are started here

    def coordinator(self, group_id: str) -> tuple[int, str, int]:
        """Node id, host and port of the group's coordinator. Raises Refused (COORDINATOR_NOT_AVAILABLE)."""
        topic = self._offsets_topic()
        placed = topic.partitions[partition_of(group_id, len(topic.partitions))]
        broker = self._image.brokers.get(placed.leader)
        if broker is None:
            raise Refused(Code.COORDINATOR_NOT_AVAILABLE)
        return broker.id, broker.host, broker.port

    def _offsets_topic(self) -> Any:
        topic = self._image.topic(OFFSETS_TOPIC)
        if topic is None:
            # Applied when `ask` returns; that it is safe is waited for by whatever is asked of the machine next.
            self._ask_metadata(CreateInternalTopic(OFFSETS_TOPIC, self._chance.uuid())).add_done_callback(_seen)
            topic = self._image.topic(OFFSETS_TOPIC)
        if topic is None:
            raise Refused(Code.COORDINATOR_NOT_AVAILABLE)
        return topic

    def _host(self, group_id: str) -> MachineHost:
        partition = partition_of(group_id, len(self._offsets_topic().partitions))
        host = self._hosts.get(partition)
        if host is None:
            host = self._start(self._leader(partition))
        return host

    def _leader(self, partition: int) -> Replica:
        try:
            return self._replicas.leader(OFFSETS_TOPIC, partition)
        except Refused as refusal:
            if refusal.code == Code.NOT_LEADER_OR_FOLLOWER:
                raise Refused(Code.NOT_COORDINATOR) from refusal
            raise Refused(Code.COORDINATOR_NOT_AVAILABLE, refusal.message) from refusal

    def _start(self, replica: Replica) -> MachineHost:
        # Loaded with the first group: a node without groups starts a quarter sooner.
        from chronik.core.machines.groups.machine import GroupsMachine

        host = MachineHost(
            GroupsMachine(replica.partition, self._config),
            replica,
            self._replicas,
            self._waiting,
            self._time,
            codes=CODES,
        )
        try:
            host.replay()
        except (Corrupt, OSError) as problem:
            self._replicas.take_offline(replica, f"replay failed: {problem}")
            raise Refused(Code.COORDINATOR_NOT_AVAILABLE, str(problem)) from problem
        self._hosts[replica.partition] = host
        return host

    def _lost(self, replica: Replica) -> None:
        if replica.topic == OFFSETS_TOPIC:
            host = self._hosts.pop(replica.partition, None)
            if host is not None:
                host.close()

    def close(self) -> None:
        for host in self._hosts.values():
            host.close()
