"""Which node leads after replicas came back without what was not synced (KIP-966: a stop that was not clean)."""

from __future__ import annotations

from itertools import permutations

from chronik.core.machines.metadata.commands import AlterConfigs, ConfigChange, ResourceType
from chronik.core.machines.metadata.controller_commands import ElectLeaders
from chronik.core.machines.metadata.records import NO_LEADER
from tests.unit.core.machines.metadata.cluster import Cluster, led
from tests.unit.core.machines.metadata.machine_asked import content


def below_the_minimum() -> Cluster:
    """1 leads alone, 2 is eligible, 3 was out before. Two are needed."""
    cluster = Cluster()
    cluster.topic((1, 2, 3), min_insync_replicas="2")
    cluster.fence(3, 2)
    assert led(cluster.partition()) == (1, (1,), (2,))
    return cluster


def test_a_replica_that_lost_its_tail_is_not_eligible_any_longer() -> None:
    """KIP-966: what it acknowledged was in its memory only. It would cut that out of the others' logs."""
    cluster = below_the_minimum()

    cluster.start(2, incarnation=1, has_lost_its_tail=True)
    assert led(cluster.partition()) == (1, (1,), ())
    cluster.fence(1)

    assert led(cluster.partition()) == (NO_LEADER, (1,), ())
    cluster.unfence(1)
    assert led(cluster.partition()) == (1, (1,), ())


def test_a_replica_that_lost_its_tail_before_anybody_noticed() -> None:
    """A replica that lost its tail before anybody noticed that it was gone is not eligible either."""
    cluster = Cluster()
    cluster.topic((1, 2), min_insync_replicas="2")
    epoch = cluster.image.brokers[2].epoch

    cluster.register(2, incarnation=1, has_lost_its_tail=True, previous_epoch=epoch)
    cluster.beat(2)

    assert led(cluster.partition()) == (1, (1,), ())


def test_a_replica_that_lost_its_tail_is_in_sync_again_when_it_has_caught_up() -> None:
    cluster = below_the_minimum()
    cluster.start(2, incarnation=1, has_lost_its_tail=True)

    cluster.alter(1, 2)
    cluster.fence(1)

    assert led(cluster.partition()) == (2, (2,), (1,))


def test_the_last_in_sync_leads_again_without_its_tail() -> None:
    """As in Kafka: nobody is known to have more."""
    cluster = Cluster()
    cluster.topic((1, 2, 3), min_insync_replicas="2")
    cluster.alter(1, 2)
    for broker_id in (2, 1):
        epoch = cluster.image.brokers[broker_id].epoch
        cluster.register(broker_id, incarnation=1, has_lost_its_tail=True, previous_epoch=epoch)
    assert led(cluster.partition()) == (NO_LEADER, (1,), ())

    cluster.unfence(2)
    assert led(cluster.partition()) == (NO_LEADER, (1,), ())
    cluster.unfence(1)

    assert led(cluster.partition()) == (1, (1,), ())


def test_after_a_power_cut_of_all_somebody_leads_again_in_whatever_order_they_come() -> None:
    for order in permutations((1, 2, 3)):
        cluster = Cluster()
        cluster.topic((1, 2, 3), (2, 3, 1), (3, 1, 2), min_insync_replicas="2")
        cluster.fence(*order[:2])  # one that had fallen out is not taken

        for broker_id in order:
            epoch = cluster.image.brokers[broker_id].epoch
            cluster.register(broker_id, incarnation=1, has_lost_its_tail=True, previous_epoch=epoch)
        cluster.unfence(*order)

        for number in range(3):
            assert cluster.partition(number).leader in order[1:]
            assert not cluster.partition(number).lost


def test_when_the_last_in_sync_lost_its_tail_those_that_are_eligible_are_waited_for() -> None:
    """What was safe they have. Also when it is restarted once more, in good order."""
    cluster = below_the_minimum()
    cluster.fence(1)

    cluster.start(1, incarnation=1, has_lost_its_tail=True)
    assert led(cluster.partition()) == (NO_LEADER, (1,), (2,))
    cluster.fence(1)
    cluster.start(1, incarnation=2)
    assert led(cluster.partition()) == (NO_LEADER, (1,), (2,))
    assert content(cluster.replayed().image) == content(cluster.image)
    cluster.unfence(2)

    assert led(cluster.partition()) == (2, (2,), ())
    assert cluster.partition().lost == ()


def test_when_all_that_were_waited_for_lost_their_tails_too_the_last_known_leader() -> None:
    """When all that were waited for lost their tails too the last known leader leads."""
    cluster = below_the_minimum()
    cluster.fence(1)
    cluster.start(1, incarnation=1, has_lost_its_tail=True)

    cluster.start(2, incarnation=1, has_lost_its_tail=True)

    assert led(cluster.partition()) == (1, (1,), ())
    assert cluster.partition().lost == ()


def test_when_all_that_were_waited_for_lost_everything_the_last_known_leader_leads() -> None:
    for replicas in ((1, 2), (1, 2, 3)):
        cluster = Cluster(replicas)
        cluster.topic(replicas, min_insync_replicas="2")
        cluster.fence(*replicas[:0:-1], 1)
        cluster.start(1, incarnation=1, has_lost_its_tail=True)
        assert led(cluster.partition()) == (NO_LEADER, (1,), (2,))

        cluster.start(2, incarnation=1, has_lost_its_log=True)

        assert led(cluster.partition()) == (1, (1,), ())


def test_the_last_known_leader_is_waited_for_when_the_others_lost_their_tails_too() -> None:
    cluster = below_the_minimum()
    cluster.fence(1)
    cluster.start(1, incarnation=1, has_lost_its_tail=True)
    cluster.fence(1)

    cluster.start(2, incarnation=1, has_lost_its_tail=True)
    assert led(cluster.partition()) == (NO_LEADER, (1,), ())
    cluster.unfence(1)

    assert led(cluster.partition()) == (1, (1,), ())


def test_a_last_known_leader_that_lost_its_tail_and_then_its_disk_is_not_waited_for() -> None:
    cluster = below_the_minimum()
    cluster.fence(1)
    cluster.start(1, incarnation=1, has_lost_its_tail=True)
    cluster.fence(1)

    cluster.start(1, incarnation=2, has_lost_its_log=True)
    assert led(cluster.partition()) == (NO_LEADER, (2,), ())
    cluster.start(2, incarnation=1, has_lost_its_tail=True)

    assert led(cluster.partition()) == (2, (2,), ())


def test_an_empty_disk_is_not_taken_for_a_lost_tail() -> None:
    """An empty disk is not taken for a lost tail when its process is killed afterwards."""
    cluster = Cluster()
    cluster.topic((1, 2, 3))
    cluster.alter(1)
    cluster.fence(1)
    cluster.start(1, incarnation=1, has_lost_its_log=True)
    cluster.fence(1)

    cluster.start(1, incarnation=2, has_lost_its_tail=True)

    assert led(cluster.partition()) == (NO_LEADER, (1,), ())
    assert cluster.partition().lost == (1,)


def test_an_unclean_election_takes_the_last_known_leader_without_its_tail() -> None:
    """An unclean election takes the last known leader without its tail before those that were out."""
    cluster = below_the_minimum()
    cluster.fence(1)
    cluster.start(1, incarnation=1, has_lost_its_tail=True)
    cluster.unfence(3)
    assert led(cluster.partition()) == (NO_LEADER, (1,), (2,))

    cluster.ask(ElectLeaders((("t", 0),), is_unclean=True))

    assert led(cluster.partition()) == (1, (1,), ())
    assert cluster.partition().is_recovering
    assert cluster.partition().lost == ()


def test_another_minimum_does_not_forget_those_that_are_waited_for() -> None:
    cluster = below_the_minimum()
    cluster.fence(1)
    cluster.start(1, incarnation=1, has_lost_its_tail=True)

    operations = (("min.insync.replicas", 0, "3"),)
    cluster.ask(AlterConfigs((ConfigChange(ResourceType.TOPIC, "t", operations),)))
    assert led(cluster.partition()) == (NO_LEADER, (1,), (2,))
    cluster.unfence(2)

    assert led(cluster.partition()) == (2, (2,), ())
