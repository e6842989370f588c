"""A group moves from the classic to the consumer protocol and back, member by member, while it consumes (KIP-848)."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import ConsumerGroupType

from tests.clients.group_members import COOPERATIVE, RANGE, Group, Load
from tests.clients.jvm import CLIENTS, jars_of
from tests.clients.support import WAIT_SECONDS, needs, wait_until

needs("java client")

PARTITIONS = 6


@pytest.fixture(scope="module")
def classes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("classes")
    source = CLIENTS / "java" / "GroupMember.java"
    subprocess.run(["javac", "-d", str(folder), "-cp", f"{jars_of('client')}/*", str(source)], check=True)
    return folder


@pytest.fixture
def group(bootstrap: str, make_topic: Callable[..., str], classes: Path) -> Iterator[tuple[Group, Load]]:
    topic = make_topic(partitions=PARTITIONS)
    group, load = Group(bootstrap, topic, PARTITIONS, classes), Load(bootstrap, topic, PARTITIONS)
    yield group, load
    load.stop()
    for member in group.members:
        member.leave()


# A librdkafka that leads such a group copies into assignments what members put into their subscriptions. Kafka takes
# that for a custom assignor's, and refuses the upgrade.
not_in_kafka = pytest.mark.skipif(os.environ.get("CHRONIK_TEST_PEER") == "kafka", reason="Kafka refuses the upgrade")


@pytest.mark.parametrize(
    ("assignor", "classic"),
    [
        pytest.param(RANGE, ["kafka-python", "librdkafka", "java"], id="range"),
        pytest.param(COOPERATIVE, ["java", "java", "java"], id="cooperative, Java only"),
        pytest.param(COOPERATIVE, ["librdkafka", "java", "librdkafka"], id="cooperative", marks=not_in_kafka),
    ],
)
def test_a_group_of_three_is_upgraded_and_downgraded_member_by_member(
    group: tuple[Group, Load], assignor: str, classic: list[str]
) -> None:
    """A group of three is upgraded and downgraded member by member while it consumes."""
    moving, load = group
    for client in classic:
        moving.join(client, assignor)
    moving.wait_until_shared()
    assert moving.type() == ConsumerGroupType.CLASSIC
    for client in ("java", "librdkafka", "librdkafka"):
        moving.leave()
        moving.join(client, None)
        moving.wait_until_shared()
        moving.wait_until_it_reads()
        assert moving.type() == ConsumerGroupType.CONSUMER
    for client in classic:
        moving.leave()
        moving.join(client, assignor)
        moving.wait_until_shared()
        moving.wait_until_it_reads()
    assert moving.type() == ConsumerGroupType.CLASSIC

    sent = load.stop()
    wait_until(lambda: moving.ledger.positions() == sent, "all is read and committed", seconds=4 * WAIT_SECONDS)
    moving.close()
    moving.ledger.check(sent)
