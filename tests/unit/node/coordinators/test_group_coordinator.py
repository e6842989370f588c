"""Where a group lives, and what becomes of it when its log is lost."""

from __future__ import annotations

import asyncio
import dataclasses
import errno
import logging
from collections.abc import Callable, Coroutine, Iterable, Iterator
from functools import partial
from typing import Any

import pytest

from chronik.core.errors import Code, Refused
from chronik.core.machines.groups.commands import CommitOffsets, ConsumerBeat, FetchOffsets, OffsetToCommit
from chronik.core.machines.groups.config import GroupConfig
from chronik.core.machines.groups.offsets import NO_TOPIC_ID
from chronik.core.machines.groups.timers import TimerKind
from chronik.core.machines.metadata.commands import (
    AlterConfigs,
    ConfigChange,
    CreateInternalTopic,
    DeleteTopics,
    RegisterBroker,
    ResourceType,
    TopicToDelete,
)
from chronik.core.machines.metadata.names import OFFSETS_TOPIC
from chronik.core.machines.metadata.records import PartitionChangeRecord
from chronik.core.replica.replica import Replica
from chronik.node.coordinators.group_coordinator import GroupCoordinator
from chronik.node.coordinators.runtime import REPLAYED_AT_ONCE, partition_of
from chronik.node.runtime.steady_time import SteadyTime
from tests.unit.core.fakes import MemoryFiles
from tests.unit.node.fakes import FakeChance, House

EIO = OSError(errno.EIO, "Input/output error")


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    logging.disable(logging.ERROR)
    yield
    logging.disable(logging.NOTSET)


@pytest.mark.parametrize(
    ("group_id", "hash_code"),
    [
        ("", 0),
        ("a", 97),
        ("hello", 99162322),
        ("console-consumer-12345", None),
        ("polygenelubricants", -(2**31)),  # the hash whose absolute value Java cannot hold
        ("ß", 223),
        ("\U0001f600", 1772899),  # two UTF-16 units
        ("Aa", 2112),
        ("BB", 2112),
    ],
)
def test_a_group_lives_where_javas_hash_puts_it(group_id: str, hash_code: int | None) -> None:
    if hash_code is None:
        hash_code = 0
        for character in group_id:
            hash_code = (31 * hash_code + ord(character)) & 0xFFFFFFFF
    for count in (1, 3, 50):
        assert partition_of(group_id, count) == (hash_code & 0x7FFFFFFF) % count


class Place:
    """Coordinators in a house, over the same files or new ones."""

    def __init__(self, files: MemoryFiles | None = None, *, offsets_id: bytes | None = None) -> None:
        known = () if offsets_id is None else (CreateInternalTopic(OFFSETS_TOPIC, offsets_id),)
        self.house = House(files, {"orders": 1}, commands=known)
        self.asked_metadata: list[Any] = []
        self.coordinators = GroupCoordinator(
            self.house.image,
            self.ask_metadata,
            self.house.replicas,
            self.house.waiting,
            SteadyTime(self.house.clock),
            FakeChance(),
            GroupConfig(),
            self.house.trace,
        )
        for hears in (self.house.subscribers.went_offline, self.house.subscribers.removed):
            hears.append(self.coordinators.runtime.leadership_lost)
        for name in self.house.replicas.partitions.on_disk():
            self.house.replicas.partitions.ensure_open(name)
        self.coordinators.runtime.start_all_on_disk()

    async def ask_metadata(self, command: Any) -> Any:
        self.asked_metadata.append(command)
        await asyncio.sleep(0)  # another node decides, and that takes its time
        return self.house.tell(command)

    async def commit(self, group_id: str, offset: int, topic: str = "orders", topic_id: bytes = NO_TOPIC_ID) -> Any:
        command = CommitOffsets(
            group_id=group_id,
            member_id="",
            instance_id=None,
            generation=-1,
            offsets=(OffsetToCommit(topic, 0, offset, leader_epoch=-1, metadata="", topic_id=topic_id),),
        )
        answer = asyncio.ensure_future(self.coordinators.ask(group_id, command))
        for _ in range(3):
            await asyncio.sleep(0)
        await self.house.settle()
        return await answer

    def is_loading(self) -> bool:
        return self.coordinators.is_loading

    def log_of(self, group_id: str) -> Replica:
        return self.house.replicas.leader(OFFSETS_TOPIC, partition_of(group_id, 50))

    async def commit_many(self, group_id: str, offsets: Iterable[int]) -> None:
        """In one request, one record each."""
        command = CommitOffsets(
            group_id=group_id,
            member_id="",
            instance_id=None,
            generation=-1,
            offsets=tuple(OffsetToCommit("orders", 0, offset, -1, "") for offset in offsets),
        )
        answer = asyncio.ensure_future(self.coordinators.ask(group_id, command))
        for _ in range(3):
            await asyncio.sleep(0)
        await self.house.settle()
        await answer

    def committed(self, group_id: str, topic: str = "orders") -> int | None:
        for machine in self.coordinators.machines():
            found = machine.offsets.get(group_id, topic, 0)
            if found is not None:
                return found.offset
        return None


def run(test: Callable[[Place], Coroutine[Any, Any, None]]) -> Callable[[], None]:
    async def with_place() -> None:
        await test(Place())

    def wrapped() -> None:
        asyncio.run(with_place())

    wrapped.__name__ = test.__name__
    return wrapped


@run
async def test_the_offsets_topic_is_made_when_it_is_first_needed_and_once(place: Place) -> None:
    assert await place.coordinators.coordinator("g") == (1, "localhost", 9092)
    assert await place.coordinators.coordinator("h") == (1, "localhost", 9092)

    assert [command.name for command in place.asked_metadata] == [OFFSETS_TOPIC]
    assert place.house.image.topic(OFFSETS_TOPIC) is not None


@run
async def test_a_commit_is_in_the_log_of_its_partition(place: Place) -> None:
    await place.commit("my-group", 42)

    partition = partition_of("my-group", 50)
    assert [replica.partition for replica in place.house.replicas.held()] == [partition]
    assert place.committed("my-group") == 42


@run
async def test_commits_are_there_again_after_a_restart(place: Place) -> None:
    for number in range(10):
        await place.commit(f"group-{number}", number)
    offsets_id = place.house.image.topics[OFFSETS_TOPIC].id
    place.house.files.crash()

    again = Place(place.house.files, offsets_id=offsets_id)

    assert [again.committed(f"group-{number}") for number in range(10)] == list(range(10))


@run
async def test_a_damaged_log_takes_only_its_own_groups_down_and_the_node_starts(place: Place) -> None:
    await place.commit("broken", 1)
    await place.commit("fine", 2)
    place.house.checkpoints.write(place.house.replicas.held())
    assert partition_of("broken", 50) != partition_of("fine", 50)
    offsets_id = place.house.image.topics[OFFSETS_TOPIC].id
    path = f"{OFFSETS_TOPIC}-{partition_of('broken', 50)}/00000000000000000000.log"
    place.house.files.flip(path, 8 * 70)

    again = Place(place.house.files, offsets_id=offsets_id)

    assert again.committed("fine") == 2
    with pytest.raises(Refused) as caught:
        await again.commit("broken", 3)
    assert caught.value.code in (Code.COORDINATOR_NOT_AVAILABLE, Code.NOT_COORDINATOR)


@run
async def test_a_log_that_is_lost_is_told_in_words_that_clients_understand(place: Place) -> None:
    await place.commit("g", 1)
    place.house.files.failures["sync"] = EIO

    with pytest.raises(Refused) as caught:
        await place.commit("g", 2)
    assert caught.value.code == Code.NOT_COORDINATOR
    with pytest.raises(Refused) as caught:
        await place.commit("g", 3)

    assert caught.value.code == Code.COORDINATOR_NOT_AVAILABLE


@run
async def test_offsets_of_a_deleted_topic_go_with_it(place: Place) -> None:
    place.house.create("kept")
    await place.commit("g", 1)
    await place.commit("g", 2, topic="kept")

    place.house.tell(DeleteTopics((TopicToDelete(name="orders"),)))
    place.coordinators.forget_deleted_topics()
    await place.house.settle()

    assert place.committed("g") is None
    assert place.committed("g", "kept") == 2


@run
async def test_offsets_of_a_topic_that_was_made_anew_go_though_nobody_looked_in_between(place: Place) -> None:
    """A node that was behind hears of the deletion and of the new topic in one go."""
    old, new = place.house.image.topics["orders"].id, b"another topic id"
    await place.commit("g", 7, topic_id=old)
    place.house.tell(DeleteTopics((TopicToDelete(name="orders"),)))
    place.house.create("orders", topic_id=new)
    await place.commit("h", 1, topic_id=new)

    place.coordinators.forget_deleted_topics()
    await place.house.settle()

    assert place.committed("g") is None
    assert place.committed("h") == 1


# --- moving with the leadership


@run
async def test_a_coordinator_that_loses_its_partition_is_the_wrong_place(
    place: Place,
) -> None:
    """A coordinator that loses its partition is the wrong place and knows all when it is back."""
    await place.commit("g", 1)
    replica = place.log_of("g")
    waiting = asyncio.ensure_future(place.commit("g", 2))
    await asyncio.sleep(0)
    await asyncio.sleep(0)

    place.coordinators.runtime.leadership_lost(replica)

    problem: object = (await asyncio.gather(waiting, return_exceptions=True))[0]
    assert isinstance(problem, Refused)
    assert problem.code == Code.NOT_COORDINATOR
    assert list(place.coordinators.machines()) == []

    place.coordinators.runtime.leadership_gained(replica)

    assert place.committed("g") == 2  # it was in the log, and nobody was told that it was not


@run
async def test_a_replica_that_changes_its_role_takes_its_machine_along(place: Place) -> None:
    await place.commit("g", 1)
    replica = place.log_of("g")

    replica.follow(2, 1, 1)
    place.coordinators.runtime.role_changed(replica)
    assert place.committed("g") is None
    replica.lead(2, 2, (1,), (1,), 0)
    place.coordinators.runtime.role_changed(replica)

    assert place.committed("g") == 1


@run
async def test_a_partition_that_was_moved_to_other_nodes_takes_its_machine_along(place: Place) -> None:
    await place.commit("g", 1)
    replica, image = place.log_of("g"), place.house.image
    moved = PartitionChangeRecord(replica.partition, replica.topic_id, isr=(2,), leader=2, replicas=(2,))

    image.apply(moved)
    place.house.replicas.partitions.metadata_changed([moved])

    assert list(place.coordinators.machines()) == []
    with pytest.raises(Refused) as caught:
        await place.commit("g", 2)
    assert caught.value.code == Code.NOT_COORDINATOR


@run
async def test_another_partitions_loss_or_another_topics_is_no_loss(place: Place) -> None:
    await place.commit("g", 1)

    place.coordinators.runtime.leadership_lost(place.house.replicas.leader("orders", 0))
    place.coordinators.runtime.leadership_gained(place.house.replicas.leader("orders", 0))

    assert place.committed("g") == 1
    assert len(list(place.coordinators.machines())) == 1


@run
async def test_a_coordinator_answers_nothing_until_what_it_read_is_safe(place: Place) -> None:
    await place.commit("g", 1)
    replica = place.log_of("g")
    place.coordinators.runtime.leadership_lost(replica)
    safe, replica.high_watermark = replica.high_watermark, 0  # the other in-sync replicas do not have it yet

    place.coordinators.runtime.leadership_gained(replica)

    assert place.is_loading()
    assert list(place.coordinators.machines()) == []
    with pytest.raises(Refused) as caught:
        await place.commit("g", 2)
    assert caught.value.code == Code.COORDINATOR_LOAD_IN_PROGRESS

    replica.high_watermark = safe
    place.house.waiting.moved(replica)

    assert not place.is_loading()
    assert place.committed("g") == 1


@run
async def test_too_few_in_sync_hold_up_commits_but_neither_loading_nor_reading(place: Place) -> None:
    await place.commit("g", 1)
    replica = place.log_of("g")
    place.coordinators.runtime.leadership_lost(replica)
    replica.log.config = dataclasses.replace(replica.log.config, min_insync_replicas=2)
    replica.lead(1, 1, (1, 2), (1,), 0)

    place.coordinators.runtime.leadership_gained(replica)

    assert not place.is_loading()
    read = await place.coordinators.ask("g", FetchOffsets("g", None, None, -1))
    assert [one.offset for one in read.offsets] == [1]
    with pytest.raises(Refused) as caught:
        await place.commit("g", 2)
    assert caught.value.code == Code.COORDINATOR_NOT_AVAILABLE


@run
async def test_a_long_log_is_read_a_part_at_a_time(place: Place) -> None:
    for number in range(0, REPLAYED_AT_ONCE * 2, 500):
        await place.commit_many("g", range(number, number + 500))
    await place.commit("other", 1)
    place.coordinators.runtime.leadership_lost(place.log_of("g"))
    place.coordinators.runtime.leadership_lost(place.log_of("other"))

    place.coordinators.runtime.leadership_gained(place.log_of("g"))
    place.coordinators.runtime.leadership_gained(place.log_of("other"))  # in the same turn: it waits for its own

    assert place.is_loading()
    with pytest.raises(Refused) as caught:
        await place.commit("g", 2)
    assert caught.value.code == Code.COORDINATOR_LOAD_IN_PROGRESS
    place.house.loop.advance(0)  # the others had their turns

    assert not place.is_loading()
    assert place.committed("g") == REPLAYED_AT_ONCE * 2 - 1
    assert place.committed("other") == 1


@run
async def test_a_coordinator_lost_while_it_reads_is_not_read_on(place: Place) -> None:
    for number in range(0, REPLAYED_AT_ONCE * 2, 500):
        await place.commit_many("g", range(number, number + 500))
    replica = place.log_of("g")
    place.coordinators.runtime.leadership_lost(replica)
    place.coordinators.runtime.leadership_gained(replica)

    place.coordinators.runtime.leadership_lost(replica)
    place.house.loop.advance(0)

    assert not place.is_loading()
    assert list(place.coordinators.machines()) == []


@run
async def test_the_coordinator_of_a_group_is_the_leader_that_the_image_names(place: Place) -> None:
    await place.coordinators.coordinator("g")
    image = place.house.image
    topic = image.topics[OFFSETS_TOPIC]
    number = partition_of("g", 50)

    place.house.tell(RegisterBroker(2, bytes(16), "elsewhere", 9093))
    topic.partitions[number] = dataclasses.replace(topic.partitions[number], leader=2)
    assert await place.coordinators.coordinator("g") == (2, "elsewhere", 9093)
    with pytest.raises(Refused) as caught:
        await place.commit("g", 1)
    assert caught.value.code == Code.NOT_COORDINATOR

    topic.partitions[number] = dataclasses.replace(topic.partitions[number], leader=-1)
    with pytest.raises(Refused) as caught:
        await place.coordinators.coordinator("g")
    assert caught.value.code == Code.COORDINATOR_NOT_AVAILABLE


@run
async def test_the_settings_of_a_group_hold_for_it_and_no_other(place: Place) -> None:
    change = ConfigChange(
        ResourceType.GROUP,
        "g",
        (("consumer.session.timeout.ms", 0, "60000"), ("consumer.heartbeat.interval.ms", 0, "9000")),
    )
    place.house.tell(AlterConfigs((change,)))
    join = partial(ConsumerBeat, member_id="m", member_epoch=0, rebalance_timeout_ms=1, subscribed_topics=(), owned=())

    beats = {group_id: await place.coordinators.ask(group_id, join(group_id)) for group_id in ("g", "h")}

    assert {group_id: beat.heartbeat_interval_ms for group_id, beat in beats.items()} == {"g": 9_000, "h": 5_000}
    deadlines = {
        key.group_id: deadline
        for machine in place.coordinators.machines()
        for key, deadline in machine.timers.deadlines().items()
        if key.kind is TimerKind.SESSION
    }
    assert deadlines["g"] - deadlines["h"] == 15_000
