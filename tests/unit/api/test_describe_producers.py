"""DescribeProducers."""

from __future__ import annotations

from typing import Any

from kio.schema.describe_producers.v0.request import DescribeProducersRequest, TopicRequest

from chronik.api import describe_producers
from chronik.core.errors import Code
from chronik.core.log.producers import Producers, ProducerState, WrittenBatch
from tests.unit.api.fake_context import FakeLog, ask, fake_context, replicas_of


def request(*topics: tuple[str, tuple[int, ...]]) -> Any:
    return DescribeProducersRequest(
        topics=tuple(TopicRequest(name=name, partition_indexes=partitions) for name, partitions in topics)
    )


def test_producers_are_shown_with_what_they_last_wrote() -> None:
    producer = ProducerState(7, epoch=2)
    producer.batches.append(WrittenBatch(10, 14, 100, 104, 5000))
    producer.last_timestamp = 5000
    log = FakeLog()
    log.producers = Producers([producer, ProducerState(3, epoch=0)])
    context = fake_context()
    replicas_of(context).add("a", 0, log)

    [topic] = ask(describe_producers, request(("a", (0,))), context, version=0).topics

    [partition] = topic.partitions
    assert partition.error_code is Code.NONE
    assert [
        (one.producer_id, one.producer_epoch, one.last_sequence, one.last_timestamp, one.current_txn_start_offset)
        for one in partition.active_producers
    ] == [(3, 0, -1, -1, -1), (7, 2, 14, 5000, -1)]


def test_each_partition_has_its_own_error() -> None:
    context = fake_context(topics={"a": 1})

    response = ask(describe_producers, request(("a", (0, 5)), ("no pe", (0,))), context, version=0)

    assert [
        (topic.name, one.partition_index, one.error_code) for topic in response.topics for one in topic.partitions
    ] == [
        ("a", 0, Code.NONE),
        ("a", 5, Code.UNKNOWN_TOPIC_OR_PARTITION),
        ("no pe", 0, Code.INVALID_TOPIC_EXCEPTION),
    ]
