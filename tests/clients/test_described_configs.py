"""What DescribeConfigs shows of a topic and a broker beside Apache Kafka's: docs/configuration-differences.md has each
difference, with its reason."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from chronik.core.config.without_effect import WITHOUT_EFFECT
from chronik.testing import node
from tests.clients.support import create_topic
from tools.kafka_configs import described

KAFKAS = Path(__file__).with_name("kafka_configs_4_3_1.json")
PAGE = Path(__file__).parents[2] / "docs" / "configuration-differences.md"

Shown = dict[str, dict[str, dict[str, Any]]]
Difference = tuple[str, str, str]  # of a topic or a broker, the setting, what differs
UNSET = "not set"


@pytest.fixture(scope="module")
def ours() -> Iterator[Shown]:
    with node() as running:
        create_topic(running.bootstrap, "plain", 1, {})
        host, _, port = running.bootstrap.rpartition(":")
        yield described((host, int(port)), "plain")


def differences(kafkas: Shown, ours: Shown) -> set[Difference]:
    return {
        (resource, name, what)
        for resource in kafkas
        for name in {*kafkas[resource], *ours[resource]}
        for what in _differing(name, kafkas[resource].get(name), ours[resource].get(name))
    }


def _differing(name: str, kafkas: dict[str, Any] | None, ours: dict[str, Any] | None) -> Iterator[str]:
    if kafkas is None:
        yield "only here"
        return
    if ours is None:
        if name not in WITHOUT_EFFECT:
            yield "not shown"
        return
    for trait in ("type", "default"):
        if ours[trait] != kafkas[trait]:
            yield f"{trait} {_said(ours[trait])}, Kafka's is {_said(kafkas[trait])}"
    # What the file of either says tells nothing of the other.
    if ours["source"] != kafkas["source"] and "static_broker" not in (ours["source"], kafkas["source"]):
        yield f"source {ours['source']}, Kafka's is {kafkas['source']}"
    if ours["read_only"] != kafkas["read_only"]:
        yield "cannot be altered" if ours["read_only"] else "can be altered"


def _said(value: str | None) -> str:
    return UNSET if value is None else value or "empty"


def rows() -> list[tuple[str, list[str], str]]:
    """The table of the page: of what, the settings' names, what differs."""
    table = PAGE.read_text().partition("<!-- differences -->")[2].partition("<!-- end of differences -->")[0]
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in table.strip().splitlines()[2:]]
    assert all(len(row) == 4 and row[3] for row in cells), "each row has a reason"
    return [(row[0], re.findall(r"`([^`]+)`", row[1]), row[2]) for row in cells]


def is_meant(pattern: str, name: str) -> bool:
    return name.startswith(pattern[:-1]) if pattern.endswith("*") else name == pattern


def untold(found: set[Difference]) -> set[Difference]:
    """Differences that are in no row."""
    table = rows()
    return {
        (resource, name, what)
        for resource, name, what in found
        if not any(
            (resource, what) == (of, said) and any(is_meant(one, name) for one in names) for of, names, said in table
        )
    }


def untrue(found: set[Difference]) -> set[Difference]:
    """Names in the table for which there is no such difference."""
    return {
        (of, pattern, said)
        for of, names, said in rows()
        for pattern in names
        if not any((resource, what) == (of, said) and is_meant(pattern, name) for resource, name, what in found)
    }


def test_every_difference_from_kafkas_settings_is_in_the_table_and_nothing_else(ours: Shown) -> None:
    found = differences(json.loads(KAFKAS.read_text()), ours)

    assert untold(found) == set()
    assert untrue(found) == set()


def test_a_difference_that_is_not_told_is_found(ours: Shown) -> None:
    kafkas: Shown = json.loads(KAFKAS.read_text())
    kafkas["topic"]["retention.ms"]["default"] = "1"
    kafkas["topic"]["new.setting"] = {"type": "int", "default": "1", "source": "default", "read_only": False}
    kafkas["broker"]["node.id"]["type"] = "long"
    kafkas["broker"]["num.partitions"]["read_only"] = False

    assert untold(differences(kafkas, ours)) == {
        ("topic", "retention.ms", "default 604800000, Kafka's is 1"),
        ("topic", "new.setting", "not shown"),
        ("broker", "node.id", "type int, Kafka's is long"),
        ("broker", "num.partitions", "cannot be altered"),
    }


def test_mirrormaker_finds_nothing_to_copy_that_kafka_would_refuse() -> None:
    """It copies what is neither read-only nor a default."""
    with node(config={"chronik.trace": "true", "log.cleanup.policy": "compact"}) as running:
        create_topic(running.bootstrap, "traced", 1, {"chronik.trace": "true", "retention.ms": "5000"})
        host, _, port = running.bootstrap.rpartition(":")
        shown = described((host, int(port)), "traced")["topic"]

    copied = {name for name, one in shown.items() if not one["read_only"] and one["source"] != "default"}
    assert copied == {"cleanup.policy", "retention.ms"}
    assert shown["chronik.gaps"]["source"] == "topic"
