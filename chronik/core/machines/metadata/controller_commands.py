"""What a controller of several nodes can be asked, beside the commands of every metadata machine."""

from __future__ import annotations

from dataclasses import dataclass

from chronik.core.machines.metadata.commands import ChangeOutcome, MetadataCommand


@dataclass(frozen=True, slots=True)
class BrokerHeartbeat(MetadataCommand["HeartbeatAnswer"]):
    """A broker is alive. `seen_version` is the version of its own image: how far it has followed the metadata.
    Answer: a HeartbeatAnswer."""

    broker_id: int
    broker_epoch: int
    seen_version: int
    wants_fence: bool = False
    wants_shut_down: bool = False


@dataclass(frozen=True, slots=True)
class HeartbeatAnswer:
    """The answer to a broker: whether it may serve clients, and whether it may stop now."""

    is_caught_up: bool
    is_fenced: bool
    should_shut_down: bool


@dataclass(frozen=True, slots=True)
class BrokerGone(MetadataCommand[int]):
    """The process of a broker was seen dead: it refuses connections. Answer: 0 when it is out (or was already), else in
    how many milliseconds the same would be believed, if it is not heard of until then."""

    broker_id: int


@dataclass(frozen=True, slots=True)
class UnregisterBroker(MetadataCommand[None]):
    """A broker will not come back. Answer: None."""

    broker_id: int


@dataclass(frozen=True, slots=True)
class InSyncChange:
    """A leader asks for another in-sync set: (broker, its epoch or -1) pairs, its own among them."""

    topic_id: bytes
    partition: int
    leader_epoch: int
    partition_epoch: int
    in_sync: tuple[tuple[int, int], ...]
    is_recovering: bool = False


@dataclass(frozen=True, slots=True)
class AlterPartitions(MetadataCommand[tuple["AlteredPartition", ...]]):
    """Answer: a tuple of AlteredPartition, in the order asked."""

    broker_id: int
    broker_epoch: int
    changes: tuple[InSyncChange, ...]


@dataclass(frozen=True, slots=True)
class AlteredPartition:
    """The partition as it is now, or why it stays as it was."""

    outcome: ChangeOutcome
    leader: int = -1
    leader_epoch: int = -1
    in_sync: tuple[int, ...] = ()
    is_recovering: bool = False
    partition_epoch: int = -1


@dataclass(frozen=True, slots=True)
class ElectLeaders(MetadataCommand[tuple["ElectedLeader", ...]]):
    """Preferred leaders, or unclean ones, for these (topic, partition) pairs; None for all partitions.
    Answer: a tuple of ElectedLeader."""

    partitions: tuple[tuple[str, int], ...] | None
    is_unclean: bool = False


@dataclass(frozen=True, slots=True)
class ElectedLeader:
    topic: str
    partition: int
    outcome: ChangeOutcome


@dataclass(frozen=True, slots=True)
class Reassignment:
    """A partition is to be on these replicas; None takes the move that is under way back."""

    topic: str
    partition: int
    replicas: tuple[int, ...] | None


@dataclass(frozen=True, slots=True)
class AlterReassignments(MetadataCommand[tuple[ChangeOutcome, ...]]):
    """Answer: a tuple of Outcome."""

    reassignments: tuple[Reassignment, ...]
    may_change_factor: bool = True


@dataclass(frozen=True, slots=True)
class PartitionMove:
    """A reassignment under way."""

    topic: str
    partition: int
    replicas: tuple[int, ...]
    adding: tuple[int, ...]
    removing: tuple[int, ...]
