"""Elections on request (KIP-183, KIP-460), and leaders that go back to where they belong."""

from __future__ import annotations

from chronik.core.errors import Code
from chronik.core.machines.metadata.controller_commands import ElectLeaders
from chronik.core.machines.metadata.records import NO_LEADER
from chronik.core.machines.metadata.sessions import ControllerConfig
from tests.unit.core.machines.metadata.cluster import Cluster, epochs, led


def elect(cluster: Cluster, *partitions: tuple[str, int], is_unclean: bool = False) -> list[Code]:
    return [result.outcome.code for result in cluster.ask(ElectLeaders(partitions or None, is_unclean))]


def led_by_another() -> Cluster:
    """Partition 0 of t is led by 2, the first of its replicas is back in sync; partition 1 is led by its first."""
    cluster = Cluster()
    cluster.topic((1, 2), (2, 3))
    cluster.fence(1)
    cluster.unfence(1)
    cluster.alter(2, 1)
    assert led(cluster.partition(0)) == (2, (2, 1), ())
    return cluster


def test_the_preferred_leader_is_elected_where_another_leads() -> None:
    cluster = led_by_another()

    codes = elect(cluster, ("t", 0), ("t", 1), ("t", 2), ("u", 0))

    assert codes == [
        Code.NONE,
        Code.ELECTION_NOT_NEEDED,
        Code.UNKNOWN_TOPIC_OR_PARTITION,
        Code.UNKNOWN_TOPIC_OR_PARTITION,
    ]
    assert led(cluster.partition(0)) == (1, (2, 1), ())
    assert epochs(cluster.partition(0)) == (2, 3)


def test_of_all_partitions_only_those_that_needed_it_are_answered() -> None:
    cluster = led_by_another()

    results = cluster.ask(ElectLeaders(None))

    assert [(result.topic, result.partition, result.outcome.code) for result in results] == [("t", 0, Code.NONE)]


def test_a_preferred_leader_that_is_away_or_behind_is_not_available() -> None:
    cluster = Cluster()
    cluster.topic((1, 2))
    cluster.fence(1)

    assert elect(cluster, ("t", 0)) == [Code.PREFERRED_LEADER_NOT_AVAILABLE]
    cluster.unfence(1)

    assert elect(cluster, ("t", 0)) == [Code.PREFERRED_LEADER_NOT_AVAILABLE]
    assert led(cluster.partition()) == (2, (2,), ())


def test_an_unclean_leader_is_elected_when_asked_for_though_the_topic_forbids_it() -> None:
    cluster = Cluster()
    cluster.topic((1, 2))
    cluster.fence(1, 2)
    assert elect(cluster, ("t", 0), is_unclean=True) == [Code.ELIGIBLE_LEADERS_NOT_AVAILABLE]
    cluster.unfence(1)
    assert led(cluster.partition()) == (NO_LEADER, (2,), ())

    assert elect(cluster, ("t", 0), is_unclean=True) == [Code.NONE]

    assert led(cluster.partition()) == (1, (1,), ())
    assert cluster.partition().is_recovering


def test_an_unclean_election_is_not_needed_where_somebody_leads() -> None:
    assert elect(led_by_another(), ("t", 0), is_unclean=True) == [Code.ELECTION_NOT_NEEDED]


def test_a_partition_named_twice_is_elected_once() -> None:
    assert elect(led_by_another(), ("t", 0), ("t", 0)) == [Code.NONE, Code.INVALID_REQUEST]


def balanced(is_enabled: bool) -> Cluster:
    config = ControllerConfig(
        own_id=0,
        broker_session_timeout_ms=10**9,
        auto_leader_rebalance_enable=is_enabled,
        leader_imbalance_check_interval_ms=60_000,
    )
    cluster = Cluster(controller=config)
    cluster.topic((1, 2))
    cluster.expire()
    cluster.fence(1)
    cluster.unfence(1)
    cluster.alter(2, 1)
    cluster.now_ms = 1_000
    return cluster


def test_leaders_go_back_to_the_preferred_replica_after_a_while() -> None:
    cluster = balanced(True)
    cluster.expire()
    assert cluster.machine.next_deadline_ms() == 61_000

    cluster.now_ms = 60_999
    cluster.expire()
    assert cluster.partition().leader == 2
    cluster.now_ms = 61_000
    cluster.expire()

    assert led(cluster.partition()) == (1, (2, 1), ())
    assert cluster.image.holdings.is_balanced


def test_a_preferred_replica_that_is_not_in_sync_is_looked_at_again_later() -> None:
    cluster = balanced(True)
    cluster.alter(2)
    cluster.expire()
    cluster.now_ms = 61_000

    cluster.expire()

    assert cluster.partition().leader == 2
    assert cluster.machine.next_deadline_ms() == 121_000


def test_leaders_stay_where_they_are_when_balancing_is_off() -> None:
    cluster = balanced(False)
    cluster.now_ms = 10**6

    cluster.expire()

    assert cluster.partition().leader == 2
