"""`spark.read.format("chronik")` and `spark.readStream.format("chronik")`: topics as DataFrames.

    spark.dataSource.register(ChronikDataSource)
    spark.read.format("chronik").option("kafka.bootstrap.servers", "...").option("subscribe", "orders").load()

Columns and options are those of Spark's Kafka connector. Readers are plain objects that Spark sends between processes:
planning runs on the driver, `read` in the tasks. A stream's planning keeps its connections from one micro-batch to the
next. Spark starts a Python process for it with each query, so what it does not need is not imported here.
"""

from __future__ import annotations

import math
import time
import uuid
from collections.abc import Iterator, Mapping, MutableMapping, Sequence
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceReader,
    DataSourceStreamArrowWriter,
    DataSourceStreamReader,
    InputPartition,
)
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from chronik.pipeline.brief import brief, briefly
from chronik.pipeline.topics.client import NoSuchTopic, ReadPartition, TopicClient, TopicSeen
from chronik.pipeline.topics.options import BATCHES, EARLIEST, LATEST, READ, ReadOptions, read_options, write_options
from chronik.pipeline.topics.places import data_loss, ending_offsets, find_topics, partitions_of, starting_offsets
from chronik.pipeline.topics.plan import OffsetRange, ReadOffsets, rate_limited, split
from chronik.pipeline.topics.reading import read_range

if TYPE_CHECKING:
    import pyarrow as pa

SETTLE_S = 10.0
SETTLE_PAUSE_S = 0.2
COLUMNS = [
    StructField("key", BinaryType()),
    StructField("value", BinaryType()),
    StructField("topic", StringType()),
    StructField("partition", IntegerType()),
    StructField("offset", LongType()),
    StructField("timestamp", TimestampType()),
    StructField("timestampType", IntegerType()),
]
HEADERS = StructField(
    "headers", ArrayType(StructType([StructField("key", StringType()), StructField("value", BinaryType())]))
)


class ChronikDataSource(DataSource):
    """The format `chronik`."""

    def __init__(self, options: MutableMapping[str, str]) -> None:
        super().__init__(options)
        self._given = dict(options)

    @classmethod
    def name(cls) -> str:
        return "chronik"

    def schema(self) -> StructType:
        given = {name.lower(): value.lower() for name, value in self._given.items()}
        if given.get(READ) == BATCHES:
            from chronik.pipeline import schemas

            return schemas.BATCHES
        return StructType([*COLUMNS, HEADERS] if given.get("includeheaders") == "true" else COLUMNS)

    @brief
    def reader(self, schema: StructType) -> DataSourceReader:
        return TopicReader(read_options(self._given, is_streaming=False))

    @brief
    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        return TopicStreamReader(read_options(self._given, is_streaming=True))

    @brief
    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:
        from chronik.pipeline.sink import TopicWriter, check_target

        options = write_options(self._given)
        check_target(schema, options, overwrite=overwrite)
        writer_id = options.writer_id or str(uuid.uuid4())
        if options.is_exactly_once:
            from chronik.pipeline.exactly_once import ExactlyOnceWriter

            return ExactlyOnceWriter(options, writer_id)
        return TopicWriter(options, writer_id)

    @brief
    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamArrowWriter:
        from chronik.pipeline.sink import TopicStreamWriter, check_target

        options = write_options(self._given)
        check_target(schema, options, overwrite=overwrite)
        if options.is_exactly_once:
            from chronik.pipeline.exactly_once import ExactlyOnceStreamWriter

            return ExactlyOnceStreamWriter(options)
        return TopicStreamWriter(options)


class RangePartition(InputPartition):
    """A range of offsets as Spark's unit of work."""

    def __init__(self, wanted: OffsetRange) -> None:
        super().__init__(wanted)
        self.wanted = wanted


class TopicReader(DataSourceReader):
    """Reads once, from where to where was decided when it was planned."""

    def __init__(self, options: ReadOptions) -> None:
        self._options = options

    @brief
    def partitions(self) -> Sequence[InputPartition]:
        options = self._options
        with TopicClient(options.client) as cluster:
            topics = find_topics(cluster, options.topics)
            partitions = partitions_of(topics, options.topics)
            starting = starting_offsets(cluster, partitions, options)
            ending = ending_offsets(cluster, partitions, options)
        ranges = [
            OffsetRange(each, topics[each.topic].topic_id, starting[each], max(ending[each], starting[each]))
            for each in partitions
        ]
        return [RangePartition(each) for each in split(ranges, options.min_partitions)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        if not isinstance(partition, RangePartition):
            return iter(())  # Spark's own, which it makes where there is nothing to read
        return briefly(read_range(partition.wanted, self._options))


class TopicStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads on and on. What was read is kept by Spark, as `ReadOffsets`, in the query's checkpoint."""

    def __init__(self, options: ReadOptions) -> None:
        self._options = options
        self._initial: dict[str, Any] | None = None
        self._target: ReadOffsets | None = None  # with Trigger.AvailableNow: where it ends
        self._cluster: TopicClient | None = None
        self._warned: set[str] = set()  # of what is lost
        self._triggered_at = -math.inf  # when the last micro-batch was planned, by this process's clock

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_cluster": None}  # connections stay in the process that made them

    def stop(self) -> None:
        if self._cluster is not None:
            self._cluster.close()

    @brief
    def initialOffset(self) -> dict[str, Any]:
        # Spark asks twice, and 'latest' may have moved in between: records would be skipped.
        if self._initial is None:
            cluster = self._connected()
            topics = find_topics(cluster, self._options.topics)
            partitions = partitions_of(topics, self._options.topics)
            found = starting_offsets(cluster, partitions, self._options)
            self._initial = ReadOffsets(found, _ids(topics), found).to_json()
        return self._initial

    def getDefaultReadLimit(self) -> ReadLimit:
        rows_max = self._options.max_offsets_per_trigger
        return ReadAllAvailable() if rows_max is None else ReadMaxRows(rows_max)

    @brief
    def prepareForTriggerAvailableNow(self) -> None:
        # Strict, it is like a misspelt name: there is no start to speak of yet.
        self._target = self._latest(may_miss=not self._options.fails_on_data_loss)

    @brief
    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        begun = ReadOffsets.from_json(start)
        latest = self._target or self._settled(begun)
        self._check_same_topics(begun, latest.topic_ids)
        ends = self._ends(begun, latest)
        begins = self._begin(begun, ends)
        if self._target is None and self._may_wait(begins, ends):
            return start
        if isinstance(limit, ReadMaxRows):
            ends = rate_limited(begins, ends, limit.max_rows)
        first: Mapping[ReadPartition, int] = begins if begun.is_first else {}
        if ends == begun.by_partition:
            first = begun.first  # Spark compares texts: where nothing is new it must be the same one
        known = {topic: topic_id for topic, topic_id in begun.topic_ids.items() if topic_id is not None}
        return ReadOffsets(ends, {**latest.topic_ids, **known}, first).to_json()

    def _may_wait(self, begins: Mapping[ReadPartition, int], ends: Mapping[ReadPartition, int]) -> bool:
        """Whether there is too little for a micro-batch, and the last one was not too long ago."""
        least = self._options.min_offsets_per_trigger
        new = sum(offset - begins[each] for each, offset in ends.items())
        if least is None or new == 0:
            return False
        now = time.monotonic()
        if new < least and now - self._triggered_at < self._options.max_trigger_delay_s:
            return True
        self._triggered_at = now
        return False

    @brief
    def reportLatestOffset(self) -> dict[str, Any] | None:
        try:
            return (self._target or self._latest(may_miss=False)).to_json()
        except NoSuchTopic:  # only for the query's progress: whether it may go on is said by `latestOffset`
            return None

    @brief
    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        begun, ends = ReadOffsets.from_json(start), ReadOffsets.from_json(end)
        begins = ends.first if begun.is_first and ends.first else self._begin(begun, ends.by_partition)
        for each, offset in ends.by_partition.items():
            if begins[each] > offset:  # planned before `first` was kept, run again now
                self._lose(
                    f"{each} was to be read up to offset {offset}, from where is not known: now from {begins[each]}"
                )
        ranges = [
            OffsetRange(each, ends.topic_ids.get(each.topic), begins[each], max(offset, begins[each]))
            for each, offset in ends.by_partition.items()
        ]
        return [RangePartition(each) for each in split(ranges, self._options.min_partitions)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, RangePartition)
        return briefly(read_range(partition.wanted, self._options))

    def _settled(self, begun: ReadOffsets) -> ReadOffsets:
        """The end of every partition, not before where the stream is.

        A new leader may know less for a moment. If it stays so, the log was cut back: records that are written there
        later would have offsets that are taken for read.
        """
        deadline = time.monotonic() + min(SETTLE_S, self._options.client.timeout_ms / 1000)
        while True:
            latest = self._latest(may_miss=True)
            self._check_same_topics(begun, latest.topic_ids)
            now = latest.by_partition
            behind = [each for each, offset in begun.by_partition.items() if now.get(each, offset) < offset]
            if not behind or time.monotonic() > deadline:
                break
            time.sleep(SETTLE_PAUSE_S)
        for each in behind:
            data_loss(
                self._options,
                f"{each} ends at offset {now[each]}, and was read up to {begun.by_partition[each]} before",
            )
        return latest

    def _latest(self, *, may_miss: bool) -> ReadOffsets:
        """The end of every partition there is now, of topics that may have come or gone since. Raises NoSuchTopic."""
        cluster = self._connected()
        try:
            topics = find_topics(cluster, self._options.topics)
        except NoSuchTopic as problem:
            if not may_miss:
                raise
            self._lose(str(problem))
            topics = cluster.topics(self._options.topics.names or tuple(self._options.topics.assigned or ()))
        partitions = partitions_of(topics, self._options.topics)
        return ReadOffsets(cluster.offsets(dict.fromkeys(partitions, LATEST)), _ids(topics))

    def _ends(self, begun: ReadOffsets, latest: ReadOffsets) -> dict[ReadPartition, int]:
        """Where to read to, not before where the stream is.

        A partition that is not there stays where it was: forgotten, it would be read from its beginning when it is
        back, and a topic created again could not be distinguished from it.
        """
        ends = {each: max(offset, begun.by_partition.get(each, 0)) for each, offset in latest.by_partition.items()}
        for each, offset in begun.by_partition.items():
            if each not in ends:
                self._lose(f"{each} is not there any more, and was read up to offset {offset}")
                ends[each] = offset
        return ends

    def _lose(self, words: str) -> None:
        """Raises DataLoss, or says so once: it stays true with every micro-batch."""
        if words not in self._warned:
            data_loss(self._options, words)
            self._warned.add(words)

    def _begin(self, begun: ReadOffsets, ends: Mapping[ReadPartition, int]) -> dict[ReadPartition, int]:
        """Where to begin in each partition. One that is new is read from its beginning, which was offset 0."""
        new = [each for each in ends if each not in begun.by_partition]
        if not new:
            return {each: begun.by_partition[each] for each in ends}
        earliest = self._connected().offsets(dict.fromkeys(new, EARLIEST))
        for each, offset in earliest.items():
            if offset > 0:
                self._lose(f"{each} is new, and begins at offset {offset} already")
        return {each: begun.by_partition.get(each, earliest.get(each, 0)) for each in ends}

    def _check_same_topics(self, begun: ReadOffsets, now: Mapping[str, uuid.UUID | None]) -> None:
        for topic, topic_id in begun.topic_ids.items():
            if topic_id is not None and now.get(topic) not in (None, topic_id):
                self._connected().check_id(topic, topic_id)  # says so

    def _connected(self) -> TopicClient:
        if self._cluster is None:
            self._cluster = TopicClient(self._options.client)
        return self._cluster


def _ids(topics: Mapping[str, TopicSeen]) -> dict[str, uuid.UUID | None]:
    return {name: topic.topic_id for name, topic in topics.items()}
