"""`df.write.format("chronik")` and `df.writeStream.format("chronik")`: rows to topics, each micro-batch once.

How a retried task or micro-batch is kept from writing twice: every batch of records carries a producer id, an epoch and
a sequence number, and a leader drops a batch whose numbers it has seen (KIP-98). Here the numbers follow from what is
being written, and not from who writes it:

    producer id   from the query, the task, and the group of batches within the task (a leader remembers five batches)
    epoch         from the number of the micro-batch, which also shuts out a task of an earlier one that still lives
    sequence      from the place within the group

So a task that runs again must be given the same rows in the same order, as Spark does for a query without a shuffle of
undefined order. A leader forgets a producer after a day (`producer.id.expiration.ms`).
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage

from chronik.pipeline.brief import brief
from chronik.pipeline.topics.client import Cluster, Partition
from chronik.pipeline.topics.options import BadOption, WriteOptions

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

    from chronik.pipeline.columns.encode import Numbered, Packed

BATCHES_REMEMBERED = 5  # by a leader, of each producer in each partition
EPOCHS = 1 << 15
CHUNK_BYTES = 8 * 1024 * 1024  # of rows that are turned into batches together
REQUEST_BYTES = 16 * 1024 * 1024
STEPS_A_SECOND = 10  # in which a rate is kept
_BYTES = ("binary", "string")
_TYPES = {
    "key": _BYTES,
    "value": _BYTES,
    "topic": ("string",),
    "partition": ("integer", "short", "byte"),
    "timestamp": ("timestamp",),
    "headers": ("array",),
}


@dataclass
class Written(WriterCommitMessage):  # type: ignore[misc, unused-ignore]
    """What a task has written."""

    rows: int


def check_target(schema: StructType, options: WriteOptions, *, overwrite: bool) -> None:
    """Raises BadOption or Failed: better now than in a task, where Spark puts pages of its own around it."""
    if overwrite:
        raise BadOption('a topic cannot be overwritten: use mode("append")')
    _check_columns(schema, options)
    if options.topic is not None:
        with Cluster(options.client) as cluster:
            cluster.topic(options.topic)


def _check_columns(schema: StructType, options: WriteOptions) -> None:
    kinds = {column.name: column.dataType.typeName() for column in schema.fields}
    if "value" not in kinds:
        raise BadOption(f"there is no column 'value' among {', '.join(sorted(kinds)) or 'none'}")
    if options.topic is None and "topic" not in kinds:
        raise BadOption("which topic? Give the option 'topic', or a column of that name")
    for name, allowed in _TYPES.items():
        if name in kinds and kinds[name] not in allowed:
            raise BadOption(f"column {name!r} is of type {kinds[name]}; it must be {' or '.join(allowed)}")


class TopicWriter(DataSourceArrowWriter):
    """Writes once. `writer_id` is the same in all its tasks and their retries."""

    def __init__(self, options: WriteOptions, writer_id: str) -> None:
        self._options = options
        self._writer_id = writer_id

    @brief
    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        from pyspark import TaskContext

        return write_rows(iterator, self._options, Numbers(self._writer_id, TaskContext.get().partitionId(), 0))


class TopicStreamWriter(DataSourceStreamArrowWriter):
    """Writes micro-batches. Who writes is the query's id, which a checkpoint keeps over restarts."""

    def __init__(self, options: WriteOptions) -> None:
        self._options = options

    @brief
    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        from pyspark import TaskContext

        context = TaskContext.get()
        query_id = context.getLocalProperty("sql.streaming.queryId")
        micro_batch = context.getLocalProperty("streaming.sql.batchId")
        if query_id is None or micro_batch is None:
            raise RuntimeError("Spark does not say which micro-batch of which query this is: it could be written twice")
        return write_rows(iterator, self._options, Numbers(query_id, context.partitionId(), int(micro_batch)))


@dataclass
class Numbers:
    """The producer ids and sequences of one task, one line of them for each partition."""

    writer_id: str
    task: int
    micro_batch: int
    _written: dict[Partition, tuple[int, int]] = field(default_factory=dict)
    """How many batches, and how many records of the group that is being written."""

    def take(self, partition: Partition, count: int) -> Numbered:
        """The numbers of the next batch, of `count` records, in this partition."""
        from chronik.pipeline.columns.encode import Numbered

        batches, sequence = self._written.get(partition, (0, 0))
        group, place = divmod(batches, BATCHES_REMEMBERED)
        base_sequence = 0 if place == 0 else sequence
        self._written[partition] = (batches + 1, base_sequence + count)
        return Numbered(self._producer_id(group), self.micro_batch % EPOCHS, base_sequence)

    def _producer_id(self, group: int) -> int:
        """In the upper half of the numbers: a cluster gives out its own from 0 on."""
        named = f"{self.writer_id}/{self.task}/{group}/{self.micro_batch // EPOCHS}"
        digest = int.from_bytes(hashlib.sha256(named.encode()).digest()[:8], "big")
        return (1 << 62) | (digest & ((1 << 62) - 1))


def write_rows(iterator: Iterator[pa.RecordBatch], options: WriteOptions, numbers: Numbers) -> Written:
    """What a task does: all rows, in order. Run again with the same rows and numbers, it writes what is missing."""
    rows = 0
    begin = time.monotonic()
    rate = options.rows_per_second
    with Cluster(options.client) as cluster:
        for number, table in enumerate(_chunks(iterator, None if rate is None else max(rate // STEPS_A_SECOND, 1))):
            packed = _packed(table, cluster, options, without_key=numbers.task + number)
            while any(packed.values()):
                # A request has one batch of each partition: they arrive in order.
                turn = {partition: batches.pop(0) for partition, batches in packed.items() if batches}
                ready = {
                    partition: batch.batch(numbers.take(partition, batch.count)) for partition, batch in turn.items()
                }
                for request in _requests(ready):
                    cluster.produce(request)
            rows += table.num_rows
            if rate is not None:
                time.sleep(max(begin + rows / rate - time.monotonic(), 0))
    return Written(rows)


def _chunks(iterator: Iterator[pa.RecordBatch], rows_max: int | None = None) -> Iterator[pa.Table]:
    """Rows that are turned into batches together: as many bytes as are worth it, or as many rows as are due."""
    import pyarrow as pa

    if rows_max is not None:
        for batch in iterator:
            for first in range(0, batch.num_rows, rows_max):
                yield pa.Table.from_batches([batch.slice(first, rows_max)])
        return
    collected: list[pa.RecordBatch] = []
    for batch in iterator:
        collected.append(batch)
        if sum(each.nbytes for each in collected) >= CHUNK_BYTES:
            yield pa.Table.from_batches(collected)
            collected = []
    if any(each.num_rows for each in collected):
        yield pa.Table.from_batches(collected)


def _packed(
    table: pa.Table, cluster: Cluster, options: WriteOptions, without_key: int
) -> dict[Partition, list[Packed]]:
    import numpy as np

    from chronik.pipeline.columns.encode import choose_partitions, columns_of, pack_rows

    rows = columns_of(table, int(time.time() * 1000))
    packed: dict[Partition, list[Packed]] = {}
    for topic, members in _by_topic(table, options.topic):
        count = len(cluster.known(topic).leaders)
        chosen = choose_partitions(rows, table, members, count, without_key % count)
        order = members[np.argsort(chosen[members], kind="stable")]
        for run in np.split(order, np.flatnonzero(np.diff(chosen[order])) + 1):
            batches = pack_rows(rows, run, options.batch_bytes, options.compression)
            packed[Partition(topic, int(chosen[run[0]]))] = list(batches)
    return packed


def _by_topic(table: pa.Table, topic: str | None) -> Iterator[tuple[str, Any]]:
    """The rows of each topic. The option stands above the column."""
    import numpy as np
    import pyarrow.compute as pc

    from chronik.pipeline.columns.encode import BadRow

    if topic is not None:
        yield topic, np.arange(table.num_rows)
        return
    names = table.column("topic")
    if names.null_count:
        raise BadRow("a row without a topic")
    for name in sorted(names.unique().to_pylist()):
        yield name, np.flatnonzero(pc.equal(names, name).to_numpy())


def _requests(batches: dict[Partition, bytes]) -> Iterator[dict[Partition, bytes]]:
    request: dict[Partition, bytes] = {}
    size = 0
    for partition, batch in batches.items():
        if request and size + len(batch) > REQUEST_BYTES:
            yield request
            request, size = {}, 0
        request[partition] = batch
        size += len(batch)
    if request:
        yield request
