"""Each command that a node asks over a link arrives as it was asked, and so does its answer."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from chronik.core.errors import Code, Refused
from chronik.core.machines.metadata.commands import (
    AllocateProducerIds,
    CreateInternalTopic,
    CreateTopics,
    DeleteTopics,
    NewTopic,
    ProducerIdBlock,
    RegisterBroker,
)
from chronik.core.machines.metadata.controller_commands import (
    AlterPartitions,
    BrokerHeartbeat,
    HeartbeatAnswer,
    InSyncChange,
)
from chronik.core.machines.metadata.records import BrokerEndpoint
from chronik.node.cluster.controller_requests import asking
from tests.unit.node.controlled import Controlled
from tests.unit.node.peer_world import World, in_world

REGISTER = RegisterBroker(
    1,
    bytes(range(16)),
    "public",
    9092,
    "rack",
    is_fenced=True,
    internal_host="private",
    internal_port=19092,
    previous_epoch=17,
    end_points=(BrokerEndpoint("CLIENTS", "public", 9092, 1), BrokerEndpoint("LAN", "lan", 9093, 0)),
)


async def arrived(cluster: Controlled, command: Any) -> Any:
    """The answer; what arrived is what was asked."""
    answer = await cluster.link.ask(command)
    assert cluster.asked[-1] == command
    return answer


@in_world
async def test_a_registration_arrives_with_both_addresses(world: World) -> None:
    cluster = Controlled(world)

    epoch = await arrived(cluster, REGISTER)

    assert cluster.image.brokers[1].epoch == epoch
    assert cluster.image.brokers[1].internal_host == "private"


@in_world
async def test_that_a_disk_is_new_arrives(world: World) -> None:
    cluster = Controlled(world)

    await arrived(
        cluster,
        replace(REGISTER, incarnation_id=bytes(16), has_lost_its_log=True, previous_epoch=-1),
    )


@in_world
async def test_that_a_disk_lacks_its_last_records_arrives_with_the_epoch_it_is_known_by(world: World) -> None:
    cluster = Controlled(world)

    await arrived(cluster, replace(REGISTER, has_lost_its_tail=True))
    await arrived(cluster, replace(REGISTER, has_lost_its_tail=True, previous_epoch=0))


@in_world
async def test_a_heartbeat_arrives_with_its_wishes(world: World) -> None:
    cluster = Controlled(world)
    epoch = await arrived(cluster, REGISTER)

    assert await arrived(cluster, BrokerHeartbeat(1, epoch, 0)) == HeartbeatAnswer(False, True, False)
    assert await arrived(cluster, BrokerHeartbeat(1, epoch, 99, wants_fence=True)) == HeartbeatAnswer(True, True, False)
    assert await arrived(cluster, BrokerHeartbeat(1, epoch, 99)) == HeartbeatAnswer(True, False, False)
    leaving = await arrived(cluster, BrokerHeartbeat(1, epoch, 99, wants_shut_down=True))
    assert leaving == HeartbeatAnswer(True, True, True)


@in_world
async def test_in_sync_sets_of_several_topics_arrive_and_their_outcomes_keep_the_order(world: World) -> None:
    cluster = Controlled(world)
    epoch = await arrived(cluster, REGISTER)
    await arrived(cluster, BrokerHeartbeat(1, epoch, 99))
    topics = tuple(NewTopic(name, name.encode() * 16, 2, 1) for name in "ab")
    cluster.tell(CreateTopics(topics))
    # Asked topic by topic here, so that what arrives has the same order as what was asked.
    changes = tuple(
        InSyncChange(name.encode() * 16, number, 0, number, ((1, epoch),), is_recovering=False)
        for name in "ab"
        for number in range(2)
    )

    altered = await arrived(cluster, AlterPartitions(1, epoch, changes))
    mixed = await cluster.link.ask(AlterPartitions(1, epoch, (changes[0], changes[2], changes[1], changes[3])))

    assert [one.outcome.code for one in altered] == [Code.NONE, Code.NOT_CONTROLLER] * 2
    assert [one.outcome.code for one in mixed] == [Code.NONE, Code.NONE, Code.NOT_CONTROLLER, Code.NOT_CONTROLLER]
    assert (altered[0].leader, altered[0].in_sync, altered[0].partition_epoch) == (1, (1,), 0)


@in_world
async def test_producer_ids_are_asked_for_with_the_epoch_of_this_broker(world: World) -> None:
    cluster = Controlled(world)
    epoch = await arrived(cluster, REGISTER)

    block = await cluster.link.ask(AllocateProducerIds(1))

    assert block == ProducerIdBlock(0, 1000)
    assert cluster.asked[-1] == AllocateProducerIds(1, epoch)


@in_world
async def test_topics_arrive_with_all_that_is_wanted_of_them(world: World) -> None:
    cluster = Controlled(world)
    epoch = await arrived(cluster, REGISTER)
    await arrived(cluster, BrokerHeartbeat(1, epoch, 99))
    by_hand = NewTopic("a", bytes(16), assignments=((0, (1,)),), configs=(("retention.ms", "5"),))

    made, bad = await cluster.link.ask(CreateTopics((by_hand, NewTopic("b", bytes(16), 1, 7))))

    assert (made.name, made.outcome.code, made.partition_count, made.replication_factor) == ("a", Code.NONE, 1, 1)
    assert made.topic_id == cluster.image.topics["a"].id
    assert (bad.outcome.code, bad.topic_id) == (Code.INVALID_REPLICATION_FACTOR, bytes(16))
    assert cluster.image.topic_config("a").retention_ms == 5


@in_world
async def test_a_topic_of_our_own_arrives_as_such(world: World) -> None:
    cluster = Controlled(world)
    epoch = await arrived(cluster, REGISTER)
    with pytest.raises(Refused) as refused:
        await cluster.link.ask(CreateInternalTopic("__consumer_offsets", bytes(16)))
    assert refused.value.code == Code.INVALID_REPLICATION_FACTOR, "nothing is there to have it"
    await arrived(cluster, BrokerHeartbeat(1, epoch, 99))

    made = await cluster.link.ask(CreateInternalTopic("__consumer_offsets", bytes(16)))

    assert isinstance(cluster.asked[-1], CreateInternalTopic)
    assert (made.outcome.code, made.partition_count) == (Code.NONE, 50)


def test_what_no_node_asks_is_a_bug() -> None:
    with pytest.raises(TypeError):
        asking(DeleteTopics(()), "cluster")
