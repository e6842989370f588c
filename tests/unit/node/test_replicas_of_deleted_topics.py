"""What becomes of the partitions of a topic that is deleted."""

from __future__ import annotations

import pytest

from chronik.core.errors import Code
from chronik.core.machines.metadata.commands import DeleteTopics, TopicToDelete
from chronik.core.ports import FileSlice
from tests.unit.core.log.logs import batch_of
from tests.unit.node.fakes import House
from tests.unit.node.in_house import ORDERS, plan_of, refusal, run

FIRST_FILE = "orders-0/00000000000000000000.log"
MARK = "orders-0/partition.metadata"
MAGIC_BIT = 8 * 16  # of the first batch: seen when the log is opened

pytestmark = pytest.mark.usefixtures("quiet")


def delete(house: House, name: str) -> list[str]:
    house.tell(DeleteTopics((TopicToDelete(name=name),)))
    return list(house.replicas.metadata_changed())


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

    house.replicas.remove_deleted()

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
    assert again.replicas.offline() == {}


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
    again.replicas.metadata_changed()

    assert again.replicas.leader("orders", 0).log.end_offset == 0
