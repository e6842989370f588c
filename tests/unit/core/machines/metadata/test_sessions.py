"""Who was heard of lately."""

from __future__ import annotations

from chronik.core.config.node import NodeConfig
from chronik.core.machines.metadata.image import Broker
from chronik.core.machines.metadata.sessions import BrokerSeen, BrokerSessions, ControllerConfig
from tests.unit.core.machines.metadata.cluster import Cluster

CONFIG = ControllerConfig(own_id=5, broker_session_timeout_ms=9_000)


def broker(epoch: int = 7, *, is_fenced: bool = False) -> Broker:
    return Broker(1, epoch, bytes(16), "host", 9092, None, is_fenced)


def test_a_session_lasts_until_its_time_is_over() -> None:
    sessions = BrokerSessions()
    sessions.apply(BrokerSeen(1, 7, 1_000))

    assert sessions.is_heard_of(broker(), 10_000, CONFIG)
    assert not sessions.is_heard_of(broker(), 10_001, CONFIG)


def test_the_word_of_an_earlier_registration_does_not_count() -> None:
    sessions = BrokerSessions()
    sessions.apply(BrokerSeen(1, 7, 1_000))

    assert sessions.of(broker(epoch=8)) is None
    assert not sessions.is_heard_of(broker(epoch=8), 1_000, CONFIG)


def test_a_fenced_broker_has_no_session() -> None:
    sessions = BrokerSessions()
    sessions.apply(BrokerSeen(1, 7, 1_000))

    assert not sessions.is_heard_of(broker(is_fenced=True), 1_000, CONFIG)


def test_the_session_of_the_controllers_own_broker_has_no_end() -> None:
    sessions = BrokerSessions()
    own = Broker(5, 7, bytes(16), "host", 9092, None, is_fenced=False)
    assert not sessions.is_heard_of(own, 0, CONFIG), "registered is an earlier process, as long as nobody has spoken"

    sessions.apply(BrokerSeen(5, 7, 1_000))

    assert sessions.is_heard_of(own, 10**9, CONFIG)


def test_a_controller_has_the_settings_of_its_node() -> None:
    node = NodeConfig.from_settings(
        {
            "node.id": "3",
            "broker.session.timeout.ms": "4000",
            "broker.heartbeat.interval.ms": "1000",
            "auto.leader.rebalance.enable": "false",
            "leader.imbalance.check.interval.seconds": "7",
        }
    )

    assert ControllerConfig.of(node) == ControllerConfig(3, 4_000, 1_000, False, 7_000)
    assert ControllerConfig.of(node).gone_after_ms == 1_250


def test_the_one_that_is_silent_for_longest_comes_first() -> None:
    cluster = Cluster()
    cluster.now_ms = 50
    cluster.beat(1)

    stalest = cluster.machine.sessions.stalest(cluster.image, own_id=0)

    assert stalest is not None
    assert (stalest.broker_id, stalest.seen_ms) == (2, 0)


def test_all_active_brokers_must_have_followed_and_others_need_not() -> None:
    cluster = Cluster((1, 2))
    cluster.register(3)  # fenced, has seen nothing
    sessions = cluster.machine.sessions

    assert sessions.seen_by_all_active(cluster.image, 100)
    epoch = cluster.image.brokers[2].epoch
    cluster.start(3)
    sessions.apply(BrokerSeen(2, epoch, 0, seen_version=99))
    assert not sessions.seen_by_all_active(cluster.image, 100)
