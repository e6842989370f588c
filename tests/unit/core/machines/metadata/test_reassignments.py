"""Partitions move (KIP-455)."""

from __future__ import annotations

from chronik.core.errors import Code
from chronik.core.machines.metadata.controller_commands import AlterReassignments, PartitionMove, Reassignment
from chronik.core.machines.metadata.partition import Partition
from chronik.core.machines.metadata.reassignments import moves
from tests.unit.core.machines.metadata.cluster import Cluster, epochs, led


def four() -> Cluster:
    cluster = Cluster((1, 2, 3, 4))
    cluster.topic((1, 2), (2, 3))
    return cluster


def placed(partition: Partition) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
    """Replicas, those being added, those being removed."""
    return partition.replicas, partition.adding, partition.removing


def test_new_replicas_join_before_the_old_ones_go() -> None:
    cluster = four()

    assert cluster.move(3, 4) == Code.NONE

    assert placed(cluster.partition()) == ((3, 4, 1, 2), (3, 4), (1, 2))
    assert led(cluster.partition()) == (1, (1, 2), ())
    assert epochs(cluster.partition()) == (0, 1)


def test_the_move_is_done_when_all_new_replicas_are_in_sync() -> None:
    cluster = four()
    cluster.move(3, 4)

    cluster.alter(1, 2, 3)
    assert cluster.partition().is_moving
    cluster.alter(1, 2, 3, 4)

    assert placed(cluster.partition()) == ((3, 4), (), ())
    assert led(cluster.partition()) == (3, (3, 4), ())
    assert cluster.partition().leader_epoch == 1


def test_a_leader_that_stays_begins_an_epoch_when_others_are_dropped() -> None:
    """Who is no replica any longer must see that what it knows is old."""
    cluster = four()

    cluster.move(1, 4)
    cluster.alter(1, 2, 4)

    assert placed(cluster.partition()) == ((1, 4), (), ())
    assert led(cluster.partition()) == (1, (1, 4), ())
    assert cluster.partition().leader_epoch == 1


def test_another_order_of_the_same_replicas_is_done_at_once() -> None:
    cluster = four()

    cluster.move(2, 1)

    assert placed(cluster.partition()) == ((2, 1), (), ())
    assert led(cluster.partition())[0] == 1, "the preferred leader is elected when somebody asks, or time passes"


def test_fewer_replicas_are_there_at_once_when_those_that_stay_are_in_sync() -> None:
    cluster = four()

    cluster.move(2)

    assert placed(cluster.partition()) == ((2,), (), ())
    assert led(cluster.partition()) == (2, (2,), ())


def test_a_move_to_a_broker_that_is_away_waits() -> None:
    cluster = four()
    cluster.fence(4)

    assert cluster.move(1, 4) == Code.NONE

    assert placed(cluster.partition()) == ((1, 4, 2), (4,), (2,))


def test_a_move_taken_back_leaves_the_old_replicas() -> None:
    cluster = four()
    cluster.move(3, 4)
    cluster.alter(1, 2, 3)

    assert cluster.move() == Code.NONE

    assert placed(cluster.partition()) == ((1, 2), (), ())
    assert led(cluster.partition()) == (1, (1, 2), ())
    assert cluster.partition().leader_epoch == 1


def test_what_does_not_move_cannot_be_taken_back() -> None:
    assert four().move() == Code.NO_REASSIGNMENT_IN_PROGRESS


def test_a_move_is_not_taken_back_when_only_new_replicas_are_in_sync() -> None:
    cluster = four()
    cluster.move(3, 4)
    cluster.alter(1, 3)
    cluster.fence(1)
    assert led(cluster.partition()) == (3, (3,), ())

    assert cluster.move() == Code.INVALID_REPLICA_ASSIGNMENT
    assert led(cluster.partition()) == (3, (3,), ())


def test_another_target_goes_on_adding_what_is_not_in_sync_yet() -> None:
    cluster = four()
    cluster.move(1, 3)

    cluster.move(1, 2, 3)

    assert placed(cluster.partition()) == ((1, 2, 3), (3,), ())
    cluster.alter(1, 2, 3)
    assert placed(cluster.partition()) == ((1, 2, 3), (), ())


def test_replicas_that_cannot_be_are_refused() -> None:
    cluster = four()
    wanted = [
        Reassignment("t", 0, ()),
        Reassignment("t", 1, (1, 9)),
        Reassignment("t", 7, (1,)),
        Reassignment("u", 0, (1,)),
        Reassignment("t", 0, (3,)),
    ]

    outcomes = cluster.ask(AlterReassignments(tuple(wanted)))

    assert [outcome.code for outcome in outcomes] == [
        Code.INVALID_REPLICA_ASSIGNMENT,
        Code.INVALID_REPLICA_ASSIGNMENT,
        Code.UNKNOWN_TOPIC_OR_PARTITION,
        Code.UNKNOWN_TOPIC_OR_PARTITION,
        Code.INVALID_REQUEST,
    ]


def test_moves_under_way_are_listed() -> None:
    cluster = four()
    cluster.move(1, 4, number=1)

    assert list(moves(cluster.image)) == [PartitionMove("t", 1, (1, 4, 2, 3), (1, 4), (2, 3))]
    assert list(moves(cluster.image, [("t", (0,)), ("u", (0,))])) == []
    assert len(list(moves(cluster.image, [("t", (0, 1, 2))]))) == 1


def test_who_is_no_replica_any_longer_is_not_eligible() -> None:
    cluster = Cluster((1, 2, 3))
    cluster.topic((1, 2), min_insync_replicas="2")
    cluster.fence(2)
    assert led(cluster.partition()) == (1, (1,), (2,))

    cluster.move(1, 3)
    cluster.alter(1, 3)

    assert led(cluster.partition()) == (1, (1, 3), ())
    assert cluster.partition().replicas == (1, 3)


def test_a_move_is_done_when_the_one_that_is_to_stay_is_elected_alone() -> None:
    cluster = Cluster()
    cluster.topic((1, 2), unclean_leader_election_enable="true")
    cluster.alter(1)
    cluster.move(2)
    assert placed(cluster.partition()) == ((2, 1), (), (1,))

    cluster.fence(1)

    assert placed(cluster.partition()) == ((2,), (), ())
    assert led(cluster.partition()) == (2, (2,), ())


def test_a_move_led_elsewhere_and_taken_back_leaves_the_replicas_of_the_beginning() -> None:
    cluster = Cluster((1, 2, 3))
    cluster.topic((1,))
    cluster.move(2)

    cluster.move(3)
    assert placed(cluster.partition()) == ((3, 1), (3,), (1,)), "nothing wants 2 any more, and no node counts on it"
    assert cluster.partition().leader_epoch == 1, "2 must see that it is no replica any longer"
    assert cluster.move() == Code.NONE

    assert placed(cluster.partition()) == ((1,), (), ())
    assert led(cluster.partition()) == (1, (1,), ())


def led_elsewhere(*in_sync: int, leader: int) -> Cluster:
    """From 1 to 2 and 4; and then, with these in sync, to 3."""
    cluster = Cluster((1, 2, 3, 4))
    cluster.topic((1,))
    cluster.move(2, 4)
    cluster.alter(1, 2)
    if leader == 2:
        cluster.fence(1)
        cluster.unfence(1)
        cluster.alter(*in_sync)
    assert (cluster.partition().leader, cluster.partition().in_sync) == (leader, in_sync)
    cluster.move(3)
    return cluster


def test_what_is_in_sync_stays_until_the_new_target_is() -> None:
    """Who is in sync stays until the new target is and goes with a move taken back."""
    cluster = led_elsewhere(1, 2, leader=1)
    assert cluster.partition().replicas == (3, 1, 2)
    assert led(cluster.partition()) == (1, (1, 2), ())
    assert list(moves(cluster.image)) == [PartitionMove("t", 0, (3, 1, 2), (3,), (1, 2))]

    assert cluster.move() == Code.NONE

    assert placed(cluster.partition()) == ((1,), (), ())
    assert led(cluster.partition()) == (1, (1,), ())


def test_who_leads_goes_on_leading_until_the_move_is_done_or_taken_back() -> None:
    done, taken_back = led_elsewhere(2, 1, leader=2), led_elsewhere(2, 1, leader=2)
    assert led(done.partition()) == (2, (2, 1), ())

    done.alter(2, 1, 3)
    assert placed(done.partition()) == ((3,), (), ())
    assert led(done.partition()) == (3, (3,), ())

    assert taken_back.move() == Code.NONE
    assert placed(taken_back.partition()) == ((1,), (), ())
    assert led(taken_back.partition()) == (1, (1,), ())


def test_a_move_led_elsewhere_is_not_taken_back_when_only_who_was_added_is_in_sync() -> None:
    cluster = led_elsewhere(2, leader=2)

    assert cluster.move() == Code.INVALID_REPLICA_ASSIGNMENT

    assert led(cluster.partition()) == (2, (2,), ())
    cluster.alter(2, 3)
    assert placed(cluster.partition()) == ((3,), (), ())


def test_a_move_led_elsewhere_twice_still_knows_where_it_began() -> None:
    cluster = led_elsewhere(1, 2, leader=1)

    cluster.move(4)
    assert cluster.partition().replicas == (4, 1, 2)
    cluster.move(1, 3)
    assert placed(cluster.partition())[0] == (1, 3, 2)
    assert cluster.move() == Code.NONE

    assert placed(cluster.partition()) == ((1,), (), ())


def test_a_move_led_back_to_where_it_began_is_over() -> None:
    cluster = four()
    cluster.move(3, 4)

    cluster.move(1, 2)

    assert placed(cluster.partition()) == ((1, 2), (), ())
    assert led(cluster.partition()) == (1, (1, 2), ())


def test_who_was_added_and_is_eligible_is_not_left_out() -> None:
    """It has all that is safe, and may be the first to come back."""
    cluster = Cluster((1, 2, 3, 4))
    cluster.topic((1, 4), min_insync_replicas="2")
    cluster.move(2, 3)
    cluster.alter(1, 4, 2)
    cluster.fence(4, 2, 1)
    assert 2 in cluster.partition().eligible
    assert not cluster.partition().has_leader

    cluster.move(1, 3)
    cluster.unfence(2)

    assert cluster.partition().leader == 2


def only_new_in_sync() -> Cluster:
    """From 1 and 2 to 3, which is alone in sync; whatever is alive may lead in an emergency."""
    cluster = Cluster((1, 2, 3, 4))
    cluster.topic((1, 2), unclean_leader_election_enable="true")
    cluster.move(3, 4)
    cluster.alter(1, 2, 3)
    cluster.fence(1)
    cluster.alter(3)
    assert led(cluster.partition())[:2] == (3, (3,))
    return cluster


def test_an_unclean_leader_of_a_move_taken_back_is_said_to_be_one() -> None:
    cluster = only_new_in_sync()
    cluster.unfence(1)

    assert cluster.move() == Code.NONE

    assert placed(cluster.partition()) == ((1, 2), (), ())
    assert led(cluster.partition()) == (1, (1,), ())
    assert cluster.partition().is_recovering


def test_it_is_not_taken_back_while_nobody_is_there_to_lead() -> None:
    cluster = only_new_in_sync()
    cluster.fence(2)

    assert cluster.move() == Code.INVALID_REPLICA_ASSIGNMENT

    assert led(cluster.partition()) == (3, (3,), ())
