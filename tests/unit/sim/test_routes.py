"""What a client knows of a cluster."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from chronik.core.errors import Code
from chronik.core.types import TopicPartition
from chronik.sim.routes import KnownLeader, SimRoutes

NAME = TopicPartition("topic", 0)


def answer(leader: int, epoch: int, code: Code = Code.NONE, topic_id: int = 1) -> Any:
    part = SimpleNamespace(
        partition_index=0, leader_id=leader, leader_epoch=epoch, replica_nodes=(1, 2), error_code=code
    )
    brokers = [SimpleNamespace(node_id=node, host=f"node{node}", port=9092) for node in (1, 2)]
    return SimpleNamespace(
        brokers=brokers, topics=[SimpleNamespace(name="topic", topic_id=topic_id, partitions=[part])]
    )


def test_it_knows_where_the_leader_is() -> None:
    routes = SimRoutes()

    routes.learn(answer(2, 5))

    assert routes.places[NAME] == KnownLeader(2, 5, (1, 2), 1)
    assert routes.address_of(2) == ("node2", 9092)
    assert not routes.is_stale


def test_it_does_not_believe_in_a_leader_of_the_past() -> None:
    routes = SimRoutes()
    routes.learn(answer(2, 5))

    routes.learn(answer(1, 4))

    assert routes.places[NAME].leader == 2


def test_nobody_leads_when_the_answer_says_so() -> None:
    routes = SimRoutes()

    routes.learn(answer(-1, 6, Code.LEADER_NOT_AVAILABLE))

    assert routes.places[NAME] == KnownLeader(-1, 6, (1, 2), 1)
    assert routes.address_of(-1) is None


def test_a_new_topic_of_an_old_name_begins_anew() -> None:
    routes = SimRoutes()
    routes.learn(answer(2, 5))

    routes.forget("topic")
    routes.learn(answer(1, 0))

    assert routes.places[NAME].leader == 1


def test_a_topic_of_another_id_is_another_topic() -> None:
    routes = SimRoutes()
    routes.learn(answer(2, 5))

    routes.learn(answer(1, 0, topic_id=2))

    assert routes.places[NAME] == KnownLeader(1, 0, (1, 2), 2)


def test_doubts_make_it_ask_again() -> None:
    routes = SimRoutes()
    routes.learn(answer(2, 5))
    routes.coordinators["group"] = ("node1", 9092)

    routes.doubt()

    assert routes.is_stale
    assert routes.coordinators == {}
