"""What records make of a partition."""

from __future__ import annotations

from dataclasses import replace

from chronik.core.machines.metadata.partition import Partition, changed, written
from chronik.core.machines.metadata.records import PartitionChangeRecord, PartitionRecord
from tests.unit.core.machines.metadata.machine_asked import topic_id

ID = topic_id(1)


def test_every_field_of_a_record_is_taken() -> None:
    record = PartitionRecord(0, ID, (1, 2, 3), (1, 2), (1,), (3,), 2, 4, 9, leader_recovery_state=1)
    in_a_snapshot = replace(record, eligible_leader_replicas=(3,), lost_replicas=(2,))

    assert written(record) == Partition(2, 4, (1, 2, 3), (1, 2), 9, (), (3,), (1,), True)
    assert written(in_a_snapshot) == Partition(2, 4, (1, 2, 3), (1, 2), 9, (3,), (3,), (1,), True, (2,))


def test_a_change_takes_what_it_names_and_leaves_the_rest() -> None:
    partition = Partition(2, 4, (1, 2, 3), (1, 2), 9, (3,), (3,), (1,), True)

    assert changed(partition, PartitionChangeRecord(0, ID)) == Partition(
        2, 4, (1, 2, 3), (1, 2), 10, (3,), (3,), (1,), True
    )
    everything = PartitionChangeRecord(0, ID, (2,), -1, (2, 3), (), (), 0, ())
    assert changed(partition, PartitionChangeRecord(0, ID, lost_replicas=(2,))).lost == (2,)
    assert changed(partition, everything) == Partition(-1, 5, (2, 3), (2,), 10)


def test_the_same_leader_named_again_begins_an_epoch() -> None:
    partition = Partition(2, 4, (1, 2), (1, 2), 9)

    assert changed(partition, PartitionChangeRecord(0, ID, leader=2)).leader_epoch == 5


def test_an_in_sync_set_that_is_everybody_takes_no_memory_of_its_own() -> None:
    replicas = (1, 2, 3)
    record = PartitionRecord(0, ID, replicas, (1, 2, *(3,)), (), (), 1, 0, 0)

    assert written(record).in_sync is replicas
    assert (
        changed(Partition(1, 0, replicas, (1,), 0), PartitionChangeRecord(0, ID, isr=(1, 2, *(3,)))).in_sync is replicas
    )
