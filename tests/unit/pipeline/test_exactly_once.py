"""A micro-batch in one transaction: whatever is lost or killed at whichever step, and whoever comes back, it is there
once and whole. The cluster here is a model of a transaction coordinator and its fences."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Mapping

import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed: pip install 'chronik[spark]'")
pytest.importorskip("numba", reason="numba is not installed: pip install 'chronik[spark]'")

from chronik.core.records.batch import read_header
from chronik.pipeline.columns.encode import Packed
from chronik.pipeline.exactly_once import commit_once
from chronik.pipeline.topics.client import Failed, ReadPartition
from chronik.pipeline.topics.options import BadOption, write_options

ORDERS_0, ORDERS_1 = ReadPartition("orders", 0), ReadPartition("orders", 1)
STEPS = ("begin", "committed", "add", "produce", "note", "end")


class Killed(BaseException):
    """The driver's process is gone: nothing of it runs any more."""


def rows(batch: int) -> list[tuple[ReadPartition, Packed]]:
    """Three batches: two for the first partition, one for the second."""
    return [
        (partition, Packed(b"%d:%d" % (batch, number), 2, 0, 0, 0))
        for number, partition in enumerate((ORDERS_0, ORDERS_1, ORDERS_0))
    ]


class Cluster:
    """What readers of committed records see, and the one transaction that may be open."""

    def __init__(self) -> None:
        self.epoch = -1
        self.open: list[tuple[ReadPartition, bytes]] | None = None
        self.noted: int | None = None
        self.number = 0
        self.visible: list[tuple[ReadPartition, bytes]] = []
        self.sequences: dict[ReadPartition, int] = {}
        self.added: set[ReadPartition] = set()

    def fence(self) -> None:
        """InitProducerId, or a transaction whose time is up."""
        self.epoch += 1
        self.open, self.noted, self.sequences, self.added = None, None, {}, set()

    def seen(self) -> list[bytes]:
        return [content for _, content in self.visible]


class Driver:
    """Its transaction. `disturb` is called before and after each step."""

    producer_id = 7

    def __init__(self, cluster: Cluster, disturb: Callable[[str, bool], None] = lambda step, is_done: None) -> None:
        self._cluster = cluster
        self._disturb = disturb
        self._is_committed = False
        self.producer_epoch = -1
        self.steps: list[str] = []

    def _step(self, name: str, change: Callable[[], None]) -> None:
        self.steps.append(name)
        self._disturb(name, False)
        if name != "begin" and self._cluster.epoch != self.producer_epoch:
            raise Failed("PRODUCER_FENCED")
        change()
        self._disturb(name, True)

    def begin(self) -> None:
        def change() -> None:
            self._cluster.fence()
            self.producer_epoch = self._cluster.epoch

        self._step("begin", change)

    def committed(self) -> int:
        self.steps.append("committed")
        self._disturb("committed", False)
        number = self._cluster.number  # no fence protects a reading
        self._disturb("committed", True)
        return number

    def add(self, partitions: Iterable[ReadPartition]) -> None:
        def change() -> None:
            self._cluster.open = self._cluster.open or []
            self._cluster.added |= set(partitions)

        self._step("add", change)

    def produce(self, batches: Mapping[ReadPartition, bytes]) -> None:
        def change() -> None:
            for partition, batch in batches.items():
                assert partition in self._cluster.added
                header = read_header(batch)
                assert header.is_transactional
                assert header.base_sequence == self._cluster.sequences.get(partition, 0)
                assert (header.producer_id, header.producer_epoch) == (7, self._cluster.epoch)
                self._cluster.sequences[partition] = header.base_sequence + header.record_count
                assert self._cluster.open is not None
                self._cluster.open.append((partition, bytes(batch[61:])))

        self._step("produce", change)

    def note(self, number: int, topic: str) -> None:
        def change() -> None:
            self._cluster.noted = number

        self._step("note", change)

    def end(self, *, is_commit: bool) -> None:
        def change() -> None:
            cluster = self._cluster
            if is_commit:
                cluster.visible += cluster.open or []
                cluster.number = cluster.noted or cluster.number
            cluster.open, cluster.noted = None, None

        self._step("end", change)


WHOLE = [b"0:0", b"0:1", b"0:2"]


def written(cluster: Cluster) -> list[bytes]:
    return sorted(cluster.seen())


def test_a_batch_is_written_in_one_transaction_and_noted() -> None:
    cluster = Cluster()
    driver = Driver(cluster)

    assert commit_once(driver, rows(0), 0)
    assert driver.steps == ["begin", "committed", "add", "produce", "produce", "note", "end"]
    assert (written(cluster), cluster.number) == (WHOLE, 1)
    assert [content for partition, content in cluster.visible if partition == ORDERS_0] == [b"0:0", b"0:2"]


def test_a_batch_that_is_there_already_is_not_written_again() -> None:
    cluster = Cluster()
    commit_once(Driver(cluster), rows(0), 0)
    again = Driver(cluster)

    assert not commit_once(again, rows(0), 0)
    assert again.steps == ["begin", "committed"]
    assert commit_once(Driver(cluster), rows(1), 1)
    assert (written(cluster), cluster.number) == ([*WHOLE, b"1:0", b"1:1", b"1:2"], 2)


def test_a_job_that_cannot_be_met_again_notes_nothing() -> None:
    cluster = Cluster()
    driver = Driver(cluster)

    assert commit_once(driver, rows(0), None)
    assert driver.steps == ["begin", "add", "produce", "produce", "end"]
    assert (written(cluster), cluster.number) == (WHOLE, 0)


@pytest.mark.parametrize("is_done", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("at", STEPS)
@pytest.mark.parametrize("problem", [Killed, Failed], ids=["killed", "failed"])
def test_a_driver_that_ends_at_any_step_is_made_good_by_the_next(
    at: str, is_done: bool, problem: type[BaseException]
) -> None:
    """`after` stands for an answer that was lost, too: the step was carried out, and the driver does not know."""
    cluster = Cluster()

    def disturb(step: str, has_happened: bool) -> None:
        if (step, has_happened) == (at, is_done):
            raise problem("no more")

    with pytest.raises(problem):
        commit_once(Driver(cluster, disturb), rows(0), 0)
    assert written(cluster) in ([], WHOLE), "never a part of it"
    assert (written(cluster) == WHOLE) == (at == "end" and is_done)

    commit_once(Driver(cluster), rows(0), 0)
    commit_once(Driver(cluster), rows(1), 1)
    assert (written(cluster), cluster.number) == ([*WHOLE, b"1:0", b"1:1", b"1:2"], 2)


@pytest.mark.parametrize("is_done", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("at", STEPS)
def test_a_driver_that_was_taken_for_dead_and_goes_on_writes_nothing(at: str, is_done: bool) -> None:
    cluster = Cluster()
    has_passed = False

    def pause(step: str, has_happened: bool) -> None:
        nonlocal has_passed
        if (step, has_happened) == (at, is_done) and not has_passed:
            has_passed = True
            for number in range(2):  # meanwhile another driver does this batch and the next
                commit_once(Driver(cluster), rows(number), number)

    with contextlib.suppress(Failed):  # it is fenced, or finds that all is done
        commit_once(Driver(cluster, pause), rows(0), 0)
    assert has_passed
    assert (written(cluster), cluster.number) == ([*WHOLE, b"1:0", b"1:1", b"1:2"], 2)


@pytest.mark.parametrize("at", STEPS)
def test_a_transaction_that_takes_longer_than_its_time_is_nothing_and_then_whole(at: str) -> None:
    cluster = Cluster()

    def time_is_up(step: str, has_happened: bool) -> None:
        if (step, has_happened) == (at, False) and step != "begin":
            cluster.fence()

    if at == "begin":
        assert commit_once(Driver(cluster, time_is_up), rows(0), 0)
    else:
        with pytest.raises(Failed):
            commit_once(Driver(cluster, time_is_up), rows(0), 0)
        assert cluster.seen() == []
    commit_once(Driver(cluster), rows(0), 0)
    assert written(cluster) == WHOLE


@pytest.mark.parametrize(("at", "is_aborted"), [("produce", True), ("end", False)])
def test_what_failed_before_its_end_is_aborted_at_once_and_never_after(at: str, is_aborted: bool) -> None:
    cluster = Cluster()
    has_failed = False

    def disturb(step: str, has_happened: bool) -> None:
        nonlocal has_failed
        if step == at and not has_failed:
            has_failed = True
            raise Failed("no answer")

    driver = Driver(cluster, disturb)
    with pytest.raises(Failed):
        commit_once(driver, rows(0), 0)
    assert driver.steps.count("end") == 1
    assert (cluster.open is None) == is_aborted


def test_the_options_are_checked() -> None:
    base = {"kafka.bootstrap.servers": "127.0.0.1:9092", "topic": "orders"}
    assert not write_options(base).is_exactly_once
    chosen = write_options({**base, "exactlyOnce": "true", "kafka.transaction.timeout.ms": "5000"})
    assert (chosen.is_exactly_once, chosen.transaction_timeout_ms) == (True, 5000)
    with pytest.raises(BadOption, match="contradict"):
        write_options({**base, "exactlyOnce": "true", "rowsPerSecond": "5"})
