"""Fetch with read_committed: up to the last stable offset, and told which transactions were aborted."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from chronik.core.records.control import Marker
from chronik.core.replica.replica import READ_COMMITTED, Replica
from tests.unit.api.fetching import get, partitions_of, put, records_of
from tests.unit.api.house_context import WAITING, HouseContext, run
from tests.unit.core.log.logs import end_transaction, put_in_transaction

EVERY_VERSION = range(4, 19)


def leader_of(context: HouseContext) -> Replica:
    return context.house.replicas.leader("orders", 0)


def told(asked: Any) -> list[tuple[int, int]] | None:
    aborted = partitions_of(asked)[0].aborted_transactions
    return None if aborted is None else [(one.producer_id, one.first_offset) for one in aborted]


@pytest.mark.parametrize("version", EVERY_VERSION)
def test_what_is_open_is_not_read_and_what_was_aborted_is_named(version: int) -> None:
    async def ask() -> None:
        context = HouseContext()
        put(context, 1)  # 0
        log = leader_of(context).log
        put_in_transaction(log, 7)  # 1
        end_transaction(log, 7, is_commit=False)  # 2
        put_in_transaction(log, 8)  # 3
        put(context, 1)  # 4
        await context.settle()
        topic: Any = context.house.image.topics["orders"].id if version >= 13 else "orders"

        committed = get(context, (0, 0), version=version, topic=topic, isolation_level=READ_COMMITTED)
        everything = get(context, (0, 0), version=version, topic=topic)

        found = partitions_of(committed)[0]
        assert (found.high_watermark, found.last_stable_offset) == (5, 3)
        assert told(committed) == [(7, 1)]
        assert told(everything) is None
        assert records_of(everything).startswith(records_of(committed))
        assert len(records_of(everything)) > len(records_of(committed))
        later = get(context, (0, 3), version=version, topic=topic, isolation_level=READ_COMMITTED)
        assert told(later) == []
        assert records_of(later) == b""

    asyncio.run(ask())


@run()
async def test_a_fetch_that_waits_is_answered_when_the_transaction_ends(context: HouseContext) -> None:
    replica = leader_of(context)
    put_in_transaction(replica.log, 7)
    put(context, 1)
    await context.settle()
    asked = get(context, (0, 0), max_wait_ms=10_000, isolation_level=READ_COMMITTED)
    assert asked.raw is WAITING

    context.house.replicas.append_marker(replica, Marker(True, 0), 7, 0, 0)
    await context.settle()

    assert asked.raw is not WAITING
    assert partitions_of(asked)[0].last_stable_offset == 3
