"""Produce: each partition's batch is appended at once, the answer waits until all are as safe as was asked."""

from __future__ import annotations

import asyncio
import errno
import logging
import struct
from collections.abc import Iterator
from typing import Any

import pytest

from chronik.api import produce
from chronik.api.context import HeldUp
from chronik.core.errors import Code
from chronik.core.log.admission import RECORD_ERRORS_MAX
from chronik.core.machines.metadata.commands import AllocateProducerIds, CreateInternalTopic
from chronik.core.machines.metadata.names import METADATA_TOPIC, OFFSETS_TOPIC
from chronik.core.records.batch import read_header
from chronik.core.records.payload import KeyValue, Record, assemble, build
from chronik.core.records.steps import RECORDS_A_STEP
from chronik.core.types import NAMED_PRODUCER_IDS_FROM
from chronik.node.runtime.long_work import WAITING_MAX
from chronik.wire.errors import Malformed
from tests.unit.api.house_context import WAITING, Asked, HouseContext, run
from tests.unit.core.log.logs import NOW_MS, batch_of, contents
from tests.unit.wire.hot_requests import Topics, produce_request

EVERY_VERSION = range(3, 14)


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    logging.disable(logging.ERROR)
    yield
    logging.disable(logging.NOTSET)


def send(
    context: HouseContext,
    topics: Topics,
    *,
    acks: int = 1,
    version: int = 12,
    timeout_ms: int = 1000,
    txn: str | None = None,
) -> Asked:
    return context.ask(produce, version, produce_request(version, txn, acks, timeout_ms, topics))


def one(records: bytes | None, partition: int = 0, topic: str = "orders") -> Topics:
    return [(topic, [(partition, records)])]


def outcomes(asked: Asked) -> list[tuple[int, int]]:
    """Error code and base offset of every partition, in order."""
    return [(p.error_code, p.base_offset) for topic in asked.response.responses for p in topic.partition_responses]


# --- how safe


@pytest.mark.parametrize("acks", [1, -1])
@pytest.mark.parametrize("version", EVERY_VERSION)
def test_the_answer_waits_until_the_batch_is_synced(version: int, acks: int) -> None:
    async def ask() -> None:
        context = HouseContext()
        topic: Any = context.house.image.topics["orders"].id if version >= 13 else "orders"
        first = send(context, [(topic, [(1, bytes(batch_of(3)))])], acks=acks, version=version)
        second = send(context, [(topic, [(1, bytes(batch_of(2)))])], acks=acks, version=version)
        assert (first.raw, second.raw) == (WAITING, WAITING)
        await context.settle()
        assert (outcomes(first), outcomes(second)) == ([(0, 0)], [(0, 3)])
        replica = context.house.replicas.leader("orders", 1)
        assert replica.high_watermark == replica.log.end_offset == 5

    asyncio.run(ask())


@run()
async def test_acks_0_gets_no_answer_and_its_place_in_line_is_freed_at_once(context: HouseContext) -> None:
    asked = send(context, one(bytes(batch_of())), acks=0)

    assert asked.raw == ()
    await context.settle()
    assert context.house.replicas.leader("orders", 0).high_watermark == 1


@run()
async def test_acks_0_that_fails_hangs_up(context: HouseContext) -> None:
    """It is the only way to tell such a client that something went wrong."""
    assert send(context, one(b"no batch"), acks=0).raw is None
    assert send(context, one(bytes(batch_of()), topic="nothing"), acks=0).raw is None


@run(is_synced=False)
async def test_with_durability_os_the_answer_comes_at_once(context: HouseContext) -> None:
    assert outcomes(send(context, one(bytes(batch_of(2))), acks=-1)) == [(0, 0)]


@run()
async def test_acks_all_times_out_when_it_is_not_safe_in_time(context: HouseContext) -> None:
    replica = context.house.replicas.leader("orders", 0)
    replica.lead(0, 1, (1, 2), (1, 2), 0)  # another in-sync replica that never hears of it
    asked = send(context, one(bytes(batch_of())), acks=-1, timeout_ms=500)
    await context.settle()
    assert asked.raw is WAITING

    context.house.loop.advance(500)

    assert outcomes(asked) == [(Code.REQUEST_TIMED_OUT, -1)]


@run()
async def test_acks_all_with_a_negative_timeout_has_no_time_at_all(context: HouseContext) -> None:
    context.house.replicas.leader("orders", 0).lead(0, 1, (1, 2), (1, 2), 0)
    asked = send(context, one(bytes(batch_of())), acks=-1, timeout_ms=-1)

    context.house.loop.advance(10)

    assert outcomes(asked) == [(Code.REQUEST_TIMED_OUT, -1)]


@run({"safe": 1})
async def test_acks_all_is_refused_with_too_few_in_sync(context: HouseContext) -> None:
    context.house.create("strict", min_insync_replicas="2")
    context.house.replicas.leader("strict", 0).lead(0, 1, (1, 2), (1,), 0)

    refused = send(context, one(bytes(batch_of()), topic="strict"), acks=-1)
    taken = send(context, one(bytes(batch_of()), topic="strict"), acks=1)
    await context.settle()

    assert outcomes(refused) == [(Code.NOT_ENOUGH_REPLICAS, -1)]
    assert outcomes(taken) == [(0, 0)]


@pytest.mark.parametrize("acks", [2, -2, 100])
def test_other_acks_are_refused_for_every_partition_and_nothing_is_written(acks: int) -> None:
    async def ask() -> None:
        context = HouseContext()
        asked = send(context, [("orders", [(0, bytes(batch_of())), (1, bytes(batch_of()))])], acks=acks)
        assert outcomes(asked) == [(Code.INVALID_REQUIRED_ACKS, -1)] * 2
        assert list(context.house.replicas.held()) == []

    asyncio.run(ask())


# --- each partition for itself


@run()
async def test_one_partitions_refusal_is_its_own(context: HouseContext) -> None:
    broken = batch_of()
    broken[-1] ^= 1
    asked = send(
        context,
        [
            ("orders", [(0, bytes(batch_of(2))), (7, bytes(batch_of())), (1, bytes(broken))]),
            ("nothing", [(0, bytes(batch_of()))]),
            ("orders", [(1, bytes(batch_of())), (0, None)]),
        ],
    )
    await context.settle()

    assert outcomes(asked) == [
        (0, 0),
        (Code.UNKNOWN_TOPIC_OR_PARTITION, -1),
        (Code.CORRUPT_MESSAGE, -1),
        (Code.UNKNOWN_TOPIC_OR_PARTITION, -1),
        (0, 0),
        (Code.INVALID_RECORD, -1),
    ]


@run()
async def test_a_request_of_refusals_alone_is_answered_at_once(context: HouseContext) -> None:
    assert outcomes(send(context, one(b"short"))) == [(Code.CORRUPT_MESSAGE, -1)]


@run()
async def test_a_request_without_partitions_is_answered_at_once(context: HouseContext) -> None:
    assert outcomes(send(context, [])) == []


@run()
async def test_an_unknown_topic_id_is_named_so(context: HouseContext) -> None:
    asked = send(context, [(b"no such topic id", [(0, bytes(batch_of()))])], version=13)

    assert outcomes(asked) == [(Code.UNKNOWN_TOPIC_ID, -1)]


@run()
async def test_our_own_topics_are_not_written_by_clients(context: HouseContext) -> None:
    context.house.tell(CreateInternalTopic(OFFSETS_TOPIC, b"the offsets topic".ljust(16)[:16]))
    context.house.replicas.partitions.open(METADATA_TOPIC, 0, bytes(16), context.house.image.topic_config("orders"))

    offsets = send(context, one(bytes(batch_of()), topic=OFFSETS_TOPIC))
    metadata = send(context, one(bytes(batch_of()), topic=METADATA_TOPIC))

    assert outcomes(offsets) == [(Code.INVALID_TOPIC_EXCEPTION, -1)]
    assert outcomes(metadata) == [(Code.UNKNOWN_TOPIC_OR_PARTITION, -1)]


# --- idempotence


@run()
async def test_a_retry_is_answered_with_the_first_offsets(context: HouseContext) -> None:
    batches = [bytes(batch_of(2, producer_id=5, sequence=sequence)) for sequence in (0, 2, 4, 6, 8)]
    for batch in batches:
        send(context, one(batch), acks=-1)
    retried = [send(context, one(batch), acks=-1) for batch in batches]
    await context.settle()

    assert [outcomes(asked) for asked in retried] == [[(0, offset)] for offset in (0, 2, 4, 6, 8)]
    assert context.house.replicas.leader("orders", 0).log.end_offset == 10
    assert context.house.metrics.duplicate_batches == 5


@run()
async def test_a_retry_of_what_is_not_safe_yet_waits_as_the_first_did(context: HouseContext) -> None:
    batch = bytes(batch_of(2, producer_id=5, sequence=0))
    first = send(context, one(batch))
    retry = send(context, one(batch))
    assert (first.raw, retry.raw) == (WAITING, WAITING)

    await context.settle()

    assert outcomes(first) == outcomes(retry) == [(0, 0)]


@run()
async def test_a_gap_in_the_sequence_is_refused(context: HouseContext) -> None:
    send(context, one(bytes(batch_of(2, producer_id=5, sequence=0))))

    assert outcomes(send(context, one(bytes(batch_of(2, producer_id=5, sequence=3))))) == [
        (Code.OUT_OF_ORDER_SEQUENCE_NUMBER, -1)
    ]
    await context.settle()


# --- limits and failures


@run()
async def test_a_batch_over_the_topics_limit_is_refused(context: HouseContext) -> None:
    context.house.create("small", max_message_bytes="1000")

    asked = send(context, one(bytes(batch_of(value=bytes(2000))), topic="small"))

    assert outcomes(asked) == [(Code.MESSAGE_TOO_LARGE, -1)]


@run()
async def test_a_sync_that_fails_is_never_answered_as_success(context: HouseContext) -> None:
    asked = send(context, [("orders", [(0, bytes(batch_of())), (1, bytes(batch_of()))])], acks=-1)
    context.house.files.failures["sync:orders-0/00000000000000000000.log"] = OSError(errno.EIO, "broken")

    await context.settle()

    assert outcomes(asked) == [(Code.KAFKA_STORAGE_ERROR, -1), (0, 0)]


@run()
async def test_a_full_disk_is_told_and_the_next_request_succeeds(context: HouseContext) -> None:
    context.house.files.failures["write"] = OSError(errno.ENOSPC, "full")
    assert outcomes(send(context, one(bytes(batch_of())))) == [(Code.KAFKA_STORAGE_ERROR, -1)]

    context.house.files.failures.clear()
    asked = send(context, one(bytes(batch_of())))
    await context.settle()

    assert outcomes(asked) == [(0, 0)]


@run()
async def test_a_log_that_keeps_its_own_time_tells_it(context: HouseContext) -> None:
    context.house.create("timed", message_timestamp_type="LogAppendTime")

    asked = send(context, one(bytes(batch_of(time_ms=5)), topic="timed"))
    await context.settle()

    (answer,) = asked.response.responses[0].partition_responses
    assert round(answer.log_append_time.timestamp() * 1000) == context.house.clock.wall_ms


@run()
async def test_refusals_are_counted_by_reason(context: HouseContext) -> None:
    send(context, one(b"short"))
    send(context, one(b"short"))

    assert context.house.metrics.refusals == {(0, Code.CORRUPT_MESSAGE): 2}


# --- old versions, bad bytes


@pytest.mark.parametrize("version", [0, 1, 2])
def test_versions_that_carry_old_formats_are_refused_and_nothing_is_written(version: int) -> None:
    async def ask() -> None:
        context = HouseContext()
        body = struct.pack(">hiih", 1, 1000, 1, 6) + b"orders" + struct.pack(">iii", 1, 0, 3) + b"old"
        asked = context.ask(produce, version, body)
        (frame,) = asked.raw
        assert struct.pack(">ih", 0, Code.UNSUPPORTED_VERSION) in frame
        assert list(context.house.replicas.held()) == []

    asyncio.run(ask())


@run()
async def test_bytes_that_are_no_request_are_malformed_and_nothing_is_written(context: HouseContext) -> None:
    body = produce_request(9, None, 1, 5, one(bytes(batch_of())))

    with pytest.raises(Malformed):
        context.ask(produce, 9, body[:-20])

    assert list(context.house.replicas.held()) == []


# --- compacted topics


def keyed(count: int) -> bytes:
    return bytes(build([KeyValue(b"k", b"v")] * count, NOW_MS))


@run()
async def test_a_batch_for_a_compacted_topic_is_looked_through_at_once_when_it_is_small(context: HouseContext) -> None:
    context.house.create("keyed", cleanup_policy="compact")
    good, bad = (send(context, one(records, topic="keyed")) for records in (keyed(3), without_a_key()))
    assert not isinstance(good.leave, HeldUp)
    assert outcomes(bad) == [(Code.INVALID_RECORD, -1)]
    await context.settle()
    assert outcomes(good) == [(0, 0)]


def without_a_key() -> bytes:
    return bytes(build([KeyValue(b"k", b"v"), KeyValue(None, b"v")], NOW_MS))


@run()
async def test_a_batch_that_takes_long_to_look_through_is_appended(
    context: HouseContext,
) -> None:
    """A batch that takes long to look through is appended before what comes behind it."""
    context.house.create("keyed", cleanup_policy="compact")
    large = send(context, one(keyed(RECORDS_A_STEP * 3), topic="keyed"))
    assert isinstance(large.leave, HeldUp)  # the connection begins nothing else until it is answered
    await asyncio.gather(*context.tasks)
    await context.settle()
    assert outcomes(large) == [(0, 0)]


@run()
async def test_a_long_batch_with_a_record_without_a_key_is_refused_and_nothing_is_written(
    context: HouseContext,
) -> None:
    context.house.create("keyed", cleanup_policy="compact")
    records = [KeyValue(b"k", b"v")] * (RECORDS_A_STEP * 2) + [KeyValue(None, b"v")]
    large = send(context, one(bytes(build(records, NOW_MS)), topic="keyed"))
    await asyncio.gather(*context.tasks)
    assert outcomes(large) == [(Code.INVALID_RECORD, -1)]
    assert context.house.replicas.leader("keyed", 0).log.end_offset == 0


@run()
async def test_more_long_looks_than_can_wait_are_refused(context: HouseContext) -> None:
    context.house.create("keyed", cleanup_policy="compact")
    asked = [send(context, one(keyed(RECORDS_A_STEP), topic="keyed")) for _ in range(WAITING_MAX + 1)]
    await asyncio.gather(*context.tasks)
    await context.settle()
    assert [outcomes(one)[0][0] for one in asked] == [0] * WAITING_MAX + [Code.REQUEST_TIMED_OUT]


# --- topics that name a codec

ZSTD = 4


def stored_codecs(context: HouseContext, topic: str) -> list[int]:
    """Of each batch in the topic's log."""
    found, log_bytes = [], contents(context.house.replicas.leader(topic, 0).log)
    while log_bytes:
        header = read_header(log_bytes)
        found.append(header.compression)
        log_bytes = log_bytes[header.size_bytes :]
    return found


@run()
async def test_a_small_batch_of_another_codec_is_packed_anew_at_once(context: HouseContext) -> None:
    context.house.create("packed", compression_type="zstd")
    asked = send(context, one(keyed(3), topic="packed"))
    assert not isinstance(asked.leave, HeldUp)
    await context.settle()
    assert outcomes(asked) == [(0, 0)]
    assert stored_codecs(context, "packed") == [ZSTD]


@run()
async def test_a_large_batch_is_packed_anew_elsewhere_and_appended(
    context: HouseContext,
) -> None:
    """A large batch is packed anew elsewhere and appended before what comes behind it."""
    context.house.create("packed", compression_type="zstd")
    large = send(context, one(bytes(batch_of(1, value=b"v" * 500_000)), topic="packed"))
    assert isinstance(large.leave, HeldUp)  # the connection begins nothing else until it is answered
    await asyncio.gather(*context.tasks)
    await context.settle()
    assert outcomes(large) == [(0, 0)]
    assert stored_codecs(context, "packed") == [ZSTD]


@run()
async def test_any_number_of_large_batches_may_wait_to_be_packed_anew(context: HouseContext) -> None:
    """They hold up their connections, and nothing but what came is kept of them."""
    context.house.create("packed", compression_type="snappy")
    context.house.create("keyed", cleanup_policy="compact")
    large = bytes(batch_of(1, value=b"v" * 20_000))
    ahead = send(context, one(keyed(RECORDS_A_STEP * 3), topic="keyed"))  # they all wait for this one
    asked = [ahead, *(send(context, one(large, topic="packed")) for _ in range(WAITING_MAX + 5))]
    await asyncio.gather(*context.tasks)
    await context.settle()
    assert {outcomes(one)[0][0] for one in asked} == {0}


@run()
async def test_a_large_batch_that_does_not_unpack_is_refused_and_nothing_is_written(context: HouseContext) -> None:
    context.house.create("packed", compression_type="gzip")
    rubbish = bytes(assemble(b"rubbish" * 10_000, read_header(batch_of())._replace(attributes=ZSTD)))
    asked = send(context, one(rubbish, topic="packed"))
    await asyncio.gather(*context.tasks)
    assert outcomes(asked) == [(Code.INVALID_RECORD, -1)]
    assert context.house.replicas.leader("packed", 0).log.end_offset == 0


@run()
async def test_a_leader_that_was_deposed_while_it_packed_a_batch_appends_nothing(context: HouseContext) -> None:
    context.house.create("packed", compression_type="zstd")
    replica = context.house.replicas.leader("packed", 0)
    asked = send(context, one(bytes(batch_of(1, value=b"v" * 500_000)), topic="packed"))
    replica.follow(2, 5, 5)
    await asyncio.gather(*context.tasks)
    assert outcomes(asked) == [(Code.NOT_LEADER_OR_FOLLOWER, -1)]
    assert replica.log.end_offset == 0


def record_errors(asked: Asked) -> list[list[tuple[int, str | None]]]:
    """Index and message of each record that was named, of every partition."""
    return [
        [(error.batch_index, error.batch_index_error_message) for error in partition.record_errors]
        for topic in asked.response.responses
        for partition in topic.partition_responses
    ]


def every_tenth_without_a_key(count: int) -> bytes:
    return bytes(build([KeyValue(None if number % 10 == 0 else b"k", b"v") for number in range(count)], NOW_MS))


@pytest.mark.parametrize("count", [100, RECORDS_A_STEP * 2])
@pytest.mark.parametrize("version", range(8, 14))
def test_the_records_without_a_key_are_named(version: int, count: int) -> None:
    async def ask() -> None:
        context = HouseContext()
        topic_id = context.house.create("keyed", cleanup_policy="compact")
        topic: str | bytes = topic_id if version >= 13 else "keyed"
        asked = send(context, [(topic, [(0, every_tenth_without_a_key(count))])], version=version)
        await asyncio.gather(*context.tasks)
        assert outcomes(asked) == [(Code.INVALID_RECORD, -1)]
        assert [index for index, _ in record_errors(asked)[0]] == list(range(0, count, 10))

    asyncio.run(ask())


@run()
async def test_the_records_whose_time_is_not_allowed_are_named(
    context: HouseContext,
) -> None:
    """The records whose time is not allowed are named though the header alone refuses them."""
    times = [NOW_MS, NOW_MS * 2, NOW_MS]
    asked = send(context, one(bytes(build([Record(0, time_ms, b"k", b"v") for time_ms in times], NOW_MS))))
    assert outcomes(asked) == [(Code.INVALID_TIMESTAMP, -1)]
    assert [index for index, _ in record_errors(asked)[0]] == [1]


@run()
async def test_a_header_that_claims_a_time_which_no_record_has_is_refused_and_names_none(context: HouseContext) -> None:
    sound = build([KeyValue(b"k", b"v")], NOW_MS)
    asked = send(context, one(bytes(assemble(sound[61:], read_header(sound)._replace(max_timestamp=NOW_MS * 2)))))
    assert outcomes(asked) == [(Code.INVALID_TIMESTAMP, -1)]
    assert record_errors(asked) == [[]]


@run()
async def test_a_record_older_than_the_first_of_its_batch_is_refused(
    context: HouseContext,
) -> None:
    """A record older than the first of its batch is refused where the topic limits that."""
    context.house.create("recent", message_timestamp_before_max_ms="1000")
    times = [NOW_MS, NOW_MS - 1001]
    asked = send(
        context, one(bytes(build([Record(0, time_ms, b"k", b"v") for time_ms in times], NOW_MS)), topic="recent")
    )
    assert outcomes(asked) == [(Code.INVALID_TIMESTAMP, -1)]
    assert [index for index, _ in record_errors(asked)[0]] == [1]


@run()
async def test_one_answer_names_so_many_records_and_of_each_partition_at_least_one(context: HouseContext) -> None:
    context.house.create("keyed", cleanup_policy="compact", partitions=3)
    bad = bytes(build([KeyValue(None, b"v")] * (RECORD_ERRORS_MAX - 1), NOW_MS))
    asked = send(context, [("keyed", [(number, bad) for number in range(3)])])
    await asyncio.gather(*context.tasks)
    assert [len(named) for named in record_errors(asked)] == [RECORD_ERRORS_MAX - 1, 1, 1]


# --- producer ids


def of_producer(producer_id: int, sequence: int = 0) -> bytes:
    return bytes(batch_of(producer_id=producer_id, sequence=sequence))


@run()
async def test_a_producer_id_that_nobody_was_given_is_refused_and_takes_no_memory(context: HouseContext) -> None:
    known, invented = (send(context, one(of_producer(producer_id))) for producer_id in (999, 10**12))
    await context.settle()
    assert outcomes(known) == [(0, 0)]
    assert outcomes(invented) == [(Code.NOT_ENOUGH_REPLICAS, -1)]
    assert len(context.house.replicas.leader("orders", 0).log.producers) == 1


@run()
async def test_a_producer_id_that_a_writer_made_from_what_it_writes_is_taken(context: HouseContext) -> None:
    # As the sink for Spark does: run again, it makes the same one.
    first, again = (send(context, one(of_producer(NAMED_PRODUCER_IDS_FROM + 7))) for _ in range(2))
    await context.settle()

    assert outcomes(first) == outcomes(again) == [(0, 0)]


@run()
async def test_a_producer_whose_id_is_known_a_moment_later_gets_its_batches_in_order(
    context: HouseContext,
) -> None:
    """A producer whose id the metadata tells of a moment later gets its batches in order."""
    first = send(context, one(of_producer(1000, 0)))
    context.house.tell(AllocateProducerIds(1))
    overtaking = send(context, one(of_producer(1000, 1)))
    retried = send(context, one(of_producer(1000, 0)))
    overtaken = send(context, one(of_producer(1000, 1)))
    await context.settle()

    assert outcomes(first) == [(Code.NOT_ENOUGH_REPLICAS, -1)]
    assert outcomes(overtaking) == [(Code.OUT_OF_ORDER_SEQUENCE_NUMBER, -1)]
    assert outcomes(retried) == [(0, 0)]
    assert outcomes(overtaken) == [(0, 1)]
