"""A partition in the image: its replicas, in-sync set and leader, and what a record makes of it.

A cluster has many, so one is small: what only few partitions have (a move under way, eligible leaders) is an empty
tuple that all share, and replicas and in-sync set share a tuple while they are equal.
"""

from __future__ import annotations

from dataclasses import dataclass

from chronik.core.machines.metadata.records import LEADER_UNCHANGED, PartitionChangeRecord, PartitionRecord

Replicas = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Partition:
    """Which nodes have a partition, and which leads it. `leader` is -1 when none does.

    `in_sync` is never empty: when its last member dies it stays, alone and without a leader, so that the one that was
    the last to know everything is known. `eligible` (KIP-966) are those that left the set while it was smaller than
    min.insync.replicas: nothing became safe since, so they have all that is.
    """

    leader: int
    leader_epoch: int
    replicas: Replicas
    in_sync: Replicas
    partition_epoch: int
    eligible: Replicas = ()
    adding: Replicas = ()
    removing: Replicas = ()
    is_recovering: bool = False  # its leader came from an unclean election, and has not said yet that it is in order
    # Replicas that came back with an empty disk while no node led. They may not lead, in sync or not, unless all have
    # lost their logs or an administrator asks for an unclean election, and even then they come last.
    lost: Replicas = ()

    @property
    def has_leader(self) -> bool:
        return self.leader >= 0

    @property
    def has_preferred_leader(self) -> bool:
        return self.leader == self.replicas[0]

    @property
    def is_moving(self) -> bool:
        """A reassignment is under way."""
        return bool(self.adding or self.removing)


def written(record: PartitionRecord) -> Partition:
    """The partition that a record describes from scratch."""
    return Partition(
        leader=record.leader,
        leader_epoch=record.leader_epoch,
        replicas=record.replicas,
        in_sync=_shared(record.isr, record.replicas),
        partition_epoch=record.partition_epoch,
        eligible=record.eligible_leader_replicas,
        adding=record.adding_replicas,
        removing=record.removing_replicas,
        lost=record.lost_replicas,
        is_recovering=bool(record.leader_recovery_state),
    )


def changed(partition: Partition, record: PartitionChangeRecord) -> Partition:
    """The partition after a change: every change is one partition epoch, a leader named is one leader epoch."""
    replicas = partition.replicas if record.replicas is None else record.replicas
    is_led_anew = record.leader != LEADER_UNCHANGED
    recovery = record.leader_recovery_state
    return Partition(
        leader=record.leader if is_led_anew else partition.leader,
        leader_epoch=partition.leader_epoch + is_led_anew,
        replicas=replicas,
        in_sync=_shared(partition.in_sync if record.isr is None else record.isr, replicas),
        partition_epoch=partition.partition_epoch + 1,
        eligible=_or_else(record.eligible_leader_replicas, partition.eligible),
        adding=_or_else(record.adding_replicas, partition.adding),
        removing=_or_else(record.removing_replicas, partition.removing),
        lost=_or_else(record.lost_replicas, partition.lost),
        is_recovering=partition.is_recovering if recovery < 0 else bool(recovery),
    )


def _or_else(new: Replicas | None, present: Replicas) -> Replicas:
    return present if new is None else new


def _shared(in_sync: Replicas, replicas: Replicas) -> Replicas:
    return replicas if in_sync == replicas else in_sync
