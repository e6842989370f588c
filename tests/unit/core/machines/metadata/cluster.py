"""A controller with brokers that register, report and fall silent, for tests."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from chronik.core.errors import Code, Refused
from chronik.core.machines.metadata.commands import CreateTopics, NewTopic, RegisterBroker
from chronik.core.machines.metadata.controller_commands import (
    AlteredPartition,
    AlterPartitions,
    AlterReassignments,
    BrokerHeartbeat,
    HeartbeatAnswer,
    InSyncChange,
    Reassignment,
)
from chronik.core.machines.metadata.partition import Partition
from chronik.core.machines.metadata.sessions import ControllerConfig
from tests.unit.core.machines.metadata.machine_asked import Asked, topic_id

FAR = 1_000_000_000  # a broker that says this has seen everything
TOPIC = topic_id(1)
SESSION_MS = 9_000
QUIET = ControllerConfig(own_id=0, broker_session_timeout_ms=9_000, auto_leader_rebalance_enable=False)


class Cluster(Asked):
    """Three brokers (unless told otherwise), all alive."""

    def __init__(
        self,
        broker_ids: tuple[int, ...] = (1, 2, 3),
        settings: Mapping[str, str] | None = None,
        controller: ControllerConfig = QUIET,
    ) -> None:
        super().__init__(settings, brokers=(), controller=controller)
        for broker_id in broker_ids:
            self.start(broker_id)

    def register(
        self,
        broker_id: int,
        incarnation: int = 0,
        *,
        has_lost_its_log: bool = False,
        has_lost_its_tail: bool = False,
        previous_epoch: int = -1,
        host: str = "host",
    ) -> int:
        incarnation_id = (100 * broker_id + incarnation).to_bytes(16, "big")
        command = RegisterBroker(
            broker_id,
            incarnation_id,
            host,
            9000 + broker_id,
            is_fenced=True,
            has_lost_its_log=has_lost_its_log,
            has_lost_its_tail=has_lost_its_tail,
            previous_epoch=previous_epoch,
        )
        epoch: int = self.ask(command)
        return epoch

    def beat(self, broker_id: int, seen_version: int = FAR, **wishes: bool) -> HeartbeatAnswer:
        epoch = self.image.brokers[broker_id].epoch
        answer: HeartbeatAnswer = self.ask(BrokerHeartbeat(broker_id, epoch, seen_version, **wishes))
        return answer

    def start(
        self, broker_id: int, incarnation: int = 0, *, has_lost_its_log: bool = False, has_lost_its_tail: bool = False
    ) -> None:
        self.register(broker_id, incarnation, has_lost_its_log=has_lost_its_log, has_lost_its_tail=has_lost_its_tail)
        self.beat(broker_id)

    def fence(self, *broker_ids: int) -> None:
        for broker_id in broker_ids:
            self.beat(broker_id, wants_fence=True)

    def unfence(self, *broker_ids: int) -> None:
        for broker_id in broker_ids:
            self.beat(broker_id)

    def topic(self, *replicas: tuple[int, ...], name: str = "t", **configs: str) -> None:
        """A topic with these replicas; `min_insync_replicas="2"` and the like are its settings."""
        settings = tuple((key.replace("_", "."), value) for key, value in configs.items())
        new_id = topic_id(len(self.image.topics) + 1)
        [created] = self.ask(CreateTopics((NewTopic(name, new_id, -1, -1, tuple(enumerate(replicas)), settings),)))
        assert created.outcome.code == Code.NONE, created

    def partition(self, number: int = 0, name: str = "t") -> Partition:
        partition = self.image.partition(name, number)
        assert partition is not None
        return partition

    def alter(self, *in_sync: int, number: int = 0, **other: Any) -> AlteredPartition:
        """The leader of a partition asks for this in-sync set."""
        partition = self.partition(number)
        wanted = InSyncChange(
            topic_id=other.get("topic_id", TOPIC),
            partition=number,
            leader_epoch=other.get("leader_epoch", partition.leader_epoch),
            partition_epoch=other.get("partition_epoch", partition.partition_epoch),
            in_sync=tuple((member, other.get("member_epoch", -1)) for member in in_sync),
            is_recovering=other.get("is_recovering", False),
        )
        leader = other.get("broker_id", partition.leader)
        [altered] = self.ask(AlterPartitions(leader, self.image.brokers[leader].epoch, (wanted,)))
        assert isinstance(altered, AlteredPartition)
        return altered

    def move(self, *replicas: int, number: int = 0) -> Code:
        """Reassign a partition; no replicas to take a move back."""
        [outcome] = self.ask(AlterReassignments((Reassignment("t", number, replicas or None),)))
        code: Code = outcome.code
        return code

    def refusal(self, command: Any) -> Code:
        try:
            self.ask(command)
        except Refused as refused:
            return refused.code
        return Code.NONE


def led(partition: Partition) -> tuple[int, tuple[int, ...], tuple[int, ...]]:
    """Leader, in-sync set, eligible leaders."""
    return partition.leader, partition.in_sync, partition.eligible


def epochs(partition: Partition) -> tuple[int, int]:
    """Leader epoch, partition epoch."""
    return partition.leader_epoch, partition.partition_epoch
