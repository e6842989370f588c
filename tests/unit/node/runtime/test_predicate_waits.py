"""Waits that a look ends."""

from __future__ import annotations

import asyncio

from chronik.node.runtime.predicate_waits import PredicateWaits


def test_what_is_so_already_is_not_waited_for() -> None:
    assert asyncio.run(PredicateWaits().wait_for(lambda: True, 0))


def test_a_wait_ends_with_the_news_that_makes_it_so() -> None:
    async def waits() -> list[bool]:
        known: set[str] = set()
        waiting = PredicateWaits()
        first = asyncio.ensure_future(waiting.wait_for(lambda: "first" in known, 10_000))
        second = asyncio.ensure_future(waiting.wait_for(lambda: "second" in known, 10_000))
        await asyncio.sleep(0)

        known.add("second")
        waiting.look_again()
        is_second_there = await second
        was_first_done = first.done()
        known.add("first")
        waiting.look_again()
        return [is_second_there, was_first_done, await first]

    assert asyncio.run(waits()) == [True, False, True]


def test_a_wait_that_takes_too_long_says_so_and_is_forgotten() -> None:
    async def waits() -> tuple[bool, int]:
        looks = 0

        def never() -> bool:
            nonlocal looks
            looks += 1
            return False

        waiting = PredicateWaits()
        is_there = await waiting.wait_for(never, 1)
        before = looks
        waiting.look_again()
        return is_there, looks - before

    assert asyncio.run(waits()) == (False, 0)
