"""What becomes of the partitions of a topic that is deleted."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import pytest

from chronik.core.errors import Code
from chronik.core.machines.metadata.commands import (
    CreatePartitions,
    CreateTopics,
    DeleteTopics,
    MorePartitions,
    NewTopic,
    RegisterBroker,
    TopicToDelete,
)
from chronik.core.ports import FileSlice
from chronik.core.types import TopicPartition
from chronik.node.replication.checkpoints import SYNCED, encode
from chronik.node.replication.directories import Directories
from tests.unit.core.fakes import MemoryFiles
from tests.unit.core.log.logs import batch_of
from tests.unit.node.fakes import NODE_ID, House
from tests.unit.node.in_house import ORDERS, plan_of, refusal, run

OTHER = {"other": 1}
FIRST_FILE = "orders-0/00000000000000000000.log"
MARK = "orders-0/partition.metadata"
MAGIC_BIT = 8 * 16  # of the first batch: seen when the log is opened

pytestmark = pytest.mark.usefixtures("quiet")


def delete(house: House, name: str) -> list[str]:
    house.tell(DeleteTopics((TopicToDelete(name=name),)))
    return list(house.replicas.partitions.metadata_changed())


@run
async def test_an_answer_on_its_way_never_gets_the_bytes_of_a_new_topic_of_that_name(house: House) -> None:
    replica = house.replicas.leader("orders", 0)
    house.replicas.append(replica, batch_of(), 1)
    await house.settle()
    on_its_way = FileSlice(*plan_of(replica)[:3])

    delete(house, "orders")
    house.create("orders", 2, topic_id=b"another".ljust(16, b"\x02"))
    house.replicas.append(house.replicas.leader("orders", 0), batch_of(), 1)

    with pytest.raises(OSError):
        bytes(on_its_way)


@run
async def test_a_deleted_topic_is_renamed_at_once_and_its_waiters_told(house: House) -> None:
    replica = house.replicas.leader("orders", 0)
    house.replicas.append(replica, batch_of(), 1)
    codes: list[Code] = []
    house.waiting.when_safe(replica, 1, 1, -1, codes.append)

    (gone,) = delete(house, "orders")

    assert gone.startswith("orders-0.")
    assert gone.endswith("-delete")
    assert house.files.names(gone) != []
    assert house.files.names("orders-0") == []
    assert codes == [Code.UNKNOWN_TOPIC_OR_PARTITION]
    assert refusal(lambda: house.replicas.leader("orders", 0)) == Code.UNKNOWN_TOPIC_OR_PARTITION
    await house.settle()


@run
async def test_a_topic_made_anew_begins_at_0_also_after_a_crash(house: House) -> None:
    house.replicas.append(house.replicas.leader("orders", 0), batch_of(5), 1)
    await house.settle()
    house.checkpoints.write(house.replicas.held())
    restarted = House(house.files, ORDERS)
    assert restarted.replicas.leader("orders", 0).log.end_offset == 5

    delete(restarted, "orders")
    restarted.create("orders", 1, topic_id=b"another id 12345")
    replica = restarted.replicas.leader("orders", 0)
    restarted.replicas.append(replica, batch_of(), 1)
    await restarted.settle()
    assert replica.high_watermark == 1
    house.files.crash()
    third = House(house.files, ORDERS, ids={"orders": b"another id 12345"})

    assert third.replicas.leader("orders", 0).high_watermark == 1


@run
async def test_what_a_crash_left_of_a_deletion_is_removed(house: House) -> None:
    house.files.replace("orders-0.abc-delete/00000000000000000000.log", b"old")

    house.replicas.partitions.remove_deleted()

    assert house.files.names("") == []


@run
async def test_a_broken_partition_of_a_deleted_topic_goes_as_well(house: House) -> None:
    house.replicas.append(house.replicas.leader("orders", 0), batch_of(), 1)
    await house.settle()
    house.checkpoints.write(house.replicas.held())
    house.files.flip(FIRST_FILE, MAGIC_BIT)
    again = House(house.files, ORDERS)
    refusal(lambda: again.replicas.leader("orders", 0))

    (gone,) = delete(again, "orders")

    assert gone.endswith("-delete")
    assert again.replicas.partitions.offline() == {}


@run
async def test_other_topics_stay_and_get_their_settings(house: House) -> None:
    house.create("kept")
    replica = house.replicas.leader("kept", 0)

    assert delete(house, "orders") == []

    assert list(house.replicas.held()) == [replica]
    assert replica.config is house.image.topic_config("kept")


@run
async def test_a_topic_made_anew_is_not_held_to_be_broken_because_one_of_its_name_was(house: House) -> None:
    house.replicas.append(house.replicas.leader("orders", 0), batch_of(), 1)
    await house.settle()
    house.checkpoints.write(house.replicas.held())
    house.files.flip(FIRST_FILE, MAGIC_BIT)
    again = House(house.files, ORDERS)
    assert refusal(lambda: again.replicas.leader("orders", 0)) == Code.KAFKA_STORAGE_ERROR

    # Both are heard of together, as by a node that has been away.
    again.tell(DeleteTopics((TopicToDelete(name="orders"),)))
    again.create("orders", 1, topic_id=b"another id 12345")
    again.replicas.partitions.metadata_changed()

    assert again.replicas.leader("orders", 0).log.end_offset == 0


# --- deleted, made anew or moved while this node was down


async def written(house: House, *partitions: int) -> None:
    for partition in partitions:
        house.replicas.append(house.replicas.leader("orders", partition), batch_of(), 1)
    await house.settle()


def directories(house: House) -> list[str]:
    return sorted({path.partition("/")[0] for path in house.files.paths("") if "/" in path})


def gone_at_start(house: House) -> list[str]:
    """As a node starts: the directories it leaves to be deleted."""
    house.replicas.partitions.follow(house.image)
    house.replicas.partitions.remove_deleted()
    return house.replicas.partitions.metadata_changed(None)


@run
async def test_a_topic_deleted_while_the_node_was_down_goes_when_it_starts(house: House) -> None:
    await written(house, 0, 1)
    house.checkpoints.write(house.replicas.held())
    again = House(house.files, OTHER)

    gone = gone_at_start(again)

    assert [name.partition(".")[0] for name in gone] == ["orders-0", "orders-1"]
    assert all(name.endswith("-delete") for name in gone)
    assert directories(again) == sorted(gone)
    assert again.checkpoints.synced == {}
    assert b"orders" not in again.files.read_all(SYNCED)


@run
async def test_so_does_one_that_no_checkpoint_knows_yet(house: House) -> None:
    await written(house, 0)

    assert [name.partition(".")[0] for name in gone_at_start(House(house.files, OTHER))] == ["orders-0"]


@run
async def test_while_there_is_no_topic_at_all_nothing_is_dropped_that_is_on_disk(house: House) -> None:
    """A cluster whose metadata was lost looks like that, and then these are the only copies."""
    await written(house, 0, 1)
    house.checkpoints.write(house.replicas.held())
    house.files.replace("orders-2.abc-stray/00000000000000000000.log", b"the last one")
    again = House(house.files)
    before = directories(again)

    assert gone_at_start(again) == []

    assert directories(again) == before


@run
async def test_a_topic_made_anew_with_fewer_partitions_keeps_none_of_the_old_ones(house: House) -> None:
    await written(house, 0, 1)
    house.checkpoints.write(house.replicas.held())
    again = House(house.files, {"orders": 1}, ids={"orders": b"another id 12345"})

    (gone,) = gone_at_start(again)

    assert gone.startswith("orders-1.")
    assert TopicPartition("orders", 1) not in again.checkpoints.synced
    assert again.replicas.leader("orders", 0).log.end_offset == 0


@run
async def test_nor_does_a_checkpoint_know_them_when_they_are_added_again(house: House) -> None:
    await written(house, 0, 1)
    house.checkpoints.write(house.replicas.held())
    house.files.remove("orders-1")  # it had just been renamed and deleted when the node crashed
    again = House(house.files, {"orders": 1}, ids={"orders": b"another id 12345"})
    gone_at_start(again)

    again.tell(CreatePartitions((MorePartitions("orders", 2),)))

    assert again.replicas.leader("orders", 1).log.end_offset == 0


@run
async def test_what_was_moved_to_another_node_meanwhile_goes_though_no_checkpoint_knows_it(house: House) -> None:
    await written(house, 0, 1)
    again = House(house.files, commands=(RegisterBroker(2, b"2" * 16, "localhost", 9093),))
    elsewhere = NewTopic("orders", b"orders".ljust(16, b"\x01"), assignments=((0, (2,)), (1, (1,))))
    again.tell(CreateTopics((elsewhere,)))

    (gone,) = gone_at_start(again)

    assert gone.startswith("orders-0.")
    assert again.replicas.leader("orders", 1).log.end_offset == 1


@run
async def test_what_was_moved_aside_goes_at_the_next_start(house: House) -> None:
    await written(house, 0)
    again = House(house.files, ORDERS, ids={"orders": b"another id 12345"})
    await written(again, 0)
    assert any(name.endswith("-stray") for name in directories(again))
    third = House(house.files, ORDERS, ids={"orders": b"another id 12345"})

    assert gone_at_start(third) == []

    assert directories(third) == ["orders-0"]
    assert third.replicas.leader("orders", 0).log.end_offset == 1


@run
async def test_nothing_is_dropped_while_the_metadata_is_history(house: House) -> None:
    """A node that starts reads what it has of the metadata log, which may end before the topic came to be."""
    await written(house, 0)
    house.checkpoints.write(house.replicas.held())
    house.files.replace("orders-1.abc-delete/00000000000000000000.log", b"perhaps it is not deleted at all")
    again = House(house.files)
    before = directories(again)
    again.replicas.partitions.follow(again.image, is_caught_up=False)

    again.replicas.partitions.remove_deleted()
    again.create("other")
    assert again.replicas.partitions.metadata_changed([*removal_of(again, "other")]) == []
    assert directories(again) == before

    again.create("orders", 2)  # now it has caught up
    assert gone_at_start(again) == []
    assert again.replicas.leader("orders", 0).log.end_offset == 1


def removal_of(house: House, name: str) -> Sequence[Any]:
    decision = house.metadata.decide(0, DeleteTopics((TopicToDelete(name=name),)), 0)
    for fact in decision.facts:
        house.metadata.apply(fact)
    return decision.facts


@run
async def test_what_is_not_a_partition_of_ours_is_left_alone(house: House) -> None:
    mark = b"version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAA\n"
    foreign = {
        "__cluster_metadata-0/partition.metadata": mark,
        "__cluster_metadata-0/00000000000000000000.log": b"the metadata",
        "backup-2024/notes.txt": b"somebody's",  # a name like a partition's, and no mark
        "photos/partition.metadata": mark,  # no name like a partition's
        "odd-007/partition.metadata": mark,
        "copy of orders-1/partition.metadata": mark,
        "torn-0/partition.metadata": b"\0" * 43,
        "README-1": b"a file",
        "lost-and-stray": b"somebody's",
        "not-to-delete": b"somebody's",
        "orders-0.abc-damaged/00000000000000000000.log": b"kept to be looked at",
    }
    for path, content in foreign.items():
        house.files.replace(path, content)
    house.checkpoints.synced[TopicPartition("__cluster_metadata", 0)] = 7
    house.files.replace(SYNCED, encode(house.checkpoints.synced))
    again = House(house.files)

    assert gone_at_start(again) == []

    assert {path: house.files.read_all(path) for path in foreign} == foreign
    assert TopicPartition("__cluster_metadata", 0) in again.checkpoints.synced


@run
async def test_of_partitions_that_are_this_nodes_not_one_mark_is_read(house: House) -> None:
    await written(house, 0, 1)
    reading = _MarksRead(house.files)
    image, directories_here = house.image, Directories(cast(Any, reading), house.checkpoints)

    assert list(directories_here.left_behind(image, NODE_ID)) == []

    assert reading.read == []


class _MarksRead:
    """Files that keep which were read."""

    def __init__(self, files: MemoryFiles) -> None:
        self._files = files
        self.read: list[str] = []

    def names(self, path: str) -> list[str]:
        self.read += [path] if path else []
        return self._files.names(path)

    def read_all(self, path: str) -> bytes:
        self.read.append(path)
        return self._files.read_all(path)
