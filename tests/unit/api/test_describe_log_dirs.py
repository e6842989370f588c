"""DescribeLogDirs."""

from __future__ import annotations

from kio.schema.describe_log_dirs.v5.request import DescribableLogDirTopic, DescribeLogDirsRequest

from chronik.api import describe_log_dirs
from chronik.core.errors import Code
from tests.unit.api.fake_context import FakeLog, ask, fake_context, replicas_of


def test_every_partition_is_shown_with_its_size_and_the_disk_with_its_own() -> None:
    context = fake_context(topics={"b": 1, "a": 3})
    replicas_of(context).add("__cluster_metadata", 0)  # not a topic of the cluster
    del replicas_of(context).replicas["a", 2]  # never written to, so it has no files
    for topic, partition, size in (("a", 0, 10), ("a", 1, 20), ("b", 0, 30)):
        log = FakeLog()
        log.bytes_on_disk = size
        replicas_of(context).add(topic, partition, log)

    response = ask(describe_log_dirs, DescribeLogDirsRequest(topics=None), context, version=5)

    [directory] = response.results
    assert (response.error_code, directory.error_code, directory.log_dir) == (Code.NONE, Code.NONE, "/data")
    assert (directory.total_bytes, directory.usable_bytes) == (1000, 400)
    assert [
        (topic.name, part.partition_index, part.partition_size, part.offset_lag, part.is_future_key)
        for topic in directory.topics
        for part in topic.partitions
    ] == [("a", 0, 10, 0, False), ("a", 1, 20, 0, False), ("a", 2, 0, 0, False), ("b", 0, 30, 0, False)]


def test_partitions_that_other_nodes_hold_are_theirs_to_show() -> None:
    context = fake_context(topics={"a": 2}, brokers=(1, 2))

    [directory] = ask(describe_log_dirs, DescribeLogDirsRequest(topics=None), context, version=5).results

    assert [part.partition_index for part in directory.topics[0].partitions] == [0]


def test_only_the_partitions_asked_for_are_shown() -> None:
    context = fake_context(topics={"a": 2, "b": 1})
    wanted = DescribeLogDirsRequest(
        topics=(
            DescribableLogDirTopic(topic="a", partitions=(1, 9)),
            DescribableLogDirTopic(topic="c", partitions=(0,)),
        )
    )

    [directory] = ask(describe_log_dirs, wanted, context, version=5).results

    assert [(topic.name, [part.partition_index for part in topic.partitions]) for topic in directory.topics] == [
        ("a", [1])
    ]


def test_a_refusal_is_seen_by_versions_without_an_error_of_the_whole() -> None:
    response = describe_log_dirs.refuse(DescribeLogDirsRequest(topics=None), Code.UNKNOWN_SERVER_ERROR, None)

    assert response.error_code is Code.UNKNOWN_SERVER_ERROR
    assert [one.error_code for one in response.results] == [Code.UNKNOWN_SERVER_ERROR]
