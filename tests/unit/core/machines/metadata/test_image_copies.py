"""A second image beside the committed one, and one that begins anew: neither knows too much nor too little."""

from __future__ import annotations

from dataclasses import replace

from chronik.core.machines.metadata.commands import (
    CreatePartitions,
    CreateTopics,
    DeleteTopics,
    MorePartitions,
    NewTopic,
    RegisterBroker,
    TopicToDelete,
)
from chronik.core.machines.metadata.image import MetadataImage
from chronik.core.machines.metadata.machine import AnyMetadataCommand, MetadataMachine
from chronik.core.machines.metadata.records import PartitionChangeRecord
from chronik.core.machines.metadata.snapshots import records_of
from tests.unit.core.machines.metadata.machine_asked import Asked, content, topic_id


def asked_with(*names: str) -> Asked:
    asked = Asked(brokers=(1, 2))
    asked.ask(CreateTopics(tuple(NewTopic(name, topic_id(at), 2) for at, name in enumerate(names, start=1))))
    return asked


def decide_on_copy(image: MetadataImage, command: AnyMetadataCommand) -> MetadataImage:
    """What a controller does whose records are not committed yet."""
    machine = MetadataMachine(image.copy())
    for fact in machine.decide(1, command, 0).facts:
        machine.apply(fact)
    return machine.image


def test_what_a_controller_has_decided_is_not_in_the_committed_image() -> None:
    """What a controller has decided is not in the committed image before it is safe."""
    committed = asked_with("a").image
    before = content(committed)

    ahead = decide_on_copy(committed, CreatePartitions((MorePartitions("a", 5),)))

    assert len(ahead.topics["a"].partitions) == 5
    assert len(committed.topics["a"].partitions) == 2
    assert content(committed) == before


def test_partitions_that_are_added_are_seen_by_everyone_who_reads_the_log() -> None:
    # F21: followers went on with the number of partitions they knew.
    asked = asked_with("a")

    asked.ask(CreatePartitions((MorePartitions("a", 5),)))

    assert len(asked.replayed().image.topics["a"].partitions) == 5


def test_an_image_that_begins_anew_has_nothing_that_is_gone_meanwhile() -> None:
    # F18: a node that was away for long, and got a snapshot.
    away, asked = asked_with("a", "b").image, asked_with("a", "b")
    asked.ask(DeleteTopics((TopicToDelete("a", None),)))

    away.refill(records_of(asked.image), asked.image.version)

    assert list(away.topics) == ["b"]
    assert away.topic_by_id(topic_id(1)) is None


def test_a_snapshot_knows_nodes_that_are_fenced_and_the_epochs_of_partitions() -> None:
    asked = asked_with("a")
    asked.ask(RegisterBroker(3, bytes(16), "h", 9003, is_fenced=True))
    asked.take([PartitionChangeRecord(0, topic_id(1), leader=2), PartitionChangeRecord(0, topic_id(1), leader=1)])
    found = asked.image.topics["a"].partitions[0]
    assert (found.leader_epoch, found.partition_epoch) == (2, 2)

    other = MetadataImage("cluster", asked.config)
    other.refill(records_of(asked.image), asked.image.version)

    assert other.brokers[3].is_fenced
    assert other.topics["a"].partitions[0] == replace(found)
