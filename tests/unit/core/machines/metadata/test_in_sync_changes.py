"""Leaders ask for another in-sync set (AlterPartition: KIP-497, KIP-841, KIP-903)."""

from __future__ import annotations

from typing import Any

import pytest

from chronik.core.errors import Code
from chronik.core.machines.metadata.commands import DONE
from chronik.core.machines.metadata.controller_commands import AlteredPartition, AlterPartitions, InSyncChange
from tests.unit.core.machines.metadata.cluster import TOPIC, Cluster, epochs, led
from tests.unit.core.machines.metadata.machine_asked import content, topic_id


def three() -> Cluster:
    """A partition on 1, 2, 3, led by 1 in leader epoch 1, partition epoch 2: 3 was away."""
    cluster = Cluster((1, 2, 3, 4))
    cluster.topic((2, 1, 3))
    cluster.fence(2)
    cluster.unfence(2)
    cluster.alter(1, 3, 2)
    assert led(cluster.partition()) == (1, (1, 3, 2), ())
    assert epochs(cluster.partition()) == (1, 2)
    return cluster


def test_a_leader_shrinks_and_grows_its_set() -> None:
    cluster = three()

    assert cluster.alter(1, 2) == AlteredPartition(DONE, 1, 1, (1, 2), False, 3)
    assert cluster.alter(1, 2, 3) == AlteredPartition(DONE, 1, 1, (1, 2, 3), False, 4)


def test_a_set_that_is_there_already_changes_nothing() -> None:
    cluster = three()
    before = content(cluster.image)

    assert cluster.alter(1, 3, 2) == AlteredPartition(DONE, 1, 1, (1, 3, 2), False, 2)
    assert content(cluster.image) == before


@pytest.mark.parametrize(
    ("in_sync", "other", "code"),
    [
        ((1, 2), {"leader_epoch": 0}, Code.FENCED_LEADER_EPOCH),
        ((1, 2), {"leader_epoch": 2}, Code.NOT_CONTROLLER),
        ((1, 2), {"partition_epoch": 1}, Code.INVALID_UPDATE_VERSION),
        ((1, 2), {"partition_epoch": 3}, Code.NOT_CONTROLLER),
        ((1, 2), {"leader_epoch": 0, "partition_epoch": 1}, Code.FENCED_LEADER_EPOCH),
        ((1, 2), {"broker_id": 2}, Code.INVALID_REQUEST),  # it does not lead
        ((1, 4), {}, Code.INVALID_REQUEST),  # no replica
        ((1, 2, 2), {}, Code.INVALID_REQUEST),
        ((), {}, Code.INVALID_REQUEST),
        ((1,), {"is_recovering": True}, Code.INVALID_REQUEST),
        ((1, 2), {"is_recovering": True}, Code.INVALID_REQUEST),
        ((1, 2), {"member_epoch": 10**6}, Code.INELIGIBLE_REPLICA),
        ((1, 2), {"topic_id": topic_id(9)}, Code.UNKNOWN_TOPIC_ID),
    ],
)
def test_a_set_that_cannot_be_is_refused(in_sync: tuple[int, ...], other: dict[str, Any], code: Code) -> None:
    cluster = three()
    before = content(cluster.image)

    assert cluster.alter(*in_sync, **other).outcome.code == code
    assert content(cluster.image) == before


def test_a_fenced_replica_cannot_be_in_sync() -> None:
    cluster = three()
    cluster.fence(3)

    assert cluster.alter(1, 2, 3).outcome.code == Code.INELIGIBLE_REPLICA


def test_a_replica_that_is_shutting_down_cannot_be_in_sync() -> None:
    """KIP-841: else it would join again what it is about to leave."""
    cluster = three()
    cluster.topic((3, 1), name="led by 3".replace(" ", "-"))
    cluster.beat(3, wants_shut_down=True)
    assert not cluster.image.brokers[3].is_fenced

    assert cluster.alter(1, 2, 3).outcome.code == Code.INELIGIBLE_REPLICA


def test_a_stale_broker_epoch_refuses_the_whole_command() -> None:
    cluster = three()

    assert cluster.refusal(AlterPartitions(1, 10**6, ())) == Code.STALE_BROKER_EPOCH
    assert cluster.refusal(AlterPartitions(9, 0, ())) == Code.STALE_BROKER_EPOCH


def test_each_partition_has_its_own_outcome() -> None:
    """Each partition has its own outcome and one named twice sees its first change."""
    cluster = Cluster()
    cluster.topic((1, 2), (1, 3))
    wanted = [InSyncChange(TOPIC, number, 0, 0, ((1, -1),)) for number in (0, 7, 1, 1)]

    results = cluster.ask(AlterPartitions(1, cluster.image.brokers[1].epoch, tuple(wanted)))

    assert [result.outcome.code for result in results] == [
        Code.NONE,
        Code.UNKNOWN_TOPIC_OR_PARTITION,
        Code.NONE,
        Code.INVALID_UPDATE_VERSION,
    ]
    assert led(cluster.partition(0)) == led(cluster.partition(1)) == (1, (1,), ())


def test_an_unclean_leader_says_when_it_has_recovered() -> None:
    cluster = Cluster()
    cluster.topic((1, 2), unclean_leader_election_enable="true")
    cluster.fence(2, 1)
    cluster.unfence(2)
    assert cluster.partition().is_recovering

    assert cluster.alter(2, is_recovering=True).is_recovering
    assert not cluster.alter(2).is_recovering
    assert not cluster.partition().is_recovering


def test_a_set_that_completes_a_move_away_from_its_leader_elects_another() -> None:
    cluster = three()
    assert cluster.move(2, 3, 4) == Code.NONE
    assert led(cluster.partition()) == (1, (1, 3, 2), ())

    altered = cluster.alter(1, 2, 3, 4)

    assert altered.outcome.code == Code.NEW_LEADER_ELECTED
    assert led(cluster.partition()) == (2, (2, 3, 4), ())
    assert cluster.partition().replicas == (2, 3, 4)
    assert not cluster.partition().is_moving


def test_a_leader_that_leaves_the_set_itself_is_followed_by_one_of_the_others() -> None:
    """A leader that leaves the set itself is followed by one of the others and not counted on. Though the set is
    smaller than min.insync.replicas now: its disk has failed."""
    cluster = Cluster((1, 2, 3))
    cluster.topic((1, 2, 3), min_insync_replicas="3")

    assert cluster.alter(2, 3).outcome.code == Code.NEW_LEADER_ELECTED

    assert led(cluster.partition()) == (2, (2, 3), ())
    assert epochs(cluster.partition()) == (1, 1)


def test_a_leader_leaves_nothing_to_who_is_not_there() -> None:
    cluster = three()
    cluster.fence(3)

    assert cluster.alter(3).outcome.code == Code.INELIGIBLE_REPLICA
    assert led(cluster.partition()) == (1, (1, 2), ())


def test_a_follower_whose_copy_is_damaged_says_that_it_does_not_count() -> None:
    """Neither in sync nor eligible: else it could be elected with an empty log while it fetches all anew."""
    cluster = Cluster((1, 2, 3))
    cluster.topic((1, 2, 3), min_insync_replicas="2")
    cluster.fence(3)
    cluster.fence(2)
    cluster.unfence(2)
    assert led(cluster.partition()) == (1, (1,), (2,))

    assert cluster.alter(1, broker_id=2).outcome.code == Code.NEW_LEADER_ELECTED

    assert led(cluster.partition()) == (1, (1,), ())


def test_a_follower_in_sync_may_leave_but_change_nothing_else() -> None:
    cluster = three()
    assert cluster.alter(1, broker_id=2).outcome.code == Code.INVALID_REQUEST
    assert cluster.alter(1, 3, 2, broker_id=2).outcome.code == Code.INVALID_REQUEST
    assert cluster.alter(1, 3, broker_id=4).outcome.code == Code.INVALID_REQUEST

    assert cluster.alter(1, 3, broker_id=2).outcome.code == Code.NEW_LEADER_ELECTED

    assert led(cluster.partition()) == (1, (1, 3), ())
