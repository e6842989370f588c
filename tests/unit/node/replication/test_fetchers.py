"""Followers and their leader, as frames between them: what is copied, what is safe, what happens when they differ."""

from __future__ import annotations

from typing import Any, cast

import pytest

from chronik.core.errors import Code, Refused
from chronik.core.replica.replica import ACKS_ALL
from chronik.core.types import TopicPartition
from chronik.node.replication.checkpoints import Checkpoints
from chronik.wire.fetch import FetchPartition
from tests.unit.core.fakes import MemoryFiles
from tests.unit.node.copies import (
    TOPIC,
    TOPIC_ID,
    Copies,
    CopyNode,
    SlowFiles,
    consumer_fetch,
    follower_asks,
    pass_time,
    with_copies,
)


@with_copies()
async def test_what_a_leader_takes_is_on_all_copies_soon_and_safe_everywhere(copies: Copies) -> None:
    copies[1].produce(b"one", b"two")
    told: list[Code] = []
    copies[1].waiting.when_safe(copies[1].replica(), 2, ACKS_ALL, -1, told.append)
    assert told == []

    await pass_time(10)

    assert told == [Code.NONE]
    assert [copies[node].offsets() for node in (1, 2, 3)] == [(0, 2, 2)] * 3
    assert copies[2].values() == copies[3].values() == copies[1].values()


@with_copies(is_synced=False)
async def test_with_durability_os_nobody_waits_for_a_disk(copies: Copies) -> None:
    copies[1].produce(b"one")

    await pass_time(10)

    assert [copies[node].offsets() for node in (1, 2, 3)] == [(0, 1, 1)] * 3
    assert copies[2].replica().log.synced_offset == 0


@with_copies()
async def test_nothing_is_safe_while_an_in_sync_replica_does_not_have_it(copies: Copies) -> None:
    await pass_time(10)
    copies.network.cut |= {(3, 1), (1, 3)}
    copies[1].produce(b"one")

    await pass_time(1000)
    assert [copies[node].offsets() for node in (1, 2, 3)] == [(0, 0, 1), (0, 0, 1), (0, 0, 0)]

    copies.network.cut.clear()
    await pass_time(1000)
    assert [copies[node].offsets() for node in (1, 2, 3)] == [(0, 1, 1)] * 3


@with_copies(partitions=50)
async def test_a_round_names_only_the_partitions_that_moved(copies: Copies) -> None:
    await pass_time(2000)
    del copies.network.asked[:]

    copies[1].produce(b"one", partition=7)
    await pass_time(20)

    named = [asked.partition for request in copies.network.asked for asked in request.partitions]
    assert set(named) == {7}
    assert len(named) == 2  # each follower once, to say that it has it
    assert [copies[node].offsets(7) for node in (1, 2, 3)] == [(0, 1, 1)] * 3
    del copies.network.asked[:]
    await pass_time(5000)
    assert len(copies.network.asked) <= 22  # two followers, one empty fetch each half second
    assert [request.partitions for request in copies.network.asked if request.partitions] == []


@with_copies()
async def test_a_follower_is_not_in_the_way_of_metadata_that_comes_late(copies: Copies) -> None:
    """F27: whichever of the two hears of it first, nothing is lost."""
    copies.change(leader=2, to=(3,))
    await pass_time(200)
    copies.tell_all(1)
    await pass_time(200)
    copies.tell_all(2)
    copies[2].produce(b"one")
    await pass_time(200)

    assert [copies[node].offsets() for node in (1, 2, 3)] == [(0, 1, 1)] * 3


@with_copies()
async def test_a_log_that_differs_is_cut_where_it_parts_from_the_new_leaders(copies: Copies) -> None:
    copies[1].produce(b"one")
    await pass_time(20)
    copies.network.cut |= {(2, 1), (3, 1), (1, 2), (1, 3)}
    copies[1].produce(b"lost", b"lost")  # never safe, and nobody was told that it was
    await pass_time(20)
    copies.change(leader=2, isr=(2, 3), to=(2, 3))
    copies[2].produce(b"two")
    await pass_time(2000)
    assert copies[2].offsets() == (0, 2, 2)

    copies.network.cut.clear()
    copies.tell_all(1)
    await pass_time(500)

    assert copies[1].values() == copies[2].values()
    assert copies[1].offsets() == (0, 2, 2)


@with_copies()
async def test_producers_that_wait_on_a_leader_of_yesterday_are_told_so(copies: Copies) -> None:
    copies.network.cut |= {(2, 1), (3, 1)}
    copies[1].produce(b"one")
    told: list[Code] = []
    copies[1].waiting.when_safe(copies[1].replica(), 1, ACKS_ALL, -1, told.append)

    copies.change(leader=2, isr=(2, 3))

    assert told == [Code.NOT_LEADER_OR_FOLLOWER]
    with pytest.raises(Refused) as caught:
        copies[1].produce(b"two")
    assert caught.value.code == Code.NOT_LEADER_OR_FOLLOWER


@with_copies()
async def test_a_follower_that_fell_behind_the_leaders_start_begins_anew_there(copies: Copies) -> None:
    copies[1].produce(b"one")
    await pass_time(20)
    files = await copies.stop(3)
    copies.change(isr=(1, 2))
    copies[1].produce(b"two", b"three")
    await pass_time(50)
    copies[1].replica().delete_records(2)

    copies.start(3, files)
    await pass_time(200)

    assert copies[3].offsets() == (2, 3, 3)
    assert copies[3].values() == copies[1].values()


@with_copies()
async def test_a_log_start_that_moves_is_taken_over(copies: Copies) -> None:
    copies[1].produce(b"one", b"two", b"three")
    await pass_time(50)
    copies[1].replicas.delete_records(copies[1].replica(), 2)
    await pass_time(50)

    assert [copies[node].offsets() for node in (1, 2, 3)] == [(2, 3, 3)] * 3


@with_copies()
async def test_a_leader_that_was_away_is_followed_again(copies: Copies) -> None:
    copies[1].produce(b"one")
    await pass_time(20)
    files = await copies.stop(1)
    await pass_time(3000)

    copies.start(1, files)
    copies[1].produce(b"two")
    await pass_time(500)

    assert [copies[node].offsets() for node in (1, 2, 3)] == [(0, 2, 2)] * 3


@with_copies()
async def test_the_watermark_of_a_restarted_follower_is_the_one_it_had(copies: Copies) -> None:
    copies[1].produce(b"one", b"two")
    await pass_time(20)
    files = await copies.stop(3)
    copies.network.cut |= {(3, 1)}

    node = copies.start(3, files)

    assert node.offsets() == (0, 2, 2)


@with_copies()
async def test_a_disk_that_was_wiped_is_filled_again(copies: Copies) -> None:
    copies[1].produce(b"one", b"two")
    await pass_time(20)
    await copies.stop(3)
    copies.change(isr=(1, 2))

    copies.start(3, MemoryFiles())
    await pass_time(100)

    assert copies[3].values() == copies[1].values()


@with_copies()
async def test_a_damaged_copy_is_fetched_anew_once_nobody_counts_on_it(copies: Copies) -> None:
    copies[1].produce(b"one", b"two")
    await pass_time(20)
    files = await copies.stop(3)
    files.flip(f"{TOPIC}-0/00000000000000000000.log", 8 * 16)  # its format: noticed when it is opened
    copies.start(3, files)
    await pass_time(100)
    assert list(copies[3].replicas.partitions.offline()) == [(TOPIC, 0)]

    copies.change(isr=(1, 2))
    await pass_time(100)

    assert copies[3].replicas.partitions.offline() == {}
    assert copies[3].values() == copies[1].values()
    assert [name for name in files.names("") if name.endswith("-damaged")] != []


@with_copies()
async def test_so_is_one_that_a_crash_left_moved_aside_with_its_checkpoints_still_there(copies: Copies) -> None:
    copies[1].produce(b"one", b"two")
    await pass_time(20)
    files = await copies.stop(3)
    files.rename(f"{TOPIC}-0", f"{TOPIC}-0.abc-damaged")
    copies.start(3, files)

    copies.change(isr=(1, 2))
    await pass_time(100)

    assert copies[3].replicas.partitions.offline() == {}
    assert copies[3].values() == copies[1].values()


@with_copies()
async def test_damage_found_while_reading_is_repaired_too(copies: Copies) -> None:
    copies[1].produce(b"one")
    await pass_time(20)
    copies.change(isr=(1, 2))
    replica = copies[3].replica()
    copies[3].replicas.partitions.found_damaged(replica, "read failed: damaged")

    copies[3].replicas.partitions.repair_damaged()
    await pass_time(100)

    assert copies[3].replica() is not replica
    assert copies[3].values() == copies[1].values()


@with_copies()
async def test_what_was_known_of_a_damaged_copy_is_forgotten_on_disk_before_the_new_one_begins(copies: Copies) -> None:
    """A node that is killed then would take the offsets of the old copy for those of the new one."""
    copies[1].produce(b"one", b"two")
    await pass_time(20)
    copies.change(isr=(1, 2))
    files, node = copies[3].files, copies[3]
    node.checkpoints.write(node.replicas.held())
    assert Checkpoints(cast(Any, files.copy())).synced == {(TOPIC, 0): 2}
    node.replicas.partitions.found_damaged(node.replica(), "read failed: damaged")

    node.replicas.partitions.repair_damaged()

    killed = Checkpoints(cast(Any, files.copy()))
    assert (killed.synced.get(TopicPartition(TOPIC, 0), 0), killed.watermarks.get(TopicPartition(TOPIC, 0), 0)) == (
        0,
        0,
    )
    await pass_time(100)
    assert node.values() == copies[1].values()


@with_copies()
async def test_the_last_copy_is_never_given_up(copies: Copies) -> None:
    copies.change(leader=-1, isr=(3,))
    replica = copies[3].replica()
    copies[3].replicas.partitions.found_damaged(replica, "read failed: damaged")

    copies[3].replicas.partitions.repair_damaged()

    assert copies[3].replica() is replica


@with_copies()
async def test_a_partition_that_moved_away_goes(copies: Copies) -> None:
    copies[1].produce(b"one")
    await pass_time(20)
    files = copies[3].files
    assert files.exists(f"{TOPIC}-0")

    copies.change(replicas=(1, 2), isr=(1, 2))
    await pass_time(20)

    assert list(copies[3].replicas.held()) == []
    assert not files.exists(f"{TOPIC}-0")
    copies[1].produce(b"two")
    await pass_time(20)
    assert copies[1].offsets() == (0, 2, 2)


@with_copies()
async def test_what_no_replica_of_it_fetches_is_refused(copies: Copies) -> None:
    await pass_time(20)
    copies.change(replicas=(1, 2), isr=(1, 2), to=(1, 2))  # node 3 has not heard of it
    copies[1].produce(b"one")

    await pass_time(500)

    assert copies[1].offsets() == (0, 1, 1)
    assert copies[3].offsets() == (0, 0, 0)


@with_copies()
async def test_the_watermark_reaches_followers_without_further_records(copies: Copies) -> None:
    await pass_time(20)
    copies.network.cut |= {(3, 1), (1, 3)}
    copies[1].produce(b"one")
    await pass_time(20)
    assert copies[2].offsets() == (0, 0, 1)

    copies.change(isr=(1, 2))
    await pass_time(10)

    assert copies[2].offsets() == (0, 1, 1)


@with_copies(partitions=3)
async def test_a_new_registration_is_told_of_every_partition_the_idle_ones_too(copies: Copies) -> None:
    """The leader lets nobody join who fetched under an earlier one (KIP-903). Found by the simulator."""
    await pass_time(50)
    copies.register(3, 99)

    await pass_time(1000)

    for partition in range(3):
        in_sync = copies[1].replica(partition).in_sync
        assert in_sync is not None
        assert in_sync.followers[3].broker_epoch == 99


@with_copies()
async def test_what_a_follower_has_not_synced_does_not_count(copies: Copies) -> None:
    await copies.stop(3)
    files = SlowFiles()
    copies.start(3, files)
    await pass_time(50)
    files.may_sync.clear()
    copies[1].produce(b"one")

    await pass_time(2000)
    assert [copies[node].offsets() for node in (1, 2, 3)] == [(0, 0, 1)] * 3

    files.may_sync.set()
    await pass_time(50)
    assert [copies[node].offsets() for node in (1, 2, 3)] == [(0, 1, 1)] * 3


@with_copies()
async def test_a_crash_after_a_cut_does_not_take_the_log_for_damaged(copies: Copies) -> None:
    """What had been synced is on disk as a number: it is lowered before the log is cut."""
    copies[1].produce(b"one")
    await pass_time(20)
    copies.network.cut |= {(2, 1), (3, 1), (1, 2), (1, 3)}
    copies[1].produce(b"lost", b"lost")
    await pass_time(20)
    copies[1].checkpoints.write(copies[1].replicas.held())
    copies.change(leader=2, isr=(2, 3))
    copies.network.cut.clear()
    await pass_time(500)
    assert copies[1].offsets() == (0, 1, 1)
    files = copies[1].files.copy()
    await copies.stop(1)

    files.crash()
    copies.start(1, files)
    await pass_time(500)

    assert copies[1].replicas.partitions.offline() == {}
    assert copies[1].offsets() == (0, 1, 1)


@with_copies()
async def test_a_watermark_that_moves_while_a_follower_syncs_is_told_when_it_has(copies: Copies) -> None:
    """It is busy with what it was given, and would not listen; and nothing else happens that could tell it later."""
    await copies.stop(3)
    copies.change(isr=(1, 2))
    copies.network.cut |= {(2, 1), (1, 2)}
    copies[1].produce(b"one")
    files = SlowFiles()
    files.may_sync.clear()
    copies.start(3, files)
    await pass_time(50)
    copies.network.cut.clear()
    await pass_time(700)
    assert [copies[node].offsets() for node in (1, 2, 3)] == [(0, 1, 1), (0, 1, 1), (0, 0, 1)]

    files.may_sync.set()
    await pass_time(50)

    assert copies[3].offsets() == (0, 1, 1)


# --- what a leader makes of a follower's fetch


def asked(offset: int, *, epoch: int = 0, last_epoch: int = 0) -> FetchPartition:
    return FetchPartition(TOPIC_ID, 0, offset, 10**6, epoch, last_epoch, 0)


def leader_alone(copies: Copies) -> CopyNode:
    """Node 1, with two batches that nothing fetches."""
    copies.network.cut |= {(2, 1), (3, 1)}
    copies[1].produce(b"one", b"two")
    return copies[1]


@with_copies()
async def test_a_log_that_differs_says_nothing_of_how_far_the_follower_is(copies: Copies) -> None:
    node = leader_alone(copies)
    copies.change(leader=1)
    copies[1].produce(b"three")

    (part,) = follower_asks(node, 2, asked(3, epoch=1, last_epoch=0)).partitions

    assert part.diverging == (0, 2)
    assert not part.records
    in_sync = node.replica().in_sync
    assert in_sync is not None
    assert in_sync.followers[2].durable_end_offset == -1


@with_copies()
async def test_a_follower_of_another_epoch_is_fenced_or_told_to_wait(copies: Copies) -> None:
    node = leader_alone(copies)
    copies.change(leader=1)

    for epoch, code in ((0, Code.FENCED_LEADER_EPOCH), (2, Code.UNKNOWN_LEADER_EPOCH)):
        (part,) = follower_asks(node, 2, asked(0, epoch=epoch, last_epoch=-1)).partitions
        assert part.error == code


@with_copies()
async def test_records_are_not_given_twice_before_the_follower_says_how_far_it_is(copies: Copies) -> None:
    node = leader_alone(copies)
    first = follower_asks(node, 2, asked(0, last_epoch=-1), session=(0, 0))
    assert len(first.partitions[0].records) > 0

    node.produce(b"three")
    second = follower_asks(node, 2, session=(first.session_id, 1))
    third = follower_asks(node, 2, asked(2), session=(first.session_id, 2))

    assert second.partitions == []
    assert bytes(third.partitions[0].records).count(b"three") == 1


@with_copies()
async def test_a_session_that_is_over_or_out_of_step_is_refused(copies: Copies) -> None:
    node = leader_alone(copies)
    first = follower_asks(node, 2, asked(0, last_epoch=-1), session=(0, 0))
    again = follower_asks(node, 2, asked(0, last_epoch=-1), session=(0, 0))

    assert follower_asks(node, 2, session=(first.session_id, 1)).error == Code.FETCH_SESSION_ID_NOT_FOUND
    assert follower_asks(node, 2, session=(again.session_id, 2)).error == Code.INVALID_FETCH_SESSION_EPOCH
    assert follower_asks(node, 2, session=(again.session_id, 1)).error == Code.NONE


# --- consumers


def fetched(copies: Copies, node_id: int, *, version: int = 12, rack: str = "") -> Any:
    """What a consumer is given from offset 0 on."""
    return consumer_fetch(copies[node_id].context, version=version, rack=rack)


@with_copies()
async def test_consumers_may_read_from_a_follower_up_to_its_watermark(copies: Copies) -> None:
    copies[1].produce(b"one")
    await pass_time(20)
    copies.network.cut |= {(3, 1), (1, 3)}
    copies[1].produce(b"two")
    await pass_time(20)

    answer = fetched(copies, 2)

    assert (answer.error_code, answer.high_watermark) == (0, 1)
    assert answer.records.count(b"one") == 1
    assert answer.records.count(b"two") == 0


@with_copies()
async def test_a_consumer_of_an_old_version_is_sent_to_the_leader(copies: Copies) -> None:
    answer = fetched(copies, 2, version=10)

    assert answer.error_code == Code.NOT_LEADER_OR_FOLLOWER


@with_copies(replica_selector_class="org.apache.kafka.common.replica.RackAwareReplicaSelector")
async def test_a_consumer_is_told_of_the_copy_in_its_rack(copies: Copies) -> None:
    copies[1].produce(b"one")
    await pass_time(20)

    for rack, preferred in (("rack-2", 2), ("rack-1", -1), ("rack-9", -1)):
        answer = fetched(copies, 1, rack=rack)
        assert answer.preferred_read_replica == preferred
        assert bool(answer.records) == (preferred < 0)


@with_copies()
async def test_nobody_is_sent_elsewhere_unless_the_settings_say_so(copies: Copies) -> None:
    copies[1].produce(b"one")
    await pass_time(20)

    answer = fetched(copies, 1, rack="rack-2")

    assert answer.preferred_read_replica == -1
    assert answer.records


@with_copies()
async def test_who_asks_the_wrong_node_is_told_the_right_one(copies: Copies) -> None:
    """KIP-951."""
    copies.change(leader=-1, isr=(1,))
    answer = fetched(copies, 2, version=16)

    assert answer.error_code == Code.NOT_LEADER_OR_FOLLOWER
    assert (answer.current_leader.leader_id, answer.current_leader.leader_epoch) == (-1, 1)
