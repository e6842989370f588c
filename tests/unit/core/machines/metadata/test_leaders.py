"""Which node leads after something changed (KIP-631, KIP-966)."""

from __future__ import annotations

from chronik.core.machines.metadata.commands import AlterConfigs, ConfigChange, ResourceType
from chronik.core.machines.metadata.controller_commands import ElectLeaders, UnregisterBroker
from chronik.core.machines.metadata.leaders import PartitionChange
from chronik.core.machines.metadata.records import NO_LEADER, PartitionChangeRecord
from tests.unit.core.machines.metadata.cluster import SESSION_MS, TOPIC, Cluster, epochs, led
from tests.unit.core.machines.metadata.machine_asked import content


def test_the_next_replica_in_sync_leads_when_the_leader_is_fenced() -> None:
    cluster = Cluster()
    cluster.topic((1, 2, 3))
    assert led(cluster.partition()) == (1, (1, 2, 3), ())

    cluster.fence(1)

    assert led(cluster.partition()) == (2, (2, 3), ())
    assert epochs(cluster.partition()) == (1, 1)


def test_a_replica_that_is_not_in_sync_is_passed_over() -> None:
    cluster = Cluster()
    cluster.topic((1, 2, 3))
    cluster.alter(1, 3)

    cluster.fence(1)

    assert led(cluster.partition()) == (3, (3,), ())


def test_a_fenced_follower_leaves_the_set_and_no_leader_epoch_begins() -> None:
    """From Kafka 3.6 on a smaller set alone is a partition epoch only (KAFKA-15021)."""
    cluster = Cluster()
    cluster.topic((1, 2, 3))

    cluster.fence(3)

    assert led(cluster.partition()) == (1, (1, 2), ())
    assert epochs(cluster.partition()) == (0, 1)


def test_the_last_one_in_sync_stays_in_the_set_and_nobody_leads() -> None:
    cluster = Cluster()
    cluster.topic((1, 2))

    cluster.fence(1, 2)

    assert led(cluster.partition()) == (NO_LEADER, (2,), ())
    assert epochs(cluster.partition()) == (2, 2)


def test_who_was_not_in_sync_does_not_lead_when_it_comes_back() -> None:
    cluster = Cluster()
    cluster.topic((1, 2))
    cluster.fence(1, 2)

    cluster.unfence(1)

    assert led(cluster.partition()) == (NO_LEADER, (2,), ())


def test_the_last_one_in_sync_leads_again_when_it_comes_back() -> None:
    cluster = Cluster()
    cluster.topic((1, 2))
    cluster.fence(1, 2)
    cluster.unfence(1)

    cluster.unfence(2)

    assert led(cluster.partition()) == (2, (2,), ())
    assert epochs(cluster.partition()) == (3, 3)


def test_who_leaves_a_set_below_the_minimum_stays_eligible() -> None:
    """KIP-966: with two needed and one left nothing more becomes safe, so the one that left still has everything."""
    cluster = Cluster()
    cluster.topic((1, 2, 3), min_insync_replicas="2")

    cluster.fence(1)
    assert led(cluster.partition()) == (2, (2, 3), ())
    cluster.fence(2)
    assert led(cluster.partition()) == (3, (3,), (2,))
    cluster.fence(3)

    assert led(cluster.partition()) == (NO_LEADER, (3,), (2,))


def test_an_eligible_replica_leads_when_nobody_in_sync_is_alive() -> None:
    cluster = Cluster()
    cluster.topic((1, 2, 3), min_insync_replicas="2")
    cluster.fence(1, 2, 3)

    cluster.unfence(1)
    assert led(cluster.partition()) == (NO_LEADER, (3,), (2,))
    cluster.unfence(2)

    assert led(cluster.partition()) == (2, (2,), (3,))
    assert not cluster.partition().is_recovering


def test_nobody_is_eligible_once_enough_are_in_sync() -> None:
    cluster = Cluster()
    cluster.topic((1, 2, 3), min_insync_replicas="2")
    cluster.fence(1, 2)
    assert led(cluster.partition()) == (3, (3,), (2,))
    cluster.unfence(1)

    cluster.alter(3, 1)

    assert led(cluster.partition()) == (3, (3, 1), ())


def test_the_minimum_is_no_more_than_there_are_replicas() -> None:
    cluster = Cluster()
    cluster.topic((1, 2), min_insync_replicas="3")

    cluster.fence(1)
    assert led(cluster.partition()) == (2, (2,), (1,))
    cluster.unfence(1)
    cluster.alter(2, 1)

    assert led(cluster.partition()) == (2, (2, 1), ())


def test_another_minimum_makes_nobody_eligible_by_the_old_one() -> None:
    """With one enough, records became safe that the eligible one never saw."""
    cluster = Cluster()
    cluster.topic((1, 2), min_insync_replicas="2")
    cluster.fence(1)
    assert led(cluster.partition()) == (2, (2,), (1,))

    for minimum in ("1", "2"):
        operations = (("min.insync.replicas", 0, minimum),)
        cluster.ask(AlterConfigs((ConfigChange(ResourceType.TOPIC, "t", operations),)))
    cluster.unfence(1)
    cluster.fence(2)

    assert led(cluster.partition()) == (NO_LEADER, (2,), ())


def test_another_minimum_for_all_brokers_counts_for_all_topics() -> None:
    cluster = Cluster(settings={"min.insync.replicas": "2"})
    cluster.topic((1, 2))
    cluster.fence(1)
    assert cluster.partition().eligible == (1,)

    cluster.ask(AlterConfigs((ConfigChange(ResourceType.BROKER, "", (("min.insync.replicas", 0, "1"),)),)))

    assert cluster.partition().eligible == ()


def test_an_unclean_leader_is_taken_only_where_the_topic_allows_it() -> None:
    cluster = Cluster()
    cluster.topic((1, 2), name="t")
    cluster.topic((1, 2), name="u", unclean_leader_election_enable="true")
    cluster.fence(2)

    cluster.fence(1)
    cluster.unfence(2)

    assert led(cluster.partition(name="t")) == (NO_LEADER, (1,), ())
    assert led(cluster.partition(name="u")) == (2, (2,), ())
    assert cluster.partition(name="u").is_recovering


def test_an_unclean_election_forgets_who_was_eligible() -> None:
    """Their records are not the leader's any longer."""
    cluster = Cluster()
    cluster.topic((1, 2, 3), min_insync_replicas="3", unclean_leader_election_enable="true")
    cluster.fence(3, 2)
    assert led(cluster.partition()) == (1, (1,), (2, 3))
    cluster.alter(1)
    cluster.start(3, incarnation=1, has_lost_its_log=True)
    assert led(cluster.partition()) == (1, (1,), (2,))

    cluster.fence(1)

    assert led(cluster.partition()) == (3, (3,), ())
    assert cluster.partition().is_recovering


def test_a_leader_that_stays_is_not_elected_again() -> None:
    cluster = Cluster()
    cluster.topic((1, 2, 3))

    assert PartitionChange(cluster.image, cluster.image.topics["t"], 0).record() is None


def test_a_replica_without_its_log_is_neither_in_sync_nor_eligible() -> None:
    cluster = Cluster()
    cluster.topic((1, 2, 3), min_insync_replicas="2")
    cluster.fence(1, 2)
    assert led(cluster.partition()) == (3, (3,), (2,))

    cluster.start(2, incarnation=1, has_lost_its_log=True)
    cluster.fence(3)

    assert led(cluster.partition()) == (NO_LEADER, (3,), ())


def test_when_the_last_in_sync_lost_its_log_the_eligible_are_waited_for() -> None:
    cluster = Cluster()
    cluster.topic((1, 2), min_insync_replicas="2")
    cluster.fence(1, 2)
    assert led(cluster.partition()) == (NO_LEADER, (2,), (1,))

    cluster.start(2, incarnation=1, has_lost_its_log=True)
    assert led(cluster.partition()) == (NO_LEADER, (1,), ())
    cluster.unfence(1)

    assert led(cluster.partition()) == (1, (1,), ())


def test_when_the_last_in_sync_lost_its_log_others_do_not_lead_instead() -> None:
    """What they have is not all that was safe: only an unclean election may take them."""
    cluster = Cluster()
    cluster.topic((1, 2, 3))
    cluster.alter(1)
    cluster.fence(1)

    cluster.register(1, incarnation=1, has_lost_its_log=True)

    assert led(cluster.partition()) == (NO_LEADER, (1,), ())


def test_the_last_in_sync_does_not_lead_with_an_empty_disk() -> None:
    """Nor when it is restarted once more: what it lost is remembered until somebody leads."""
    cluster = Cluster()
    cluster.topic((1, 2, 3))
    cluster.alter(1)
    cluster.fence(1)

    cluster.start(1, incarnation=1, has_lost_its_log=True)
    assert led(cluster.partition()) == (NO_LEADER, (1,), ())
    cluster.fence(1)
    cluster.start(1, incarnation=2)

    assert led(cluster.partition()) == (NO_LEADER, (1,), ())
    assert cluster.partition().lost == (1,)
    assert content(cluster.replayed().image) == content(cluster.image)


def test_it_lost_its_log_and_registers_before_anybody_has_noticed_that_it_was_gone() -> None:
    cluster = Cluster()
    cluster.topic((1, 2))
    cluster.alter(1)
    cluster.now_ms = SESSION_MS + 1

    cluster.start(1, incarnation=1, has_lost_its_log=True)

    assert led(cluster.partition()) == (NO_LEADER, (1,), ())


def test_an_unclean_election_takes_a_replica_with_a_log_before_one_without() -> None:
    cluster = Cluster()
    cluster.topic((1, 2, 3))
    cluster.alter(1)
    cluster.fence(1)
    cluster.start(1, incarnation=1, has_lost_its_log=True)
    cluster.fence(2)
    cluster.start(2, incarnation=1, has_lost_its_log=True)
    assert cluster.partition().lost == (1, 2)

    cluster.ask(ElectLeaders((("t", 0),), is_unclean=True))

    assert led(cluster.partition()) == (3, (3,), ())
    assert cluster.partition().is_recovering
    assert cluster.partition().lost == ()


def test_an_unclean_election_takes_one_without_a_log_when_nobody_else_is_alive() -> None:
    cluster = Cluster()
    cluster.topic((1, 2))
    cluster.alter(1)
    cluster.fence(1, 2)
    cluster.start(1, incarnation=1, has_lost_its_log=True)

    cluster.ask(ElectLeaders((("t", 0),), is_unclean=True))

    assert led(cluster.partition()) == (1, (1,), ())


def test_the_only_replica_leads_again_without_its_log() -> None:
    """What it had is gone with the only disk: there is nothing to wait for."""
    cluster = Cluster()
    cluster.topic((1,))
    cluster.fence(1)

    cluster.start(1, incarnation=1, has_lost_its_log=True)

    assert led(cluster.partition()) == (1, (1,), ())


def test_when_all_have_lost_their_logs_the_last_in_sync_leads_again() -> None:
    cluster = Cluster()
    cluster.topic((1, 2))
    cluster.alter(1)
    cluster.fence(1, 2)
    cluster.start(1, incarnation=1, has_lost_its_log=True)
    assert led(cluster.partition()) == (NO_LEADER, (1,), ())

    cluster.start(2, incarnation=1, has_lost_its_log=True)

    assert led(cluster.partition()) == (1, (1,), ())


def test_a_replica_in_sync_leads_when_it_is_back_and_another_has_lost_its_log() -> None:
    cluster = Cluster()
    cluster.topic((1, 2))
    cluster.alter(1)
    cluster.fence(1, 2)
    cluster.start(2, incarnation=1, has_lost_its_log=True)
    assert cluster.partition().lost == (2,)

    cluster.unfence(1)

    assert led(cluster.partition()) == (1, (1,), ())
    assert cluster.partition().lost == ()


def test_an_unregistered_broker_that_comes_back_with_its_log_leads_what_only_it_has() -> None:
    cluster = Cluster()
    cluster.topic((1, 2))
    cluster.alter(1)
    cluster.ask(UnregisterBroker(1))
    assert led(cluster.partition()) == (NO_LEADER, (1,), ())

    cluster.start(1, incarnation=1)

    assert led(cluster.partition()) == (1, (1,), ())


def test_the_minimum_of_a_partition_that_gets_more_replicas_grows_with_them() -> None:
    """With one replica one was enough, whatever the topic says: who is added later is not eligible for that."""
    cluster = Cluster()
    cluster.topic((1,), min_insync_replicas="2")

    cluster.move(1, 2)
    cluster.fence(1)

    assert led(cluster.partition()) == (NO_LEADER, (1,), ())


def test_who_is_noted_as_eligible_beside_a_set_that_is_large_enough_is_not_believed() -> None:
    cluster = Cluster()
    cluster.topic((1, 2))
    cluster.alter(1)
    cluster.machine.apply(PartitionChangeRecord(0, TOPIC, eligible_leader_replicas=(2,)))

    cluster.fence(1)

    assert led(cluster.partition()) == (NO_LEADER, (1,), ())


def test_fencing_looks_through_the_topics_of_that_broker_only() -> None:
    cluster = Cluster()
    cluster.topic((1, 2), (2, 1), name="both")
    cluster.topic((3,), name="other")

    assert list(cluster.image.holdings.topics_of(1)) == [cluster.image.topics["both"].id]
    cluster.fence(1)

    assert led(cluster.partition(0, "both")) == led(cluster.partition(1, "both")) == (2, (2,), ())
    assert epochs(cluster.partition(0, "other")) == (0, 0)
