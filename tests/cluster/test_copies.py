"""Exactly once: a topic is copied in transactions by each client while nodes are killed, and producers die on the way.

CHRONIK_COPY_MESSAGES and CHRONIK_COPY_CLIENTS (names, or 'all') make more of it: `make soak` copies 10,000 by each.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import cycle
from pathlib import Path

import pytest
from confluent_kafka import OFFSET_INVALID, Consumer, IsolationLevel, KafkaError, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from chronik.client.transactions import TransactionAdmin
from chronik.core.machines.metadata.names import OFFSETS_TOPIC
from chronik.node.coordinators.runtime import partition_of
from chronik.testing import RunningCluster
from chronik.testing import cluster as start_cluster
from tests.cluster.abandoning import OPEN
from tests.cluster.copiers import OTHERS, PYTHON, command_of
from tests.cluster.support import (
    PARTITIONS,
    WAIT_S,
    check_logs,
    controller_of,
    create_topic,
    leader_of,
    new_name,
    wait_until,
    wait_until_in_sync,
)
from tests.cluster.transactional import (
    SETTINGS,
    CommittedReader,
    TransactionalWriter,
    check_exact,
    coordinator_of,
    values,
)
from tests.ecosystem.programs import Program

MESSAGES = int(os.environ.get("CHRONIK_COPY_MESSAGES", "1500"))
CLIENTS = os.environ.get("CHRONIK_COPY_CLIENTS", "confluent").replace("all", ",".join(PYTHON + OTHERS)).split(",")
ABANDONED = int(os.environ.get("CHRONIK_ABANDONED", "10"))
KILL_EVERY = 500  # messages: a longer copy has more kills
COPY_S = 600.0
TIMEOUT_MS = 3_000
# Far above what the coordinator needs to notice and to write the markers: a busy machine fails nothing.
ENDED_S = 30.0


@pytest.fixture(scope="module")
def copying_cluster() -> Iterator[RunningCluster]:
    with start_cluster(nodes=3, settings=SETTINGS) as running:
        yield running
        check_logs(running)


class Killer:
    """SIGKILL of one node after the other, each time the copy has come on by so much; it comes back at once."""

    def __init__(
        self, cluster: RunningCluster, victims: Sequence[Callable[[], int]], progress: Callable[[], int]
    ) -> None:
        self.kills = 0
        self._cluster = cluster
        self._victims = cycle(victims)
        self._progress = progress
        self._problems: list[BaseException] = []
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def _run(self) -> None:
        try:
            for mark in range(KILL_EVERY // 2, MESSAGES, KILL_EVERY):
                while self._progress() < mark and not self._ending.wait(0.02):
                    pass
                if self._ending.is_set():
                    return
                node_id = next(self._victims)()
                self._cluster.kill(node_id)
                self.kills += 1
                self._cluster.nodes[node_id].start()
        except BaseException as problem:
            self._problems.append(problem)

    @contextmanager
    def at_work(self) -> Iterator[Killer]:
        self._thread.start()
        try:
            yield self
        finally:
            self._ending.set()
            self._thread.join(2 * WAIT_S)
        assert not self._thread.is_alive(), "a node does not come back"
        assert not self._problems, self._problems
        # A fast client gets on while a node is restarted.
        assert self.kills >= min(3, MESSAGES // KILL_EVERY - 1), "the copy was over before the nodes were killed"


def read_again(bootstrap: str, topic: str) -> dict[int, list[bytes]]:
    """What a reader finds that begins now: all up to the last stable offset."""
    settings = {
        "group.id": "not-used",
        "isolation.level": "read_committed",
        "enable.partition.eof": True,
        "log_level": 0,
    }
    consumer = Consumer({"bootstrap.servers": bootstrap, **settings})
    consumer.assign([TopicPartition(topic, partition, 0) for partition in range(PARTITIONS)])
    found: dict[int, list[bytes]] = {partition: [] for partition in range(PARTITIONS)}
    ended: set[int] = set()
    try:
        while len(ended) < PARTITIONS:
            message = consumer.poll(WAIT_S)
            assert message is not None, f"the ends were not reached: {ended}"
            if (error := message.error()) is None:
                found[message.partition() or 0].append(message.value() or b"")
            elif error.code() == KafkaError._PARTITION_EOF:
                ended.add(message.partition() or 0)
        return found
    finally:
        consumer.close()


@pytest.mark.timeout(COPY_S + 120)
@pytest.mark.parametrize("client", CLIENTS)
def test_a_copy_is_exact_while_nodes_are_killed(copying_cluster: RunningCluster, client: str, tmp_path: Path) -> None:
    cluster, name = copying_cluster, new_name("copy")
    command = command_of(client, tmp_path)
    if command is None:
        pytest.skip(f"{client} is not installed")
    source, target = create_topic(cluster.bootstrap), create_topic(cluster.bootstrap)
    expected = values(MESSAGES)
    TransactionalWriter(cluster.bootstrap, new_name("source")).write(lambda made: _produce(made, source, expected))
    victims = (
        lambda: leader_of(cluster, target),
        lambda: coordinator_of(cluster, name),
        lambda: controller_of(cluster),
        lambda: leader_of(cluster, OFFSETS_TOPIC, partition_of(name, int(SETTINGS["offsets.topic.num.partitions"]))),
    )

    began = time.monotonic()
    with (
        CommittedReader(cluster.bootstrap, target).reading() as reader,
        Program(client, [*command, cluster.bootstrap, source, target, name], Path.cwd(), log_folder=tmp_path) as copier,
        Killer(cluster, victims, lambda: reader.count).at_work() as killer,
    ):
        copier.wait_until(
            lambda: reader.count >= MESSAGES, lambda: f"{reader.count} of {MESSAGES} were copied", seconds=COPY_S
        )
    sys.stdout.write(
        f"{client}: {MESSAGES} copied in {time.monotonic() - began:.1f} s, {killer.kills} kills of nodes,"
        f" {copier.log().count('again:')} sessions given up, {copier.log().count('aborted')} transactions aborted\n"
    )

    check_exact(reader, expected)
    assert reader.values == {partition: expected[partition::PARTITIONS] for partition in range(PARTITIONS)}
    wait_until_in_sync(cluster, target)
    # The copier was killed, perhaps in a transaction without records: nothing new becomes readable.
    assert read_again(cluster.bootstrap, target) == reader.values


def _produce(producer: Producer, topic: str, part: Sequence[bytes]) -> None:
    for number, value in enumerate(part):
        producer.produce(topic, value, partition=number % PARTITIONS)


def stable_ends(admin: AdminClient, topic: str) -> list[int]:
    """How far `read_committed` can read in each partition."""
    return _ends(admin, topic, IsolationLevel.READ_COMMITTED)


def _ends(admin: AdminClient, topic: str, isolation: IsolationLevel) -> list[int]:
    asked = {TopicPartition(topic, partition): OffsetSpec.latest() for partition in range(PARTITIONS)}
    answers = admin.list_offsets(asked, isolation_level=isolation, request_timeout=WAIT_S)
    return [answers[place].result(WAIT_S).offset for place in asked]


def committed(bootstrap: str, group: str, topic: str) -> list[int]:
    """A consumer waits while an offset is pending: so what it says is decided."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group, "log_level": 0})
    try:
        places = [TopicPartition(topic, partition) for partition in range(PARTITIONS)]
        return [place.offset for place in consumer.committed(places, timeout=WAIT_S)]
    finally:
        consumer.close()


@pytest.mark.timeout(240)
def test_no_transaction_of_killed_producers_hangs_past_its_time(
    copying_cluster: RunningCluster, tmp_path: Path
) -> None:
    cluster, name = copying_cluster, new_name("abandoned")
    topic = create_topic(cluster.bootstrap)
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap, "log_level": 0})
    arguments = [cluster.bootstrap, topic, name, str(ABANDONED), str(TIMEOUT_MS)]
    command = [sys.executable, "-m", "tests.cluster.abandoning", *arguments]
    with Program("producers", command, Path.cwd(), log_folder=tmp_path) as producers:
        producers.wait_until(lambda: OPEN in producers.log(), "the transactions are open")
    killed_at = time.monotonic()
    plain = Producer({"bootstrap.servers": cluster.bootstrap, "log_level": 0})
    _produce(plain, topic, [b"behind"] * PARTITIONS)
    assert plain.flush(WAIT_S) == 0

    wait_until(
        lambda: stable_ends(admin, topic) == _ends(admin, topic, IsolationLevel.READ_UNCOMMITTED),
        lambda: f"nothing is held back: {stable_ends(admin, topic)}",
        TIMEOUT_MS / 1000 + ENDED_S,
    )
    sys.stdout.write(f"{ABANDONED} transactions of {TIMEOUT_MS} ms over in {time.monotonic() - killed_at:.2f} s\n")
    assert list(read_again(cluster.bootstrap, topic).values()) == [[b"behind"]] * PARTITIONS
    assert committed(cluster.bootstrap, name, topic) == [OFFSET_INVALID] * PARTITIONS
    listed = TransactionAdmin(cluster.bootstrap).listed()
    assert {one.state for one in listed if one.transactional_id.startswith(name)} == {"CompleteAbort"}
