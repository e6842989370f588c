"""What is really in the cluster that the proxy lies about: written twice, with another leader in between.

The node that led first was down while the second half was written. What it answered before is what it would still say
if it had been cut off since: the stale node of the lies.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from functools import partial

from confluent_kafka import Consumer, Message, Producer, TopicPartition

from chronik.client.admin import ClusterAdmin
from chronik.inspect.gather_record import Gatherer
from chronik.testing import RunningCluster
from chronik.verify.ledger import LedgerPlace
from chronik.verify.messages import Messages
from tests.cluster.support import create_topic, leader_of, new_name, wait_until, wait_until_in_sync

PARTITIONS = 3
BEFORE, SINCE = 6, 4  # records of each partition
ANSWER_S = 60.0


@dataclass
class World:
    """The records, by their number: each knows its own, in its value and its key."""

    topic: str
    group: str
    messages: Messages
    late_topic: str = ""
    """It is made in the second half: the old leader has not heard of it, if it was cut off before."""
    is_late_topic_there: bool = False
    late_group: str = ""
    """It commits in the second half only."""
    places: dict[int, LedgerPlace] = field(default_factory=dict)
    old_leader: int = 0
    producers: dict[int, tuple[int, int]] = field(default_factory=dict)
    """By partition: producer id, and the offset of the first record that it wrote there, with sequence number 0."""

    @property
    def end(self) -> int:
        """Of every partition: they have the same."""
        return len(self.places) // PARTITIONS

    def number_at(self, place: LedgerPlace) -> int:
        return next(number for number, each in self.places.items() if each == place)

    @staticmethod
    def key(number: int) -> str:
        return f"key-{number}"


@dataclass
class Stage:
    """The cluster, what is in it, and what its nodes answered in the first half."""

    nodes: dict[int, tuple[str, int]]
    world: World
    recorded: dict[tuple[int, bytes], bytes]


def write(cluster: RunningCluster, world: World, count: int) -> None:
    """So many to each partition, from one idempotent producer."""
    told = threading.Lock()
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "enable.idempotence": True, "log_level": 0})
    first = len(world.places)

    def written(number: int, error: object, message: Message) -> None:
        assert error is None, error
        with told:
            world.places[number] = LedgerPlace(message.partition() or 0, message.offset() or 0)

    for number in range(first, first + count * PARTITIONS):
        value, key = world.messages.value(number), world.key(number)
        producer.produce(
            world.topic, value, key, number % PARTITIONS,
            on_delivery=partial(written, number),
        )  # fmt: skip
    assert producer.flush(ANSWER_S) == 0


def read_and_commit(cluster: RunningCluster, world: World) -> None:
    """As a member of the group, all that is there."""
    consumer = Consumer(
        {
            "bootstrap.servers": cluster.bootstrap,
            "group.id": world.group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "log_level": 0,
        }
    )
    try:
        places = [TopicPartition(world.topic, number, world.end) for number in range(PARTITIONS)]
        consumer.subscribe([world.topic])
        wait_until(lambda: consumer.poll(0.1) is not None, "the group reads")
        consumer.commit(offsets=places, asynchronous=False)
    finally:
        consumer.close()


def first_half(cluster: RunningCluster) -> World:
    topic = create_topic(cluster.bootstrap, partitions=PARTITIONS)
    wait_until_in_sync(cluster, topic)
    world = World(topic, new_name("billing"), Messages("0123abcd", 60), new_name("late"), late_group=new_name("audit"))
    write(cluster, world, BEFORE)
    read_and_commit(cluster, world)
    world.old_leader = leader_of(cluster, topic)
    return world


def second_half(cluster: RunningCluster, world: World) -> None:
    """Written while the old leader is down; afterwards all replicas are in sync again."""
    cluster.kill(world.old_leader)
    for number in range(PARTITIONS):
        assert leader_of(cluster, world.topic, number) != world.old_leader
    write(cluster, world, SINCE)
    alive = ",".join(node.bootstrap for node in cluster.running().values())
    create_topic(alive, world.late_topic, partitions=1, replicas=2)
    world.is_late_topic_there = True
    wait_until(lambda: _is_committed(cluster, world), "the groups have committed the rest")
    cluster.restart(world.old_leader)
    wait_until_in_sync(cluster, world.topic)
    wait_until(lambda: not _leads(cluster, world), "the old leader does not lead")
    gatherer = Gatherer(ClusterAdmin(cluster.bootstrap), world.topic)
    for number in range(PARTITIONS):
        looks = gatherer.look_at(number, 0)
        batch = next(look.batch for look in looks.values() if look.batch is not None)
        world.producers[number] = (batch.producer_id, batch.base_offset)


def _is_committed(cluster: RunningCluster, world: World) -> bool:
    """From outside: its coordinator may just be moving, and the group has no members."""
    from chronik.client.errors import ChronikError

    alive = ",".join(node.bootstrap for node in cluster.running().values())
    ends = {(world.topic, number): world.end for number in range(PARTITIONS)}
    try:
        for group in (world.group, world.late_group):
            ClusterAdmin(alive).commit(group, ends)
    except ChronikError:
        return False
    return True


def _leads(cluster: RunningCluster, world: World) -> bool:
    return any(leader_of(cluster, world.topic, number) == world.old_leader for number in range(PARTITIONS))
