"""Fetch within incremental sessions (KIP-227): only what is new is told, and partitions are served in turn."""

from __future__ import annotations

from chronik.core.errors import Code
from tests.unit.api.fetching import code_of, get, partitions_of, put, records_of
from tests.unit.api.house_context import WAITING, Asked, HouseContext, run


def session_of(asked: Asked) -> int:
    assert asked.response.error_code == 0
    return int(asked.response.session_id)


@run()
async def test_a_session_tells_only_what_is_new(context: HouseContext) -> None:
    put(context, 1)
    await context.settle()
    first = get(context, (0, 1), (1, 0), session=(0, 0))
    assert sorted(partitions_of(first)) == [0, 1]
    session_id = session_of(first)
    assert session_id > 0

    second = get(context, session=(session_id, 1))
    assert (session_of(second), partitions_of(second)) == (session_id, {})
    (batch,) = put(context, 1, partition=1)
    await context.settle()
    third = get(context, session=(session_id, 2))

    assert list(partitions_of(third)) == [1]
    assert records_of(third, 1) == batch


@run()
async def test_a_session_without_news_waits_and_then_is_empty(context: HouseContext) -> None:
    session_id = session_of(get(context, (0, 0), session=(0, 0)))

    asked = get(context, session=(session_id, 1), max_wait_ms=500)
    assert asked.raw is WAITING
    context.house.loop.advance(500)

    assert partitions_of(asked) == {}


@run()
async def test_an_error_in_a_session_is_told_each_time_and_its_end_as_well(context: HouseContext) -> None:
    put(context, 2)
    await context.settle()
    session_id = session_of(get(context, (0, 99), session=(0, 0)))

    assert code_of(get(context, session=(session_id, 1))) == Code.OFFSET_OUT_OF_RANGE
    assert records_of(get(context, (0, 2), session=(session_id, 2))) == b""

    assert partitions_of(get(context, session=(session_id, 3))) == {}


@run()
async def test_a_session_takes_in_new_partitions_and_lets_go_of_others(context: HouseContext) -> None:
    session_id = session_of(get(context, (0, 0), session=(0, 0)))

    assert list(partitions_of(get(context, (1, 0), session=(session_id, 1), forgotten=(0,)))) == [1]
    put(context, 1)
    put(context, 1, partition=1)
    await context.settle()

    assert list(partitions_of(get(context, session=(session_id, 2)))) == [1]


@run({"orders": 3})
async def test_in_a_session_partitions_are_served_in_turn(context: HouseContext) -> None:
    for partition in range(3):
        put(context, *[5] * 2, partition=partition)
    await context.settle()
    first = get(context, (0, 0), (1, 0), (2, 0), session=(0, 0), max_bytes=1)
    served = [number for number, found in partitions_of(first).items() if found.records]
    for epoch in (1, 2, 3):
        asked = get(context, session=(session_of(first), epoch), max_bytes=1)
        served += [number for number, found in partitions_of(asked).items() if found.records]

    assert served == [0, 1, 2, 0]


@run()
async def test_a_request_out_of_step_with_its_session_is_refused(context: HouseContext) -> None:
    session_id = session_of(get(context, (0, 0), session=(0, 0)))

    assert get(context, session=(session_id, 5)).response.error_code == Code.INVALID_FETCH_SESSION_EPOCH
    assert get(context, session=(12345, 1)).response.error_code == Code.FETCH_SESSION_ID_NOT_FOUND
    by_id = get(context, session=(session_id, 1), version=13, topic=context.house.image.topics["orders"].id)

    assert by_id.response.error_code == Code.FETCH_SESSION_TOPIC_ID_ERROR


@run()
async def test_a_session_ends_when_it_is_told_to(context: HouseContext) -> None:
    session_id = session_of(get(context, (0, 0), session=(0, 0)))

    last = get(context, (0, 0), session=(session_id, -1))

    assert (last.response.session_id, list(partitions_of(last))) == (0, [0])
    assert len(context.context.fetching.sessions) == 0
