"""An image, the records of its snapshot, and the image again: nothing may be missing, whatever the history."""

from __future__ import annotations

from hypothesis import settings
from hypothesis.stateful import invariant

from chronik.core.machines.metadata.commands import (
    AllocateProducerIds,
    AlterConfigs,
    ConfigChange,
    CreateTopics,
    NewTopic,
    ResourceType,
)
from chronik.core.machines.metadata.image import MetadataImage
from chronik.core.machines.metadata.records import (
    RemoveTopicRecord,
    UnregisterBrokerRecord,
    decode,
    encode,
)
from chronik.core.machines.metadata.snapshots import gone_since, records_of
from tests.unit.core.machines.metadata.machine_asked import Asked, content
from tests.unit.core.machines.metadata.test_controller_storms import ControllerStorm


def everything(image: MetadataImage) -> dict[str, object]:
    """All fields of an image, also those that are only there to be quick; settings as they are in force."""
    fields = {name: value for name, value in vars(image).items() if name not in ("_topic_configs", "holdings")}
    fields["_default_topic_config"] = image.topic_config("no topic of this name")
    fields["topic configs"] = {name: image.topic_config(name) for name in image.topics}
    fields["holdings"] = image.holdings.content()
    fields["order of topics"] = list(image.topics)
    return fields


def refilled(image: MetadataImage) -> MetadataImage:
    """Through the bytes of a snapshot, into an image that had something else in it."""
    other = Asked(brokers=(7,)).image
    other._started_with = image._started_with
    other.cluster_id = image.cluster_id
    written = [decode(encode(record)) for record in records_of(image)]
    other.refill([record for record in written if record is not None], image.version)
    return other


class SnapshotStorm(ControllerStorm):
    @invariant()
    def a_snapshot_has_everything(self) -> None:
        image = self.asked.image
        assert everything(refilled(image)) == everything(image)
        assert everything(image.copy()) == everything(image)


TestSnapshotStorm = SnapshotStorm.TestCase
TestSnapshotStorm.settings = settings(max_examples=30, stateful_step_count=20, deadline=None)


def create(asked: Asked, name: str, partitions: int) -> None:
    (created,) = asked.ask(CreateTopics((NewTopic(name, name.encode().ljust(16, b"-"), partitions, 1),)))
    assert not created.outcome.code


def rich() -> Asked:
    asked = Asked()
    create(asked, "a.b", 3)
    create(asked, "c", 1)
    changes = (
        ConfigChange(ResourceType.TOPIC, "c", (("retention.ms", 0, "1000"),)),
        ConfigChange(ResourceType.BROKER, "", (("min.insync.replicas", 0, "2"),)),
    )
    asked.ask(AlterConfigs(changes))
    asked.ask(AllocateProducerIds(1))
    return asked


def test_settings_producer_ids_and_features_are_in_a_snapshot() -> None:
    image = rich().image

    other = refilled(image)

    assert everything(other) == everything(image)
    assert other.topic_config("c").retention_ms == 1000
    assert other.node_config.log.min_insync_replicas == 2
    assert other.next_producer_id == image.next_producer_id > 0
    assert other.features == image.features != {}
    assert other.colliding("a_b") == "a.b"


def test_a_copy_goes_its_own_way() -> None:
    asked = rich()
    copy = asked.image.copy()
    before = content(copy)

    create(asked, "later", 2)

    assert content(copy) == before
    assert copy.version < asked.image.version
    assert copy.topic("later") is None
    assert everything(copy) != everything(asked.image)


def test_what_a_snapshot_took_away_is_told() -> None:
    asked, other = rich(), Asked(brokers=())
    topics = [topic.id for topic in asked.image.topics.values()]
    brokers = [broker.id for broker in asked.image.brokers.values()]

    gone = list(gone_since(asked.image, other.image))

    assert [record.topic_id for record in gone if isinstance(record, RemoveTopicRecord)] == topics
    assert [record.broker_id for record in gone if isinstance(record, UnregisterBrokerRecord)] == brokers
    assert list(gone_since(asked.image, asked.image)) == []
