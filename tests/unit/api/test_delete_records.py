"""DeleteRecords."""

from __future__ import annotations

import datetime
from typing import Any

from kio.schema.delete_records.v2.request import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic

from chronik.api import delete_records
from chronik.core.config.topic import TopicConfig
from chronik.core.errors import Code
from tests.unit.api.fake_context import FakeLog, ask, fake_context, replicas_of


def deleted(log: FakeLog, offset: int, topic: str = "a") -> tuple[Code, int]:
    context = fake_context()
    replicas_of(context).add(topic, 0, log)
    log.end_offset += 2  # two records that are not safe yet
    [result] = ask(delete_records, request(topic, (0, offset)), context, version=2).topics[0].partitions
    return result.error_code, result.low_watermark


def request(topic: str, *wanted: tuple[int, int]) -> Any:
    parts = tuple(DeleteRecordsPartition(partition_index=number, offset=offset) for number, offset in wanted)
    return DeleteRecordsRequest(
        topics=(DeleteRecordsTopic(name=topic, partitions=parts),), timeout=datetime.timedelta(0)
    )


def test_the_log_then_begins_at_the_offset() -> None:
    log = FakeLog(start_offset=10, end_offset=20)

    assert deleted(log, 15) == (Code.NONE, 15)
    assert log.start_offset == 15


def test_the_answer_waits_until_the_new_start_is_on_disk() -> None:
    context = fake_context()
    replicas_of(context).add("a", 0, FakeLog(10, 20))

    ask(delete_records, request("a", (0, 15)), context, version=2)

    assert replicas_of(context).stored_starts == {("a", 0): 15}


def test_a_start_that_could_not_be_stored_is_no_success() -> None:
    context = fake_context()
    replicas_of(context).add("a", 0, FakeLog(10, 20))
    replicas_of(context).is_full = True

    [result] = ask(delete_records, request("a", (0, 15)), context, version=2).topics[0].partitions

    assert (result.error_code, result.low_watermark) == (Code.KAFKA_STORAGE_ERROR, -1)


def test_minus_one_means_up_to_the_high_watermark() -> None:
    assert deleted(FakeLog(10, 20), -1) == (Code.NONE, 20)


def test_what_is_gone_already_stays_gone() -> None:
    assert deleted(FakeLog(10, 20), 5) == (Code.NONE, 10)


def test_an_offset_beyond_the_high_watermark_is_out_of_range() -> None:
    log = FakeLog(10, 20)

    assert deleted(log, 21) == (Code.OFFSET_OUT_OF_RANGE, -1)
    assert deleted(FakeLog(10, 20), -2) == (Code.OFFSET_OUT_OF_RANGE, -1)
    assert log.start_offset == 10


def test_a_topic_that_is_only_compacted_keeps_its_records() -> None:
    only_compacted = TopicConfig(cleanup_policy=("compact",))
    both = TopicConfig(cleanup_policy=("compact", "delete"))

    assert deleted(FakeLog(10, 20, only_compacted), 15) == (Code.POLICY_VIOLATION, -1)
    assert deleted(FakeLog(10, 20, both), 15) == (Code.NONE, 15)
    assert deleted(FakeLog(10, 20, TopicConfig(cleanup_policy=())), 15) == (Code.NONE, 15)


def test_internal_topics_keep_their_records() -> None:
    assert deleted(FakeLog(10, 20), 15, "__consumer_offsets") == (Code.INVALID_TOPIC_EXCEPTION, -1)


def test_each_partition_has_its_own_error() -> None:
    context = fake_context(topics={"a": 1})

    response = ask(delete_records, request("a", (0, 0), (1, 0)), context, version=2)

    assert [(part.partition_index, part.error_code) for part in response.topics[0].partitions] == [
        (0, Code.NONE),
        (1, Code.UNKNOWN_TOPIC_OR_PARTITION),
    ]
