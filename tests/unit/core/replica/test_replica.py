"""The leader's replica: how far it is safe, and what may be read and written."""

from __future__ import annotations

import errno
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chronik.core.config.topic import TopicConfig
from chronik.core.errors import Code, Refused
from chronik.core.log.log import Log
from chronik.core.records.batch import TRANSACTIONAL_BIT, read_header
from chronik.core.records.control import Marker
from chronik.core.replica.replica import ACKS_ALL, READ_COMMITTED, Replica
from tests.unit.core.fakes import MemoryFiles
from tests.unit.core.log.logs import NOW_MS, batch_of

HERE = 1
EVERYTHING = 1_000_000


def replica_of(
    records: int = 0,
    *,
    in_sync: tuple[int, ...] = (HERE,),
    replicas: tuple[int, ...] | None = None,
    is_synced: bool = True,
    config: TopicConfig | None = None,
    files: MemoryFiles | None = None,
) -> Replica:
    """A replica with records that are not safe yet."""
    log = Log.open(cast(Any, files or MemoryFiles()), "topic-0", config or TopicConfig(), NOW_MS, was_clean=False)
    replica = Replica("topic", 0, bytes(16), log, node_id=HERE, is_synced=is_synced)
    replica.lead(5, 0, replicas or in_sync, in_sync, NOW_MS)
    for _ in range(records):
        replica.append(batch_of(), 1, NOW_MS)
    return replica


# --- the watermark


def test_a_write_is_not_safe_before_it_is_synced() -> None:
    replica = replica_of(3)
    assert (replica.log.end_offset, replica.durable_end_offset, replica.high_watermark) == (3, 0, 0)

    assert replica.own_safe(3)

    assert (replica.durable_end_offset, replica.high_watermark) == (3, 3)


def test_with_durability_os_a_write_is_safe_here_when_it_is_written() -> None:
    assert replica_of(3, is_synced=False).high_watermark == 3
    alone = replica_of(3, is_synced=False, in_sync=(HERE, 2))

    assert (alone.durable_end_offset, alone.high_watermark) == (3, 0)


def test_a_topic_that_flushes_every_message_waits_for_the_disk() -> None:
    """A topic that flushes every message waits for the disk whatever the node does."""
    replica = replica_of(2, is_synced=False, config=TopicConfig(flush_messages=1))

    assert (replica.is_synced, replica.high_watermark) == (True, 0)


def test_a_flush_is_due_after_so_many_messages() -> None:
    replica = replica_of(2, is_synced=False, config=TopicConfig(flush_messages=3))
    assert (replica.is_synced, replica.is_flush_due) == (False, False)

    replica.append(batch_of(), 1, NOW_MS)
    assert replica.is_flush_due
    replica.log.mark_synced(3)

    assert not replica.is_flush_due


def test_the_watermark_is_the_least_of_the_in_sync_set() -> None:
    replica = replica_of(10, in_sync=(HERE, 2, 3))

    assert not replica.own_safe(10)
    assert not replica.follower_fetched(2, 7, 0)
    assert replica.follower_fetched(3, 4, 0)

    assert replica.high_watermark == 4


def test_an_acknowledgement_that_comes_twice_or_late_changes_nothing() -> None:
    replica = replica_of(10, in_sync=(HERE, 2))
    replica.own_safe(10)
    replica.follower_fetched(2, 8, 0)

    assert not replica.follower_fetched(2, 8, 0)
    assert not replica.follower_fetched(2, 3, 0)

    assert replica.high_watermark == 8


def test_a_sync_that_is_reported_late_moves_nothing_back() -> None:
    replica = replica_of(10, in_sync=(HERE, 2))
    replica.own_safe(10)

    assert not replica.own_safe(4)

    assert replica.durable_end_offset == 10


@given(
    in_sync=st.sampled_from([(HERE,), (HERE, 2), (HERE, 2, 3)]),
    steps=st.lists(st.tuples(st.sampled_from(["append", HERE, 2, 3]), st.integers(0, 12)), max_size=40),
)
def test_the_watermark_never_moves_back_and_never_passes_an_in_sync_replica(
    in_sync: tuple[int, ...], steps: list[tuple[str | int, int]]
) -> None:
    replica = replica_of(in_sync=in_sync)
    acknowledged = dict.fromkeys(in_sync, 0)
    for who, number in steps:
        before = replica.high_watermark
        end_offset = min(number, replica.log.end_offset)
        if who == "append":
            replica.append(batch_of(1 + number % 3), 1, NOW_MS)
        elif who == HERE:
            acknowledged[HERE] = max(acknowledged[HERE], end_offset)
            assert replica.own_safe(end_offset) == (replica.high_watermark > before)
        elif isinstance(who, int) and who in in_sync:
            acknowledged[who] = end_offset  # less than before: it lost something
            assert replica.follower_fetched(who, end_offset, 0) == (replica.high_watermark > before)
        assert replica.high_watermark >= before
        assert replica.high_watermark == max(before, min(acknowledged.values()))
        assert replica.log.start_offset <= replica.high_watermark <= replica.log.end_offset
        assert replica.last_stable_offset == replica.high_watermark
        assert replica.durable_end_offset == acknowledged[HERE]


def test_what_a_restart_finds_on_disk_is_safe() -> None:
    files = MemoryFiles()
    before = replica_of(4, files=files)
    before.log.close()

    assert replica_of(files=files).high_watermark == 4


# --- writing


@pytest.mark.parametrize(("in_sync", "minimum"), [((HERE,), 2), ((HERE, 2), 3), ((HERE, 2), 9)])
def test_acks_all_is_refused_when_too_few_are_in_sync_and_nothing_is_written(
    in_sync: tuple[int, ...], minimum: int
) -> None:
    replica = replica_of(in_sync=in_sync, replicas=(HERE, 2, 3), config=TopicConfig(min_insync_replicas=minimum))

    with pytest.raises(Refused) as caught:
        replica.append(batch_of(), ACKS_ALL, NOW_MS)

    assert caught.value.code == Code.NOT_ENOUGH_REPLICAS
    assert replica.log.end_offset == 0
    assert replica.append(batch_of(), 1, NOW_MS).base_offset == 0


def test_a_new_producers_batches_do_not_overtake_one_that_lacked_replicas() -> None:
    """A new producers batches do not overtake the one that too few were in sync for."""
    replica = replica_of(in_sync=(HERE,), replicas=(HERE, 2), config=TopicConfig(min_insync_replicas=2))
    with pytest.raises(Refused):
        replica.append(batch_of(producer_id=7, sequence=0), ACKS_ALL, NOW_MS)
    replica.in_sync_decided((HERE, 2), partition_epoch=1)

    with pytest.raises(Refused) as caught:
        replica.append(batch_of(producer_id=7, sequence=1), ACKS_ALL, NOW_MS)

    assert caught.value.code == Code.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert replica.append(batch_of(producer_id=7, sequence=0), ACKS_ALL, NOW_MS).base_offset == 0
    assert replica.append(batch_of(producer_id=7, sequence=1), ACKS_ALL, NOW_MS).base_offset == 1


def test_a_new_producers_batches_do_not_overtake_one_that_had_no_room_on_disk() -> None:
    """A new producers batches do not overtake the one that the disk had no room for."""
    files = MemoryFiles()
    replica = replica_of(files=files)
    files.failures["write"] = OSError(errno.ENOSPC, "No space left on device")
    with pytest.raises(OSError):
        replica.append(batch_of(producer_id=7, sequence=0), 1, NOW_MS)
    files.failures.clear()

    with pytest.raises(Refused) as caught:
        replica.append(batch_of(producer_id=7, sequence=1), 1, NOW_MS)

    assert caught.value.code == Code.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_no_more_have_to_be_in_sync_than_there_are_replicas() -> None:
    replica = replica_of(in_sync=(HERE, 2), replicas=(HERE, 2), config=TopicConfig(min_insync_replicas=3))

    assert replica.append(batch_of(), ACKS_ALL, NOW_MS).base_offset == 0


def test_acks_all_is_taken_when_enough_are_in_sync() -> None:
    replica = replica_of(in_sync=(HERE, 2), config=TopicConfig(min_insync_replicas=2))

    assert replica.append(batch_of(2), ACKS_ALL, NOW_MS)[:2] == (0, 1)
    assert replica.high_watermark == 0


def test_a_batch_that_is_none_is_refused_and_leaves_no_trace() -> None:
    replica = replica_of()
    broken = batch_of()
    broken[-1] ^= 1

    for bad in (broken, bytearray(b"short"), bytearray(100)):
        with pytest.raises(Refused):
            replica.append(bad, 1, NOW_MS)

    assert replica.log.end_offset == 0


def test_a_batch_is_stamped_with_its_offset_and_the_leader_epoch() -> None:
    replica = replica_of(2)
    batch = batch_of()

    replica.append(batch, 1, NOW_MS)

    assert int.from_bytes(batch[0:8], "big") == 2
    assert int.from_bytes(batch[12:16], "big") == 5


def test_a_retry_gets_its_first_offsets_and_moves_nothing() -> None:
    replica = replica_of(is_synced=False)
    first = replica.append(batch_of(3, producer_id=7, sequence=0), 1, NOW_MS)
    replica.append(batch_of(3, producer_id=7, sequence=3), 1, NOW_MS)

    again = replica.append(batch_of(3, producer_id=7, sequence=0), 1, NOW_MS)

    assert (again.base_offset, again.last_offset, again.is_new) == (first.base_offset, first.last_offset, False)
    assert replica.high_watermark == replica.log.end_offset == 6


# --- reading


def test_consumers_read_below_the_watermark_only() -> None:
    replica = replica_of(5)
    replica.own_safe(3)

    for isolation_level in (0, READ_COMMITTED):
        plan = replica.read(0, EVERYTHING, isolation_level, at_least_one=True)
        assert plan is not None
        assert plan.next_offset == 3


@pytest.mark.parametrize("offset", [3, 4, 5])
def test_between_watermark_and_end_a_consumer_waits(offset: int) -> None:
    replica = replica_of(5)
    replica.own_safe(3)

    assert replica.read(offset, EVERYTHING, 0, at_least_one=True) is None


@pytest.mark.parametrize("offset", [-1, 1, 6, 2**62])
def test_below_the_start_and_beyond_the_end_is_out_of_range(offset: int) -> None:
    replica = replica_of(5)
    replica.own_safe(5)
    replica.delete_records(2)

    with pytest.raises(Refused) as caught:
        replica.read(offset, EVERYTHING, 0, at_least_one=True)

    assert caught.value.code == Code.OFFSET_OUT_OF_RANGE


def test_from_the_middle_of_a_batch_the_whole_batch_is_read() -> None:
    replica = replica_of(is_synced=False)
    replica.append(batch_of(10), 1, NOW_MS)

    plan = replica.read(7, EVERYTHING, 0, at_least_one=True)

    assert plan is not None
    assert (plan.start_offset, plan.position, plan.next_offset) == (0, 0, 10)


def test_a_client_that_believes_in_another_leader_is_refused() -> None:
    replica = replica_of()

    replica.check_epoch(-1)
    replica.check_epoch(5)
    for epoch, code in ((4, Code.FENCED_LEADER_EPOCH), (6, Code.UNKNOWN_LEADER_EPOCH)):
        with pytest.raises(Refused) as caught:
            replica.check_epoch(epoch)
        assert caught.value.code == code


def test_a_transaction_that_nobody_verified_is_refused() -> None:
    replica = replica_of()
    batch = batch_of(producer_id=7, sequence=0, attributes=TRANSACTIONAL_BIT)

    with pytest.raises(Refused) as caught:
        replica.append(batch, 1, NOW_MS)

    assert caught.value.code == Code.INVALID_TXN_STATE
    assert replica.log.end_offset == 0


def begin_transaction(replica: Replica) -> None:
    batch = batch_of(producer_id=7, sequence=0, attributes=TRANSACTIONAL_BIT)
    replica.append(batch, 1, NOW_MS, replica.log.producers.begin_verification(read_header(batch)))


def test_read_committed_stops_at_an_open_transaction() -> None:
    """Read committed stops at an open transaction and goes on when its marker is replicated."""
    replica = replica_of(1, in_sync=(HERE, 2))
    begin_transaction(replica)
    replica.append(batch_of(), 1, NOW_MS)
    replica.own_safe(3)
    replica.follower_fetched(2, 3, NOW_MS)
    assert (replica.high_watermark, replica.last_stable_offset) == (3, 1)
    assert replica.readable_bound(READ_COMMITTED) == 1
    assert replica.read(1, EVERYTHING, READ_COMMITTED, at_least_one=True) is None

    replica.append_marker(Marker(True, 0), 7, 0, NOW_MS)
    replica.own_safe(4)
    assert replica.last_stable_offset == 1  # the marker is on this node alone
    replica.follower_fetched(2, 4, NOW_MS)

    assert (replica.high_watermark, replica.last_stable_offset) == (4, 4)


def test_a_follower_that_nothing_reads_from_keeps_no_ended_transactions() -> None:
    leader, follower = replica_of(0, in_sync=(HERE,)), replica_of(0, in_sync=(HERE, 2))
    follower.follow(2, 9, 9)
    for _ in range(20):
        batch = batch_of(producer_id=7, sequence=leader.log.end_offset // 2, attributes=TRANSACTIONAL_BIT)
        leader.append(batch, 1, NOW_MS, leader.log.producers.begin_verification(read_header(batch)))
        leader.append_marker(Marker(True, 0), 7, 0, NOW_MS)
    plan = leader.log.read(0, leader.log.end_offset, EVERYTHING, at_least_one=True)
    assert plan is not None
    follower.append_as_follower(plan.file.read(plan.position, plan.length), NOW_MS)
    assert follower.log.producers.undecided.ended_count == 20

    follower.own_safe(40)
    follower.apply_leader_watermark(40, 0)

    assert follower.log.producers.undecided.ended_count == 0


def test_the_last_stable_offset_is_never_above_the_watermark() -> None:
    replica = replica_of(2, in_sync=(HERE, 2))
    begin_transaction(replica)
    assert (replica.high_watermark, replica.last_stable_offset) == (0, 0)


def test_a_marker_needs_a_leader_with_enough_in_sync() -> None:
    replica = replica_of(config=TopicConfig(min_insync_replicas=2), in_sync=(HERE,), replicas=(HERE, 2))
    with pytest.raises(Refused) as caught:
        replica.append_marker(Marker(True, 0), 7, 0, NOW_MS)
    assert caught.value.code == Code.NOT_ENOUGH_REPLICAS
    replica.follow(2, 6, 1)
    with pytest.raises(Refused) as caught:
        replica.append_marker(Marker(True, 0), 7, 0, NOW_MS)
    assert caught.value.code == Code.NOT_LEADER_OR_FOLLOWER
    assert replica.log.end_offset == 0


# --- deleting records


def test_records_are_deleted_up_to_an_offset_or_the_watermark() -> None:
    replica = replica_of(5)
    replica.own_safe(4)

    assert replica.delete_records(2) == 2
    assert replica.delete_records(1) == 2
    assert replica.delete_records(-1) == 4

    assert (replica.log.start_offset, replica.high_watermark, replica.log.end_offset) == (4, 4, 5)


@pytest.mark.parametrize("offset", [-2, 5, 6])
def test_what_is_not_below_the_watermark_is_not_deleted(offset: int) -> None:
    replica = replica_of(5)
    replica.own_safe(4)

    with pytest.raises(Refused) as caught:
        replica.delete_records(offset)

    assert caught.value.code == Code.OFFSET_OUT_OF_RANGE
    assert replica.log.start_offset == 0


# --- following


def follower_of(records: int = 0, *, watermark: int = 0, is_synced: bool = True) -> Replica:
    replica = replica_of(records, is_synced=is_synced, in_sync=(HERE, 2))
    replica.follow(2, 6, 1)
    replica.apply_leader_watermark(watermark, 0)
    return replica


def test_a_follower_takes_its_leaders_word_as_far_as_it_has_it_safely() -> None:
    replica = follower_of(5)

    assert not replica.apply_leader_watermark(4, 0)
    assert replica.high_watermark == 0
    assert replica.own_safe(3)
    assert replica.high_watermark == 3
    assert replica.own_safe(5)
    assert replica.high_watermark == 4


def test_a_leader_that_knows_less_does_not_move_the_watermark_back() -> None:
    replica = follower_of(5)
    replica.own_safe(5)
    replica.apply_leader_watermark(4, 0)

    assert not replica.apply_leader_watermark(2, 0)

    assert replica.high_watermark == 4


def test_a_follower_starts_where_its_leader_does_but_never_beyond_what_is_safe() -> None:
    replica = follower_of(5)
    replica.own_safe(5)

    replica.apply_leader_watermark(3, 4)

    assert (replica.log.start_offset, replica.high_watermark) == (3, 3)


def test_a_follower_takes_nothing_from_producers() -> None:
    with pytest.raises(Refused) as caught:
        follower_of().append(batch_of(), 1, NOW_MS)

    assert caught.value.code == Code.NOT_LEADER_OR_FOLLOWER


def test_what_was_cut_is_no_longer_safe_here() -> None:
    for is_synced in (True, False):
        replica = follower_of(5, is_synced=is_synced)
        replica.log.mark_synced(5)
        replica.own_safe(5)
        replica.apply_leader_watermark(2, 0)

        assert not replica.truncate_to(3)

        assert (replica.durable_end_offset, replica.high_watermark, replica.log.end_offset) == (3, 2, 3)


def test_a_cut_below_the_watermark_is_told_of() -> None:
    """Only the election of a replica that was not in sync brings it about."""
    replica = follower_of(5)
    replica.own_safe(5)
    replica.apply_leader_watermark(4, 0)

    assert replica.truncate_to(3)

    assert replica.high_watermark == 3


def test_the_watermark_survives_every_change_of_role() -> None:
    replica = replica_of(5, in_sync=(HERE, 2))
    replica.own_safe(5)
    replica.follower_fetched(2, 4, 0)

    replica.follow(2, 6, 1)
    assert replica.high_watermark == 4
    replica.lead(7, 2, (HERE, 2), (HERE, 2), 0)

    assert (replica.high_watermark, replica.epoch_start, replica.is_watermark_known) == (4, 5, False)
    replica.follower_fetched(2, 5, 0)
    assert replica.is_watermark_known


def test_what_the_controller_answered_is_not_taken_back_by_metadata_that_comes_later() -> None:
    replica = replica_of(in_sync=(HERE, 2))
    assert replica.in_sync is not None
    replica.in_sync_decided((HERE,), 3)
    replica.in_sync.asked((HERE, 2))

    replica.lead(5, 3, (HERE, 2), (HERE,), 0)

    assert replica.in_sync.wanted == (HERE, 2)


def test_what_the_leader_said_is_safe_is_remembered() -> None:
    """What the leader said is safe is remembered while only the in sync set changes."""
    replica = follower_of(5)
    replica.apply_leader_watermark(5, 0)  # it says so once, and the own sync is still under way

    replica.follow(2, 6, 2)
    replica.own_safe(5)

    assert replica.high_watermark == 5


def test_what_an_earlier_leader_said_is_safe_is_no_word_of_the_next_one() -> None:
    replica = follower_of(5)
    replica.apply_leader_watermark(5, 0)

    replica.follow(3, 7, 2)
    replica.own_safe(5)

    assert replica.high_watermark == 0
