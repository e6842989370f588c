"""A run is finished and told, whatever becomes of the clearing up after it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

import pytest

from chronik.verify.books import Books
from chronik.verify.clients.protocol import Receiving, Sending, until_stopped
from chronik.verify.errors import CannotRun, Stopped
from chronik.verify.history import History
from chronik.verify.ledger import Delivered, Ledger, Record
from chronik.verify.messages import Messages
from chronik.verify.result import Result
from chronik.verify.run import verify_on
from chronik.verify.settings import Settings

ORDERS = Settings("127.0.0.1:9092", messages=3, topic="orders")
OWN = Settings("127.0.0.1:9092", messages=3)


class FakeCluster:
    """A chronik with a topic `orders` that nobody traces. An unwell one takes no change after the run."""

    is_chronik = True
    version = "0.1.0"
    addresses = ()

    def __init__(self, is_unwell: bool) -> None:
        self.traced: list[bool] = []
        self.deleted: list[str] = []
        self._is_unwell = is_unwell

    def nodes(self) -> int:
        return 1

    def partitions(self, topic: str) -> int:
        return 1

    def create(self, topic: str, partitions: int, replication: int | None) -> int:
        return 1

    def ends(self, topic: str, partitions: int) -> dict[int, int]:
        return {0: 0}

    def commit(self, group: str, topic: str, offsets: dict[int, int]) -> None:
        pass

    def is_traced(self, topic: str) -> bool:
        return False

    def trace(self, topic: str, is_on: bool) -> None:
        if self._is_unwell and not is_on:
            raise CannotRun("cannot switch it off")
        self.traced.append(is_on)

    def delete(self, topic: str, group: str | None) -> None:
        if self._is_unwell:
            raise CannotRun("cannot delete it")
        self.deleted.append(topic)


class FakeClient:
    """Gives back what it was sent."""

    version = "0"

    def __init__(self) -> None:
        self._records: list[Record] = []

    def produce(self, order: Sending, messages: Messages, ledger: Ledger) -> None:
        until_stopped(order)
        for number in range(ledger.messages):
            ledger.send(number, 0)
            ledger.acknowledge(number, 0, number)
            self._records.append(Record(messages.value(number), 0, number))

    def consumer(self, order: Receiving) -> FakeClient:
        return self

    def poll(self, wait_s: float) -> list[Record]:
        records, self._records = self._records, []
        return records

    def close(self) -> None:
        pass


class FullDisk(Books):
    def write(self, topic: str, producer: str, ledger: Ledger, delivered: Delivered) -> None:
        raise CannotRun("ledger.txt cannot be written: No space left on device")


@pytest.fixture
def history() -> Iterator[History]:
    kept = History(None)
    yield kept
    kept.close()


class Runs:
    def __init__(self, history: History, is_unwell: bool) -> None:
        self.cluster = FakeCluster(is_unwell)
        self.notes: list[str] = []
        self._history = history

    def run(self, settings: Settings, is_stopped: bool = False, books: Books | None = None) -> Result:
        return verify_on(
            cast(Any, self.cluster),
            FakeClient(),
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
def well(history: History) -> Runs:
    return Runs(history, is_unwell=False)


@pytest.fixture
def unwell(history: History) -> Runs:
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
    with pytest.raises(CannotRun, match="No space left"):
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
