"""The group coordinator of this node: the groups of the partitions of `__consumer_offsets` that it leads.

A guest of the coordinator runtime, which owns the machines. This module owns what is particular to groups: their
settings, the trace of their changes, and offsets of deleted topics. Request handlers call `ask`; the node reports
deleted topics.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, TypeAlias, TypeVar, cast

from chronik.core.config.group import GroupSettings
from chronik.core.errors import Code, Refused
from chronik.core.log.appended import Appended
from chronik.core.machines.groups.config import GroupConfig
from chronik.core.machines.groups.offsets import NO_TOPIC_ID
from chronik.core.machines.machine import Machine
from chronik.core.machines.metadata.image import Broker, MetadataImage
from chronik.core.machines.metadata.names import OFFSETS_TOPIC
from chronik.core.ports import Chance
from chronik.core.records.batch import BatchHeader
from chronik.core.records.control import Marker
from chronik.core.replica.replica import Replica
from chronik.core.types import TopicPartition
from chronik.node.coordinators.runtime import AskMetadata, CoordinatorRuntime
from chronik.node.machine_host import TRANSACTIONAL_SEQUENCE, MachineHost, Transactional
from chronik.node.replication.purgatory import Purgatory
from chronik.node.replication.replicas import Replicas
from chronik.node.runtime.steady_time import SteadyTime
from chronik.trace.observer import NOT_OBSERVED, Observation

if TYPE_CHECKING:
    from chronik.api.context import Confirm
    from chronik.core.machines.groups.answers import OffsetsCommitted
    from chronik.core.machines.groups.classic_group import ClassicGroup
    from chronik.core.machines.groups.commands import AnyGroupCommand, CommitOffsetsInTransaction, GroupCommand
    from chronik.core.machines.groups.consumer_group import ConsumerGroup
    from chronik.core.machines.groups.facts import GroupFact
    from chronik.core.machines.groups.machine import GroupsMachine
    from chronik.core.machines.transactions.commands import ProducerIdentity
    from chronik.node.coordinators.group_changes import GroupChanges

    GroupsHost: TypeAlias = MachineHost[AnyGroupCommand, GroupFact]

AnswerT = TypeVar("AnswerT")


class GroupCoordinator:
    """Asks the machine of a group, and makes those of this node's partitions."""

    topic = OFFSETS_TOPIC

    def __init__(
        self,
        image: MetadataImage,
        ask_metadata: AskMetadata,
        replicas: Replicas,
        waiting: Purgatory,
        time: SteadyTime,
        chance: Chance,
        config: GroupConfig,
        observation: Observation = NOT_OBSERVED,
    ) -> None:
        self._image = image
        self._time = time
        self._config = config
        self._observation = observation
        self._changes: GroupChanges | None = None  # comes with the first machine
        self.append_timeout_ms = config.offsets_commit_timeout_ms
        self.runtime: CoordinatorRuntime[AnyGroupCommand, GroupFact] = CoordinatorRuntime(
            self, image, ask_metadata, replicas, waiting, time, chance
        )

    # --- as a guest of the runtime

    def new_machine(self, replica: Replica) -> GroupsMachine:
        # Loaded with the first group: a node without groups starts a quarter sooner.
        from chronik.core.machines.groups.machine import GroupsMachine
        from chronik.node.coordinators.group_changes import GroupChanges

        if self._changes is None:
            self._changes = GroupChanges(self._observation, self._time)
        return GroupsMachine(replica.partition, self._config, self._config_of)

    def _config_of(self, group_id: str) -> GroupConfig:
        """With the settings that this group has of its own."""
        overrides = self._image.group_overrides(group_id)
        if not overrides:
            return self._config
        groups = self._image.node_config.groups
        own = GroupSettings.from_overrides(groups, overrides).within(groups)
        return replace(
            self._config,
            consumer_session_timeout_ms=own.consumer_session_timeout_ms,
            consumer_heartbeat_interval_ms=own.consumer_heartbeat_interval_ms,
        )

    def loaded(self, host: GroupsHost) -> None:
        if self._changes is not None:
            self._changes.begin([_groups_of(host)])
        self._forget_deleted_topics(host)

    def lost(self, host: GroupsHost) -> None:
        if self._changes is not None:
            self._changes.lost(_groups_of(host))

    def applied(self, machine: Machine[AnyGroupCommand, GroupFact], facts: list[GroupFact]) -> None:
        if self._changes is not None:
            self._changes.applied(cast("GroupsMachine", machine), facts)

    # --- what the node reports

    def forget_deleted_topics(self) -> None:
        """Offsets committed for topics that are gone go as well: a new topic of that name begins anew."""
        for host in list(self.runtime.hosts()):
            self._forget_deleted_topics(host)

    def _forget_deleted_topics(self, host: GroupsHost) -> None:
        machine = _groups_of(host)
        known = machine.offsets.topics() | machine.pending.topics()
        gone = frozenset(topic for topic in known if self._is_gone(*topic))
        if gone:
            from chronik.core.machines.groups.commands import TopicsDeleted

            self.runtime.ask_loaded(host, TopicsDeleted(gone))  # if refused: done at the next deletion or start

    def _is_gone(self, name: str, topic_id: bytes) -> bool:
        """Also when there is a new one of that name: nothing may have looked in between."""
        known = self._image.topic(name)
        return known is None or topic_id not in (NO_TOPIC_ID, known.id)

    def trace_from_now(self) -> None:
        """Something is traced that was not before."""
        if self._changes is not None:
            self._changes.begin(self.machines())

    # --- asking

    async def ask(self, group_id: str, command: GroupCommand[AnswerT]) -> AnswerT:
        """Raises Refused (NOT_COORDINATOR, COORDINATOR_LOAD_IN_PROGRESS, COORDINATOR_NOT_AVAILABLE)."""
        host = await self.runtime.wait_for_host(group_id)
        one_of_all = cast(
            "AnyGroupCommand", command
        )  # tests/unit/core/machines/groups/test_machine.py holds them equal
        if self._changes is None or not self._observation.observer.is_observing:
            return cast("AnswerT", await host.ask(one_of_all))
        self._changes.asked(one_of_all)
        try:
            asked = host.ask(one_of_all)
        finally:
            self._changes.answered()
        return cast("AnswerT", await asked)

    async def ask_in_transaction(
        self, command: CommitOffsetsInTransaction, producer: ProducerIdentity, confirm: Confirm
    ) -> OffsetsCommitted:
        """Raises Refused, as `ask`; and INVALID_PRODUCER_EPOCH, INVALID_TXN_STATE, and what `confirm` raises."""
        host = await self.runtime.wait_for_host(command.group_id)
        guard = host.replica.log.producers.begin_verification(_first_of(producer))
        if guard is not None:
            await confirm(TopicPartition(OFFSETS_TOPIC, host.replica.partition))
            # Meanwhile the partition may have been another node's, and its machine is a new one.
            host = await self.runtime.wait_for_host(command.group_id)
        within = Transactional(producer.producer_id, producer.producer_epoch, guard)
        return cast("OffsetsCommitted", await host.ask(command, within))

    def append_marker(
        self, partition: int, marker: Marker, producer_id: int, producer_epoch: int, transaction_version: int
    ) -> tuple[Replica, Appended]:
        """Not while a log is read, which would be read on from behind it: the sender comes again. Raises Refused."""
        try:
            host = self.runtime.host(partition)
        except Refused as refused:
            raise Refused(Code.NOT_LEADER_OR_FOLLOWER, refused.message) from refused
        from chronik.node.coordinators.group_changes import offsets_decided  # loaded with the machine

        observer = self._observation.observer
        pending = _groups_of(host).pending.of_producer(producer_id) if observer.is_observing else []
        appended = host.append_marker(marker, producer_id, producer_epoch, transaction_version)
        if pending and appended.is_new:
            offsets_decided(pending, producer_id, marker.is_commit, observer)
        return host.replica, appended

    async def coordinator(self, group_id: str) -> tuple[int, str, int]:
        """Node id, host and port of the group's coordinator. Raises Refused (COORDINATOR_NOT_AVAILABLE)."""
        return await self.runtime.coordinator(group_id)

    def coordinator_now(self, group_id: str) -> Broker | None:
        """The node that leads the group's partition, as far as the image says."""
        return self.runtime.coordinator_now(group_id)

    async def wait_for_partition(self, group_id: str) -> int:
        """The partition of `__consumer_offsets` that has the group. Raises Refused (COORDINATOR_NOT_AVAILABLE)."""
        return await self.runtime.wait_for_partition(group_id)

    @property
    def is_loading(self) -> bool:
        """Whether some groups of this node are not known yet."""
        return self.runtime.is_loading

    def machines(self) -> Iterator[GroupsMachine]:
        """Those that have read their logs."""
        return map(_groups_of, self.runtime.hosts())

    def state_ms(self, group: ClassicGroup | ConsumerGroup) -> int:
        """How long a group has been in its state (a KIP-848 group: has had its epoch); -1 when that is not known."""
        return -1 if self._changes is None else self._changes.state_ms(group)


def _first_of(producer: ProducerIdentity) -> BatchHeader:
    """What is known of a batch before it is made: whose it is."""
    numbers = dict.fromkeys(BatchHeader._fields, 0) | producer._asdict()
    return BatchHeader(**numbers | {"base_sequence": TRANSACTIONAL_SEQUENCE})


def _groups_of(host: GroupsHost) -> GroupsMachine:
    return cast("GroupsMachine", host.machine)  # `new_machine` makes no other
