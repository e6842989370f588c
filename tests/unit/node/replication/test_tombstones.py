"""A key that was deleted stays deleted, whichever copy leads: also one that was away until the tombstone was gone."""

from __future__ import annotations

from chronik.core.records.payload import KeyValue, build, walk
from chronik.core.records.steps import Work
from tests.unit.core.fakes import MemoryFiles
from tests.unit.node.copies import TOPIC, Copies, CopyNode, pass_time, with_copies
from tests.unit.node.fakes import NOW_MS

KEPT_MS = 5_000
KEYED = {
    "log_cleanup_policy": "compact",
    "log_segment_bytes": "300",
    "log_cleaner_min_cleanable_ratio": "0.0",
    "log_cleaner_delete_retention_ms": str(KEPT_MS),
}


def put(node: CopyNode, *pairs: tuple[bytes, bytes | None]) -> None:
    replica = node.replicas.leader(TOPIC, 0)
    for pair in pairs:
        node.replicas.append(replica, build([KeyValue(*pair)], NOW_MS), -1)


def fill(node: CopyNode, name: bytes) -> None:
    """Closes segments, so that there is something to compact."""
    put(node, *((name + b"%d" % number, b"v" * 60) for number in range(8)))


def keys(node: CopyNode) -> set[bytes | None]:
    """Those that its copy has, whether a tombstone of them is there or not."""
    log = node.replica().log
    found: set[bytes | None] = set()
    offset = log.start_offset
    while (plan := log.read(offset, log.end_offset, 10_000, at_least_one=True)) is not None:
        content = bytes(plan.file.read(plan.position, plan.length))
        found |= {record.key for record in walk(content)}
        offset = plan.next_offset
    return found


def compact(node: CopyNode) -> None:
    replica = node.replica()
    needed_from = replica.tombstones_needed_from(node.clock.monotonic_ms(), 10_000)
    for unsynced in replica.log.compact(node.clock.now_ms(), replica.high_watermark, needed_from):
        if unsynced is not None and not isinstance(unsynced, Work):
            unsynced.sync()


async def delete_for_good(copies: Copies, *nodes: int) -> None:
    """The key goes, and then its tombstone, on these nodes; the first leads."""
    put(copies[nodes[0]], (b"gone", None))
    for name in (b"a", b"b"):
        fill(copies[nodes[0]], name)
        await pass_time(50)
        for node in nodes:
            compact(copies[node])
        await pass_time(2 * KEPT_MS)
    for node in nodes:
        assert b"gone" not in keys(copies[node])


async def one_is_away(copies: Copies, *others: int) -> MemoryFiles:
    put(copies[1], (b"gone", b"value"))
    fill(copies[1], b"old")
    await pass_time(50)
    files = await copies.stop(3)
    copies.change(isr=others)
    return files


@with_copies(**KEYED)
async def test_a_follower_that_missed_a_tombstone_does_not_keep_the_value(copies: Copies) -> None:
    files = await one_is_away(copies, 1, 2)
    await delete_for_good(copies, 1, 2)

    copies.start(3, files)
    await pass_time(1000)

    assert keys(copies[3]) == keys(copies[1])
    assert copies[3].offsets() == copies[1].offsets()


@with_copies(**KEYED)
async def test_so_it_is_after_a_restart_of_the_leader(copies: Copies) -> None:
    files = await one_is_away(copies, 1, 2)
    await delete_for_good(copies, 1, 2)
    copies.start(1, await copies.stop(1))

    copies.start(3, files)
    await pass_time(1000)

    assert keys(copies[3]) == keys(copies[1])


@with_copies(**KEYED)
async def test_a_copy_that_never_had_the_tombstone_knows_that_others_may_have_missed_it(copies: Copies) -> None:
    files = await one_is_away(copies, 1, 2)
    stale = await copies.stop(2)
    copies.change(isr=(1,))
    await delete_for_good(copies, 1)
    copies.start(3, files)
    await pass_time(1000)
    kept = keys(copies[1])
    copies.change(isr=(1, 3))
    copies.change(isr=(3,), leader=3)
    await copies.stop(1)

    copies.start(2, stale)
    await pass_time(1000)

    assert b"gone" not in kept
    assert keys(copies[2]) == keys(copies[3]) == kept


@with_copies(**KEYED, replica_fetch_response_max_bytes="200")
async def test_what_is_fetched_anew_in_many_pieces_is_not_begun_again_and_again(copies: Copies) -> None:
    files = await one_is_away(copies, 1, 2)
    await delete_for_good(copies, 1, 2)
    pieces_before = len(copies.network.asked)

    node = copies.start(3, files)
    await pass_time(1000)

    assert keys(node) == keys(copies[1])
    assert len(copies.network.asked) - pieces_before > 10
    assert node.replica().log.cuts == 2  # announced once, and done once


@with_copies(**KEYED)
async def test_a_copy_that_is_counted_on_is_given_up_only_when_the_controller_knows(copies: Copies) -> None:
    files = await one_is_away(copies, 1, 2, 3)
    copies.change(isr=(1, 2))
    await delete_for_good(copies, 1, 2)
    copies.change(isr=(1, 2, 3))  # as after a power cut that took its tail

    node = copies.start(3, files)
    await pass_time(1000)
    assert "no tombstones below" in node.replicas.partitions.offline()[TOPIC, 0]
    assert b"gone" in keys(node)

    copies.change(isr=(1, 2))
    await pass_time(1000)
    assert node.replicas.partitions.offline() == {}
    assert keys(node) == keys(copies[1])


@with_copies(**KEYED, replica_fetch_response_max_bytes="200")
async def test_tombstones_stay_while_a_follower_is_on_its_way_to_them(copies: Copies) -> None:
    files = await one_is_away(copies, 1, 2)
    for name in (b"a", b"b"):
        fill(copies[1], name)
    put(copies[1], (b"gone", None))
    fill(copies[1], b"c")
    await pass_time(50)
    compact(copies[1])
    await pass_time(2 * KEPT_MS)
    fill(copies[1], b"d")
    await pass_time(50)
    copies.start(3, files)
    await pass_time(8)

    assert copies[3].replica().log.end_offset < copies[1].replica().log.end_offset
    compact(copies[1])

    assert b"gone" in keys(copies[1])
    await pass_time(1000)
    assert copies[3].replica().log.cuts == 0
    assert keys(copies[3]) >= keys(copies[1])
