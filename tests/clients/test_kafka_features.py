"""Kafka's kafka-features and its admin client's features against the node under test."""

from __future__ import annotations

import os
import re

import pytest

from tests.clients.kafka_tools import Tool
from tests.clients.support import needs

needs("kafka tools")

FEATURE = re.compile(
    r"Feature: (\S+)\s+SupportedMinVersion: (\S+)\s+SupportedMaxVersion: (\S+)\s+FinalizedVersionLevel: (\S+)\s+"
    r"Epoch: (\d+)"
)
# Share groups and streams groups are not there.
OURS = {"eligible.leader.replicas.version", "group.version", "kraft.version", "metadata.version", "transaction.version"}


@pytest.fixture(scope="module")
def tool(bootstrap: str, tmp_path_factory: pytest.TempPathFactory) -> Tool:
    return Tool(bootstrap, tmp_path_factory.mktemp("archive"))


def described(tool: Tool) -> dict[str, tuple[str, str, str, int]]:
    found = FEATURE.findall(tool("kafka-features", "describe"))
    return {name: (lowest, highest, level, int(epoch)) for name, lowest, highest, level, epoch in found}


def refused(tool: Tool, *arguments: str) -> str:
    with pytest.raises(RuntimeError) as failed:
        tool("kafka-features", *arguments)
    return str(failed.value)


def test_kafka_features_describes_what_is_supported_and_finalized(tool: Tool) -> None:
    features = described(tool)

    assert set(features) >= OURS
    assert set(features) == OURS or os.environ.get("CHRONIK_TEST_PEER") == "kafka"
    assert features["metadata.version"][:3] == ("3.3-IV3", "4.3-IV0", "4.3-IV0")
    assert features["group.version"][:3] == ("0", "1", "1")
    assert features["transaction.version"][:3] == ("0", "2", "2")


def test_kafka_features_upgrades_downgrades_and_disables(tool: Tool) -> None:
    epoch = described(tool)["group.version"][3]

    assert "group.version can be downgraded to 0." in tool(
        "kafka-features", "downgrade", "--dry-run", "--feature", "group.version=0"
    )
    assert described(tool)["group.version"][2] == "1"
    assert "group.version was disabled." in tool("kafka-features", "disable", "--feature", "group.version")
    off = described(tool)["group.version"]
    assert off[2] == "0"
    assert off[3] > epoch
    assert "Can't downgrade to a newer version." in refused(tool, "downgrade", "--feature", "group.version=1")
    assert "group.version was upgraded to 1." in tool("kafka-features", "upgrade", "--feature", "group.version=1")
    assert described(tool)["group.version"][2] == "1"


def test_kafka_features_refuses_levels_that_cannot_be(tool: Tool) -> None:
    for arguments, reason in (
        (("upgrade", "--feature", "metadata.version=99"), "Local controller 1 only supports versions 7-30"),
        (("upgrade", "--feature", "foo=1"), "Local controller 1 does not support this feature."),
        (
            ("downgrade", "--feature", "metadata.version=7"),
            "Unsupported metadata.version downgrade from 30 to 7. Refusing to perform the requested downgrade because"
            " it might delete metadata information.",
        ),
        (
            ("downgrade", "--unsafe", "--feature", "metadata.version=7"),
            "Unsupported metadata.version downgrade from 30 to 7. Unsafe metadata downgrade is not supported in this"
            " version.",
        ),
        (("upgrade", "--feature", "group.version=1", "--feature", "foo=3"), "2 out of 2 operation(s) failed."),
    ):
        assert reason in refused(tool, *arguments)


@pytest.mark.skipif(os.environ.get("CHRONIK_TEST_PEER") == "kafka", reason="Apache Kafka has share and streams groups")
def test_a_release_that_needs_what_is_missing_is_refused_as_a_whole_and_named(tool: Tool) -> None:
    before = described(tool)

    told = refused(tool, "upgrade", "--release-version", "4.3")

    assert (
        "Invalid update version 1 for feature share.version. Local controller 1 does not support this feature." in told
    )
    assert described(tool) == before
