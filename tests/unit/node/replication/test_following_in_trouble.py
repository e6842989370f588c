"""Following where something comes in between: answers without room for all, late answers, topics made anew."""

from __future__ import annotations

import errno

import pytest

from chronik.core.errors import Code, Refused
from chronik.core.machines.metadata.records import (
    ConfigRecord,
    PartitionChangeRecord,
    PartitionRecord,
    RemoveTopicRecord,
    TopicRecord,
)
from tests.unit.node.copies import TOPIC, TOPIC_ID, Copies, SlowFiles, pass_time, with_copies

TOPIC_RESOURCE = 2
ANEW = b"orders".ljust(16, b"\x02")


@with_copies(partitions=3, replica_fetch_response_max_bytes="1024")
async def test_what_had_no_room_in_an_answer_comes_with_the_next(copies: Copies) -> None:
    copies.network.cut |= {(2, 1), (3, 1)}
    await pass_time(1_000)
    for partition in range(3):
        copies[1].produce(b"x" * 900, b"y" * 900, partition=partition)

    copies.network.cut.clear()
    await pass_time(2_000)

    assert [copies[2].offsets(partition) for partition in range(3)] == [(0, 2, 2)] * 3
    assert [copies[1].offsets(partition) for partition in range(3)] == [(0, 2, 2)] * 3


@with_copies(partitions=2, replica_fetch_response_max_bytes="512")
async def test_a_log_that_differs_is_cut_before_its_watermark_moves_room_or_not(copies: Copies) -> None:
    # Given node 3 has a batch that only it and the leader of yesterday ever had
    copies.network.cut |= {(2, 1)}
    copies[1].produce(b"lost!", partition=1)
    await pass_time(300)
    assert copies[3].offsets(1) == (0, 0, 1)

    # When node 2 leads, and its first answer to node 3 has room for one partition only
    copies.network.cut |= {(3, 2), (1, 2)}
    for partition in range(2):
        copies.change(partition=partition, leader=2, isr=(2,))
    copies[2].produce(b"x" * 900, partition=0)
    copies[2].produce(b"kept!", partition=1)
    await pass_time(300)
    assert copies[2].offsets(1) == (0, 1, 1)
    seen: list[tuple[int, int, int]] = []
    copies.network.cut.clear()
    for _ in range(1_000):
        await pass_time(1)
        seen.append(copies[3].offsets(1))
        if copies[3].replica(1).high_watermark:
            assert copies[3].values(1) == [b"kept!"]

    # Then it never takes its own for what is safe
    assert seen[-1] == (0, 1, 1)
    assert copies[3].offsets(0) == (0, 1, 1)


@with_copies()
async def test_a_topic_deleted_and_made_anew_in_one_go_is_followed(copies: Copies) -> None:
    copies[1].produce(b"old")
    await pass_time(300)

    facts = (
        RemoveTopicRecord(TOPIC_ID),
        TopicRecord(TOPIC, ANEW),
        PartitionRecord(0, ANEW, (1, 2, 3), (1, 2, 3), (), (), 1, 0, 0),
    )
    for node_id in (1, 2, 3):
        copies[node_id].tell(*facts)
    copies[1].produce(b"fresh")
    await pass_time(300)

    assert [copies[node_id].offsets() for node_id in (1, 2, 3)] == [(0, 1, 1)] * 3
    assert copies[3].values() == [b"fresh"]


@with_copies()
async def test_a_set_that_is_too_small_by_new_settings_makes_nothing_safe(copies: Copies) -> None:
    copies.network.cut |= {(2, 1), (3, 1)}
    copies[1].produce(b"three")
    await pass_time(300)

    copies[1].tell(
        ConfigRecord(TOPIC_RESOURCE, TOPIC, "min.insync.replicas", "2"), PartitionChangeRecord(0, TOPIC_ID, isr=(1,))
    )

    assert copies[1].offsets() == (0, 0, 1)


@with_copies()
async def test_an_answer_of_yesterdays_leader_is_not_taken(
    copies: Copies,
) -> None:
    """An answer of yesterdays leader is not taken for one of the same nodes next office."""
    await pass_time(300)
    copies[1].produce(b"stale")  # the answer that holds it is on its way

    for leader in (3, 1):
        copies.change(to=(2,), leader=leader)
    await pass_time(20)

    assert copies[2].replica().leader_epoch == 2
    assert copies[2].offsets() == (0, 0, 0)


@with_copies()
async def test_a_watermark_that_came_with_the_order_to_cut_is_told_again(copies: Copies) -> None:
    # Given node 3 has a batch that it does not know to be safe, and one that no other node has
    copies.network.cut |= {(2, 1)}
    copies[1].produce(b"kept!")
    await pass_time(300)
    copies.network.cut = {(3, 1), (1, 3)}
    await pass_time(1_500)
    copies.network.cut |= {(2, 3), (3, 2)}
    copies.change(leader=3)
    copies[3].produce(b"lost!", acks=1)
    copies.change(leader=2, isr=(2,))
    await pass_time(300)
    assert [copies[node_id].offsets() for node_id in (2, 3)] == [(0, 1, 1), (0, 0, 2)]

    # When the next leader, whose watermark does not move any more, has it cut that off
    copies.network.cut.clear()
    await pass_time(3_000)

    # Then it knows what is safe
    assert copies[3].offsets() == (0, 1, 1)


@with_copies()
async def test_a_watermark_is_sent_again_to_a_follower_that_named_the_partition_anew(copies: Copies) -> None:
    """Found by seed 126: its records were deleted, so that it named the partition anew at the end where it was, and
    passed over the answer that came on the way."""
    copies[1].produce(b"a")
    for _ in range(40):  # at some time the answer with the watermark and the next request cross
        copies[2].fetchers.start_moved(copies[2].replica())
        await pass_time(1)

    await pass_time(3_000)

    assert copies[2].offsets() == (0, 1, 1)


@with_copies()
async def test_a_log_that_cannot_be_cut_now_is_as_it_was_and_asks_seldom(copies: Copies) -> None:
    # Given node 3 has a batch that its next leader does not have
    copies.network.cut |= {(2, 1)}
    copies[1].produce(b"lost!")
    await pass_time(300)
    copies[3].files.failures["write:checkpoint"] = OSError(errno.ENOSPC, "No space left on device")

    # When it cannot write down that it cuts it off
    copies.change(leader=2, isr=(2,))
    copies.network.asked.clear()
    await pass_time(1_500)
    log = copies[3].replica().log
    assert (log.synced_offset, log.end_offset) == (1, 1)
    assert sum(request.replica_id == 3 for request in copies.network.asked) < 10

    # Then it does when it can
    copies[3].files.failures.clear()
    copies[2].produce(b"kept!")
    await pass_time(3_000)
    assert copies[3].values() == [b"kept!"]


async def with_the_first_of_two_batches(copies: Copies) -> SlowFiles:
    """Node 3 has room for no more than that, and has not synced it; its disk."""
    await copies.stop(3)
    files = SlowFiles()
    copies.start(3, files)
    await pass_time(50)
    copies.network.cut |= {(3, 1)}
    await pass_time(1_000)
    copies[1].produce(b"first", b"x" * 50_000)
    files.may_sync.clear()
    total, free = files.disk_bytes()
    files.room_bytes = total - free + 10_000
    copies.network.cut.clear()
    await pass_time(300)
    assert [copies[node_id].offsets() for node_id in (1, 2, 3)] == [(0, 0, 2), (0, 0, 2), (0, 0, 1)]
    return files


async def counts_when_it_is_synced(copies: Copies, files: SlowFiles) -> None:
    assert copies[1].offsets() == (0, 0, 2)
    files.may_sync.set()
    await pass_time(100)
    assert copies[1].offsets() == (0, 1, 2)
    files.room_bytes = None
    await pass_time(2_000)
    assert [copies[node_id].offsets() for node_id in (1, 2, 3)] == [(0, 2, 2)] * 3


@with_copies()
async def test_what_a_full_disk_took_is_not_named_to_a_leader_that_was_away(copies: Copies) -> None:
    """What a full disk took is not named to a leader that was away until it is synced."""
    files = await with_the_first_of_two_batches(copies)

    copies.network.cut |= {(3, 1), (1, 3)}
    await pass_time(700)
    copies.network.cut.clear()
    await pass_time(300)

    await counts_when_it_is_synced(copies, files)


@with_copies()
async def test_what_a_full_disk_took_is_not_named_under_a_new_registration(copies: Copies) -> None:
    """What a full disk took is not named under a new registration until it is synced."""
    files = await with_the_first_of_two_batches(copies)
    copies.network.asked.clear()

    copies.register(3, copies[3].broker_epoch + 100)
    await pass_time(700)

    assert not any(request.replica_epoch == copies[3].broker_epoch for request in copies.network.asked)
    await counts_when_it_is_synced(copies, files)


@with_copies()
async def test_what_a_full_disk_kept_from_being_opened_is_followed_when_there_is_room(copies: Copies) -> None:
    copies[1].produce(b"three")
    await pass_time(300)
    files = await copies.stop(3)
    files.contents[f"{TOPIC}-0/{0:020}.log"].written += b"a torn batch"  # recovery writes it to a file beside
    files.failures["write"] = OSError(errno.ENOSPC, "No space left on device")
    copies.start(3, files)
    await pass_time(100)
    assert list(copies[3].replicas.partitions.offline()) == [(TOPIC, 0)]

    files.failures.clear()
    copies[3].replicas.partitions.repair_damaged()
    await pass_time(300)

    assert copies[3].replicas.partitions.offline() == {}
    assert copies[3].values() == [b"three"]


@with_copies()
async def test_what_an_earlier_process_of_this_node_led_is_not_led_by_this_one(copies: Copies) -> None:
    # With a lost disk it would have told its followers to cut what was safe (found by the simulator).
    node = copies[1]
    node.replicas.partitions.follow(node.image, is_caught_up=False)  # as after a start, before the cluster knows of it

    with pytest.raises(Refused) as refused:
        node.replicas.leader(TOPIC, 0)

    assert refused.value.code is Code.NOT_LEADER_OR_FOLLOWER
    node.replicas.partitions.follow(node.image)
    assert node.replicas.leader(TOPIC, 0).is_leader
