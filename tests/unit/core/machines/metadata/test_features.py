"""Features: what a new cluster begins with, and which levels can be set. The messages are Apache Kafka 4.3.1's."""

from __future__ import annotations

from typing import Any

import pytest

from chronik.core.errors import Code, Refused
from chronik.core.machines.metadata.features import (
    SAFE_DOWNGRADE,
    SUPPORTED,
    UNSAFE_DOWNGRADE,
    UPDATES_MAX,
    UPGRADE,
    FeatureUpdate,
    UpdateFeatures,
    finalized,
    has_consumer_groups,
)
from chronik.core.machines.metadata.image import MetadataImage
from chronik.core.machines.metadata.machine import MetadataMachine
from chronik.core.machines.metadata.records import FeatureLevelRecord, RegisterBrokerRecord
from chronik.core.machines.metadata.snapshots import records_of
from tests.unit.core.machines.metadata.machine_asked import Asked

NEW = {
    "eligible.leader.replicas.version": 1,
    "group.version": 1,
    "kraft.version": 1,
    "metadata.version": 30,
    "transaction.version": 2,
}


def update(*updates: tuple[Any, ...], validate_only: bool = False) -> UpdateFeatures:
    return UpdateFeatures(tuple(FeatureUpdate(*one) for one in updates), validate_only)


def refused(asked: Asked, *updates: tuple[Any, ...]) -> str:
    before = dict(asked.image.features)
    with pytest.raises(Refused) as refusal:
        asked.ask(update(*updates))
    assert refusal.value.code is Code.INVALID_UPDATE_VERSION
    assert asked.image.features == before
    return refusal.value.message or ""


def test_a_new_cluster_has_the_newest_levels_and_every_node_says_what_it_supports() -> None:
    asked = Asked()

    assert finalized(asked.image.features) == NEW
    [registered] = [record for record in records_of(asked.image) if isinstance(record, RegisterBrokerRecord)]
    said = {one.name: (one.min_supported_version, one.max_supported_version) for one in registered.features}
    assert said == SUPPORTED


def test_a_log_of_an_earlier_version_keeps_its_level_and_can_be_upgraded() -> None:
    asked = Asked(brokers=())
    asked.take([FeatureLevelRecord("metadata.version", 7)])

    assert finalized(asked.image.features) == {**NEW, "metadata.version": 7, "transaction.version": 0}
    asked.ask(update(("metadata.version", 30), ("transaction.version", 2)))
    assert finalized(asked.image.features) == NEW


def test_levels_survive_a_replay_and_a_snapshot() -> None:
    asked = Asked()
    asked.ask(update(("group.version", 0, SAFE_DOWNGRADE)))

    replayed = MetadataMachine(MetadataImage("cluster", asked.config))
    for record in asked.log:
        replayed.replay(record)
    from_snapshot = MetadataImage("cluster", asked.config)
    from_snapshot.refill(records_of(asked.image), asked.image.version)

    for image in (asked.image, replayed.image, from_snapshot):
        assert finalized(image.features) == {**NEW, "group.version": 0}
        assert not has_consumer_groups(image)


def test_validating_changes_nothing_and_finds_the_same_faults() -> None:
    asked = Asked()

    assert asked.ask(update(("group.version", 0, SAFE_DOWNGRADE), validate_only=True)) is None
    assert finalized(asked.image.features) == NEW
    with pytest.raises(Refused):
        asked.ask(update(("group.version", 2), validate_only=True))


def test_a_level_that_is_there_already_is_no_record() -> None:
    asked = Asked()
    written = len(asked.log)

    asked.ask(update(("group.version", 1), ("kraft.version", 1), ("metadata.version", 30, SAFE_DOWNGRADE)))

    assert len(asked.log) == written


@pytest.mark.parametrize(
    ("name", "level", "kind", "message"),
    [
        ("foo", 1, UPGRADE, "Local controller 1 does not support this feature."),
        ("transaction.version", 3, UPGRADE, "Local controller 1 only supports versions 0-2"),
        ("foo", 0, SAFE_DOWNGRADE, "Feature foo not found."),
        ("metadata.version", 31, UPGRADE, "Local controller 1 only supports versions 7-30"),
        ("metadata.version", 0, SAFE_DOWNGRADE, "Local controller 1 only supports versions 7-30"),
        ("kraft.version", 0, SAFE_DOWNGRADE, "Local controller 1 only supports versions 1"),
        ("group.version", 2, UPGRADE, "Local controller 1 only supports versions 0-1"),
        ("group.version", -1, UPGRADE, "A feature version cannot be less than 0."),
        ("group.version", 1, 4, "The controller does not support the given upgrade type."),
        ("group.version", 1, 0, "The controller does not support the given upgrade type."),
        (
            "group.version",
            0,
            UPGRADE,
            "Can't downgrade the version of this feature without setting the upgrade type to either safe or unsafe"
            " downgrade.",
        ),
    ],
)
def test_a_level_that_cannot_be_is_refused_in_kafkas_words(name: str, level: int, kind: int, message: str) -> None:
    assert refused(Asked(), (name, level, kind)) == f"Invalid update version {level} for feature {name}. {message}"


def test_a_downgrade_does_not_go_up() -> None:
    asked = Asked()
    asked.ask(update(("group.version", 0, UNSAFE_DOWNGRADE)))

    message = "Invalid update version 1 for feature group.version. Can't downgrade to a newer version."
    assert refused(asked, ("group.version", 1, SAFE_DOWNGRADE)) == message


def test_the_metadata_goes_back_only_where_kafka_had_changed_nothing() -> None:
    asked = Asked(brokers=())
    asked.take([FeatureLevelRecord("metadata.version", 29)])

    asked.ask(update(("metadata.version", 23, SAFE_DOWNGRADE)))
    assert asked.image.features["metadata.version"] == 23
    begin = "Unsupported metadata.version downgrade from 23 to 22. "
    assert refused(asked, ("metadata.version", 22, SAFE_DOWNGRADE)) == (
        begin + "Refusing to perform the requested downgrade because it might delete metadata information."
    )
    assert refused(asked, ("metadata.version", 22, UNSAFE_DOWNGRADE)) == (
        begin + "Unsafe metadata downgrade is not supported in this version."
    )


def test_one_that_cannot_be_holds_back_all_of_them() -> None:
    asked = Asked()

    message = refused(asked, ("group.version", 0, SAFE_DOWNGRADE), ("foo", 3))

    assert message == "Invalid update version 3 for feature foo. Local controller 1 does not support this feature."


def test_a_request_names_each_feature_once_and_not_without_end() -> None:
    asked = Asked()

    for updates in ((("group.version", 1),) * 2, tuple((f"f{number}", 1) for number in range(UPDATES_MAX + 1))):
        with pytest.raises(Refused) as refusal:
            asked.ask(update(*updates))
        assert refusal.value.code is Code.INVALID_REQUEST
