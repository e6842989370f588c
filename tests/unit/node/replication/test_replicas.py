"""The partitions of a node: opened, appended to, and taken out of service one by one."""

from __future__ import annotations

import asyncio
import errno
from functools import partial

import pytest

from chronik.core.errors import Code
from chronik.core.machines.metadata.names import METADATA_TOPIC
from chronik.core.replica.replica import Replica
from chronik.core.types import TopicPartition
from chronik.node.replication.directories import NAME_BYTES_MAX, encode_id, renamed
from tests.unit.core.fakes import MemoryFiles
from tests.unit.core.log.logs import batch_of
from tests.unit.node.fakes import House
from tests.unit.node.in_house import ORDERS, plan_of, refusal, run

ENOSPC = OSError(errno.ENOSPC, "No space left on device")
EIO = OSError(errno.EIO, "Input/output error")
FIRST_FILE = "orders-0/00000000000000000000.log"
MARK = "orders-0/partition.metadata"
MAGIC_BIT = 8 * 16  # of the first batch: seen when the log is opened


pytestmark = pytest.mark.usefixtures("quiet")


@run
async def test_a_partition_is_opened_when_it_is_first_asked_for(house: House) -> None:
    assert list(house.replicas.held()) == []

    replica = house.replicas.leader("orders", 1)

    assert house.replicas.leader("orders", 1) is replica
    assert list(house.replicas.held()) == [replica]
    assert (replica.topic, replica.partition, replica.topic_id) == ("orders", 1, b"orders".ljust(16, b"\x01"))


@run
async def test_what_there_is_not_is_refused(house: House) -> None:
    for topic, partition in (("orders", 2), ("orders", -1), ("nothing", 0), ("", 0)):
        assert refusal(partial(house.replicas.leader, topic, partition)) == Code.UNKNOWN_TOPIC_OR_PARTITION


@run
async def test_the_metadata_log_is_not_found_by_its_name(house: House) -> None:
    """Nobody but its machine reads or writes it."""
    replica = house.replicas.partitions.open(METADATA_TOPIC, 0, bytes(16), house.image.topic_config("orders"))
    assert replica is not None

    assert refusal(lambda: house.replicas.leader(METADATA_TOPIC, 0)) == Code.UNKNOWN_TOPIC_OR_PARTITION
    assert list(house.replicas.held()) == [replica]


@run
async def test_a_batch_is_safe_after_the_sync_that_follows(house: House) -> None:
    replica = house.replicas.leader("orders", 0)

    appended = house.replicas.append(replica, batch_of(3), 1)
    assert (appended.base_offset, replica.high_watermark) == (0, 0)
    await house.settle()

    assert replica.high_watermark == replica.log.synced_offset == 3
    assert house.metrics.produced_batches == 1


def test_with_durability_os_a_batch_is_safe_when_it_is_written() -> None:
    async def write() -> None:
        house = House(topics=ORDERS, is_synced=False)
        replica = house.replicas.leader("orders", 0)
        house.replicas.append(replica, batch_of(3), 1)
        assert replica.high_watermark == 3
        assert house.replicas.sync_rounds.rounds == 0

    asyncio.run(write())


def test_with_durability_os_a_topic_can_ask_for_a_sync() -> None:
    """With durability os a topic can ask for a sync after so many messages or each."""

    async def write() -> None:
        house = House(is_synced=False)
        house.create("each", flush_messages="1")
        house.create("some", flush_messages="4")
        each, some = house.replicas.leader("each", 0), house.replicas.leader("some", 0)

        house.replicas.append(each, batch_of(), 1)
        house.replicas.append(some, batch_of(3), 1)
        assert (each.high_watermark, some.high_watermark) == (0, 3)
        await house.settle()
        assert (each.high_watermark, each.log.synced_offset, some.log.synced_offset) == (1, 1, 0)

        house.replicas.append(some, batch_of(), 1)
        await house.settle()
        assert some.log.synced_offset == 4

    asyncio.run(write())


# --- disks that fail


@run
async def test_a_full_disk_refuses_and_goes_on_when_there_is_room(house: House) -> None:
    replica = house.replicas.leader("orders", 0)
    house.replicas.append(replica, batch_of(), 1)
    house.files.failures["write"] = ENOSPC

    assert refusal(lambda: house.replicas.append(replica, batch_of(), 1)) == Code.KAFKA_STORAGE_ERROR
    assert replica.offline is None
    was_full = [house.replicas.shortage]
    house.files.failures.clear()
    appended = house.replicas.append(replica, batch_of(), 1)
    await house.settle()

    assert [*was_full, house.replicas.shortage] == ["the disk is full", None]
    assert (appended.base_offset, replica.high_watermark) == (1, 2)


@run
async def test_a_disk_that_is_full_from_the_start_leaves_nothing_half_done(house: House) -> None:
    replica = house.replicas.leader("orders", 0)
    house.files.failures["write"] = ENOSPC
    refusal(lambda: house.replicas.append(replica, batch_of(), 1))
    assert replica.log.end_offset == 0

    house.files.failures.clear()
    house.replicas.append(replica, batch_of(), 1)

    assert "orders-0/partition.metadata" in house.files.contents


@run
async def test_what_a_full_disk_keeps_from_being_opened_is_opened_when_there_is_room(house: House) -> None:
    house.replicas.append(house.replicas.leader("orders", 0), batch_of(), 1)
    await house.settle()
    house.files.contents[f"orders-0/{0:020}.log"].written += b"a torn batch"  # recovery writes it to a file beside
    again = House(house.files, {"orders": 2})
    house.files.failures["write"] = ENOSPC

    assert refusal(lambda: again.replicas.leader("orders", 0)) == Code.KAFKA_STORAGE_ERROR
    assert again.replicas.partitions.is_put_off("orders", 0)
    house.files.failures.clear()
    replica = again.replicas.leader("orders", 0)

    assert (replica.log.end_offset, replica.high_watermark) == (1, 1)
    assert again.replicas.partitions.offline() == {}


@run
async def test_a_write_that_fails_takes_that_one_replica_offline(house: House) -> None:
    bad, good = house.replicas.leader("orders", 0), house.replicas.leader("orders", 1)
    told: list[Replica] = []
    house.subscribers.went_offline.append(told.append)
    house.files.failures[f"write:{FIRST_FILE}"] = EIO

    assert refusal(lambda: house.replicas.append(bad, batch_of(), 1)) == Code.KAFKA_STORAGE_ERROR
    house.files.failures.clear()
    house.replicas.append(good, batch_of(), 1)
    await house.settle()

    assert told == [bad]
    assert refusal(lambda: house.replicas.leader("orders", 0)) == Code.KAFKA_STORAGE_ERROR
    assert refusal(lambda: house.replicas.append(bad, batch_of(), 1)) == Code.KAFKA_STORAGE_ERROR
    assert list(house.replicas.partitions.offline()) == [("orders", 0)]
    assert good.high_watermark == 1


@run
async def test_a_sync_that_fails_is_told_to_those_who_wait_as_an_error(house: House) -> None:
    replica = house.replicas.leader("orders", 0)
    codes: list[Code] = []
    house.replicas.append(replica, batch_of(), 1)
    house.waiting.when_safe(replica, 1, 1, -1, codes.append)
    house.files.failures["sync"] = EIO

    await house.settle()

    assert codes == [Code.KAFKA_STORAGE_ERROR]
    assert replica.high_watermark == 0
    assert refusal(lambda: house.replicas.leader("orders", 0)) == Code.KAFKA_STORAGE_ERROR


@run
async def test_damage_met_while_appending_takes_the_replica_offline(house: House) -> None:
    replica = house.replicas.leader("orders", 0)
    for sequence in range(3):
        house.replicas.append(replica, batch_of(producer_id=7, sequence=sequence), 1)
    await house.settle()
    again = House(house.files, ORDERS)
    replica = again.replicas.leader("orders", 0)
    replica.log.producers.states()[0].is_recalled = False
    while len(replica.log.producers.states()[0].batches) > 1:
        replica.log.producers.states()[0].batches.popleft()
    house.files.flip(FIRST_FILE, MAGIC_BIT)

    retried = batch_of(producer_id=7, sequence=0)

    assert refusal(lambda: again.replicas.append(replica, retried, 1)) == Code.KAFKA_STORAGE_ERROR
    assert replica.offline is not None


# --- reading


@run
async def test_bytes_that_are_not_what_was_written_are_never_served(house: House) -> None:
    house.replicas.append(house.replicas.leader("orders", 0), batch_of(), 1)
    await house.settle()
    again = House(house.files, ORDERS)
    replica = again.replicas.leader("orders", 0)
    plan = plan_of(replica)
    house.files.flip(FIRST_FILE, 8 * 70)

    content = again.replicas.read_cached(plan)
    assert content is not None

    assert again.replicas.check_read(replica, plan, content) == Code.KAFKA_STORAGE_ERROR
    assert replica.offline is not None


@run
async def test_a_read_that_fails_takes_the_replica_offline(house: House) -> None:
    replica = house.replicas.leader("orders", 0)
    house.replicas.append(replica, batch_of(), 1)
    await house.settle()
    plan = plan_of(replica)
    house.files.failures["read"] = EIO

    for content in (house.replicas.read_cached(plan), await house.replicas.wait_for_read(plan)):
        assert content is not None
        assert house.replicas.check_read(replica, plan, content) == Code.KAFKA_STORAGE_ERROR

    assert replica.offline is not None


@run
async def test_what_retention_removed_while_it_was_read_is_out_of_range_and_no_damage(house: House) -> None:
    house.create("small", segment_bytes="1048576")
    replica = house.replicas.leader("small", 0)
    for _ in range(3):
        house.replicas.append(replica, batch_of(value=bytes(900_000)), 1)
    await house.settle()
    plan = plan_of(replica)
    replica.delete_records(2)

    assert house.replicas.check_read(replica, plan, b"") == Code.OFFSET_OUT_OF_RANGE
    assert replica.offline is None


@run
async def test_what_was_cut_off_while_it_was_read_is_no_damage(house: House) -> None:
    replica = house.replicas.leader("orders", 0)
    for count in (1, 1):
        house.replicas.append(replica, batch_of(count), 1)
    await house.settle()
    plan = replica.log.read(1, 2, 1000, at_least_one=True)
    assert plan is not None
    replica.log.truncate_to(1)

    content = await house.replicas.wait_for_read(plan)

    assert house.replicas.check_read(replica, plan, content) == Code.NOT_LEADER_OR_FOLLOWER
    assert replica.offline is None


@run
async def test_what_was_written_over_while_it_was_read_is_no_damage(house: House) -> None:
    house.replicas.append(house.replicas.leader("orders", 0), batch_of(2), 1)
    await house.settle()
    again = House(house.files, ORDERS)  # what an earlier process wrote is checked before it is served
    replica = again.replicas.leader("orders", 0)
    plan = plan_of(replica)
    replica.log.truncate_to(0)
    again.replicas.append(replica, batch_of(1, value=bytes(100)), 1)
    await again.settle()

    content = await again.replicas.wait_for_read(plan)

    assert again.replicas.check_read(replica, plan, content) == Code.NOT_LEADER_OR_FOLLOWER
    assert replica.offline is None


@run
async def test_what_was_written_over_with_as_many_bytes_while_it_was_read_is_not_served(house: House) -> None:
    replica = house.replicas.leader("orders", 0)
    house.replicas.append(replica, batch_of(1, value=b"told"), 1)
    await house.settle()
    plan = plan_of(replica)
    replica.log.truncate_to(0)
    house.replicas.append(replica, batch_of(1, value=b"new!"), 1)
    await house.settle()

    content = await house.replicas.wait_for_read(plan)

    assert isinstance(content, bytes)
    assert len(content) == plan.length
    assert house.replicas.check_read(replica, plan, content) == Code.NOT_LEADER_OR_FOLLOWER


@run
async def test_sound_bytes_are_served_and_counted(house: House) -> None:
    replica = house.replicas.leader("orders", 0)
    batch = batch_of(3)
    house.replicas.append(replica, batch, 1)
    await house.settle()
    plan = plan_of(replica)
    house.files.is_cached = False

    assert house.replicas.read_cached(plan) is None
    content = await house.replicas.wait_for_read(plan)

    assert content == bytes(batch)
    assert house.replicas.check_read(replica, plan, content) == Code.NONE
    assert house.metrics.bytes_out == len(batch)


# --- over restarts


@run
async def test_what_was_written_is_there_after_a_crash(house: House) -> None:
    house.replicas.append(house.replicas.leader("orders", 1), batch_of(3), 1)
    await house.settle()
    house.files.crash()

    again = House(house.files, ORDERS)

    assert again.replicas.partitions.on_disk() == [TopicPartition("orders", 1)]
    assert again.replicas.leader("orders", 1).high_watermark == 3


@run
async def test_a_log_that_cannot_be_opened_is_offline_alone_and_its_checkpoint_stays(house: House) -> None:
    for partition in (0, 1):
        house.replicas.append(house.replicas.leader("orders", partition), batch_of(3), 1)
    await house.settle()
    house.checkpoints.write(house.replicas.held())
    house.files.flip(FIRST_FILE, MAGIC_BIT)

    again = House(house.files, ORDERS)
    assert refusal(lambda: again.replicas.leader("orders", 0)) == Code.KAFKA_STORAGE_ERROR
    assert again.replicas.leader("orders", 1).high_watermark == 3
    again.checkpoints.write(again.replicas.held())
    third = House(house.files, ORDERS)

    assert refusal(lambda: third.replicas.leader("orders", 0)) == Code.KAFKA_STORAGE_ERROR
    assert len(house.files.contents[FIRST_FILE].written) > 0


@run
async def test_the_directory_of_an_earlier_topic_of_that_name_is_moved_aside(house: House) -> None:
    house.replicas.append(house.replicas.leader("orders", 0), batch_of(3), 1)
    await house.settle()
    house.checkpoints.write(house.replicas.held())

    new_id = b"another id 12345"
    again = House(house.files, ORDERS, ids={"orders": new_id})
    replica = again.replicas.leader("orders", 0)

    assert (replica.log.end_offset, replica.topic_id) == (0, new_id)
    assert any(path.startswith("orders-0.") and "-stray/" in path for path in house.files.paths(".log"))
    again.replicas.append(replica, batch_of(), 1)
    assert replica.log.end_offset == 1


@run
async def test_a_crash_after_that_does_not_make_the_new_topic_look_damaged(house: House) -> None:
    """A crash after that does not make the new topic seem to have lost what the old had."""
    house.replicas.append(house.replicas.leader("orders", 0), batch_of(3), 1)
    await house.settle()
    house.checkpoints.write(house.replicas.held())
    new_id = b"another id 12345"
    House(house.files, ORDERS, ids={"orders": new_id}).replicas.leader("orders", 0)

    after = House(house.files, ORDERS, ids={"orders": new_id})

    assert after.replicas.leader("orders", 0).log.end_offset == 0


@run
async def test_whose_a_partition_is_survives_a_power_cut_together_with_its_first_batch(house: House) -> None:
    house.replicas.append(house.replicas.leader("orders", 0), batch_of(), 1)
    await house.settle()

    house.files.crash()
    again = House(house.files, ORDERS)

    assert again.replicas.leader("orders", 0).log.end_offset == 1
    assert encode_id(b"orders".ljust(16, b"\x01")).encode() in house.files.read_all(MARK)


@run
async def test_a_damaged_mark_does_not_take_the_log_from_its_topic(house: House) -> None:
    house.replicas.append(house.replicas.leader("orders", 0), batch_of(), 1)
    await house.settle()
    whole = house.files.read_all(MARK)
    flipped = bytearray(whole)
    flipped[-4] ^= 1

    for damaged in (b"", whole[:-5], bytes(flipped), b"\xff" * len(whole)):
        house.files.replace(MARK, damaged)
        again = House(house.files, ORDERS)

        assert again.replicas.leader("orders", 0).log.end_offset == 1
        assert house.files.read_all(MARK) == whole


@pytest.mark.parametrize("partition", [0, 99_999])
def test_a_renamed_directory_has_a_name_that_a_file_system_takes(partition: int) -> None:
    for length in (1, 200, 249):
        name = renamed(f"{'t' * length}-{partition}", ".0123456789abcdef0123456789abcdef-delete")
        assert len(name) <= NAME_BYTES_MAX
        assert name.endswith(f"-{partition}.0123456789abcdef0123456789abcdef-delete")


def test_ids_are_written_as_kafka_writes_them() -> None:
    assert encode_id(bytes(range(16))) == "AAECAwQFBgcICQoLDA0ODw"


def test_files_are_closed_in_order_and_found_clean() -> None:
    async def stop() -> MemoryFiles:
        house = House(topics=ORDERS)
        house.replicas.append(house.replicas.leader("orders", 0), batch_of(4), 1)
        house.replicas.logs.close_all()
        house.checkpoints.write(house.replicas.held())
        house.checkpoints.stopped()
        return house.files

    async def start(files: MemoryFiles) -> None:
        house = House(files, ORDERS)
        replica = house.replicas.leader("orders", 0)
        assert (replica.high_watermark, replica.log.recovery.was_clean) == (4, True)

    asyncio.run(start(asyncio.run(stop())))
