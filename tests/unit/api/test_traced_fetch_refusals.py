"""Why a fetch was refused, as the trace tells it."""

from __future__ import annotations

from chronik.api import fetch
from chronik.trace.events import RefusedEvent
from chronik.wire.fetch import FetchPartition, FetchRequest
from tests.unit.api.house_context import HouseContext, run
from tests.unit.wire.hot_requests import fetch_request

VERSION = 12
ONLY_LEADERS = 10  # a consumer that old asks no follower


def get(context: HouseContext, *, partition: int = 0, leader_epoch: int = -1, version: int = VERSION) -> None:
    context.house.trace.switch(is_all=True, exceptions=frozenset())
    wanted = [FetchPartition("orders", partition, 0, 1_000_000, leader_epoch)]
    context.ask(fetch, version, fetch_request(version, FetchRequest(-1, 0, 1, 50_000_000, 1, 0, -1, wanted, [])))


def reasons(context: HouseContext) -> list[tuple[str, str | None]]:
    return [(told.error, told.reason) for told in context.house.trace.read().events if isinstance(told, RefusedEvent)]


@run()
async def test_a_fetch_with_another_leader_epoch_is_told_with_both(context: HouseContext) -> None:
    get(context, leader_epoch=9)

    assert reasons(context) == [("UNKNOWN_LEADER_EPOCH", "asked with leader epoch 9, and it is 0")]


@run()
async def test_a_fetch_of_what_is_not_there_is_told_so(context: HouseContext) -> None:
    get(context, partition=5)

    assert reasons(context) == [("UNKNOWN_TOPIC_OR_PARTITION", "there is no such topic or partition here")]


@run()
async def test_a_fetch_of_a_copy_that_is_offline_is_told_with_what_is_wrong_with_it(context: HouseContext) -> None:
    context.house.replicas.leader("orders", 0).take_offline("read failed: a bad batch")

    get(context)

    assert reasons(context) == [("KAFKA_STORAGE_ERROR", "read failed: a bad batch")]


@run()
async def test_a_fetch_from_a_node_that_does_not_lead_is_told_who_does(context: HouseContext) -> None:
    context.house.replicas.leader("orders", 0).follow(leader_id=9, leader_epoch=1, partition_epoch=1)
    placed = context.house.image.partition("orders", 0)
    assert placed is not None

    get(context, version=ONLY_LEADERS)

    assert reasons(context) == [("NOT_LEADER_OR_FOLLOWER", f"node {placed.leader} leads it")]
