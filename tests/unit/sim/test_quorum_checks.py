"""Between the nodes' metadata: each broken promise is found, and what is right is not."""

from __future__ import annotations

import pytest

from chronik.core.config.node import NodeConfig
from chronik.core.machines.metadata.image import MetadataImage
from chronik.core.machines.metadata.records import FeatureLevelRecord, ProducerIdsRecord
from chronik.sim.quorum_checks import QuorumChecks
from chronik.sim.story import Violation, WorldStory


@pytest.fixture
def checks() -> QuorumChecks:
    return QuorumChecks(WorldStory(lambda: 0.0))


def image(node_id: int, level: int = 1) -> MetadataImage:
    made = MetadataImage("cluster", NodeConfig.from_settings({"node.id": str(node_id)}))
    made.apply(FeatureLevelRecord("metadata.version", level))
    return made


def test_one_leader_an_epoch_is_right(checks: QuorumChecks) -> None:
    checks.leads(1, 3)
    checks.leads(1, 3)
    checks.leads(2, 4)


def test_two_leaders_of_one_epoch_are_found(checks: QuorumChecks) -> None:
    checks.leads(1, 3)

    with pytest.raises(Violation, match="node1 and node2 both lead the quorum in epoch 3"):
        checks.leads(2, 3)


def test_images_that_agree_are_right_whoever_has_them(checks: QuorumChecks) -> None:
    checks.image_at(1, 5, image(1))
    checks.image_at(2, 5, image(2))


def test_images_that_differ_at_one_offset_are_found(checks: QuorumChecks) -> None:
    checks.image_at(1, 5, image(1))
    checks.image_at(2, 6, image(2, level=2))

    with pytest.raises(Violation, match=r"node1 and node2 have different metadata at offset 5: features"):
        checks.image_at(2, 5, image(2, level=2))


def test_the_difference_is_told(checks: QuorumChecks) -> None:
    other = image(2)
    other.apply(ProducerIdsRecord(1, 1, 1000))
    checks.image_at(1, 5, image(1))

    with pytest.raises(Violation, match="next_producer_id: 0 and 1000"):
        checks.image_at(2, 5, other)
