"""A quorum whose members' disks are full, fail, or come back with something wrong on them."""

from __future__ import annotations

import errno

import pytest

from chronik.core.errors import Code, Refused
from chronik.node.cluster.quorum import FAILED_PAUSE_MS
from tests.unit.node.peer_world import pass_time
from tests.unit.node.quorum_world import Member, QuorumWorld, in_quorum

pytestmark = pytest.mark.usefixtures("quiet")


def fill(member: Member) -> None:
    member.disk.failures["write"] = OSError(errno.ENOSPC, "No space left on device")


def empty(member: Member) -> None:
    member.disk.failures.clear()


async def with_snapshots(world: QuorumWorld) -> Member:
    """Every member has one, of five topics; the controller."""
    for member in world.members.values():
        member.snapshot_records = 12
    controller = await world.start()
    for number in range(5):
        await controller.create(f"topic-{number}", 1)
    await world.agreed()
    await world.until(lambda: all(member.quorum.log.snapshot is not None for member in world.up), "snapshots")
    return controller


@in_quorum()
async def test_a_voter_that_cannot_write_its_vote_down_gives_none(world: QuorumWorld) -> None:
    # Given a quorum of which two cannot write
    first = await world.start()
    await first.create("orders")
    await world.agreed()
    others = world.others(first)
    for member in others:
        fill(member)
    # When the leader is gone, then no node leads until there is room
    first.kill()
    await pass_time(5)
    assert not any(member.metadata.is_controller for member in world.up)
    assert {member.quorum.epoch for member in others} == {1}
    for member in others:
        empty(member)
    second = await world.controller()
    assert second.topics() == ["orders"]


@in_quorum()
async def test_a_leader_without_room_refuses_and_goes_on_when_there_is_some(world: QuorumWorld) -> None:
    controller = await world.start()
    await controller.create("orders")
    fill(controller)

    with pytest.raises(Refused) as refused:
        controller.asked("more")

    assert refused.value.code is Code.KAFKA_STORAGE_ERROR
    empty(controller)
    await controller.create("more")
    assert controller.topics() == ["orders", "more"]


@in_quorum()
async def test_a_follower_without_room_catches_up_when_there_is_some(world: QuorumWorld) -> None:
    controller = await world.start()
    follower = world.others(controller)[0]
    await world.agreed()
    fill(follower)
    await controller.create("orders")
    await pass_time(3)
    assert follower.topics() == []
    assert controller.metadata.is_controller

    empty(follower)
    await world.agreed()

    assert follower.topics() == ["orders"]


@in_quorum()
async def test_a_sync_that_fails_ends_a_voters_part_and_the_others_go_on(world: QuorumWorld) -> None:
    first = await world.start()
    await first.create("orders")
    await world.agreed()
    first.disk.failures["sync:.log"] = OSError(errno.EIO, "Input/output error")

    with pytest.raises(Refused):
        await first.asked("lost")
    second = await world.controller(without=first)

    assert second.topics()[0] == "orders"
    assert not first.metadata.is_controller
    first.metrics.faults = 0


@in_quorum(count=1)
async def test_a_node_alone_whose_disk_fails_refuses_everything(world: QuorumWorld) -> None:
    controller = await world.start()
    controller.disk.failures["sync:.log"] = OSError(errno.EIO, "Input/output error")

    with pytest.raises(Refused) as refused:
        await controller.asked("orders")
    assert refused.value.code is Code.KAFKA_STORAGE_ERROR
    with pytest.raises(Refused) as again:
        await controller.asked("orders")
    assert again.value.code is Code.KAFKA_STORAGE_ERROR
    assert controller.topics() == []
    controller.disk.failures.clear()


@in_quorum(count=1)
async def test_a_node_alone_whose_disk_failed_does_nothing_until_it_is_asked(world: QuorumWorld) -> None:
    # What was due was refused and due again at once: the loop turned without end (found by the simulator).
    alone = await world.start()
    alone.quorum.replica.take_offline("the disk is gone")

    await pass_time(5)

    assert alone.quorum._timer.due_ms is None


@in_quorum()
async def test_a_snapshot_that_cannot_be_written_is_tried_again(world: QuorumWorld) -> None:
    for member in world.members.values():
        member.snapshot_records = 10
    controller = await world.start()
    controller.disk.failures["write:.checkpoint"] = OSError(errno.ENOSPC, "No space left on device")
    for number in range(8):
        await controller.create(f"topic-{number}")
    assert controller.quorum.log.snapshot is None

    empty(controller)
    await controller.create("last")
    await world.until(lambda: controller.quorum.log.snapshot is not None, "a snapshot")

    assert controller.metrics.faults == 0


@in_quorum()
async def test_a_snapshot_damaged_on_disk_is_fetched_again_from_the_log_or_refused(world: QuorumWorld) -> None:
    """While the log still has what the snapshot has, nothing is lost."""
    controller = await with_snapshots(world)
    damaged = world.others(controller)[0]
    damaged.kill()
    (name,) = [path for path in damaged.disk.paths() if path.endswith(".checkpoint")]
    damaged.disk.flip(name, 8 * 200)

    await damaged.start()
    await world.agreed()

    assert damaged.topics() == controller.topics()


@in_quorum()
async def test_a_follower_whose_disk_is_full_between_two_batches_goes_on_later(
    world: QuorumWorld,
) -> None:
    """A follower whose disk becomes full between two batches goes on when there is room."""
    # Given a follower that could not write for a while, so that the next answer has several batches for it
    controller = await world.start()
    follower = world.others(controller)[0]
    await world.agreed()
    fill(follower)
    for name in ("one", "two", "three"):
        await controller.create(name)
    # When its disk has room for the first of them only
    empty(follower)
    end_offset = follower.quorum.log.end_offset
    total, free = follower.disk.disk_bytes()
    follower.disk.room_bytes = total - free + 300
    await pass_time(3)
    assert end_offset < follower.quorum.log.end_offset < controller.quorum.log.end_offset
    # Then it catches up when it has more
    follower.disk.room_bytes = None
    await world.agreed()

    assert follower.topics() == ["one", "two", "three"]


async def with_half_a_snapshot(world: QuorumWorld, failing: str, problem: OSError) -> tuple[Member, Member]:
    """The controller, and a node that was away for so long that it needs a snapshot, which its disk does not let take
    the log's place."""
    for member in world.members.values():
        member.snapshot_records = 20
    controller = await world.start()
    away = world.others(controller)[0]
    await controller.create("first")
    await world.agreed()
    world.cut(away)
    for number in range(30):
        await controller.create(f"topic-{number}", 3)
    away.disk.failures[failing] = problem
    world.wires.moods.clear()
    await world.until(lambda: any(path.endswith(".checkpoint") for path in away.disk.paths()), "the snapshot")
    return controller, away


async def fails_while_a_snapshot_is_installed(world: QuorumWorld, failing: str) -> None:
    # When its disk fails for a moment, with the snapshot there and the log half gone
    controller, away = await with_half_a_snapshot(world, failing, OSError(errno.EIO, "Input/output error"))
    away.disk.failures.clear()
    end_offset = away.quorum.log.end_offset
    await controller.create("last")
    await pass_time(5)
    # Then it takes no part, and its log and image stay as they are, until it is started again
    assert away.quorum.log.end_offset == end_offset
    assert away.topics() == ["first"]
    assert not away.quorum.is_running
    away.kill()
    await away.start()
    await world.agreed()
    assert away.topics() == controller.topics()


@in_quorum()
async def test_a_log_without_its_segments_takes_no_part_until_a_restart(world: QuorumWorld) -> None:
    await fails_while_a_snapshot_is_installed(world, "write:.log")


@in_quorum()
async def test_a_log_without_its_epochs_takes_no_part_until_a_restart(world: QuorumWorld) -> None:
    await fails_while_a_snapshot_is_installed(world, "write:leader-epoch-checkpoint")


@in_quorum()
async def test_a_snapshot_that_cannot_be_announced_is_installed_when_it_can(world: QuorumWorld) -> None:
    """Nothing of the log is gone by then."""
    for member in world.members.values():
        member.snapshot_records = 20
    controller = await world.start()
    away = world.others(controller)[0]
    await world.agreed()
    away.kill()
    for number in range(30):
        await controller.create(f"topic-{number}", 3)
    await away.start()
    away.disk.failures["write:offset-checkpoint"] = OSError(errno.ENOSPC, "No space left on device")
    await pass_time(3)
    assert away.topics() == []

    away.disk.failures.clear()
    await world.agreed()

    assert away.topics() == controller.topics()


@in_quorum()
async def test_a_log_that_ends_before_its_snapshot_begins_behind_it(world: QuorumWorld) -> None:
    """A snapshot holds what a majority has, and may be on a disk sooner than the end of the log."""
    controller = await with_snapshots(world)
    short = world.others(controller)[0]
    short.kill()
    (path,) = [path for path in short.disk.paths(".log") if path.startswith("__cluster_metadata")]
    content = short.disk.contents[path]
    content.written = content.written[:100]
    content.durable = bytes(content.written)

    await short.start()

    replica = short.quorum.replica
    assert replica.log.start_offset > 0
    assert replica.high_watermark >= replica.log.start_offset
    await world.agreed()
    assert short.topics() == controller.topics()


# --- out of descriptors or memory


EMFILE = OSError(errno.EMFILE, "Too many open files")
ENOMEM = OSError(errno.ENOMEM, "Cannot allocate memory")


@in_quorum()
async def test_a_snapshot_that_a_shortage_stopped_half_way_is_installed_without_a_restart(world: QuorumWorld) -> None:
    controller, away = await with_half_a_snapshot(world, "write:.log", EMFILE)
    await pass_time(1)
    assert away.quorum.replica.offline is None
    assert away.topics() == ["first"]
    was_half_replaced = away.quorum.installation.is_half_done  # the simulator's judge does not look at it then

    away.disk.failures.clear()
    await world.agreed()

    assert (was_half_replaced, away.quorum.installation.is_half_done) == (True, False)
    assert away.topics() == controller.topics()


@in_quorum()
async def test_a_snapshot_without_its_epochs_is_installed_without_a_restart(world: QuorumWorld) -> None:
    controller, away = await with_half_a_snapshot(world, "write:leader-epoch-checkpoint", ENOMEM)
    await pass_time(1)

    away.disk.failures.clear()
    await world.agreed()

    assert away.topics() == controller.topics()


@in_quorum()
async def test_a_follower_that_cannot_read_its_log_for_a_while_stays_in_the_quorum(world: QuorumWorld) -> None:
    controller = await world.start()
    follower = world.others(controller)[0]
    await world.agreed()
    follower.disk.failures["read"] = EMFILE
    await controller.create("orders")
    await pass_time(3)
    assert follower.topics() == []
    assert follower.quorum.replica.offline is None

    follower.disk.failures.clear()
    await world.agreed()

    assert follower.topics() == ["orders"]


@in_quorum()
async def test_a_leader_that_cannot_read_its_log_for_a_while_stays_in_the_quorum(world: QuorumWorld) -> None:
    controller = await world.start()
    await world.agreed()
    controller.disk.failures["read"] = EMFILE
    controller.asked("orders").cancel()
    await pass_time(3)
    assert controller.quorum.replica.offline is None

    controller.disk.failures.clear()
    await world.agreed()

    assert all(member.topics() in ([], ["orders"]) for member in world.up)
    assert controller.quorum.is_running


@in_quorum()
async def test_a_voter_whose_syncs_cannot_begin_counts_when_they_can(world: QuorumWorld) -> None:
    controller = await world.start()
    await world.agreed()
    short = world.others(controller)[0]
    short.disk.failures["sync:.log"] = EMFILE
    await controller.create("orders")
    await pass_time(1)
    assert short.quorum.log.synced_offset < controller.quorum.log.end_offset
    assert short.quorum.replica.offline is None

    short.disk.failures.clear()
    await world.agreed()

    assert short.topics() == ["orders"]
    assert short.quorum.log.synced_offset == short.quorum.log.end_offset


@in_quorum(count=1)
async def test_a_node_alone_without_descriptors_does_not_try_without_end(world: QuorumWorld) -> None:
    """What it does by itself is put off for a moment each time."""
    alone = await world.start()
    alone.disk.failures["write"] = EMFILE
    alone.quorum.raft = alone.quorum._new_raft()  # as after a read that failed

    alone.quorum._timer._due()

    assert alone.quorum._timer.due_ms is not None
    assert alone.quorum._timer.due_ms >= alone.quorum._time.now_ms() + FAILED_PAUSE_MS
    alone.disk.failures.clear()
    await world.controller()
    assert alone.quorum.is_leader
