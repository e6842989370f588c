"""A run in transactions on a log in memory: what failures at each step come to, and that a lying log is found out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from chronik.verify.clients.protocol import ConsumerFailed, Receiving, TransactionFailed
from chronik.verify.ledger import ReceivedRecord
from chronik.verify.settings import VerifySettings
from chronik.verify.transactional.plan import TransactionalSettings
from chronik.verify.transactional.run import TransactionalRun

PARTITIONS = 2
SOURCE, COPY = "source", "copy"


class MemoryKafka:
    """Topics of committed records, a group's offsets, and a client that fails when it is told to."""

    version = "1"

    def __init__(self) -> None:
        self.logs: dict[tuple[str, int], list[bytes]] = {}
        self.committed: dict[int, int] = {}
        self.failures: dict[str, list[int]] = {}  # by step: at which calls of it
        self.calls: dict[str, int] = {}
        self.lies = False  # aborted records are committed
        self.tears = False  # a commit that fails carries out half of it
        self.carries_out = False  # a commit that fails is carried out
        self.repeats = False  # offsets of a commit are forgotten

    def step(self, name: str) -> None:
        self.calls[name] = self.calls.get(name, -1) + 1
        if self.calls[name] in self.failures.get(name, []):
            raise TransactionFailed(f"no {name}")

    def transactional(self, name: str, timeout_s: float) -> MemoryProducer:
        self.step("init")
        return MemoryProducer(self)

    def consumer(self, order: Receiving) -> MemoryConsumer:
        if self.calls.get("poll", -1) + 1 in self.failures.get("consumer", []):
            self.failures["consumer"] = []
            raise ConsumerFailed("no consumer")
        return MemoryConsumer(self, order)

    def produce(self, *_: Any) -> None:
        raise AssertionError("a run in transactions sends nothing outside of them")


class MemoryProducer:
    def __init__(self, kafka: MemoryKafka) -> None:
        self._kafka = kafka
        self._sent: list[tuple[str, int, bytes]] = []
        self._offsets: dict[int, int] = {}

    def begin(self) -> None:
        self._kafka.step("begin")
        self._sent, self._offsets = [], {}

    def send(self, topic: str, value: bytes, partition: int) -> None:
        self._kafka.step("send")
        self._sent.append((topic, partition, value))

    def send_offsets(self, consumer: Any, group: str, topic: str, offsets: Mapping[int, int]) -> None:
        self._kafka.step("offsets")
        self._offsets = dict(offsets)

    def commit(self) -> None:
        try:
            self._kafka.step("commit")
        except TransactionFailed:
            if self._kafka.carries_out:
                self._carry_out(len(self._sent))
            if self._kafka.tears:
                self._carry_out(len(self._sent) // 2)
            raise
        self._carry_out(len(self._sent))

    def _carry_out(self, count: int) -> None:
        for topic, partition, value in self._sent[:count]:
            self._kafka.logs.setdefault((topic, partition), []).append(value)
        if not self._kafka.repeats:
            self._kafka.committed.update(self._offsets)

    def abort(self) -> None:
        self._kafka.step("abort")
        if self._kafka.lies:
            self._carry_out(len(self._sent))

    def close(self) -> None:
        pass


class MemoryConsumer:
    def __init__(self, kafka: MemoryKafka, order: Receiving) -> None:
        assert order.is_committed_only
        assert order.group is None or not order.is_auto_commit
        self._kafka, self._order = kafka, order
        self._at = dict(order.starts) if order.group is None else dict(order.starts) | kafka.committed

    def poll(self, wait_s: float) -> list[ReceivedRecord]:
        self._kafka.calls["poll"] = self._kafka.calls.get("poll", -1) + 1
        found = []
        for partition, at in self._at.items():
            log = self._kafka.logs.get((self._order.topic, partition), [])
            for offset in range(at, min(len(log), at + self._order.max_poll_records)):
                found.append(ReceivedRecord(log[offset], partition, offset))
                self._at[partition] = offset + 1
        return found

    def close(self) -> None:
        pass


def run(kafka: MemoryKafka, *, is_copy: bool = False, abort_rate: float = 0.3, timeout_s: float = 5.0) -> Any:
    settings = VerifySettings("x", messages=100, partitions=PARTITIONS, max_poll_records=7, timeout_s=timeout_s)
    wanted = TransactionalSettings(size=5, abort_rate=abort_rate, is_copy=is_copy)
    made = TransactionalRun(
        settings, wanted, kafka, "mark", [SOURCE, COPY], lambda: False, lambda group, topic: kafka.committed
    )
    return made.carry_out()


@pytest.mark.parametrize("is_copy", [False, True])
def test_a_log_that_keeps_its_promises_passes(is_copy: bool) -> None:
    report = run(MemoryKafka(), is_copy=is_copy)

    assert (report["verdict"], report["evidence"]) == ("pass", [])
    assert report["committed"] + report["aborted"] == report["transactions"] == 20
    assert report["aborted"] > 0
    assert report["read"] == 5 * report["committed"]
    assert (report["copies"] is not None) is is_copy


@pytest.mark.parametrize("step", ["init", "begin", "send", "commit", "abort"])
def test_a_failure_at_any_step_of_writing_is_survived(step: str) -> None:
    kafka = MemoryKafka()
    kafka.failures = {step: [1]} if step != "init" else {step: [0]}
    report = run(kafka)

    assert report["verdict"] == "pass", report
    assert (report["restarts"], report["errors"]) == (1, {f"no {step}": 1})
    assert report["in_doubt"] == (1 if step == "commit" else 0)


@pytest.mark.parametrize("carries_out", [False, True])
def test_a_commit_in_doubt_counts_as_the_log_says(carries_out: bool) -> None:
    kafka = MemoryKafka()
    kafka.failures, kafka.carries_out = {"commit": [2, 3]}, carries_out
    report = run(kafka)

    assert report["verdict"] == "pass"
    assert (report["in_doubt"], report["in_doubt_committed"]) == (2, 2 if carries_out else 0)


@pytest.mark.parametrize("carries_out", [False, True])
@pytest.mark.parametrize("step", ["init", "begin", "send", "offsets", "commit", "abort"])
def test_a_copy_survives_a_failure_at_any_step(step: str, carries_out: bool) -> None:
    sound = MemoryKafka()
    run(sound, is_copy=True)
    for at in range(sound.calls[step] // 2, sound.calls[step] + 1, 3):
        kafka = MemoryKafka()
        kafka.failures, kafka.carries_out = {step: [at]}, carries_out
        report = run(kafka, is_copy=True)
        assert report["verdict"] == "pass", (at, report)


def test_a_copy_whose_last_commit_was_carried_out_unheard_is_done() -> None:
    sound = MemoryKafka()
    run(sound, is_copy=True)
    kafka = MemoryKafka()
    kafka.failures, kafka.carries_out = {"commit": [sound.calls["commit"] - 1]}, True  # the last ends the output
    report = run(kafka, is_copy=True, timeout_s=3)

    assert report["verdict"] == "pass", report


def test_a_log_that_shows_what_was_aborted_fails() -> None:
    kafka = MemoryKafka()
    kafka.lies = True
    report = run(kafka)

    assert report["verdict"] == "fail"
    assert report["aborted_read"] == 5 * report["aborted"]
    assert any("were aborted, and read with read_committed" in line for line in report["evidence"])


def test_a_log_that_tears_a_transaction_fails() -> None:
    kafka = MemoryKafka()
    kafka.failures, kafka.tears = {"commit": [2]}, True
    report = run(kafka)

    assert (report["verdict"], report["torn"]) == ("fail", 2)


def test_a_copy_whose_offsets_are_lost_fails() -> None:
    kafka = MemoryKafka()
    run(kafka)
    last = kafka.calls["commit"]
    kafka = MemoryKafka()
    kafka.repeats, kafka.failures = True, {"commit": [last + 4]}
    report = run(kafka, is_copy=True, timeout_s=2)

    assert report["verdict"] == "fail"
    assert report["duplicated"] > 0


def test_a_cluster_that_takes_nothing_is_not_said_to_have_lost_anything() -> None:
    kafka = MemoryKafka()
    kafka.failures = {"begin": list(range(10_000))}
    report = run(kafka, timeout_s=0.3)

    assert (report["verdict"], report["transactions"]) == ("partial", 0)
    assert any("were not begun" in line for line in report["evidence"])
