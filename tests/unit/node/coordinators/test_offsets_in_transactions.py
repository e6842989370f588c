"""Offsets in transactions, from the request to the marker, and through the next coordinator."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from msgspec.structs import replace

from chronik.core.errors import Code, Refused
from chronik.core.machines.groups.commands import CommitOffsetsInTransaction, FetchOffsets, OffsetToCommit
from chronik.core.machines.groups.facts import ClassicGroupForgotten
from chronik.core.machines.groups.pending_offsets import OffsetOwner
from chronik.core.machines.groups.records import encode
from chronik.core.machines.metadata.commands import DeleteTopics, TopicToDelete
from chronik.core.machines.metadata.names import OFFSETS_TOPIC
from chronik.core.machines.transactions.commands import ProducerIdentity
from chronik.core.records.control import Marker
from chronik.core.records.payload import KeyValue, build
from chronik.core.types import TopicPartition
from chronik.node.coordinators.runtime import partition_of
from chronik.node.machine_host import entries_of
from chronik.trace.events import AnyEvent, Committed, OffsetDropped, OffsetPending
from tests.unit.node.coordinators.test_group_coordinator import Place, run
from tests.unit.node.fakes import NODE_ID

ONE = ProducerIdentity(7, 0)
PARTITION = partition_of("g", 50)
COMMIT, ABORT = Marker(True, 0), Marker(False, 0)


async def confirmed(partition: TopicPartition) -> None:
    assert partition == TopicPartition(OFFSETS_TOPIC, PARTITION)


async def refused(partition: TopicPartition) -> None:
    raise Refused(Code.INVALID_TXN_STATE)


async def commit_in_transaction(
    place: Place,
    offset: int,
    producer: ProducerIdentity = ONE,
    confirm: Callable[[TopicPartition], Awaitable[None]] = confirmed,
    topic_id: bytes = bytes(16),
) -> Any:
    offsets = (OffsetToCommit("orders", 0, offset, topic_id=topic_id),)
    command = CommitOffsetsInTransaction("g", "", None, -1, offsets, producer.producer_id)
    answer = asyncio.ensure_future(place.coordinators.ask_in_transaction(command, producer, confirm))
    for _ in range(4):
        await asyncio.sleep(0)
    await place.house.settle()
    return await answer


async def mark(place: Place, marker: Marker = COMMIT, producer: ProducerIdentity = ONE) -> None:
    place.coordinators.append_marker(PARTITION, marker, *producer, 0)
    await place.house.settle()


def is_pending(place: Place) -> bool:
    return any(machine.pending.is_pending(OffsetOwner("g", "orders", 0)) for machine in place.coordinators.machines())


def restarted(place: Place) -> Place:
    place.house.files.crash()
    return Place(place.house.files, offsets_id=place.house.image.topics[OFFSETS_TOPIC].id)


@run
async def test_a_pending_offset_is_in_the_log_and_counts_with_the_marker(place: Place) -> None:
    await place.commit("g", 5)
    assert (await commit_in_transaction(place, 9)).codes == (Code.NONE,)
    replica = place.log_of("g")
    assert (place.committed("g"), is_pending(place), replica.last_stable_offset) == (5, True, 1)

    await mark(place)

    assert (place.committed("g"), is_pending(place), replica.last_stable_offset) == (9, False, 3)


@run
async def test_the_coordinator_of_the_transaction_is_asked_once(place: Place) -> None:
    await commit_in_transaction(place, 9)
    assert (await commit_in_transaction(place, 10, confirm=refused)).codes == (Code.NONE,)
    await mark(place)
    assert place.committed("g") == 10

    with pytest.raises(Refused) as caught:  # the next transaction is another one
        await commit_in_transaction(place, 11, confirm=refused)
    assert caught.value.code == Code.INVALID_TXN_STATE
    assert (place.committed("g"), is_pending(place)) == (10, False)


@run
async def test_a_marker_that_comes_while_the_transaction_is_confirmed_fences_the_commit(place: Place) -> None:
    await place.commit("g", 5)

    async def confirmed_too_early(partition: TopicPartition) -> None:
        place.coordinators.append_marker(PARTITION, ABORT, *ONE, 0)

    with pytest.raises(Refused) as caught:
        await commit_in_transaction(place, 9, confirm=confirmed_too_early)
    assert caught.value.code == Code.INVALID_TXN_STATE
    assert (place.committed("g"), is_pending(place)) == (5, False)


@run
async def test_the_marker_of_the_last_transaction_does_not_fence_the_next_one(place: Place) -> None:
    """With transaction version 2 a producer goes on before the markers are everywhere (KIP-890)."""
    await commit_in_transaction(place, 9)
    following = ProducerIdentity(7, 1)

    async def confirmed_behind_the_marker(partition: TopicPartition) -> None:
        place.coordinators.append_marker(PARTITION, COMMIT, *following, 2)

    assert (await commit_in_transaction(place, 10, following, confirmed_behind_the_marker)).codes == (Code.NONE,)
    assert (place.committed("g"), is_pending(place)) == (9, True)


@run
async def test_a_fenced_producer_commits_nothing(place: Place) -> None:
    await commit_in_transaction(place, 9, ProducerIdentity(7, 3))
    with pytest.raises(Refused) as caught:
        await commit_in_transaction(place, 10, ProducerIdentity(7, 2))
    assert caught.value.code == Code.INVALID_PRODUCER_EPOCH
    await mark(place, producer=ProducerIdentity(7, 3))
    assert place.committed("g") == 9


@run
async def test_the_machine_that_leads_after_the_confirmation_is_the_one_that_learns_of_it(place: Place) -> None:
    """Else the offset is in the log, and the machine that answers for it does not know it."""
    await place.commit("g", 5)
    replica = place.log_of("g")

    async def confirmed_after_a_failover(partition: TopicPartition) -> None:
        place.coordinators.runtime.leadership_lost(replica)
        place.coordinators.runtime.leadership_gained(replica)
        await asyncio.sleep(0)

    await commit_in_transaction(place, 9, confirm=confirmed_after_a_failover)
    assert is_pending(place)
    await mark(place)
    assert place.committed("g") == 9


@pytest.mark.parametrize(("marker", "expected"), [(COMMIT, 9), (ABORT, 5)])
def test_the_next_coordinator_knows_what_is_pending_and_takes_the_marker(marker: Marker, expected: int) -> None:
    @run
    async def story(place: Place) -> None:
        await place.commit("g", 5)
        await commit_in_transaction(place, 9)

        following = restarted(place)

        assert (following.committed("g"), is_pending(following)) == (5, True)
        await mark(following, marker)
        assert (following.committed("g"), is_pending(following)) == (expected, False)

    story()


@pytest.mark.parametrize(("marker", "expected"), [(COMMIT, 9), (ABORT, 5)])
def test_the_next_coordinator_knows_how_a_transaction_ended(marker: Marker, expected: int) -> None:
    @run
    async def story(place: Place) -> None:
        await place.commit("g", 5)
        await commit_in_transaction(place, 9)
        await mark(place, marker)
        following = restarted(place)
        assert (following.committed("g"), is_pending(following)) == (expected, False)

    story()


@run
async def test_a_coordinator_that_reads_its_log_takes_no_marker_yet(place: Place) -> None:
    """It would read on behind it, or read it twice."""
    await commit_in_transaction(place, 9)
    replica = place.log_of("g")
    place.coordinators.runtime.leadership_lost(replica)
    place.house.replicas.append(replica, _unsynced(), -1)  # not durable: it is loading until then
    place.coordinators.runtime.leadership_gained(replica)
    end_offset = replica.log.end_offset

    with pytest.raises(Refused) as caught:
        place.coordinators.append_marker(PARTITION, COMMIT, *ONE, 0)

    assert caught.value.code == Code.NOT_LEADER_OR_FOLLOWER
    assert replica.log.end_offset == end_offset
    await place.house.settle()
    await mark(place)
    assert place.committed("g") == 9


def _unsynced() -> bytearray:
    record = encode(ClassicGroupForgotten("nobody"))
    return build([KeyValue(record.key, record.value)], 0)


@run
async def test_another_nodes_partition_takes_no_marker(place: Place) -> None:
    await commit_in_transaction(place, 9)
    replica = place.log_of("g")
    replica.follow(2, 1, 1)
    place.coordinators.runtime.role_changed(replica)
    with pytest.raises(Refused) as caught:
        place.coordinators.append_marker(PARTITION, COMMIT, *ONE, 0)
    assert caught.value.code == Code.NOT_LEADER_OR_FOLLOWER


@run
async def test_a_stable_offset_is_waited_for_by_asking_again(place: Place) -> None:
    await commit_in_transaction(place, 9)

    async def stable() -> Any:
        wanted = FetchOffsets("g", (("orders", 0),), requires_stable=True)
        answer = asyncio.ensure_future(place.coordinators.ask("g", wanted))
        await asyncio.sleep(0)
        await place.house.settle()
        return (await answer).offsets[0]

    assert (await stable()).code is Code.UNSTABLE_OFFSET_COMMIT
    await mark(place)
    found = await stable()
    assert (found.code, found.offset) == (Code.NONE, 9)


@run
async def test_pending_offsets_of_a_deleted_topic_go_with_it(place: Place) -> None:
    await commit_in_transaction(place, 9, topic_id=place.house.image.topics["orders"].id)
    place.house.tell(DeleteTopics((TopicToDelete(name="orders"),)))
    place.coordinators.forget_deleted_topics()
    await place.house.settle()
    await mark(place)
    assert (place.committed("g"), is_pending(place)) == (None, False)


@run
async def test_the_log_has_the_commit_and_its_marker_in_the_producers_name(place: Place) -> None:
    await commit_in_transaction(place, 9)
    await mark(place, ABORT)
    record, marker = entries_of(place.log_of("g").log)
    assert (record.producer_id, marker) == (7, (7, False))


def told(place: Place) -> list[AnyEvent]:
    kinds = OffsetPending | OffsetDropped | Committed
    return [replace(event, at_us=0) for event in place.house.trace.read().events if isinstance(event, kinds)]


@run
async def test_the_trace_has_an_offset_pending_and_then_committed(place: Place) -> None:
    place.house.trace.switch(is_all=True, exceptions=frozenset())
    await commit_in_transaction(place, 9)
    assert told(place) == [OffsetPending(0, NODE_ID, "orders", 0, "g", 7, 9)]

    await mark(place)
    assert told(place)[1:] == [Committed(0, NODE_ID, "orders", 0, "g", "", "", 9, 7)]


@run
async def test_the_trace_has_an_offset_dropped_and_why(place: Place) -> None:
    place.house.trace.switch(is_all=True, exceptions=frozenset())
    await commit_in_transaction(place, 9)
    await mark(place, ABORT)
    assert told(place)[1:] == [OffsetDropped(0, NODE_ID, "orders", 0, "g", 7, 9, "aborted")]

    await commit_in_transaction(place, 10)
    await place.commit("g", 12)
    await mark(place)
    assert told(place)[-1:] == [OffsetDropped(0, NODE_ID, "orders", 0, "g", 7, 10, "overtaken")]
    assert place.committed("g") == 12


@run
async def test_offsets_of_a_topic_that_is_not_traced_are_not_told(place: Place) -> None:
    place.house.trace.switch(is_all=False, exceptions=frozenset({"others"}))
    await commit_in_transaction(place, 9)
    await mark(place)

    assert told(place) == []
