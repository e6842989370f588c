"""Three quorums of real code on simulated wires and disks: elections, failover, logs that part, snapshots, voters."""

from __future__ import annotations

import asyncio

import pytest

from chronik.core.errors import Code, Refused
from chronik.core.raft.roles import Leader
from tests.unit.node.peer_world import pass_time
from tests.unit.node.quorum_world import QuorumWorld, in_quorum


@in_quorum(count=1)
async def test_a_node_alone_leads_at_once(world: QuorumWorld) -> None:
    began = world.loop.time()

    controller = await world.start()

    assert controller.quorum.is_leader
    assert controller.quorum.epoch == 1
    assert world.loop.time() - began < 0.1


@in_quorum()
async def test_a_new_quorum_elects_one_leader_and_all_follow_it(world: QuorumWorld) -> None:
    controller = await world.start()

    await controller.create("orders", 3)
    await world.agreed()

    assert [member.quorum.leader_id for member in world.up] == [controller.node_id] * 3
    assert [member.topics() for member in world.up] == [["orders"]] * 3
    assert [member.metadata.is_controller for member in world.up].count(True) == 1


@in_quorum()
async def test_a_leader_that_is_killed_is_replaced_well_within_a_second(world: QuorumWorld) -> None:
    first = await world.start()
    await first.create("orders")
    killed_at = world.loop.time()

    first.kill()
    second = await world.controller()

    assert world.loop.time() - killed_at < 0.5
    assert second.topics() == ["orders"]
    await second.create("more")
    await first.start()
    await world.agreed()
    assert first.topics() == ["orders", "more"]


@in_quorum()
async def test_a_leader_that_cannot_be_reached_is_replaced_after_the_timeout(world: QuorumWorld) -> None:
    first = await world.start()
    await first.create("orders")
    world.cut(first)

    second = await world.controller(without=first)

    assert second.quorum.epoch > 1
    await second.create("more")
    await world.until(lambda: not first.quorum.is_leader, "its resignation")
    world.wires.heal()
    await world.agreed()
    assert first.topics() == ["orders", "more"]
    assert first.quorum.leader_id == second.node_id


@in_quorum()
async def test_a_leader_that_stops_in_order_hands_over_at_once(world: QuorumWorld) -> None:
    first = await world.start()
    await first.create("orders")
    await world.agreed()
    stopped_at = world.loop.time()

    await first.stop()
    second = await world.controller()

    assert world.loop.time() - stopped_at < 0.3
    assert second.topics() == ["orders"]


@in_quorum()
async def test_what_only_a_deposed_leader_has_is_cut_off_and_was_never_seen(world: QuorumWorld) -> None:
    # Given a leader that nothing hears, and something it wrote there (Raft, 5.3)
    first = await world.start()
    await first.create("orders")
    await world.agreed()
    world.cut(first)
    lost = first.asked("lost")
    await pass_time(0.05)
    assert first.topics() == ["orders"]
    # When another leads and writes, and the first hears of it
    second = await world.controller(without=first)
    await second.create("kept")
    with pytest.raises(Refused) as refused:
        await lost
    world.wires.heal()
    await world.agreed()
    # Then their logs are the same, and whatever asked the first was told to ask another
    assert refused.value.code is Code.NOT_CONTROLLER
    assert first.topics() == ["orders", "kept"]
    assert not any(getattr(fact, "name", "") == "lost" for fact in first.applied)
    assert first.quorum.log.end_offset == second.quorum.log.end_offset


@in_quorum()
async def test_a_minority_decides_nothing(world: QuorumWorld) -> None:
    controller = await world.start()
    others = world.others(controller)
    for member in others:
        member.kill()

    asked = controller.asked("orders")
    with pytest.raises(Refused) as refused:
        await asked

    assert refused.value.code is Code.NOT_CONTROLLER
    assert controller.topics() == []
    with pytest.raises(Refused):
        controller.asked("again")
    await others[0].start()
    again = await world.controller()
    await again.create("another")


@in_quorum()
async def test_all_lose_power_and_what_was_answered_is_there(world: QuorumWorld) -> None:
    controller = await world.start()
    await controller.create("orders", 2)

    for member in world.up:
        member.power_cut()
    again = await world.start()

    assert again.topics() == ["orders"]
    assert again.quorum.epoch > 1


@in_quorum()
async def test_a_node_with_a_lost_disk_gets_everything_again_before_it_votes(world: QuorumWorld) -> None:
    controller = await world.start()
    await controller.create("orders")
    await world.agreed()
    lost = world.others(controller)[0]
    lost.kill()
    for name in lost.disk.names(""):
        lost.disk.remove(name)

    await lost.start()
    assert lost.quorum.raft.is_new
    await world.agreed()

    assert lost.topics() == ["orders"]
    await world.until(lambda: not lost.quorum.raft.is_new, "its say")


@in_quorum()
async def test_who_is_far_behind_gets_a_snapshot(world: QuorumWorld) -> None:
    # Given a node that was away while the others' logs went on, and were cut behind a snapshot (KIP-630)
    for member in world.members.values():
        member.snapshot_records = 20
    controller = await world.start()
    away = world.others(controller)[0]
    await controller.create("first")
    await world.agreed()
    away.kill()
    for number in range(30):
        await controller.create(f"topic-{number}", 3)
    assert controller.quorum.log.start_offset > 10
    names = [name for name in controller.disk.names("__cluster_metadata-0") if name.endswith(".checkpoint")]
    assert len(names) == 2
    # When it comes back
    await away.start()
    await world.agreed()
    # Then it has the same image, and the same log from there on
    assert away.topics() == controller.topics()
    assert away.quorum.log.start_offset > 10
    await controller.create("last")
    await world.agreed()
    assert away.topics()[-1] == "last"
    # And after it has been off and on again it still does
    away.power_cut()
    await away.start()
    await world.agreed()
    assert away.topics() == controller.topics()


@in_quorum()
async def test_a_cluster_that_starts_from_snapshots_has_everything(world: QuorumWorld) -> None:
    for member in world.members.values():
        member.snapshot_records = 20
    controller = await world.start()
    for number in range(30):
        await controller.create(f"topic-{number}", 2)
    before = controller.topics()
    await world.agreed()
    await world.stop()

    again = await world.start()

    assert again.quorum.log.start_offset > 0
    assert again.topics() == before
    await again.create("more")


@in_quorum(count=4, voters=3)
async def test_an_observer_follows_and_does_not_vote(world: QuorumWorld) -> None:
    controller = await world.start()
    await controller.create("orders")
    await world.agreed()
    observer = world[4]
    assert observer.topics() == ["orders"]
    assert not observer.quorum.raft.is_voter
    for member in world.others(observer)[:2]:
        member.kill()
    await pass_time(5)
    assert not any(member.metadata.is_controller for member in world.up)


@in_quorum(count=4, voters=3)
async def test_an_observer_becomes_a_voter_and_stays_one(world: QuorumWorld) -> None:
    controller = await world.start()
    await controller.create("orders")
    await world.agreed()
    await pass_time(0.5)  # its next fetch tells the leader that it has everything

    await controller.quorum.add_voter(4, ("node4", 9092))

    assert controller.quorum.raft.voters.ids == (1, 2, 3, 4)
    await world.until(lambda: world[4].quorum.raft.is_voter, "its vote")
    assert world[4].quorum.log.voter_addresses[4] == ("node4", 9092)
    world[4].kill()
    await world[4].start()
    assert world[4].quorum.raft.is_voter
    await world.until(lambda: world[4].metadata.is_caught_up, "node 4 again")


@in_quorum(count=4, voters=3)
async def test_where_a_voter_is_said_to_be_counts_only_if_the_change_is_taken(world: QuorumWorld) -> None:
    controller = await world.start()
    quorum = controller.quorum
    await controller.create("orders")
    await world.agreed()
    await pass_time(0.5)

    with pytest.raises(Refused) as refused:
        await quorum.add_voter(world.others(controller)[0].node_id, ("elsewhere", 1))

    assert refused.value.code is Code.DUPLICATE_VOTER
    assert [quorum.address_of(voter) for voter in (1, 2, 3)] == [(f"node{voter}", 9092) for voter in (1, 2, 3)]
    await quorum.add_voter(4, ("node4", 9092))
    assert quorum.log.voter_addresses == {voter: (f"node{voter}", 9092) for voter in (1, 2, 3, 4)}


@in_quorum()
async def test_a_voter_is_removed_also_the_leader_itself(world: QuorumWorld) -> None:
    controller = await world.start()
    await controller.create("orders")
    await world.agreed()
    await pass_time(0.5)

    await controller.quorum.remove_voter(controller.node_id)
    second = await world.controller(without=controller)

    assert controller.node_id not in second.quorum.raft.voters.ids
    await second.create("more")
    await world.agreed()
    assert not controller.quorum.raft.is_voter
    with pytest.raises(Refused) as refused:
        await second.quorum.remove_voter(controller.node_id)
    assert refused.value.code is Code.VOTER_NOT_FOUND


@in_quorum()
async def test_a_node_of_another_cluster_is_not_heard(world: QuorumWorld) -> None:
    world[3].cluster_id = "another"

    controller = await world.start()
    await controller.create("orders")
    await pass_time(5)

    assert controller.node_id != 3
    assert world[3].topics() == []
    assert controller.quorum.epoch == 1


@in_quorum()
async def test_a_disk_that_fails_makes_another_lead(world: QuorumWorld) -> None:
    first = await world.start()
    await first.create("orders")
    await world.agreed()

    first.replicas.partitions.take_offline(first.quorum.replica, "its disk failed")
    second = await world.controller(without=first)

    assert second.topics() == ["orders"]
    assert not first.metadata.is_controller
    assert first.quorum.epoch == 1


@in_quorum()
async def test_the_leader_knows_how_far_the_others_are(world: QuorumWorld) -> None:
    controller = await world.start()
    await controller.create("orders")
    await world.agreed()
    await pass_time(0.5)

    view = controller.quorum.describe()

    end_offset = controller.quorum.log.end_offset
    assert view.leader == controller.node_id
    assert [voter.end_offset for voter in view.voters] == [end_offset] * 3
    assert view.high_watermark == end_offset
    follower = world.others(controller)[0]
    with pytest.raises(Refused):
        follower.quorum.describe()
    assert (await follower.quorum.ask_view(1000)).high_watermark == end_offset


@in_quorum()
async def test_an_idle_quorum_stays_with_its_leader(world: QuorumWorld) -> None:
    controller = await world.start()

    await pass_time(60)

    assert controller.metadata.is_controller
    assert controller.quorum.epoch == 1
    assert isinstance(controller.quorum.raft.role, Leader)


@in_quorum()
async def test_a_damaged_vote_is_not_guessed_at(world: QuorumWorld) -> None:
    controller = await world.start()
    await controller.create("orders")
    await world.agreed()
    damaged = world.others(controller)[0]
    damaged.kill()
    damaged.disk.replace("__cluster_metadata-0/quorum-state", b'{"leaderId":1,"lea')

    await damaged.start()

    assert damaged.quorum.raft.is_new
    await world.until(lambda: not damaged.quorum.raft.is_new, "its vote")
    assert damaged.topics() == ["orders"]


@in_quorum(count=1)
async def test_a_node_alone_makes_good_a_damaged_vote(world: QuorumWorld) -> None:
    controller = await world.start()
    await controller.create("orders")
    await world.stop()
    controller.disk.replace("__cluster_metadata-0/quorum-state", b"")

    await world.start()

    assert controller.topics() == ["orders"]
    assert controller.quorum.epoch == 2


@in_quorum()
async def test_voters_that_only_a_deposed_leader_has_were_never_voters(world: QuorumWorld) -> None:
    """KIP-853: voters are in force as soon as their record is in the log, and no longer when it is cut off."""
    first = await world.start()
    await first.create("orders")
    await world.agreed()
    await pass_time(0.5)
    world.cut(first)
    removed = asyncio.create_task(first.quorum.remove_voter(world.others(first)[0].node_id))
    await pass_time(0.05)
    assert [*first.quorum.raft.voters.ids] != [1, 2, 3]

    second = await world.controller(without=first)
    await second.create("more")
    with pytest.raises(Refused):
        await removed
    world.wires.heal()
    await world.agreed()

    assert first.quorum.raft.voters.ids == (1, 2, 3)


@in_quorum()
async def test_voters_that_were_never_safe_go_with_a_snapshot_too(world: QuorumWorld) -> None:
    # Given a leader that is cut off with a change of voters, while the others go on and cut their logs (KIP-630)
    for member in world.members.values():
        member.snapshot_records = 20
    first = await world.start()
    await first.create("orders")
    await world.agreed()
    await pass_time(0.5)
    world.cut(first)
    removed = asyncio.create_task(first.quorum.remove_voter(world.others(first)[0].node_id))
    second = await world.controller(without=first)
    with pytest.raises(Refused):
        await removed
    for number in range(30):
        await second.create(f"topic-{number}", 3)
    assert second.quorum.log.start_offset > first.quorum.log.end_offset
    # When it is brought up to date by a snapshot
    world.wires.heal()
    await world.agreed()
    # Then it has the voters that all others have
    assert first.quorum.log.start_offset > 10
    assert first.quorum.raft.voters.ids == (1, 2, 3)


@in_quorum()
async def test_a_controller_that_was_deposed_does_nothing_by_itself_any_more(world: QuorumWorld) -> None:
    first = await world.start()
    host = first.metadata._host
    assert host is not None
    world.cut(first)
    await world.until(lambda: not first.metadata.is_controller, "its end")

    assert host._deadline is None or host._deadline.action is None
