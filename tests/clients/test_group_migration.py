"""A group moves from the classic to the consumer protocol and back, member by member, while it consumes (KIP-848)."""

from __future__ import annotations

import itertools
import os
import subprocess
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import ConsumerGroupType, Producer
from confluent_kafka.admin import AdminClient

from tests.clients.group_members import (
    COOPERATIVE,
    RANGE,
    GroupMember,
    JavaMember,
    KafkaPythonMember,
    Ledger,
    LibrdkafkaMember,
)
from tests.clients.jvm import CLIENTS, jars_of
from tests.clients.support import WAIT_SECONDS, needs, wait_until

needs("java client")

PARTITIONS = 6
READ_MEANWHILE = 40  # records of each partition, between two steps: it consumes while it moves


@pytest.fixture(scope="module")
def classes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("classes")
    source = CLIENTS / "java" / "GroupMember.java"
    subprocess.run(["javac", "-d", str(folder), "-cp", f"{jars_of('client')}/*", str(source)], check=True)
    return folder


class Load:
    """Produces to every partition until it is stopped."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self._producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 5})
        self._topic = topic
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        self.rounds = 0

    def _run(self) -> None:
        while not self._stopped.wait(0.01):
            for partition in range(PARTITIONS):
                self._producer.produce(self._topic, b"%d" % self.rounds, partition=partition)
            self._producer.poll(0)
            self.rounds += 1

    def stop(self) -> dict[int, int]:
        """How many records each partition has."""
        self._stopped.set()
        self._thread.join(WAIT_SECONDS)
        assert self._producer.flush(WAIT_SECONDS) == 0
        return dict.fromkeys(range(PARTITIONS), self.rounds)


class Group:
    """The members of a group that is being moved."""

    def __init__(self, bootstrap: str, topic: str, classes: Path) -> None:
        self.ledger = Ledger()
        self.members: list[GroupMember] = []
        self._about = bootstrap, topic
        self._classes = classes
        self._numbers = itertools.count(1)
        self._admin = AdminClient({"bootstrap.servers": bootstrap})

    def join(self, client: str, assignor: str | None) -> None:
        """Of the consumer protocol, unless it has an assignor of the classic one."""
        name = f"{client}-{assignor or 'consumer'}-{next(self._numbers)}"
        member: GroupMember
        if client == "java":
            member = JavaMember(name, self.ledger, *self._about, assignor, self._classes)
        elif client == "librdkafka":
            member = LibrdkafkaMember(name, self.ledger, *self._about, assignor)
        else:
            assert assignor is not None
            member = KafkaPythonMember(name, self.ledger, *self._about, assignor)
        self.members.append(member.start())

    def leave(self) -> None:
        """The one that has been there longest."""
        self.members.pop(0).leave()

    def wait_until_shared(self) -> None:
        """Each partition has one owner, and all members have some."""
        names = sorted(member.name for member in self.members)

        def is_shared() -> bool:
            owners = self.ledger.owners()
            if self.ledger.failures:
                pytest.fail(str(self.ledger.failures))
            return (
                len(owners) == PARTITIONS
                and all(len(one) == 1 for one in owners.values())
                and sorted({one[0] for one in owners.values()}) == names
            )

        wait_until(is_shared, lambda: f"shared by {names}: {self.ledger.owners()}", seconds=4 * WAIT_SECONDS)

    def wait_until_it_reads(self) -> None:
        """Every partition goes on."""
        before = self.ledger.positions()

        def goes_on() -> bool:
            now = self.ledger.positions()
            return all(now.get(p, 0) >= before.get(p, 0) + READ_MEANWHILE for p in range(PARTITIONS))

        wait_until(goes_on, lambda: f"read on: {before}, {self.ledger.positions()}", seconds=4 * WAIT_SECONDS)

    def type(self) -> ConsumerGroupType:
        listed = self._admin.list_consumer_groups(request_timeout=WAIT_SECONDS).result(WAIT_SECONDS)
        assert not listed.errors
        [group_type] = [one.type for one in listed.valid if one.group_id == self._about[1]]
        return group_type

    def close(self) -> None:
        while self.members:
            self.leave()


@pytest.fixture
def group(bootstrap: str, make_topic: Callable[..., str], classes: Path) -> Iterator[tuple[Group, Load]]:
    topic = make_topic(partitions=PARTITIONS)
    group, load = Group(bootstrap, topic, classes), Load(bootstrap, topic)
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
def test_a_group_of_three_is_upgraded_and_downgraded_member_by_member_while_it_consumes(
    group: tuple[Group, Load], assignor: str, classic: list[str]
) -> None:
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
