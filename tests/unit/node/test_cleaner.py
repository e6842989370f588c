"""The log cleaner: what it compacts and when, and that nothing keeps it from the rest."""

from __future__ import annotations

import asyncio
import dataclasses
import errno
import logging
from collections.abc import Callable, Coroutine, Iterator
from types import SimpleNamespace
from typing import Any, cast

import pytest

from chronik.core.config.node import NodeConfig
from chronik.core.errors import Code
from chronik.core.ports import Unread
from chronik.core.records.payload import KeyValue, build
from chronik.core.replica.replica import Replica
from chronik.node.cleaner import Cleaner
from chronik.node.machine_host import records_of
from tests.unit.node.fakes import NOW_MS, House

BACKOFF_MS = 15_000


class FakeNode:
    """As much of a node as the cleaner needs."""

    def __init__(self) -> None:
        self.house = House()
        self.replicas = self.house.replicas
        self.metrics = self.house.metrics
        self.image: Any = SimpleNamespace(node_config=self.house.image.node_config)
        self.cleaner = Cleaner(cast(Any, self.image), self.replicas, self.house.clock, self.metrics)

    def configure(self, **settings: str) -> None:
        given = {key.replace("_", "."): value for key, value in settings.items()}
        self.image.node_config = NodeConfig.from_settings({"node.id": "1", **given})

    def compacted(self, topic: str, **configs: str) -> Replica:
        """A compacted topic with segments of one batch each."""
        own: dict[str, Any] = {"min_cleanable_dirty_ratio": "0.01"} | configs
        self.house.create(topic, cleanup_policy="compact", segment_bytes="1048576", **own)
        return self.replicas.leader(topic, 0)

    def write(self, replica: Replica, batches: int, time_ms: int = NOW_MS) -> None:
        """All of the same key."""
        for number in range(batches):
            self.replicas.append(replica, build([KeyValue(b"key", bytes([number]) * 900_000)], time_ms), 1)

    def is_compacted(self, replica: Replica) -> bool:
        """The closed segments have one record."""
        return len(list(records_of(replica.log))) <= 2


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    logging.disable(logging.ERROR)
    yield
    logging.disable(logging.NOTSET)


def run(test: Callable[[FakeNode], Coroutine[Any, Any, None]]) -> Callable[[], None]:
    async def with_node() -> None:
        await test(FakeNode())

    def wrapped() -> None:
        asyncio.run(with_node())

    wrapped.__name__ = test.__name__
    return wrapped


async def fill_compacted(node: FakeNode, batches: int = 4) -> Replica:
    replica = node.compacted("keyed")
    node.write(replica, batches)
    await node.house.settle()
    return replica


@run
async def test_a_compacted_topic_keeps_the_last_value_of_a_key(node: FakeNode) -> None:
    replica = await fill_compacted(node)

    await node.cleaner.clean()

    assert replica.offline is None
    assert replica.log.size_bytes() < 2_000_000
    # Of the closed segments the last value stays; the active one is not touched.
    assert [(record.value or b"")[:1] for record in records_of(replica.log)] == [b"\x02", b"\x03"]
    assert replica.log.end_offset == replica.high_watermark == 4


@run
async def test_a_default_alone_compacts_nothing_as_long_as_the_metadata_does_not_know(node: FakeNode) -> None:
    """A default alone compacts nothing as long as the metadata does not know of gaps."""
    replica = await fill_compacted(node)
    replica.log.config = dataclasses.replace(replica.log.config, chronik_gaps=False)
    before = replica.log.size_bytes()

    await node.cleaner.clean()

    assert replica.log.size_bytes() == before


@run
async def test_what_compaction_replaced_is_never_read_from_the_file_that_took_its_place(node: FakeNode) -> None:
    replica = await fill_compacted(node)
    plan = replica.log.read(0, 4, 10_000_000, at_least_one=True)
    assert plan is not None

    await node.cleaner.clean()
    content = await node.replicas.wait_for_read(plan)

    assert isinstance(content, Unread)
    assert node.replicas.check_read(replica, plan, content) == Code.NONE
    assert replica.offline is None


@run
async def test_compaction_whose_file_cannot_be_synced_leaves_everything_as_it_was(node: FakeNode) -> None:
    replica = await fill_compacted(node)
    before = [record.value for record in records_of(replica.log)]
    node.house.files.failures["sync:.cleaned"] = OSError(errno.EIO, "Input/output error")

    await node.cleaner.clean()

    assert [record.value for record in records_of(replica.log)] == before
    assert replica.offline is None
    assert node.house.files.paths(".cleaned") == []


# --- when


@run
async def test_a_round_comes_when_the_backoff_is_over_and_not_before(node: FakeNode) -> None:
    replica = await fill_compacted(node)

    node.house.clock.advance(BACKOFF_MS - 1)
    await node.cleaner.once()
    assert not node.is_compacted(replica)
    node.house.clock.advance(1)
    await node.cleaner.once()
    assert node.is_compacted(replica)

    node.write(replica, 3)
    await node.house.settle()
    await node.cleaner.once()
    assert not node.is_compacted(replica)
    node.configure(log_cleaner_backoff_ms="200")
    node.house.clock.advance(200)
    await node.cleaner.once()
    assert node.is_compacted(replica)


@run
async def test_nothing_is_compacted_while_the_cleaner_is_switched_off(node: FakeNode) -> None:
    replica = await fill_compacted(node)
    node.configure(log_cleaner_enable="false")

    node.house.clock.advance(BACKOFF_MS)
    await node.cleaner.once()

    assert not node.is_compacted(replica)


# --- what


def compacted_in_order(node: FakeNode) -> list[str]:
    """Fills up with the topics as they are compacted."""
    order: list[str] = []
    rename = node.house.files.rename

    def watched(old: str, new: str) -> None:
        if new.endswith(".swap"):
            order.append(new.partition("-")[0])
        rename(old, new)

    node.house.files.rename = watched  # type: ignore[method-assign]
    return order


@run
async def test_the_dirtiest_log_comes_first(node: FakeNode) -> None:
    logs = {topic: node.compacted(topic) for topic in ("a", "b", "c")}
    for replica in logs.values():
        node.write(replica, 5)
    await node.house.settle()
    await node.cleaner.clean()
    for topic, batches in (("a", 2), ("b", 6), ("c", 4)):
        node.write(logs[topic], batches)
    await node.house.settle()
    order = compacted_in_order(node)

    await node.cleaner.clean()

    assert list(dict.fromkeys(order)) == ["b", "c", "a"]


@run
async def test_a_log_is_left_alone_until_enough_of_it_is_dirty(node: FakeNode) -> None:
    replica = node.compacted("half", min_cleanable_dirty_ratio="0.5")
    node.house.create("plain", segment_bytes="1048576")
    node.write(node.replicas.leader("plain", 0), 4)
    node.write(replica, 4)
    await node.house.settle()
    order = compacted_in_order(node)
    await node.cleaner.clean()
    assert list(dict.fromkeys(order)) == ["half"]
    order.clear()

    await node.cleaner.clean()  # nothing was written since
    assert order == []
    node.write(replica, 1)  # closes one segment: as much as is clean, and not more
    await node.house.settle()
    await node.cleaner.clean()
    assert order == []
    node.write(replica, 1)
    await node.house.settle()
    await node.cleaner.clean()
    assert set(order) == {"half"}


@run
async def test_what_has_waited_for_the_longest_lag_is_compacted_however_little_it_is(node: FakeNode) -> None:
    replica = node.compacted("slow", min_cleanable_dirty_ratio="0.99", max_compaction_lag_ms="60000")
    node.write(replica, 4)
    await node.house.settle()
    await node.cleaner.clean()
    node.write(replica, 2, time_ms=NOW_MS)
    await node.house.settle()
    order = compacted_in_order(node)
    await node.cleaner.clean()
    assert order == []

    node.house.clock.advance(60_001)
    await node.cleaner.clean()

    assert set(order) == {"slow"}


@run
async def test_what_is_younger_than_the_shortest_lag_stays(node: FakeNode) -> None:
    replica = node.compacted("young", min_compaction_lag_ms="60000")
    node.write(replica, 4)
    await node.house.settle()
    await node.cleaner.clean()
    assert not node.is_compacted(replica)

    node.house.clock.advance(60_001)
    await node.cleaner.clean()

    assert node.is_compacted(replica)


@run
async def test_a_log_whose_disk_fails_does_not_hold_back_the_others(node: FakeNode) -> None:
    bad, good = node.compacted("a"), node.compacted("b")
    for replica in (bad, good):
        node.write(replica, 4)
    await node.house.settle()
    node.house.files.failures["sync:a-0/00000000000000000000.log.cleaned"] = OSError(errno.EIO, "broken")

    await node.cleaner.clean()

    assert (node.is_compacted(bad), node.is_compacted(good)) == (False, True)
    assert node.metrics.faults == 0


@run
async def test_it_stops_when_it_is_told_to(node: FakeNode) -> None:
    node.cleaner.start()
    await asyncio.sleep(0)

    await node.cleaner.stop()
    await asyncio.sleep(0)

    assert asyncio.all_tasks() == {asyncio.current_task()}
