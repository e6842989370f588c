"""A run is finished and told, whatever becomes of the clearing up after it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, cast

import pytest

from chronik.verify.books import Books
from chronik.verify.clients.protocol import Receiving, Sending, until_stopped
from chronik.verify.errors import RunCannotStart, Stopped
from chronik.verify.history import RunHistory
from chronik.verify.ledger import DeliveredMessages, Ledger, ReceivedRecord
from chronik.verify.messages import Messages
from chronik.verify.result import VerifyResult
from chronik.verify.run import verify_on
from chronik.verify.settings import VerifyAcks, VerifySettings

ORDERS = VerifySettings("127.0.0.1:9092", messages=3, topic="orders")
IDEMPOTENT = VerifySettings("127.0.0.1:9092", messages=3, acks=VerifyAcks.ALL)
OWN = VerifySettings("127.0.0.1:9092", messages=3)


class FakeCluster:
    """A chronik with a topic `orders` that nobody traces. An unwell one takes no change after the run."""

    is_chronik = True
    version_words = "chronik 0.1.0"
    addresses = ()

    def __init__(self, is_unwell: bool) -> None:
        self.traced: list[bool] = []
        self.deleted: list[str] = []
        self.end = 0
        self.is_produced = False
        self._is_unwell = is_unwell

    def nodes(self) -> int:
        return 1

    def partitions(self, topic: str) -> int:
        return 1

    def create(self, topic: str, partitions: int, replication: int | None) -> int:
        return 1

    def ends(self, topic: str, partitions: int) -> dict[int, int]:
        return {0: self.end if self.is_produced else 0}

    def log_ends(self, topic: str, ends: Mapping[int, int]) -> dict[int, int]:
        return self.ends(topic, 1) if self.is_chronik else {}

    def commit(self, group: str, topic: str, offsets: dict[int, int]) -> None:
        pass

    def is_traced(self, topic: str) -> bool:
        return False

    def trace(self, topic: str, is_on: bool) -> None:
        if self._is_unwell and not is_on:
            raise RunCannotStart("cannot switch it off")
        self.traced.append(is_on)

    def delete(self, topic: str, group: str | None) -> None:
        if self._is_unwell:
            raise RunCannotStart("cannot delete it")
        self.deleted.append(topic)


class FakeClient:
    """Gives back what it was sent, so much a poll, with copies of the first behind it."""

    version = "0"

    def __init__(self, cluster: FakeCluster, poll_max: int, copies: int) -> None:
        self._cluster = cluster
        self._records: list[ReceivedRecord] = []
        self._poll_max = poll_max
        self._copies = copies
        self.polls = 0

    def produce(self, order: Sending, messages: Messages, ledger: Ledger) -> None:
        until_stopped(order)
        for number in range(ledger.messages):
            ledger.send(number, 0)
            ledger.acknowledge(number, 0, number)
            self._records.append(ReceivedRecord(messages.value(number), 0, number))
        for number in range(self._copies):
            self._records.append(ReceivedRecord(messages.value(number), 0, ledger.messages + number))
        self._cluster.end += len(self._records)
        self._cluster.is_produced = True

    def consumer(self, order: Receiving) -> FakeClient:
        return self

    def poll(self, wait_s: float) -> list[ReceivedRecord]:
        self.polls += 1
        records, self._records = self._records[: self._poll_max], self._records[self._poll_max :]
        return records

    def close(self) -> None:
        pass


class LockedHistory(RunHistory):
    def finish(self, run: int, report: dict[str, Any]) -> None:
        raise RunCannotStart("the history cannot be used: database is locked")


class FullDisk(Books):
    def write(self, topic: str, producer: str, ledger: Ledger, delivered: DeliveredMessages) -> None:
        raise RunCannotStart("ledger.txt cannot be written: No space left on device")


@pytest.fixture
def history() -> Iterator[RunHistory]:
    kept = RunHistory(None)
    yield kept
    kept.close()


class Runs:
    def __init__(self, history: RunHistory, is_unwell: bool) -> None:
        self.cluster = FakeCluster(is_unwell)
        self.client = FakeClient(self.cluster, poll_max=3, copies=0)
        self.notes: list[str] = []
        self._history = history

    def run(self, settings: VerifySettings, is_stopped: bool = False, books: Books | None = None) -> VerifyResult:
        return verify_on(
            cast(Any, self.cluster),
            self.client,
            settings,
            self._history,
            lambda phase, done, total: None,
            lambda: is_stopped,
            books or Books(),
            self.notes.append,
        )

    @property
    def kept(self) -> dict[str, Any] | None:
        """What the history has of the only run."""
        [kept] = self._history.runs()
        return kept.report


@pytest.fixture
def well(history: RunHistory) -> Runs:
    return Runs(history, is_unwell=False)


@pytest.fixture
def unwell(history: RunHistory) -> Runs:
    return Runs(history, is_unwell=True)


def test_a_topic_of_the_users_own_is_traced_for_the_run_and_then_no_more(well: Runs) -> None:
    result = well.run(ORDERS)

    assert (result.to_json()["verdict"], result.is_topic_kept) == ("pass", True)
    assert well.cluster.traced == [True, False]
    assert (well.notes, well.cluster.deleted) == ([], [])


def test_a_trace_that_cannot_be_switched_off_is_noted_and_the_verdict_stands(unwell: Runs) -> None:
    result = unwell.run(ORDERS)

    assert result.to_json()["verdict"] == "pass"
    assert unwell.kept == result.to_json()
    [note] = unwell.notes
    assert "cannot switch it off" in note
    assert "`chronik topic alter orders --delete-config chronik.trace`" in note


def test_stopped_is_stopped_though_the_trace_cannot_be_switched_off(unwell: Runs) -> None:
    with pytest.raises(Stopped):
        unwell.run(ORDERS, is_stopped=True)

    assert unwell.kept is None
    assert len(unwell.notes) == 1


def test_a_run_that_fails_in_the_middle_clears_up_as_well(well: Runs) -> None:
    with pytest.raises(RunCannotStart, match="No space left"):
        well.run(ORDERS, books=FullDisk())

    assert well.cluster.traced == [True, False]


def test_a_topic_of_the_runs_own_is_deleted_and_the_history_says_so(well: Runs) -> None:
    result = well.run(OWN)

    assert well.cluster.deleted == [result.topic]
    assert not result.is_topic_kept
    assert well.kept == result.to_json()


def test_a_topic_that_cannot_be_deleted_is_noted_and_not_said_to_be_gone(unwell: Runs) -> None:
    result = unwell.run(OWN)

    assert (result.to_json()["verdict"], result.is_topic_kept) == ("pass", True)
    assert unwell.kept == result.to_json()
    assert unwell.notes == [f"cannot delete it; do it with `chronik topic delete {result.topic}`"]


def test_copies_behind_the_last_message_are_read_too(well: Runs) -> None:
    well.client = FakeClient(well.cluster, poll_max=3, copies=3)

    told = well.run(IDEMPOTENT).to_json()

    assert (told["verdict"], told["cause"], told["written_twice"]) == ("fail", "written twice", 3)


def test_copies_behind_the_last_message_are_read_at_another_kafka_too(well: Runs) -> None:
    well.cluster.is_chronik = False
    well.client = FakeClient(well.cluster, poll_max=3, copies=2)

    assert well.run(IDEMPOTENT).to_json()["written_twice"] == 2


def test_at_the_end_of_the_log_nobody_polls_once_more(well: Runs) -> None:
    well.run(IDEMPOTENT)

    assert well.client.polls == 1


def test_a_log_that_ends_with_a_marker_is_not_waited_for_for_ever_and_that_is_said(well: Runs) -> None:
    well.cluster.end = 1

    told = well.run(replace(IDEMPOTENT, timeout_s=0.05)).to_json()

    assert told["verdict"] == "pass"
    assert "partition 0 from offset 3 to 4" in told["evidence"][0]


def test_a_history_that_is_locked_costs_neither_the_verdict_nor_the_clearing_up() -> None:
    runs = Runs(LockedHistory(None), is_unwell=False)

    result = runs.run(OWN)

    assert result.to_json()["verdict"] == "pass"
    assert runs.cluster.deleted == [result.topic]
    assert runs.notes == ["this run could not be kept: the history cannot be used: database is locked"]
