"""SIGKILL under load, again and again: nothing acknowledged is lost, no offset is given twice, no watermark falls."""

from __future__ import annotations

import os
import random
import threading
import time
from collections.abc import Callable

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from chronik.testing import RunningNode, node
from tests.recovery.ledger import TIMEOUT_S, Ledger, check_delivered, check_dense, consume_all, end_offsets, send

KILLS = int(os.environ.get("CHRONIK_KILLS", "10"))
SEED = int(os.environ.get("CHRONIK_KILL_SEED", "1"))
PARTITIONS = 3
TOPIC = "orders"
GROUP = "readers"
LIVE_S = (0.2, 1.2)  # how long the node lives between two kills
PRODUCERS: dict[str, dict[str, str | int | bool]] = {
    "idempotent-1": {"enable.idempotence": True},
    "idempotent-2": {"enable.idempotence": True, "linger.ms": 5, "compression.type": "lz4"},
    "acks-all": {"acks": "all"},
    "acks-1": {"acks": "1"},
}


class Load:
    """A producer in a thread: numbered messages to all partitions, every acknowledgement into the ledger."""

    def __init__(self, name: str, settings: dict[str, str | int | bool], bootstrap: str, ledger: Ledger) -> None:
        self.name = name
        self._ledger = ledger
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name)
        self._producer = Producer(
            {"bootstrap.servers": bootstrap, "message.timeout.ms": 120_000, "reconnect.backoff.max.ms": 200, **settings}
        )
        self.sent: list[bytes] = []
        self.acknowledged: list[bytes] = []
        self.failed: list[str] = []

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        self._thread.join(TIMEOUT_S * 3)
        assert not self._thread.is_alive(), f"{self.name} does not end"

    def _run(self) -> None:
        while not self._stopping.is_set():
            payload = f"{self.name}-{len(self.sent)}".encode()
            self.sent.append(payload)
            self._producer.produce(TOPIC, payload, partition=len(self.sent) % PARTITIONS, on_delivery=self._told)
            self._producer.poll(0)
            if len(self._producer) > 200:
                self._producer.poll(0.01)
        self._producer.flush(TIMEOUT_S * 2)

    def _told(self, error: KafkaError | None, message: Message) -> None:
        payload = bytes(message.value() or b"")
        if error is not None:
            self.failed.append(f"{payload!r}: {error}")
            return
        self._ledger.take(message.partition() or 0, message.offset() or 0, payload)
        self.acknowledged.append(payload)


class SyncRounds:
    """Commits ever larger offsets of a group, and remembers the last one that was acknowledged."""

    def __init__(self, bootstrap: str) -> None:
        self._consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": GROUP, "enable.auto.commit": False})
        self.acknowledged = -1
        self.tried = -1

    def try_next(self) -> None:
        self.tried += 1
        try:
            self._consumer.commit(offsets=[TopicPartition(TOPIC, 0, self.tried)], asynchronous=False)
            self.acknowledged = self.tried
        except KafkaException:  # the node is just being killed: nothing was promised
            return

    def committed(self) -> int:
        (found,) = self._consumer.committed([TopicPartition(TOPIC, 0)], timeout=TIMEOUT_S)
        assert found.error is None, found.error
        return int(found.offset)

    def close(self) -> None:
        self._consumer.close()


def live(seconds: float, work: Callable[[], None]) -> None:
    """Do this over and over for so long."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        work()


@pytest.mark.timeout(60 + 20 * KILLS)
def test_killed_again_and_again_under_load_nothing_acknowledged_is_lost() -> None:
    dice = random.Random(SEED)
    with node({"log.segment.bytes": "1048576"}) as running:
        admin = AdminClient({"bootstrap.servers": running.bootstrap})
        admin.create_topics([NewTopic(TOPIC, PARTITIONS, 1)])[TOPIC].result(TIMEOUT_S)
        ledger = Ledger()
        loads = [Load(name, settings, running.bootstrap, ledger) for name, settings in PRODUCERS.items()]
        commits = SyncRounds(running.bootstrap)
        for load in loads:
            load.start()
        try:
            for _ in range(KILLS):
                kill_once(running, dice.uniform(*LIVE_S), commits)
        finally:
            for load in loads:
                load.stop()
            commits.close()

        delivered = consume_all(running.bootstrap, TOPIC, PARTITIONS)
        check_delivered(ledger, delivered, TOPIC, running.data_dir)
        check_dense(delivered)
        check_producers(loads, list(delivered.values()))


def kill_once(running: RunningNode, live_s: float, commits: SyncRounds) -> None:
    """Let it live, kill it, start it again: what was promised before is there after."""
    live(live_s, commits.try_next)
    ends_before = end_offsets(running.bootstrap, TOPIC, PARTITIONS)
    live(live_s / 4, commits.try_next)
    running.kill()
    running.start()
    ends_after = end_offsets(running.bootstrap, TOPIC, PARTITIONS)
    assert all(before <= after for before, after in zip(ends_before, ends_after, strict=True)), (
        ends_before,
        ends_after,
    )
    assert commits.acknowledged <= commits.committed() <= commits.tried


def check_producers(loads: list[Load], delivered: list[bytes]) -> None:
    """All that was sent was acknowledged in the end, and is there; of an idempotent producer exactly once."""
    for load in loads:
        assert load.failed == [], f"{load.name} gave up on messages"
        assert sorted(load.acknowledged) == sorted(load.sent), f"{load.name} was not answered for all"
        own = [payload for payload in delivered if payload.startswith(load.name.encode() + b"-")]
        assert set(own) == set(load.sent)
        if load.name.startswith("idempotent"):
            assert len(own) == len(load.sent), f"{load.name}: {len(own) - len(load.sent)} duplicates"


def test_records_deleted_before_a_kill_stay_deleted() -> None:
    """Records deleted before a kill stay deleted and the partition stays in service."""
    with node() as running:
        admin = AdminClient({"bootstrap.servers": running.bootstrap})
        admin.create_topics([NewTopic(TOPIC, 1, 1)])[TOPIC].result(TIMEOUT_S)
        send(running.bootstrap, TOPIC, *(b"%d" % number for number in range(10)))
        place = TopicPartition(TOPIC, 0, 4)
        assert admin.delete_records([place])[place].result(TIMEOUT_S).low_watermark == 4
        send(running.bootstrap, TOPIC, b"10")

        running.kill()
        running.start()

        assert consume_all(running.bootstrap, TOPIC, 1, 4) == {(0, number): b"%d" % number for number in range(4, 11)}
        consumer = Consumer({"bootstrap.servers": running.bootstrap, "group.id": "not-used"})
        assert consumer.get_watermark_offsets(TopicPartition(TOPIC, 0), timeout=TIMEOUT_S) == (4, 11)
        consumer.close()
