"""In-sync sets are asked for as they should be, and what the controller says of it is taken in."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any

from chronik.core.errors import Code, Corrupt, Refused
from chronik.core.machines.metadata.commands import ChangeOutcome
from chronik.core.machines.metadata.controller_commands import AlteredPartition, AlterPartitions
from chronik.core.replica.in_sync import InSyncSet
from chronik.node.replication.in_sync_upkeep import AGAIN_MS, LOOK_MS_MAX, InSyncUpkeep
from tests.unit.node.copies import Copies, pass_time, with_copies

LAG_MS = 2000


class Controller:
    """Answers as the test says: by default it does what it is asked, and tells nothing else."""

    def __init__(self, copies: Copies) -> None:
        self._copies = copies
        self.asked: list[AlterPartitions] = []
        self.answers: list[Code | Refused] = []  # to what is asked next, instead of doing it
        self.watermarks: list[int] = []  # of the leader, whenever it asked
        self.tells = False  # whether the metadata comes before the answer

    async def ask(self, command: AlterPartitions) -> tuple[AlteredPartition, ...]:
        self.asked.append(command)
        self.watermarks.append(self._copies[1].replica().high_watermark)
        await pass_time(1)
        if self.answers:
            answer = self.answers.pop(0)
            if isinstance(answer, Refused):
                raise answer
            return tuple(AlteredPartition(ChangeOutcome(answer)) for _ in command.changes)
        answers: list[AlteredPartition] = []
        for change in command.changes:
            members = tuple(member for member, _ in change.in_sync)
            if self.tells:
                self._copies.change(isr=members, partition=change.partition)
            epoch = change.partition_epoch + 1
            answers.append(
                AlteredPartition(ChangeOutcome(), command.broker_id, change.leader_epoch, members, False, epoch)
            )
        return tuple(answers)

    @property
    def sets(self) -> list[tuple[int, ...]]:
        return [tuple(member for member, _ in change.in_sync) for one in self.asked for change in one.changes]


def with_upkeep(
    test: Callable[[Copies, Controller], Coroutine[Any, Any, None]], lag_ms: int = LAG_MS
) -> Callable[[], None]:
    """The copies, with node 1 keeping its in-sync sets."""

    async def through(copies: Copies) -> None:
        controller, node = Controller(copies), copies[1]
        upkeep = InSyncUpkeep(
            node.image,
            node.replicas,
            node.deadlines,
            node.clock,
            node.image.node_config.replication,
            node.metrics,
            node_id=1,
            broker_epoch=lambda: 11,
            ask=controller.ask,
        )
        node.subscribers.follower_progressed.append(upkeep.look_at)
        node.subscribers.went_offline.append(upkeep.look_whether_served)
        node.subscribers.role_changed.append(upkeep.look_whether_served)
        upkeep.start()
        await test(copies, controller)
        await upkeep.stop()

    through.__name__ = test.__name__
    return with_copies(replica_lag_time_max_ms=str(lag_ms))(through)


def in_sync_of(copies: Copies) -> InSyncSet:
    in_sync = copies[1].replica().in_sync
    assert in_sync is not None
    return in_sync


def lose_node_3(copies: Copies) -> None:
    copies.network.cut |= {(3, 1), (1, 3)}


@with_upkeep
async def test_who_lags_for_too_long_leaves_and_comes_back_with_real_progress(
    copies: Copies, controller: Controller
) -> None:
    controller.tells = True
    await pass_time(50)
    lose_node_3(copies)
    copies[1].produce(b"one")
    await pass_time(LAG_MS // 2)
    assert controller.sets == []
    await pass_time(LAG_MS)

    assert controller.sets == [(1, 2)]
    assert controller.asked[0].changes[0].in_sync == ((1, 11), (2, 12))
    assert copies[1].offsets() == (0, 1, 1)

    copies.network.cut.clear()
    await pass_time(500)
    assert controller.sets == [(1, 2), (1, 2, 3)]
    assert copies[3].offsets() == (0, 1, 1)


@with_upkeep
async def test_a_smaller_set_holds_when_the_metadata_has_it_and_not_by_the_answer_alone(
    copies: Copies, controller: Controller
) -> None:
    """What came before it may be that more are wanted in sync now."""
    await pass_time(50)
    lose_node_3(copies)
    copies[1].produce(b"one")
    await pass_time(2 * LAG_MS)

    assert controller.sets == [(1, 2)]
    assert (in_sync_of(copies).in_sync, in_sync_of(copies).wanted) == ((1, 2, 3), (1, 2))
    assert copies[1].offsets() == (0, 0, 1)
    copies.change(isr=(1, 2))
    await pass_time(50)
    assert copies[1].offsets() == (0, 1, 1)


@with_upkeep
async def test_an_idle_partition_keeps_its_set_for_ever(copies: Copies, controller: Controller) -> None:
    copies[1].produce(b"one")
    await pass_time(50)

    await pass_time(100 * LAG_MS)

    assert controller.asked == []
    copies[1].produce(b"two")
    await pass_time(50)
    assert copies[1].offsets() == (0, 2, 2)


@partial(with_upkeep, lag_ms=1_000_000)
async def test_the_first_record_after_a_long_silence_makes_nobody_look_late(
    copies: Copies, controller: Controller
) -> None:
    copies[1].produce(b"one")
    await pass_time(50_000)

    lose_node_3(copies)
    copies[1].produce(b"two")
    await pass_time(5)

    late = in_sync_of(copies).followers[3]
    assert late.durable_end_offset == 1
    assert copies[1].clock.monotonic_ms() - late.caught_up_ms <= LOOK_MS_MAX + 10


@with_upkeep
async def test_until_the_controller_has_answered_both_sets_count(copies: Copies, controller: Controller) -> None:
    await pass_time(50)
    copies.change(isr=(1, 2))
    lose_node_3(copies)
    copies[1].produce(b"one")
    await pass_time(200)
    controller.answers = [Refused(Code.NOT_CONTROLLER)] * 5
    copies.network.cut.clear()
    await pass_time(300)
    assert in_sync_of(copies).wanted == (1, 2, 3)
    lose_node_3(copies)
    copies[1].produce(b"two")
    await pass_time(100)

    assert copies[1].offsets() == (0, 1, 2)  # perhaps the controller counts on it already

    await pass_time(2000)
    assert controller.sets[0] == (1, 2, 3)
    assert in_sync_of(copies).in_sync[:2] == (1, 2)


@with_upkeep
async def test_without_a_controller_the_same_is_asked_again_until_there_is_one(
    copies: Copies, controller: Controller
) -> None:
    controller.tells = True
    await pass_time(50)
    lose_node_3(copies)
    copies[1].produce(b"one")
    controller.answers = [Refused(Code.NOT_CONTROLLER), Refused(Code.STALE_BROKER_EPOCH)]

    await pass_time(3 * LAG_MS)

    assert controller.sets == [(1, 2)] * 3
    assert in_sync_of(copies).in_sync == (1, 2)


@with_upkeep
async def test_what_newer_metadata_is_on_its_way_for_waits_for_it(copies: Copies, controller: Controller) -> None:
    await pass_time(50)
    lose_node_3(copies)
    copies[1].produce(b"one")
    controller.answers = [Code.INVALID_UPDATE_VERSION]
    await pass_time(2 * LAG_MS)
    assert controller.sets == [(1, 2)]
    assert in_sync_of(copies).wanted == (1, 2)

    copies.change(isr=(1, 2))

    assert (in_sync_of(copies).in_sync, in_sync_of(copies).wanted) == ((1, 2), None)
    await pass_time(50)
    assert copies[1].offsets() == (0, 1, 1)


@with_upkeep
async def test_a_replica_the_controller_will_not_have_is_asked_for_again_later(
    copies: Copies, controller: Controller
) -> None:
    await pass_time(50)
    controller.answers = [Code.INELIGIBLE_REPLICA]
    copies.change(isr=(1, 2))
    copies[1].produce(b"one")
    await pass_time(100)
    assert controller.sets == [(1, 2, 3)]
    assert in_sync_of(copies).wanted is None

    await pass_time(LAG_MS)

    assert controller.sets == [(1, 2, 3)] * 2
    assert in_sync_of(copies).in_sync == (1, 2, 3)


@with_upkeep
async def test_metadata_that_comes_before_the_answer_is_the_same_news(copies: Copies, controller: Controller) -> None:
    await pass_time(50)
    controller.tells = True
    lose_node_3(copies)
    copies[1].produce(b"one")
    await pass_time(2 * LAG_MS)

    in_sync = in_sync_of(copies)
    assert (in_sync.in_sync, in_sync.wanted, in_sync.partition_epoch) == ((1, 2), None, 1)
    assert copies[1].offsets() == (0, 1, 1)


@with_upkeep
async def test_a_fenced_node_does_not_join_and_nobody_waits_for_it(copies: Copies, controller: Controller) -> None:
    from chronik.core.machines.metadata.records import BrokerRegistrationChangeRecord

    await pass_time(50)
    copies.change(isr=(1, 2))
    copies[1].tell(BrokerRegistrationChangeRecord(3, 13, fenced=1))
    copies[1].produce(b"one")
    await pass_time(3 * LAG_MS)

    assert controller.asked == []
    assert copies[1].offsets() == (0, 1, 1)


@with_upkeep
async def test_a_leader_whose_disk_failed_asks_for_another(copies: Copies, controller: Controller) -> None:
    await pass_time(50)
    copies[1].replicas.partitions.take_offline(copies[1].replica(), "write failed")

    await pass_time(50)

    assert controller.sets == [(2, 3)]


@with_upkeep
async def test_a_leader_whose_disk_failed_asks_until_somebody_takes_over(
    copies: Copies, controller: Controller
) -> None:
    await pass_time(50)
    controller.answers = [Code.INELIGIBLE_REPLICA, Refused(Code.NOT_CONTROLLER)]
    copies[1].replicas.partitions.take_offline(copies[1].replica(), "write failed")
    await pass_time(2 * LAG_MS)
    assert len(controller.sets) > 2

    copies.change(leader=2, isr=(2, 3))
    asked = len(controller.sets)
    await pass_time(2 * LAG_MS)

    assert len(controller.sets) == asked


@partial(with_upkeep, lag_ms=10 * LAG_MS)
async def test_a_leader_whose_disk_failed_does_not_wait_for_the_next_look_to_ask_again(
    copies: Copies, controller: Controller
) -> None:
    await pass_time(50)
    controller.answers = [Refused(Code.NOT_CONTROLLER), Code.INVALID_UPDATE_VERSION]
    copies[1].replicas.partitions.take_offline(copies[1].replica(), "write failed")

    await pass_time(2 * AGAIN_MS + 50)
    assert controller.sets == [(2, 3)] * 3
    await pass_time(2 * AGAIN_MS)
    assert len(controller.sets) == 3  # what was done is not asked for again


@with_upkeep
async def test_a_follower_whose_copy_is_damaged_asks_not_to_be_counted(copies: Copies, controller: Controller) -> None:
    copies[1].produce(b"one")
    await pass_time(100)
    copies.change(leader=2)
    await pass_time(100)
    controller.asked.clear()

    copies[1].replicas.read_failed(copies[1].replica(), Corrupt("orders-0", "the checksum does not hold"))
    await pass_time(50)
    assert controller.sets == [(2, 3)]

    copies.change(isr=(2, 3))
    await pass_time(2 * LAG_MS)
    assert controller.sets == [(2, 3)]  # no node counts on it: it is fetched anew
    assert copies[1].offsets() == (0, 1, 1)


@with_upkeep
async def test_who_is_elected_and_cannot_serve_asks_for_another(copies: Copies, controller: Controller) -> None:
    copies.change(leader=2)
    copies[1].replicas.partitions.take_offline(copies[1].replica(), "write failed")
    await pass_time(50)
    assert controller.sets == []

    copies.change(leader=1)
    await pass_time(50)

    assert controller.sets == [(2, 3)]


@with_upkeep
async def test_the_watermark_does_not_pass_one_that_is_asked_in(copies: Copies, controller: Controller) -> None:
    await pass_time(50)
    copies.change(isr=(1, 2))
    controller.answers = [Code.INELIGIBLE_REPLICA] * 20
    copies[1].produce(b"one")
    await pass_time(100)
    controller.asked.clear()
    controller.watermarks.clear()
    lose_node_3(copies)
    copies[1].produce(b"two")  # which waits for node 3, as that is about to join

    await pass_time(3 * LAG_MS)

    end_of_node_3 = copies[3].offsets()[2]
    assert end_of_node_3 == 1
    asked_in = [place for place, members in enumerate(controller.sets) if 3 in members]
    assert all(controller.watermarks[place] <= end_of_node_3 for place in asked_in)
    assert asked_in
