"""A loop whose time is a number, and processes that can be killed and paused in the middle of anything."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Coroutine, Iterator
from typing import Any

import pytest

from chronik.sim.loop import SimLoop, SimProcess, SpinError


@pytest.fixture
def loop() -> Iterator[SimLoop]:
    made = SimLoop()
    yield made
    made.close()


def start(loop: SimLoop, process: SimProcess, work: Coroutine[Any, Any, None]) -> None:
    loop.create_task(work, context=process.context)


async def pass_time(seconds: float) -> None:
    """Simulated time."""
    loop = asyncio.get_running_loop()
    passed = loop.create_future()
    loop.call_later(seconds, passed.set_result, None)
    await passed


async def _count(seen: list[float], loop: SimLoop) -> None:
    while True:
        seen.append(loop.time())
        await pass_time(1)


def test_a_day_passes_in_no_time(loop: SimLoop) -> None:
    began = time.monotonic()

    loop.run_until_complete(pass_time(86_400))

    assert loop.time() == 86_400
    assert time.monotonic() - began < 5


def test_what_is_due_happens_in_order_of_time(loop: SimLoop) -> None:
    seen: list[str] = []
    loop.call_later(0.3, seen.append, "later")
    loop.call_later(0.1, seen.append, "first")
    loop.call_soon(seen.append, "now")

    loop.run_until_complete(pass_time(1))

    assert seen == ["now", "first", "later"]


def test_nothing_of_a_killed_process_ever_runs_again(loop: SimLoop) -> None:
    process, seen = SimProcess("node"), list[float]()
    start(loop, process, _count(seen, loop))
    loop.call_later(2.5, process.kill)

    loop.run_until_complete(pass_time(10))

    assert seen == [0, 1, 2]


def test_a_paused_process_goes_on_where_it_was(loop: SimLoop) -> None:
    process, seen = SimProcess("node"), list[float]()
    start(loop, process, _count(seen, loop))
    loop.call_later(1.5, setattr, process, "is_paused", True)
    loop.call_later(5.5, loop.resume, process)

    loop.run_until_complete(pass_time(7))
    process.kill()

    assert seen == [0, 1, 5.5, 6.5]


def test_what_a_process_starts_belongs_to_it(loop: SimLoop) -> None:
    process, seen = SimProcess("node"), list[float]()

    async def parent() -> None:
        asyncio.get_running_loop().create_task(_count(seen, loop))

    start(loop, process, parent())
    loop.call_later(0.5, process.kill)

    loop.run_until_complete(pass_time(3))

    assert seen == [0]


def test_what_happens_outside_happens_whoever_dies(loop: SimLoop) -> None:
    process, seen = SimProcess("node"), list[str]()

    async def dying() -> None:
        loop.outside(1.0, lambda: seen.append("started again"))
        process.kill()

    start(loop, process, dying())

    loop.run_until_complete(pass_time(2))

    assert seen == ["started again"]


def test_a_loop_that_spins_is_noticed(loop: SimLoop) -> None:
    def spin() -> None:
        loop.call_soon(spin)

    spin()

    with pytest.raises(SpinError, match="no time has passed"):
        loop.run_forever()


def test_a_world_where_nothing_can_happen_any_more_is_noticed(loop: SimLoop) -> None:
    with pytest.raises(SpinError, match="nothing will ever happen"):
        loop.run_until_complete(loop.create_future())


def test_there_are_no_threads(loop: SimLoop) -> None:
    with pytest.raises(RuntimeError, match="no threads"):
        loop.run_in_executor(None, time.time)
