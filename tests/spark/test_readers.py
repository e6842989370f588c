"""The readers as plain objects, against real nodes: what is planned, and what a task gets. No session is needed."""

from __future__ import annotations

import itertools
import json
import pickle
from collections.abc import Callable
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed: pip install 'chronik[spark]'")
pytest.importorskip("pyarrow", reason="pyarrow is not installed: pip install 'chronik[spark]'")
pytest.importorskip("numba", reason="numba is not installed: pip install 'chronik[spark]'")

from pyspark.sql.datasource import InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows

from chronik.pipeline.source import RangePartition, TopicReader, TopicStreamReader
from chronik.pipeline.topics.client import Failed, NoSuchTopic, OtherTopic
from chronik.pipeline.topics.options import BadOption, read_options
from chronik.pipeline.topics.places import DataLoss
from chronik.shell.ports import free_ports
from chronik.testing import RunningCluster, RunningNode
from tests.spark.support import add_partitions, delete_records, delete_topic, new_topic, options, send, simple


def batch_reader(bootstrap: str, topic: str | None, **more: str) -> TopicReader:
    return TopicReader(read_options(options(bootstrap, topic, **more), is_streaming=False))


def stream_reader(bootstrap: str, topic: str, **more: str) -> TopicStreamReader:
    return TopicStreamReader(read_options(options(bootstrap, topic, **more), is_streaming=True))


def pattern_reader(bootstrap: str, pattern: str, **more: str) -> TopicStreamReader:
    said = options(bootstrap, subscribePattern=pattern, **more)
    return TopicStreamReader(read_options(said, is_streaming=True))


def ranges(partitions: Any) -> list[tuple[int, int, int]]:
    assert all(isinstance(each, RangePartition) for each in partitions)
    wanted = [each.wanted for each in partitions]
    return [(each.partition.number, each.start_offset, each.end_offset) for each in wanted]


def values(reader: TopicReader | TopicStreamReader, partitions: Any) -> list[int]:
    return [int(value) for each in partitions for batch in reader.read(each) for value in batch["value"].to_pylist()]


def test_a_range_may_begin_and_end_within_a_batch(chronik_node: RunningNode) -> None:
    topic = new_topic(chronik_node.bootstrap)
    send(chronik_node.bootstrap, topic, simple(1_000))
    asked = {"startingOffsets": json.dumps({topic: {"0": 123}}), "endingOffsets": json.dumps({topic: {"0": 877}})}

    reader = batch_reader(chronik_node.bootstrap, topic, minPartitions="7", **asked)
    planned = reader.partitions()

    assert len(planned) == 7
    assert values(reader, planned) == list(range(123, 877))


def test_an_empty_topic_is_an_empty_frame(chronik_node: RunningNode) -> None:
    reader = batch_reader(chronik_node.bootstrap, new_topic(chronik_node.bootstrap, 3))

    assert reader.partitions() == []
    assert list(reader.read(InputPartition(None))) == []  # what Spark asks for then


def test_a_time_is_a_place(chronik_node: RunningNode) -> None:
    topic = new_topic(chronik_node.bootstrap, 2)
    send(chronik_node.bootstrap, topic, simple(100) + simple(50, partition=1))
    begin, end = 1_700_000_000_000 + 20, 1_700_000_000_000 + 60

    reader = batch_reader(
        chronik_node.bootstrap, topic, startingTimestamp=str(begin), endingTimestamp=str(end), failOnDataLoss="true"
    )

    assert ranges(reader.partitions()) == [(0, 20, 60), (1, 20, 50)]
    late = {"startingTimestamp": str(begin + 10**9)}
    with pytest.raises(BadOption, match="as late as the starting time"):
        batch_reader(chronik_node.bootstrap, topic, **late).partitions()
    at_end = batch_reader(chronik_node.bootstrap, topic, startingOffsetsByTimestampStrategy="latest", **late)
    assert at_end.partitions() == []


def test_topics_are_found_by_pattern_and_partitions_by_assignment(chronik_node: RunningNode) -> None:
    first = new_topic(chronik_node.bootstrap, 3, "match-this-1")
    second = new_topic(chronik_node.bootstrap, 1, "match-this-2")
    for topic in (first, second):
        send(chronik_node.bootstrap, topic, simple(5))

    matching = batch_reader(chronik_node.bootstrap, None, subscribePattern="match-this-.").partitions()
    assigned = batch_reader(chronik_node.bootstrap, None, assign=json.dumps({first: [2, 0]})).partitions()

    assert [each.wanted.partition.topic for each in matching] == [first, second]
    assert ranges(assigned) == [(0, 0, 5)]
    with pytest.raises(BadOption, match="has 3 partitions, and no 3"):
        batch_reader(chronik_node.bootstrap, None, assign=json.dumps({first: [3]})).partitions()


def test_what_is_not_there_is_said_in_words(chronik_node: RunningNode) -> None:
    topic = new_topic(chronik_node.bootstrap)
    send(chronik_node.bootstrap, topic, simple(10))
    here = chronik_node.bootstrap

    with pytest.raises(NoSuchTopic, match="there is no topic 'nowhere'"):
        batch_reader(here, "nowhere").partitions()
    with pytest.raises(DataLoss, match="has offsets 0 to before 10, and was to be read from 11"):
        batch_reader(here, topic, startingOffsets=json.dumps({topic: {"0": 11}})).partitions()
    with pytest.raises(DataLoss, match="ends at offset 10, and was to be read up to 12"):
        batch_reader(here, topic, endingOffsets=json.dumps({topic: {"0": 12}})).partitions()
    with pytest.raises(BadOption, match="says nothing about"):
        batch_reader(here, topic, startingOffsets="{}").partitions()
    nobody = f"127.0.0.1:{free_ports(1)[0]}"
    with pytest.raises(Failed, match=r"no node answers: .*Connection refused"):
        batch_reader(nobody, topic, **{"kafka.request.timeout.ms": "300"}).partitions()


def test_records_that_are_gone_are_an_error_or_left_out_as_the_user_says(chronik_node: RunningNode) -> None:
    topic = new_topic(chronik_node.bootstrap)
    send(chronik_node.bootstrap, topic, simple(100))
    strict = batch_reader(chronik_node.bootstrap, topic)
    lenient = batch_reader(chronik_node.bootstrap, topic, failOnDataLoss="false")
    planned = strict.partitions()
    delete_records(chronik_node.bootstrap, topic, 0, 40)

    with pytest.raises(DataLoss, match="offsets 0 to before 40 are gone"):
        values(strict, planned)
    assert values(lenient, planned) == list(range(40, 100))


def test_a_topic_created_again_is_never_taken_for_the_old_one(chronik_node: RunningNode) -> None:
    topic = new_topic(chronik_node.bootstrap)
    send(chronik_node.bootstrap, topic, simple(10))
    batch = batch_reader(chronik_node.bootstrap, topic)
    stream = stream_reader(chronik_node.bootstrap, topic, startingOffsets="earliest")
    planned, begun = batch.partitions(), stream.initialOffset()

    delete_topic(chronik_node.bootstrap, topic)
    new_topic(chronik_node.bootstrap, name=topic)
    send(chronik_node.bootstrap, topic, simple(20))

    with pytest.raises(OtherTopic, match="was deleted and created again"):
        values(batch, planned)
    with pytest.raises(OtherTopic, match="start with a new checkpoint"):
        stream.latestOffset(begun, ReadAllAvailable())


def test_a_micro_batch_waits_for_enough_or_for_long_enough(chronik_node: RunningNode) -> None:
    here, topic = chronik_node.bootstrap, new_topic(chronik_node.bootstrap)
    send(here, topic, simple(3))
    said = {"startingOffsets": "earliest", "minOffsetsPerTrigger": "10"}
    patient = stream_reader(here, topic, **said)
    eager = stream_reader(here, topic, **said, maxTriggerDelay="0s")

    first = patient.latestOffset(patient.initialOffset(), ReadAllAvailable())
    send(here, topic, simple(9, first=3))
    too_few = patient.latestOffset(first, ReadAllAvailable())
    send(here, topic, simple(1, first=12))
    enough = patient.latestOffset(first, ReadAllAvailable())

    assert first[topic]["offsets"] == {"0": 3}, "the first one does not wait"
    assert too_few == first
    assert enough[topic]["offsets"] == {"0": 13}
    assert eager.latestOffset(first, ReadAllAvailable())[topic]["offsets"] == {"0": 13}
    assert eager.latestOffset(enough, ReadAllAvailable()) == enough


def test_a_topic_that_is_gone_ends_a_stream(chronik_node: RunningNode) -> None:
    topic = new_topic(chronik_node.bootstrap)
    stream = stream_reader(chronik_node.bootstrap, topic)
    begun = stream.initialOffset()

    delete_topic(chronik_node.bootstrap, topic)

    with pytest.raises(DataLoss, match="there is no topic"):
        stream.latestOffset(begun, ReadAllAvailable())


def test_a_topic_that_is_away_for_a_while_is_read_on_where_it_was(chronik_node: RunningNode) -> None:
    here = chronik_node.bootstrap
    stays, goes = new_topic(here, name="away-stays"), new_topic(here, name="away-goes")
    send(here, goes, simple(10))
    said = {"startingOffsets": "earliest", "failOnDataLoss": "false"}
    all_seen = pattern_reader(here, "away-.*", **said)
    begun = all_seen.initialOffset()
    read = all_seen.latestOffset(begun, ReadAllAvailable())

    send(here, stays, simple(3))
    missed = pattern_reader(here, "away-s.*", **said).latestOffset(read, ReadMaxRows(100))
    send(here, goes, simple(5, first=10))
    back = all_seen.latestOffset(missed, ReadAllAvailable())

    assert ranges(all_seen.partitions(read, missed)) == [(0, 0, 3)]
    assert missed[goes] == {"id": begun[goes]["id"], "offsets": {"0": 10}}
    assert values(all_seen, all_seen.partitions(missed, back)) == list(range(10, 15))
    with pytest.raises(DataLoss, match="away-goes-0 is not there any more, and was read up to offset 10"):
        pattern_reader(here, "away-s.*").latestOffset(read, ReadAllAvailable())

    delete_topic(here, goes)
    missed = all_seen.latestOffset(back, ReadAllAvailable())
    new_topic(here, name=goes)
    with pytest.raises(OtherTopic, match="start with a new checkpoint"):
        all_seen.latestOffset(missed, ReadAllAvailable())


@pytest.mark.parametrize("how", ["subscribe", "assign"])
def test_a_named_topic_that_is_gone_is_left_out_where_the_user_says_so(
    chronik_node: RunningNode, how: str, caplog: pytest.LogCaptureFixture
) -> None:
    here = chronik_node.bootstrap
    stays, goes = new_topic(here), new_topic(here)
    named = {"subscribe": f"{stays},{goes}", "assign": json.dumps({stays: [0], goes: [0]})}[how]
    said = options(here, startingOffsets="earliest", failOnDataLoss="false", **{how: named})
    stream, later = (TopicStreamReader(read_options(said, is_streaming=True)) for _ in range(2))
    begun = stream.initialOffset()
    delete_topic(here, goes)
    send(here, stays, simple(4))

    end = stream.latestOffset(begun, ReadAllAvailable())
    warned = len(caplog.records)
    again = stream.latestOffset(end, ReadAllAvailable())
    later.prepareForTriggerAvailableNow()

    assert values(stream, stream.partitions(begun, end)) == list(range(4))
    assert again == end
    assert len(caplog.records) == warned + 1, "once by each reader"
    assert stream.reportLatestOffset() is None
    assert later.latestOffset(begun, ReadAllAvailable()) == end
    with pytest.raises(NoSuchTopic, match="there is no topic"):
        TopicStreamReader(read_options(said, is_streaming=True)).initialOffset()


def test_a_log_that_was_cut_back_is_not_read_on_in_silence(chronik_node: RunningNode) -> None:
    topic = new_topic(chronik_node.bootstrap)
    send(chronik_node.bootstrap, topic, simple(10))
    short = {"startingOffsets": "earliest", "kafka.request.timeout.ms": "300"}
    strict = stream_reader(chronik_node.bootstrap, topic, **short)
    lenient = stream_reader(chronik_node.bootstrap, topic, failOnDataLoss="false", **short)
    read_to = strict.initialOffset()
    read_to[topic]["offsets"]["0"] = 50

    with pytest.raises(DataLoss, match="ends at offset 10, and was read up to 50 before"):
        strict.latestOffset(read_to, ReadAllAvailable())
    assert lenient.latestOffset(read_to, ReadAllAvailable()) == read_to


def test_a_stream_begins_where_it_first_said_though_more_comes_in(chronik_node: RunningNode) -> None:
    topic = new_topic(chronik_node.bootstrap)
    send(chronik_node.bootstrap, topic, simple(5))
    stream = stream_reader(chronik_node.bootstrap, topic)

    begun = stream.initialOffset()
    send(chronik_node.bootstrap, topic, simple(10, first=5))

    assert stream.initialOffset() == begun
    end = stream.latestOffset(begun, ReadMaxRows(4))
    assert ranges(stream.partitions(begun, end)) == [(0, 5, 9)]
    assert ranges(stream.partitions(end, stream.latestOffset(end, ReadAllAvailable()))) == [(0, 9, 15)]
    assert stream.partitions(end, end) == []


def test_the_first_micro_batch_run_again_begins_where_it_was_planned(chronik_node: RunningNode) -> None:
    here = chronik_node.bootstrap
    topic = new_topic(here)
    send(here, topic, simple(5))
    killed = stream_reader(here, topic)
    begun = killed.initialOffset()
    send(here, topic, simple(10, first=5))
    end = from_checkpoint(killed.latestOffset(begun, ReadAllAvailable()))
    send(here, topic, simple(3, first=15))

    again = stream_reader(here, topic)
    planned = ranges(again.partitions(again.initialOffset(), end))
    second = again.latestOffset(end, ReadAllAvailable())

    assert planned == ranges(killed.partitions(begun, end)) == [(0, 5, 15)]
    assert ranges(again.partitions(end, second)) == [(0, 15, 18)]
    assert second == {topic: {"id": begun[topic]["id"], "offsets": {"0": 18}}}


def test_a_stream_with_nothing_new_says_the_same_text(chronik_node: RunningNode) -> None:
    here = chronik_node.bootstrap
    topic = new_topic(here, 2)
    reader = stream_reader(here, topic, startingOffsets="earliest")
    texts = [json.dumps(reader.initialOffset())]

    for number in (0, 0, 3, 0, 3, 0):
        send(here, topic, simple(number))
        begun = json.loads(texts[-1])
        end = reader.latestOffset(begun, ReadAllAvailable())
        texts.append(json.dumps(end))
        assert sum(high - low for _, low, high in ranges(reader.partitions(begun, end))) == number

    assert [one == other for one, other in itertools.pairwise(texts)] == [True, True, False, True, False, True]


def test_a_topic_that_came_with_the_first_micro_batch_is_read_from_its_beginning(chronik_node: RunningNode) -> None:
    here = chronik_node.bootstrap
    killed = pattern_reader(here, "early-.*")
    begun = killed.initialOffset()
    topic = new_topic(here, name="early-1")
    send(here, topic, simple(10))
    end = from_checkpoint(killed.latestOffset(begun, ReadAllAvailable()))
    send(here, topic, simple(5))

    again = pattern_reader(here, "early-.*")

    assert begun == {}
    assert ranges(again.partitions(again.initialOffset(), end)) == [(0, 0, 10)]


def test_what_is_deleted_before_the_first_micro_batch_is_run_again_is_missed(chronik_node: RunningNode) -> None:
    here = chronik_node.bootstrap
    topic = new_topic(here)
    send(here, topic, simple(100))
    killed = stream_reader(here, topic, startingOffsets="earliest")
    end = from_checkpoint(killed.latestOffset(killed.initialOffset(), ReadAllAvailable()))
    delete_records(here, topic, 0, 40)
    strict = stream_reader(here, topic, startingOffsets="earliest")
    lenient = stream_reader(here, topic, startingOffsets="earliest", failOnDataLoss="false")

    with pytest.raises(DataLoss, match="offsets 0 to before 40 are gone"):
        values(strict, strict.partitions(strict.initialOffset(), end))
    assert values(lenient, lenient.partitions(lenient.initialOffset(), end)) == list(range(40, 100))


def test_a_first_micro_batch_of_an_older_checkpoint_is_not_skipped_in_silence(chronik_node: RunningNode) -> None:
    here = chronik_node.bootstrap
    topic = new_topic(here)
    send(here, topic, simple(10))
    strict, lenient = stream_reader(here, topic), stream_reader(here, topic, failOnDataLoss="false")
    end = {topic: {"id": strict.initialOffset()[topic]["id"], "offsets": {"0": 6}}}

    with pytest.raises(DataLoss, match="was to be read up to offset 6, from where is not known: now from 10"):
        strict.partitions(strict.initialOffset(), end)
    assert lenient.partitions(lenient.initialOffset(), end) == []


def from_checkpoint(offset: dict[str, Any]) -> Any:
    return json.loads(json.dumps(offset))


def test_available_now_means_what_was_there_then(chronik_node: RunningNode) -> None:
    topic = new_topic(chronik_node.bootstrap)
    send(chronik_node.bootstrap, topic, simple(5))
    stream = stream_reader(chronik_node.bootstrap, topic, startingOffsets="earliest")
    begun = stream.initialOffset()

    stream.prepareForTriggerAvailableNow()
    send(chronik_node.bootstrap, topic, simple(10, first=5))

    end = stream.latestOffset(begun, ReadAllAvailable())
    assert ranges(stream.partitions(begun, end)) == [(0, 0, 5)]
    assert stream.latestOffset(end, ReadAllAvailable()) == end


def test_a_new_partition_is_read_from_its_beginning(chronik_node: RunningNode) -> None:
    topic = new_topic(chronik_node.bootstrap)
    stream = stream_reader(chronik_node.bootstrap, topic)
    begun = stream.initialOffset()

    add_partitions(chronik_node.bootstrap, topic, 2)
    send(chronik_node.bootstrap, topic, simple(7, partition=1))

    end = stream.latestOffset(begun, ReadAllAvailable())
    assert ranges(stream.partitions(begun, end)) == [(1, 0, 7)]
    assert values(stream, stream.partitions(begun, end)) == list(range(7))


def test_a_reader_follows_the_leader(chronik_cluster_factory: Callable[..., RunningCluster]) -> None:
    cluster = chronik_cluster_factory(nodes=3)
    topic = new_topic(cluster.bootstrap)
    send(
        cluster.bootstrap,
        topic,
        [each._replace(value=b"%-2000d" % number) for number, each in enumerate(simple(2_000))],
    )
    reader = batch_reader(cluster.bootstrap, topic, **{"kafka.max.partition.fetch.bytes": "100000"})
    (planned,) = reader.partitions()

    batches = reader.read(planned)
    read = next(batches)["value"].to_pylist()
    leader = cluster.view(1).replicas[topic, 0][0]
    cluster.kill(leader)
    for batch in batches:
        read += batch["value"].to_pylist()

    assert [int(value) for value in read] == list(range(2_000))


def test_a_stream_that_has_planned_can_be_sent_to_tasks(chronik_node: RunningNode) -> None:
    topic = new_topic(chronik_node.bootstrap)
    send(chronik_node.bootstrap, topic, simple(3))
    reader = stream_reader(chronik_node.bootstrap, topic, startingOffsets="earliest")
    first = reader.initialOffset()
    planned = reader.partitions(first, reader.latestOffset(first, ReadAllAvailable()))

    sent = pickle.loads(pickle.dumps(reader))
    reader.stop()

    assert values(sent, planned) == [0, 1, 2]


def test_a_stream_plans_on_after_its_node_was_away(chronik_node_factory: Callable[..., RunningNode]) -> None:
    node = chronik_node_factory()
    topic = new_topic(node.bootstrap)
    reader = stream_reader(node.bootstrap, topic, startingOffsets="earliest")
    first = reader.initialOffset()
    node.restart()
    send(node.bootstrap, topic, simple(3))

    end = reader.latestOffset(first, ReadAllAvailable())

    assert values(reader, reader.partitions(first, end)) == [0, 1, 2]
