"""How long a coroutine computes, without the time that it waits."""

from __future__ import annotations

import asyncio

import pytest

from chronik.node.runtime.metered import Metered


class Time:
    """Goes on when it is told."""

    def __init__(self) -> None:
        self.now = 0.0
        self.spent: list[float] = []

    def __call__(self) -> float:
        return self.now


def test_each_step_counts_and_what_it_waits_does_not() -> None:
    time = Time()

    async def work() -> str:
        time.now += 1
        await asyncio.sleep(0)
        time.now += 2
        return "done"

    async def go() -> str:
        waiting = asyncio.ensure_future(asyncio.sleep(0))
        time.now += 100
        result = await Metered(work(), time, time.spent.append)
        await waiting
        return result

    assert asyncio.run(go()) == "done"
    assert time.spent == [1, 2]


def test_what_it_raises_is_raised_and_its_time_counts() -> None:
    time = Time()

    async def work() -> None:
        time.now += 3
        raise ValueError("no")

    async def go() -> None:
        await Metered(work(), time, time.spent.append)

    with pytest.raises(ValueError, match="no"):
        asyncio.run(go())
    assert time.spent == [3]


def test_a_cancelled_one_ends_in_its_own_way() -> None:
    time, ended = Time(), []

    async def work() -> None:
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            ended.append(True)

    async def go() -> None:
        task = asyncio.ensure_future(_awaited(Metered(work(), time, time.spent.append)))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(go())
    assert ended == [True]


async def _awaited(work: Metered[None]) -> None:
    await work
