"""Brokers come, report and go (KIP-631, KIP-841)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from chronik.core.access.principal import KafkaPrincipal
from chronik.core.errors import Code, Refused
from chronik.core.machines.metadata.commands import CreateTopics, NewTopic, RegisterBroker
from chronik.core.machines.metadata.controller_commands import (
    BrokerGone,
    BrokerHeartbeat,
    HeartbeatAnswer,
    UnregisterBroker,
)
from chronik.core.machines.metadata.records import NO_LEADER, BrokerRegistrationChangeRecord
from tests.unit.core.machines.metadata.cluster import QUIET, SESSION_MS, Cluster, led
from tests.unit.core.machines.metadata.machine_asked import Asked, content


def live(cluster: Asked) -> list[int]:
    return [broker.id for broker in cluster.image.live_brokers()]


def test_a_broker_registers_fenced_and_is_unfenced_once_it_has_seen_its_registration() -> None:
    cluster = Cluster(())
    epoch = cluster.register(1)
    assert live(cluster) == []

    behind = cluster.beat(1, seen_version=epoch)
    caught_up = cluster.beat(1, seen_version=epoch + 1)

    assert behind == HeartbeatAnswer(is_caught_up=False, is_fenced=True, should_shut_down=False)
    assert caught_up == HeartbeatAnswer(is_caught_up=True, is_fenced=False, should_shut_down=False)
    assert live(cluster) == [1]


def test_a_broker_that_wants_to_stay_fenced_stays_fenced() -> None:
    cluster = Cluster(())
    cluster.register(1)

    assert cluster.beat(1, wants_fence=True).is_fenced
    assert live(cluster) == []


def test_a_node_that_is_alone_registers_unfenced_and_is_never_expected_to_report() -> None:
    asked = Asked(brokers=())
    asked.ask(RegisterBroker(1, bytes(16), "host", 9092))

    assert live(asked) == [1]
    assert asked.machine.next_deadline_ms() is None
    assert asked.machine.expire(10**12).facts == []


def test_a_broker_is_reached_by_clients_and_by_nodes_at_its_own_address_for_each() -> None:
    cluster = Cluster(())
    cluster.ask(RegisterBroker(1, bytes(16), "public", 9092, internal_host="private", internal_port=19092))
    cluster.ask(RegisterBroker(2, bytes(16), "both", 9093))

    one, two = cluster.image.brokers[1], cluster.image.brokers[2]

    assert (one.host, one.port, one.internal_host, one.internal_port) == ("public", 9092, "private", 19092)
    assert (two.host, two.port, two.internal_host, two.internal_port) == ("both", 9093, "both", 9093)
    assert content(cluster.replayed().image) == content(cluster.image)


def test_the_controllers_own_broker_is_never_silent_and_others_are() -> None:
    cluster = Cluster(controller=replace(QUIET, own_id=1))
    cluster.topic((1, 2, 3))
    cluster.now_ms = SESSION_MS + 1

    cluster.expire()

    assert live(cluster) == [1]
    assert led(cluster.partition()) == (1, (1,), ())
    assert cluster.machine.next_deadline_ms() is None


def test_the_controllers_own_broker_may_register_anew() -> None:
    """The controllers own broker may register anew when its node became controller after a restart."""
    before = Cluster(controller=replace(QUIET, own_id=1))
    after = Cluster((), controller=replace(QUIET, own_id=1))
    for record in before.log:
        after.machine.replay(record)
    after.expire()

    after.start(1, incarnation=1)

    assert live(after) == [1, 2, 3]
    with pytest.raises(Refused):
        after.register(1, incarnation=2)


def test_a_broker_that_refuses_connections_is_fenced_once_it_has_missed_a_heartbeat() -> None:
    cluster = Cluster()
    cluster.topic((1, 2, 3))
    cluster.now_ms = QUIET.gone_after_ms - 5

    assert cluster.ask(BrokerGone(1)) == 5
    assert live(cluster) == [1, 2, 3]
    cluster.now_ms += 5
    assert cluster.ask(BrokerGone(1)) == 0

    assert live(cluster) == [2, 3]
    assert led(cluster.partition()) == (2, (2, 3), ())
    assert cluster.ask(BrokerGone(1)) == cluster.ask(BrokerGone(9)) == 0


def test_a_broker_that_this_controller_never_heard_of_is_fenced_at_once() -> None:
    """A broker that this controller never heard of is fenced at once when it refuses connections. It was the controller
    before, most likely: the election has taken long enough."""
    before = Cluster()
    after = Cluster(())
    for record in before.log:
        after.machine.replay(record)
    after.expire()

    assert after.ask(BrokerGone(1)) == 0

    assert live(after) == [2, 3]


def test_a_controller_does_not_believe_that_it_is_dead_itself() -> None:
    cluster = Cluster(controller=replace(QUIET, own_id=1))
    cluster.now_ms = 10**6

    assert cluster.ask(BrokerGone(1)) == 0
    assert 1 in live(cluster)


def test_another_incarnation_is_refused_while_the_first_is_alive() -> None:
    cluster = Cluster()
    cluster.now_ms = SESSION_MS

    with pytest.raises(Refused) as refused:
        cluster.register(1, incarnation=1)

    assert refused.value.code == Code.DUPLICATE_BROKER_REGISTRATION


def test_who_has_the_disk_of_the_first_takes_over_at_once() -> None:
    cluster = Cluster()
    before = cluster.image.brokers[1].epoch
    cluster.now_ms = SESSION_MS

    for guess in (before - 1, before + 1):
        with pytest.raises(Refused):
            cluster.register(1, incarnation=1, previous_epoch=guess)
    cluster.register(1, incarnation=1, previous_epoch=before)

    assert cluster.image.brokers[1].epoch > before


def test_a_copy_of_a_living_brokers_disk_at_another_address_is_refused() -> None:
    """Two processes cannot listen at one address, but a directory can be copied."""
    cluster = Cluster()
    before = cluster.image.brokers[1].epoch
    cluster.now_ms = SESSION_MS

    with pytest.raises(Refused) as refused:
        cluster.register(1, incarnation=1, previous_epoch=before, host="elsewhere")

    assert refused.value.code == Code.DUPLICATE_BROKER_REGISTRATION
    assert live(cluster) == [1, 2, 3]


def test_a_broker_that_has_moved_takes_over_when_nobody_is_heard_where_it_was() -> None:
    cluster = Cluster()
    before = cluster.image.brokers[1].epoch
    cluster.now_ms = SESSION_MS + 1

    assert cluster.register(1, incarnation=1, previous_epoch=before, host="elsewhere") > before


def test_another_incarnation_takes_over_when_the_first_has_fallen_silent() -> None:
    cluster = Cluster()
    cluster.topic((1, 2))
    old_epoch = cluster.image.brokers[1].epoch
    cluster.now_ms = SESSION_MS + 1

    new_epoch = cluster.register(1, incarnation=1)

    assert new_epoch > old_epoch
    assert live(cluster) == [2, 3]
    assert led(cluster.partition()) == (2, (2,), ()), "it is fenced, so it leads no longer"
    assert cluster.refusal(BrokerHeartbeat(1, old_epoch, 99)) == Code.STALE_BROKER_EPOCH


def test_another_incarnation_of_a_fenced_broker_need_not_wait() -> None:
    cluster = Cluster()
    cluster.fence(1)

    cluster.start(1, incarnation=1)

    assert live(cluster) == [1, 2, 3]


def test_the_same_incarnation_again_keeps_its_epoch_and_its_partitions() -> None:
    """As after an answer that was lost."""
    cluster = Cluster()
    cluster.topic((1, 2))
    before = cluster.image.brokers[1]

    assert cluster.register(1) == before.epoch

    assert cluster.image.brokers[1] == before
    assert led(cluster.partition()) == (1, (1, 2), ())


def test_the_same_incarnation_again_loses_nothing_though_it_says_again_what_it_lost() -> None:
    """The same incarnation again loses nothing though it says again what it lost before. As after an answer that was
    lost: meanwhile it may have caught up."""
    cluster = Cluster()
    cluster.topic((1, 2), min_insync_replicas="2")
    epoch = cluster.image.brokers[2].epoch
    cluster.register(2, incarnation=1, has_lost_its_tail=True, previous_epoch=epoch)
    cluster.beat(2)
    cluster.alter(1, 2)
    cluster.fence(2)
    assert led(cluster.partition()) == (1, (1,), (2,))

    cluster.register(2, incarnation=1, has_lost_its_tail=True, previous_epoch=epoch)

    assert led(cluster.partition()) == (1, (1,), (2,))


def test_a_node_without_followers_leads_on_in_its_epoch_though_its_tail_is_lost() -> None:
    asked = Asked(brokers=())
    asked.ask(RegisterBroker(1, bytes(16), "host", 9092))
    asked.ask(CreateTopics((NewTopic("t", b"t" * 16, 1, 1),)))
    before = asked.image.partition("t", 0)

    asked.ask(RegisterBroker(1, b"another process.", "host", 9092, previous_epoch=0, has_lost_its_tail=True))

    assert asked.image.partition("t", 0) == before


def test_a_heartbeat_of_a_broker_nobody_knows_is_stale() -> None:
    assert Cluster().refusal(BrokerHeartbeat(9, 0, 99)) == Code.STALE_BROKER_EPOCH


def test_a_silent_broker_is_fenced_when_its_session_is_over_and_not_before() -> None:
    cluster = Cluster()
    cluster.topic((1, 2, 3))
    cluster.now_ms = 5_000
    cluster.beat(2)
    cluster.beat(3)
    assert cluster.machine.next_deadline_ms() == SESSION_MS + 1

    cluster.now_ms = SESSION_MS
    assert cluster.machine.expire(SESSION_MS).facts == []
    cluster.now_ms = SESSION_MS + 1
    facts = cluster.expire()

    assert facts[-1] == BrokerRegistrationChangeRecord(1, cluster.image.brokers[1].epoch, fenced=1)
    assert live(cluster) == [2, 3]
    assert led(cluster.partition()) == (2, (2, 3), ())
    assert cluster.machine.next_deadline_ms() == 5_000 + SESSION_MS + 1


def test_brokers_that_fall_silent_together_are_fenced_one_after_the_other() -> None:
    cluster = Cluster()
    cluster.topic((1, 2, 3))
    cluster.now_ms = SESSION_MS + 1

    first = cluster.machine.expire(cluster.now_ms).facts
    assert [fact.broker_id for fact in first if isinstance(fact, BrokerRegistrationChangeRecord)] == [1]
    cluster.expire()

    assert live(cluster) == []
    assert led(cluster.partition()) == (NO_LEADER, (3,), ())
    assert cluster.machine.next_deadline_ms() is None


def test_a_new_controller_gives_everybody_a_whole_session() -> None:
    before = Cluster()
    after = Cluster(())
    for record in before.log:
        after.machine.replay(record)
    after.now_ms = 1_000_000

    assert after.machine.next_deadline_ms() == 0
    after.expire()

    assert live(after) == [1, 2, 3]
    assert after.machine.next_deadline_ms() == after.now_ms + SESSION_MS + 1


def test_heartbeats_are_not_in_the_log() -> None:
    cluster = Cluster()
    size = len(cluster.log)

    cluster.beat(1)

    assert len(cluster.log) == size


def test_a_broker_shuts_down_after_its_leaders_have_moved_and_the_others_know() -> None:
    cluster = Cluster()
    cluster.topic((1, 2, 3))

    leaving = cluster.beat(1, wants_shut_down=True)

    assert leaving == HeartbeatAnswer(is_caught_up=True, is_fenced=False, should_shut_down=False)
    assert live(cluster) == [1, 2, 3], "clients may still come"
    assert led(cluster.partition()) == (2, (2, 3), ())


def test_a_broker_in_shutdown_waits_until_every_active_broker_has_followed() -> None:
    cluster = Cluster(())
    for broker_id in (1, 2):
        epoch = cluster.register(broker_id)
        cluster.beat(broker_id, seen_version=epoch + 1)
    cluster.topic((1, 2))
    cluster.beat(1, wants_shut_down=True)
    moved = cluster.image.version

    cluster.beat(2, seen_version=moved - 1)
    waiting = cluster.beat(1, wants_shut_down=True)
    cluster.beat(2, seen_version=moved)
    going = cluster.beat(1, wants_shut_down=True)

    assert not waiting.should_shut_down
    assert going == HeartbeatAnswer(is_caught_up=True, is_fenced=True, should_shut_down=True)
    assert live(cluster) == [2]


def test_a_broker_that_leads_nothing_may_go_at_once() -> None:
    cluster = Cluster()
    cluster.topic((2, 1))

    answer = cluster.beat(1, wants_shut_down=True)

    assert answer.should_shut_down
    assert led(cluster.partition()) == (2, (2,), ())
    assert live(cluster) == [2, 3]


def test_a_fenced_broker_may_go_at_once() -> None:
    cluster = Cluster()
    cluster.fence(1)

    assert cluster.beat(1, wants_shut_down=True) == HeartbeatAnswer(True, is_fenced=True, should_shut_down=True)


def test_the_only_replica_may_shut_down_and_leads_again_afterwards() -> None:
    cluster = Cluster()
    cluster.topic((1,))

    cluster.beat(1, wants_shut_down=True)
    assert led(cluster.partition()) == (NO_LEADER, (1,), ())
    assert cluster.beat(1, wants_shut_down=True).should_shut_down
    cluster.start(1, incarnation=1)

    assert led(cluster.partition()) == (1, (1,), ())


def test_a_broker_that_was_shutting_down_must_register_to_come_back() -> None:
    cluster = Cluster()
    cluster.topic((1, 2))
    cluster.beat(1, wants_shut_down=True)
    cluster.now_ms = SESSION_MS + 1
    cluster.expire()

    assert cluster.beat(1).is_fenced
    cluster.start(1, incarnation=1)
    assert cluster.image.is_active(1)


def test_an_unregistered_broker_is_gone_and_others_lead() -> None:
    cluster = Cluster()
    cluster.topic((1, 2))

    cluster.ask(UnregisterBroker(1))

    assert list(cluster.image.brokers) == [2, 3]
    assert led(cluster.partition()) == (2, (2,), ())
    assert cluster.refusal(UnregisterBroker(1)) == Code.BROKER_ID_NOT_REGISTERED
    assert content(cluster.replayed().image) == content(cluster.image)


def test_what_only_an_unregistered_broker_had_waits_for_it_while_it_is_alive() -> None:
    cluster = Cluster()
    cluster.topic((1,))

    cluster.ask(UnregisterBroker(1))
    assert led(cluster.partition())[0] == NO_LEADER
    cluster.start(1, incarnation=1)

    assert led(cluster.partition())[0] == 1


def test_an_id_stays_that_of_the_principal_that_registered_first() -> None:
    """F64"""
    cluster = Cluster(())
    first, other = KafkaPrincipal("User", "node2"), KafkaPrincipal("User", "node3")
    cluster.ask(RegisterBroker(2, bytes(16), "host", 1, principal=first))

    with pytest.raises(Refused) as refused:
        cluster.ask(RegisterBroker(2, bytes(15) + b"1", "host", 1, principal=other))
    assert refused.value.code == Code.CLUSTER_AUTHORIZATION_FAILED
    cluster.ask(RegisterBroker(2, bytes(16), "host", 1))
    assert cluster.image.brokers[2].principal == str(first), "by a listener without logins nothing is said of it"
    cluster.ask(UnregisterBroker(2))
    cluster.ask(RegisterBroker(2, bytes(15) + b"1", "host", 1, principal=other))
    assert cluster.image.brokers[2].principal == str(other)


def test_a_setting_may_give_an_id_to_another_principal() -> None:
    other = KafkaPrincipal("User", "node3")
    for setting in ("*", f"2={other}"):
        cluster = Cluster((), settings={"chronik.node.principals": setting})
        cluster.ask(RegisterBroker(2, bytes(16), "host", 1, principal=KafkaPrincipal("User", "node2")))
        cluster.ask(RegisterBroker(2, bytes(16), "host", 1, principal=other))
        assert cluster.image.brokers[2].principal == str(other)
