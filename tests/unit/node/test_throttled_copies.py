"""Throttled replication, as frames between leader and followers: how fast a copy catches up, and what never waits."""

from __future__ import annotations

from typing import Any

import pytest

from chronik.core.errors import Code
from chronik.core.machines.metadata.commands import ResourceType
from chronik.core.machines.metadata.records import ConfigRecord
from chronik.core.replica.replica import ACKS_ALL
from chronik.trace.metrics import FOLLOWER, LEADER
from chronik.wire.fetch import FetchPartition
from tests.unit.core.fakes import MemoryFiles
from tests.unit.node.copies import TOPIC, TOPIC_ID, Copies, follower_asks, pass_time, with_copies

BATCH = b"x" * 10_000
BATCHES = 100
RATE = 100_000
LEADS, STAYS, NEW = 1, 2, 3  # the new one has to catch up


def throttle(copies: Copies, role: str, *, rate: int | None = RATE, listed: str | None = "*") -> None:
    """Set it on all nodes; None takes it back."""
    for node_id in copies.network.nodes:
        text = None if rate is None else str(rate)
        copies[node_id].tell(
            ConfigRecord(ResourceType.TOPIC, TOPIC, f"{role}.replication.throttled.replicas", listed),
            ConfigRecord(ResourceType.BROKER, str(node_id), f"{role}.replication.throttled.rate", text),
            ConfigRecord(ResourceType.BROKER, "", f"{role}.replication.throttled.rate", text),
        )


async def with_a_new_copy(copies: Copies, role: str, *, batches: int = BATCHES, **throttled: Any) -> None:
    """Node 3 has lost its disk, is not in sync, and finds everything at once on the leader."""
    await copies.stop(NEW)
    copies.change(isr=[LEADS, STAYS])
    copies[LEADS].produce(*[BATCH] * batches)
    await pass_time(100)
    assert copies[LEADS].offsets() == (0, batches, batches)
    copies.start(NEW, MemoryFiles())
    throttle(copies, role, **throttled)


def end_of(copies: Copies, node_id: int = NEW) -> int:
    return copies[node_id].replica().log.end_offset


@pytest.mark.parametrize("role", [LEADER, FOLLOWER])
def test_a_new_copy_catches_up_at_the_rate_of_its_throttle(role: str) -> None:
    @with_copies()
    async def through(copies: Copies) -> None:
        await with_a_new_copy(copies, role)

        seen = []
        for _ in range(14):
            await pass_time(1000)
            seen.append(end_of(copies))

        # A second of the rate goes at once, then ten batches a second, and one more than allowed where they do not fit.
        assert all(end <= 10 * second + 10 + 1 for second, end in enumerate(seen, 1))
        assert seen[-1] == BATCHES
        metrics = copies[LEADS if role == LEADER else NEW].metrics
        assert metrics.throttled_bytes[role] >= BATCHES * len(BATCH)
        assert metrics.throttled_waits[role] > 0

    through()


@pytest.mark.parametrize("role", [LEADER, FOLLOWER])
def test_a_copy_that_is_not_listed_catches_up_at_once(role: str) -> None:
    @with_copies()
    async def through(copies: Copies) -> None:
        await with_a_new_copy(copies, role, listed="0:2,1:1,1:3")

        await pass_time(1000)

        assert end_of(copies) == BATCHES

    through()


@pytest.mark.parametrize("role", [LEADER, FOLLOWER])
def test_producers_do_not_wait_for_a_copy_that_is_held_back(role: str) -> None:
    @with_copies()
    async def through(copies: Copies) -> None:
        await with_a_new_copy(copies, role)
        await pass_time(3000)
        told: list[Code] = []

        copies[LEADS].produce(b"now")
        copies[LEADS].waiting.when_safe(copies[LEADS].replica(), BATCHES + 1, ACKS_ALL, -1, told.append)
        await pass_time(50)

        assert told == [Code.NONE]
        assert copies[STAYS].offsets()[2] == BATCHES + 1
        assert end_of(copies) < BATCHES

    through()


@pytest.mark.parametrize("role", [LEADER, FOLLOWER])
def test_a_copy_that_is_in_sync_is_never_held_back(role: str) -> None:
    @with_copies()
    async def through(copies: Copies) -> None:
        throttle(copies, role, rate=1)
        told: list[Code] = []

        for count in range(1, 21):
            copies[LEADS].produce(BATCH)
            copies[LEADS].waiting.when_safe(copies[LEADS].replica(), count, ACKS_ALL, -1, told.append)
            await pass_time(20)

        assert told == [Code.NONE] * 20
        assert [copies[node].offsets() for node in (STAYS, NEW)] == [(0, 20, 20)] * 2

    through()


@pytest.mark.parametrize("role", [LEADER, FOLLOWER])
@pytest.mark.parametrize("rate", [0, 1, 500])
def test_batches_larger_than_the_rate_go_one_by_one_as_the_windows_move(role: str, rate: int) -> None:
    @with_copies()
    async def through(copies: Copies) -> None:
        await with_a_new_copy(copies, role, batches=4, rate=rate)

        await pass_time(5_000)
        assert end_of(copies) == 1
        await pass_time(4 * 12_000)

        assert end_of(copies) == 4

    through()


@pytest.mark.parametrize("role", [LEADER, FOLLOWER])
def test_what_is_held_back_goes_on_when_the_throttle_is_taken_back(role: str) -> None:
    @with_copies()
    async def through(copies: Copies) -> None:
        await with_a_new_copy(copies, role, rate=1)
        await pass_time(3000)
        assert end_of(copies) < BATCHES

        throttle(copies, role, rate=None, listed=None)
        await pass_time(1500)

        assert end_of(copies) == BATCHES

    through()


@pytest.mark.parametrize("role", [LEADER, FOLLOWER])
def test_several_throttled_partitions_share_the_rate_and_none_starves(role: str) -> None:
    @with_copies(partitions=5)
    async def through(copies: Copies) -> None:
        await copies.stop(NEW)
        for partition in range(5):
            copies.change(isr=[LEADS, STAYS], partition=partition)
            copies[LEADS].produce(*[BATCH] * 20, partition=partition)
        await pass_time(200)
        copies.start(NEW, MemoryFiles())
        throttle(copies, role)

        await pass_time(4000)
        ends = [copies[NEW].replica(partition).log.end_offset for partition in range(5)]
        assert 20 <= sum(ends) <= 10 + 40 + 5
        await pass_time(10_000)

        assert [copies[NEW].replica(partition).log.end_offset for partition in range(5)] == [20] * 5

    through()


@with_copies()
async def test_while_its_records_are_held_back_a_follower_is_told_the_watermark(
    copies: Copies,
) -> None:
    """While its records are held back a follower is told the watermark and where it must cut."""
    await with_a_new_copy(copies, LEADER, rate=1)
    await copies.stop(NEW)
    leader = copies[LEADS]
    first = follower_asks(leader, NEW, FetchPartition(TOPIC_ID, 0, 0, 10**6, 0, -1), session=(0, 0))
    assert len(first.partitions[0].records) > 0

    held = follower_asks(leader, NEW, FetchPartition(TOPIC_ID, 0, 1, 10**6, 0, 0), session=(first.session_id, 1))
    assert [len(part.records) for part in held.partitions] in ([], [0])
    leader.produce(b"more")
    await pass_time(20)
    told = follower_asks(leader, NEW, session=(first.session_id, 2))
    assert [(part.high_watermark, len(part.records)) for part in told.partitions] == [(BATCHES + 1, 0)]
    beyond = FetchPartition(TOPIC_ID, 0, BATCHES + 50, 10**6, 0, 0)
    cut = follower_asks(leader, NEW, beyond, session=(first.session_id, 3))
    assert cut.partitions[0].diverging == (0, BATCHES + 1)


@with_copies()
async def test_a_session_that_ends_takes_its_timer_with_it(copies: Copies) -> None:
    await with_a_new_copy(copies, LEADER, rate=1)
    await pass_time(50)
    session: Any = copies[LEADS].context.fetching.sessions.followers[NEW]
    assert session._throttle_timer is not None

    session.close()

    assert session._throttle_timer is None
