"""Tests that run in a house: real replicas over files in memory."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from chronik.core.errors import Code, Refused
from chronik.core.log.segment import Slice
from chronik.core.replica.replica import Replica
from tests.unit.node.fakes import House

ORDERS = {"orders": 2}


def run(test: Callable[[House], Coroutine[Any, Any, None]]) -> Callable[[], None]:
    """The test in a loop of its own, in a house with the topic 'orders' of two partitions."""

    async def in_house() -> None:
        await test(House(topics=ORDERS))

    def wrapped() -> None:
        asyncio.run(in_house())

    wrapped.__name__ = test.__name__
    return wrapped


def refusal(action: Callable[[], object]) -> Code:
    with pytest.raises(Refused) as caught:
        action()
    return caught.value.code


def plan_of(replica: Replica, offset: int = 0) -> Slice:
    plan = replica.read(offset, 1_000_000, 0, at_least_one=True)
    assert plan is not None
    return plan
