"""ElectLeaders."""

from __future__ import annotations

from typing import Any

from kio.schema.elect_leaders.v2.request import ElectLeadersRequest, TopicPartitions

from chronik.api import elect_leaders
from chronik.api.context import RequestContext
from chronik.core.errors import Code
from chronik.core.machines.metadata.commands import CreateTopics, NewTopic
from chronik.core.machines.metadata.controller_commands import BrokerHeartbeat
from tests.unit.api.fake_context import ask, fake_context, metadata_of

FAR = 10**9


def led_by_another() -> RequestContext:
    """Topic t: partition 0 is led by 1 as it should be, partition 1 by 1 instead of 2, partition 2 (only on 2) by 2."""
    context = fake_context(brokers=(1, 2))
    assignments = ((0, (1, 2)), (1, (2, 1)))
    wanted = (NewTopic("t", bytes(15) + b"9", assignments=assignments),)
    metadata_of(context).tell(CreateTopics(wanted))
    beat(context, 2, wants_fence=True)
    beat(context, 2)
    return context


def beat(context: RequestContext, broker_id: int, *, wants_fence: bool = False) -> None:
    epoch = context.metadata.image.brokers[broker_id].epoch
    metadata_of(context).tell(BrokerHeartbeat(broker_id, epoch, FAR, wants_fence))


def elect(context: RequestContext, kind: int, partitions: dict[str, tuple[int, ...]] | None, version: int = 2) -> Any:
    topics = None
    if partitions is not None:
        topics = tuple(TopicPartitions(topic=topic, partitions=numbers) for topic, numbers in partitions.items())
    return ask(elect_leaders, ElectLeadersRequest(election_type=kind, topic_partitions=topics), context, version)


def codes(response: Any) -> dict[str, list[tuple[int, int]]]:
    return {
        topic.topic: [(one.partition_id, one.error_code) for one in topic.partition_result]
        for topic in response.replica_election_results
    }


def test_each_partition_has_its_own_outcome() -> None:
    context = led_by_another()

    response = elect(context, 0, {"t": (0, 1, 7), "no such": (0,)})

    assert response.error_code == Code.NONE
    assert codes(response) == {
        "t": [
            (0, Code.ELECTION_NOT_NEEDED),
            (1, Code.PREFERRED_LEADER_NOT_AVAILABLE),
            (7, Code.UNKNOWN_TOPIC_OR_PARTITION),
        ],
        "no such": [(0, Code.UNKNOWN_TOPIC_OR_PARTITION)],
    }


def test_all_partitions_that_need_it_get_an_unclean_leader() -> None:
    context = led_by_another()
    beat(context, 1, wants_fence=True)
    assert [one.leader for one in context.metadata.image.topics["t"].partitions] == [-1, -1]

    response = elect(context, 1, None)

    assert codes(response) == {"t": [(0, Code.NONE), (1, Code.NONE)]}
    assert [one.leader for one in context.metadata.image.topics["t"].partitions] == [2, 2]
    assert codes(elect(context, 1, None)) == {}


def test_an_election_that_there_is_not_is_refused_at_every_partition() -> None:
    response = elect(led_by_another(), 2, {"t": (0, 1)}, version=0)

    assert response.error_code == Code.INVALID_REQUEST
    assert codes(response) == {"t": [(0, Code.INVALID_REQUEST), (1, Code.INVALID_REQUEST)]}


def test_another_node_is_the_controller() -> None:
    context = led_by_another()
    metadata_of(context).controller_id = 2

    assert elect(context, 0, None).error_code == Code.NOT_CONTROLLER
