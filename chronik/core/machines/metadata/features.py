"""Features (KIP-584): what this version supports, what the cluster has finalized, and how that is changed.

A finalized level is a FeatureLevelRecord of the metadata log. A log that an earlier version began has only that of
`metadata.version`: the others hold at the level that version behaved like (`_UNLESS_RECORDED`).

* `metadata.version`: the records of the metadata log are readable at every level from 7, so the level only says what
  tools may expect. Levels go up and down as in Kafka.
* `group.version`: at 0, groups of the new protocol (KIP-848) are switched off.
* `transaction.version`: at 1 the records of `__transaction_state` are flexible, at 2 each end of a transaction raises
  its producer's epoch (KIP-890). A cluster that began without transactions stays at 0 until it is raised.
* `eligible.leader.replicas.version` (KIP-966) and `kraft.version` (KIP-853): always on here, so 1 is their only level.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from chronik.core.errors import Code, Refused
from chronik.core.machines.metadata.commands import MetadataCommand
from chronik.core.machines.metadata.image import MetadataImage
from chronik.core.machines.metadata.records import (
    ELIGIBLE_LEADERS,
    GROUP_VERSION,
    KRAFT_VERSION,
    METADATA_VERSION,
    METADATA_VERSION_MAX,
    METADATA_VERSION_MIN,
    TRANSACTION_VERSION,
    BrokerFeature,
    FeatureLevelRecord,
)

UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE = 1, 2, 3
UPDATES_MAX = 1_000
# Levels of metadata.version at which Kafka's metadata got something that lower levels cannot hold.
_CHANGES_METADATA = frozenset((7, 8, 11, 13, 14, 15, 17, 23, 30))


class Levels(NamedTuple):
    """The levels of a feature that are supported."""

    lowest: int
    highest: int

    def __str__(self) -> str:
        return str(self.lowest) if self.lowest == self.highest else f"{self.lowest}-{self.highest}"


SUPPORTED: Mapping[str, Levels] = {
    ELIGIBLE_LEADERS: Levels(1, 1),
    GROUP_VERSION: Levels(0, 1),
    KRAFT_VERSION: Levels(1, 1),
    METADATA_VERSION: Levels(METADATA_VERSION_MIN, METADATA_VERSION_MAX),
    TRANSACTION_VERSION: Levels(0, 2),
}
_UNLESS_RECORDED = {
    ELIGIBLE_LEADERS: 1,
    GROUP_VERSION: 1,
    KRAFT_VERSION: 1,
    METADATA_VERSION: METADATA_VERSION_MIN,
    TRANSACTION_VERSION: 0,
}
_NEW_CLUSTER = {METADATA_VERSION: METADATA_VERSION_MAX, ELIGIBLE_LEADERS: 1, GROUP_VERSION: 1, TRANSACTION_VERSION: 2}


@dataclass(frozen=True, slots=True)
class FeatureUpdate:
    """A feature is to have this level."""

    name: str
    level: int
    upgrade_type: int = UPGRADE


@dataclass(frozen=True, slots=True)
class UpdateFeatures(MetadataCommand[None]):
    """All of them, or none. Answer: None. Refused with the reason of the first that cannot be."""

    updates: tuple[FeatureUpdate, ...]
    validate_only: bool = False


def finalized(features: Mapping[str, int]) -> dict[str, int]:
    """The level in force of each feature, by what an image has of them."""
    return {name: features.get(name, level) for name, level in sorted(_UNLESS_RECORDED.items())}


def has_consumer_groups(image: MetadataImage) -> bool:
    """Whether groups of the new protocol are switched on."""
    return image.features.get(GROUP_VERSION, _UNLESS_RECORDED[GROUP_VERSION]) > 0


def supported_features() -> tuple[BrokerFeature, ...]:
    """What each node says of itself when it registers."""
    return tuple(BrokerFeature(name, levels.lowest, levels.highest) for name, levels in SUPPORTED.items())


def first_features(image: MetadataImage) -> list[FeatureLevelRecord]:
    """With what a new cluster begins."""
    if METADATA_VERSION in image.features:
        return []
    return [FeatureLevelRecord(name, level) for name, level in _NEW_CLUSTER.items()]


def update_features(image: MetadataImage, command: UpdateFeatures) -> tuple[list[FeatureLevelRecord], None]:
    """The records of levels that change. Raises Refused."""
    if len(command.updates) > UPDATES_MAX:
        raise Refused(Code.INVALID_REQUEST, f"at most {UPDATES_MAX} features can be updated at once")
    names = [update.name for update in command.updates]
    if len(set(names)) < len(names):
        raise Refused(Code.INVALID_REQUEST, "a feature is named more than once")
    levels = finalized(image.features)
    for update in command.updates:
        _check(image.node_config.node_id, levels, update)
    if command.validate_only:
        return [], None
    changed = [update for update in command.updates if levels[update.name] != update.level]
    return [FeatureLevelRecord(update.name, update.level) for update in changed], None


def _check(controller_id: int, levels: Mapping[str, int], update: FeatureUpdate) -> None:
    """Raises Refused, in Kafka's words."""
    if update.upgrade_type not in (UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE):
        raise _invalid(update, "The controller does not support the given upgrade type.")
    if update.level < 0:
        raise _invalid(update, "A feature version cannot be less than 0.")
    supported = SUPPORTED.get(update.name)
    if supported is None:
        is_off = update.level == 0
        reason = (
            f"Feature {update.name} not found."
            if is_off
            else _unsupported(controller_id, "does not support this feature.")
        )
        raise _invalid(update, reason)
    if not supported.lowest <= update.level <= supported.highest:
        raise _invalid(update, _unsupported(controller_id, f"only supports versions {supported}"))
    present = levels[update.name]
    if update.level < present and update.upgrade_type == UPGRADE:
        raise _invalid(
            update,
            "Can't downgrade the version of this feature without setting the upgrade type to either safe or unsafe"
            " downgrade.",
        )
    if update.level > present and update.upgrade_type != UPGRADE:
        raise _invalid(update, "Can't downgrade to a newer version.")
    if update.name == METADATA_VERSION and _CHANGES_METADATA.intersection(range(update.level + 1, present + 1)):
        is_unsafe = update.upgrade_type == UNSAFE_DOWNGRADE
        reason = (
            "Unsafe metadata downgrade is not supported in this version."
            if is_unsafe
            else "Refusing to perform the requested downgrade because it might delete metadata information."
        )
        message = f"Unsupported metadata.version downgrade from {present} to {update.level}. {reason}"
        raise Refused(Code.INVALID_UPDATE_VERSION, message)


def _unsupported(controller_id: int, reason: str) -> str:
    return f"Local controller {controller_id} {reason}"


def _invalid(update: FeatureUpdate, reason: str) -> Refused:
    message = f"Invalid update version {update.level} for feature {update.name}. {reason}"
    return Refused(Code.INVALID_UPDATE_VERSION, message)
