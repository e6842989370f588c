"""What a follower asks and what it makes of the answers; and three replicas in every order of events."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chronik.core.config.topic import TopicConfig
from chronik.core.errors import Code, Refused
from chronik.core.log.epochs import Epochs, EpochStart
from chronik.core.log.log import Log
from chronik.core.log.segment import Slice
from chronik.core.replica.divergence import Diverging
from chronik.core.replica.follower import (
    Append,
    AskAgain,
    BeginAnew,
    LeaderAnswer,
    Nothing,
    Position,
    Truncation,
    position_of,
    step,
)
from chronik.core.replica.replica import ACKS_ALL, Replica
from tests.unit.core.fakes import MemoryFiles
from tests.unit.core.log.logs import NOW_MS, batch_of

NOTHING = b""
EVERYTHING = 10**9


def log_of(end_offset: int, *entries: tuple[int, int], start_offset: int = 0, gone_below: int = 0) -> Log:
    epochs = Epochs([EpochStart(*entry) for entry in entries])
    horizon = SimpleNamespace(offset=gone_below)
    log = SimpleNamespace(start_offset=start_offset, end_offset=end_offset, epochs=epochs, horizon=horizon)
    return cast(Log, cast(Any, log))


def told(
    error: Code = Code.NONE, start: int = 0, diverging: Diverging | None = None, records: bytes = b""
) -> LeaderAnswer:
    return LeaderAnswer(error, start, diverging, records)


# --- what it asks


def test_a_follower_asks_from_its_end_and_names_the_epoch_of_its_last_batch() -> None:
    assert position_of(log_of(20, (1, 0), (4, 12))) == Position(20, 4)


def test_an_epoch_without_a_batch_is_not_named() -> None:
    assert position_of(log_of(20, (1, 0), (4, 20))) == Position(20, 1)


def test_an_empty_log_has_no_epoch() -> None:
    assert position_of(log_of(0)) == Position(0, -1)
    assert position_of(log_of(7, (3, 7), start_offset=7)) == Position(7, -1)


# --- what it makes of an answer


def test_records_are_appended_and_no_records_are_nothing() -> None:
    assert step(log_of(5, (0, 0)), told(records=b"batches")) == Append(b"batches")
    assert step(log_of(5, (0, 0)), told()) == Nothing()


def test_a_log_that_ends_below_the_leaders_tombstone_horizon_is_begun_anew() -> None:
    given = LeaderAnswer(Code.NONE, 7, None, b"batches", horizon=40)

    assert step(log_of(39, (0, 0)), given) == BeginAnew(7)
    assert step(log_of(40, (0, 0)), given) == Append(b"batches")
    assert step(log_of(39, (0, 0), start_offset=39), given) == Append(b"batches"), "it has no value to forget"
    assert step(log_of(39, (0, 0), gone_below=40), given) == Append(b"batches"), "it was begun anew since"
    assert step(log_of(39, (0, 0)), given._replace(records=b"")) == Nothing()


def test_a_diverging_epoch_is_where_it_is_cut() -> None:
    assert step(log_of(30, (0, 0), (2, 15)), told(diverging=Diverging(0, 10))) == Truncation(10, is_reset=False)


def test_a_leader_that_starts_later_is_begun_with_anew() -> None:
    log = log_of(30, (0, 0))
    assert step(log, told(Code.OFFSET_OUT_OF_RANGE, start=50)) == Truncation(50, is_reset=True)


def test_an_empty_log_that_begins_behind_the_leaders_end_is_begun_anew() -> None:
    assert step(log_of(30, start_offset=30), told(Code.OFFSET_OUT_OF_RANGE, start=5)) == Truncation(5, is_reset=True)


@pytest.mark.parametrize(
    "code", [Code.UNKNOWN_LEADER_EPOCH, Code.FENCED_LEADER_EPOCH, Code.KAFKA_STORAGE_ERROR, Code.OFFSET_OUT_OF_RANGE]
)
def test_any_other_error_costs_nothing_but_time(code: Code) -> None:
    assert step(log_of(30, (0, 0)), told(code, start=-1)) == AskAgain(code)


# --- three replicas


class Copy:
    """A replica on a disk that may lose what was not synced."""

    def __init__(self, node_id: int) -> None:
        self.node_id = node_id
        self.files = MemoryFiles()
        self.synced = 0
        self.watermark = 0
        self.replica = self.opened()

    def opened(self) -> Replica:
        log = Log.open(
            cast(Any, self.files), "topic-0", TopicConfig(), NOW_MS, was_clean=False, synced_offset=self.synced
        )
        log.mark_synced(log.end_offset)
        return Replica("topic", 0, bytes(16), log, node_id=self.node_id, is_synced=True, high_watermark=self.watermark)

    def checkpoint(self) -> None:
        self.synced, self.watermark = self.replica.log.synced_offset, self.replica.high_watermark

    def sync(self) -> None:
        log = self.replica.log
        files, end_offset = log.unsynced()
        for file in files:
            file.sync()
        log.mark_synced(end_offset)
        self.replica.own_safe(end_offset)

    def crash(self) -> None:
        self.files.crash()
        self.replica = self.opened()


class Partition:
    """Three copies and the controller's word on their leader and in-sync set. `safe` is what clients were told."""

    def __init__(self) -> None:
        self.copies = {node_id: Copy(node_id) for node_id in (1, 2, 3)}
        self.in_sync: tuple[int, ...] = (1, 2, 3)
        self.leader_id = 1
        self.leader_epoch = self.partition_epoch = 0
        self.now_ms = 0
        self.appended = 0
        self.safe: dict[int, bytes] = {}  # by offset
        self.shown = 0
        self.tell()

    @property
    def leader(self) -> Replica:
        return self.copies[self.leader_id].replica

    def tell(self) -> None:
        for node_id, copy in self.copies.items():
            if node_id == self.leader_id:
                copy.replica.lead(self.leader_epoch, self.partition_epoch, (1, 2, 3), self.in_sync, self.now_ms)
            else:
                copy.replica.follow(self.leader_id, self.leader_epoch, self.partition_epoch)

    def produce(self) -> None:
        self.appended += 1
        self.leader.append(batch_of(1 + self.appended % 3, value=b"%d" % self.appended), 1, NOW_MS)

    def fetch(self, node_id: int) -> None:
        """One round of a follower: it says where it is, and takes what the leader has."""
        follower = self.copies[node_id].replica
        if node_id == self.leader_id:
            return
        self.copies[node_id].sync()
        offset, epoch = position_of(follower.log)
        leader = self.leader
        told = LeaderAnswer(Code.NONE, leader.log.start_offset, None, NOTHING)
        try:
            given = leader.read_for_follower(offset, epoch, EVERYTHING, at_least_one=True)
        except Refused as refusal:
            told, given = told._replace(error=refusal.code), None
        if isinstance(given, Diverging):
            told = told._replace(diverging=given)
        elif not told.error:
            leader.follower_fetched(node_id, offset, self.now_ms)
        if isinstance(given, Slice):
            told = told._replace(records=given.file.read(given.position, given.length))
        match step(follower.log, told):
            case Append(records):
                follower.append_as_follower(records, NOW_MS)
            case Truncation(cut_offset, is_reset):
                follower.log.expect_cut(0 if is_reset else cut_offset)
                self.copies[node_id].checkpoint()
                was_safe = follower.reset_to(cut_offset) if is_reset else follower.truncate_to(cut_offset)
                assert not was_safe, "what was safe was cut"
        if not told.error and told.diverging is None:
            follower.apply_leader_watermark(leader.high_watermark, leader.log.start_offset)

    def elect(self, node_id: int) -> None:
        """Only one that is in sync."""
        if node_id in self.in_sync:
            self.leader_id = node_id
            self.leader_epoch += 1
            self.partition_epoch += 1
            self.tell()

    def crash(self, node_id: int) -> None:
        """It loses what it had not synced, and leaves the set if another is in it; another leads then."""
        others = tuple(member for member in self.in_sync if member != node_id)
        self.copies[node_id].crash()
        self.partition_epoch += 1
        if others:
            self.in_sync = others
            if node_id == self.leader_id:
                self.leader_id = others[0]
        self.leader_epoch += 1
        self.tell()

    def change_set(self) -> None:
        in_sync = self.leader.in_sync
        assert in_sync is not None
        due = in_sync.change_due(
            self.leader.log.end_offset,
            self.leader.high_watermark,
            self.leader.epoch_start,
            self.now_ms,
            10,
            dict.fromkeys(self.copies, -1),
        )
        if due is not None:
            self.in_sync = due
            self.partition_epoch += 1
            self.leader.in_sync_decided(due, self.partition_epoch)

    def batches(self, replica: Replica, end_offset: int) -> dict[int, bytes]:
        found: dict[int, bytes] = {}
        offset = replica.log.start_offset
        while offset < end_offset:
            plan = replica.log.read(offset, end_offset, 1, at_least_one=True)
            assert plan is not None
            found[plan.start_offset] = bytes(plan.file.read(plan.position, plan.length))
            offset = plan.next_offset
        return found

    def check(self, before: dict[int, tuple[Replica, int]]) -> None:
        for node_id, (replica, watermark) in before.items():
            now = self.copies[node_id].replica
            assert now.high_watermark <= now.log.end_offset
            assert now is not replica or now.high_watermark >= watermark, "a watermark moved back"
        leader = self.leader
        for member in self.in_sync:
            assert leader.high_watermark <= self.copies[member].replica.log.synced_offset, "safe, and a member lacks it"
        for offset, batch in self.batches(leader, leader.high_watermark).items():
            assert self.safe.setdefault(offset, batch) == batch, "what was safe is another now"
        if leader.is_watermark_known:
            assert leader.high_watermark >= self.shown, "clients see less than before"
            self.shown = leader.high_watermark


EVENTS = st.tuples(
    st.sampled_from(["produce", "fetch", "fetch", "fetch", "sync", "checkpoint", "elect", "crash", "set", "time"]),
    st.integers(1, 3),
)


@settings(max_examples=150, deadline=None)
@given(st.lists(EVENTS, max_size=60))
def test_whatever_happens_what_is_safe_stays_and_the_copies_come_to_agree(events: list[tuple[str, int]]) -> None:
    partition = Partition()
    for what, node_id in events:
        before = {n: (copy.replica, copy.replica.high_watermark) for n, copy in partition.copies.items()}
        match what:
            case "produce":
                partition.produce()
            case "fetch":
                partition.fetch(node_id)
            case "sync":
                partition.copies[node_id].sync()
            case "checkpoint":
                partition.copies[node_id].checkpoint()
            case "elect":
                partition.elect(node_id)
            case "crash":
                partition.crash(node_id)
            case "set":
                partition.change_set()
            case "time":
                partition.now_ms += 6
        partition.check(before)

    for _ in range(8):
        partition.copies[partition.leader_id].sync()
        for node_id in (1, 2, 3):
            partition.fetch(node_id)
        partition.change_set()
    end_offset = partition.leader.log.end_offset
    assert sorted(partition.in_sync) == [1, 2, 3]
    assert partition.leader.high_watermark == end_offset
    whole = partition.batches(partition.leader, end_offset)
    assert whole.items() >= partition.safe.items()
    for copy in partition.copies.values():
        assert partition.batches(copy.replica, copy.replica.log.end_offset) == whole


def test_a_new_leader_does_not_say_that_less_is_safe_than_clients_saw() -> None:
    partition = Partition()
    partition.produce()
    for node_id in (1, 2, 3, 2, 3):
        partition.copies[node_id].sync()
        partition.fetch(node_id)
    assert partition.leader.high_watermark == partition.leader.log.end_offset > 0
    partition.copies[2].replica.high_watermark = 0  # it was never told

    partition.elect(2)

    assert not partition.leader.is_watermark_known
    partition.fetch(1)
    partition.fetch(3)
    assert partition.leader.is_watermark_known


def test_with_too_few_in_sync_nothing_becomes_safe() -> None:
    """KIP-966: those that left the set then still have all that is safe."""
    partition = Partition()
    leader = partition.leader
    leader.log.config = TopicConfig(min_insync_replicas=2)
    partition.partition_epoch += 1
    partition.in_sync = (1,)
    partition.tell()
    partition.produce()
    partition.copies[1].sync()

    assert (leader.durable_end_offset, leader.high_watermark) == (leader.log.end_offset, 0)
    with pytest.raises(Refused) as caught:
        leader.append(batch_of(), ACKS_ALL, NOW_MS)
    assert caught.value.code == Code.NOT_ENOUGH_REPLICAS
    assert leader.code_when_safe() == Code.NOT_ENOUGH_REPLICAS_AFTER_APPEND

    leader.log.config = TopicConfig(min_insync_replicas=1)
    assert leader.recount()
    assert leader.high_watermark == leader.log.end_offset
