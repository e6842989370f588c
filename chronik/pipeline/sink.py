"""`df.write.format("chronik")` and `df.writeStream.format("chronik")`: rows to topics, no row ever lost.

Spark runs a task again when it failed, when it is slow (speculation) and when the driver died before it had noted a
micro-batch. What an earlier attempt wrote must not be written twice, and what it did not write must not be taken for
written. Idempotent producers tell the two apart (KIP-98): a leader drops a batch whose producer id and sequence it has
seen. Here the producer id follows from *what* is written:

    chunk         rows of a task in their order, cut where their bytes reach a fixed size: the cuts follow from the rows
                  alone, however Spark hands them over
    group         up to five batches of one partition in one chunk: as many as a leader remembers of a producer
    producer id   from the query, the micro-batch, the task, the chunk, the group, and a digest of the group's records
    sequence      the place within the group

So the same rows in the same order are recognised, and rows that differ (a shuffle may give a task its rows in another
order) have another producer id: they are written, at the cost of copies of those that an earlier attempt had written.

Where Spark's own input fails, a task sees the end of its rows and cannot tell it from the real one. So a task writes
whole chunks only. What is left behind the last cut goes to the driver, which writes it when all tasks have succeeded.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage

from chronik.core.types import NAMED_PRODUCER_IDS_FROM
from chronik.pipeline.brief import brief
from chronik.pipeline.topics.client import ReadPartition, TopicClient
from chronik.pipeline.topics.options import BadOption, WriteOptions

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

    from chronik.pipeline.columns.encode import Packed

BATCHES_REMEMBERED = 5  # by a leader, of each producer in each partition
CHUNK_BYTES = 2 * 1024 * 1024  # of rows that are written together; the driver gets less than this from each task
ROW_BYTES = 16  # that a row counts beside its key, value and headers: chunks of empty rows end too
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


@dataclass(frozen=True)
class WriteTask:
    """Whose rows these are: the same when a task is run again, and another for every other task."""

    writer_id: str
    task: int
    micro_batch: int

    def producer_id(self, chunk: int, partition: ReadPartition, group: int, digest: bytes) -> int:
        """Above all that a cluster gives out."""
        place = f"{self.writer_id}/{self.micro_batch}/{self.task}/{chunk}/{partition}/{group}/"
        named = int.from_bytes(hashlib.blake2b(place.encode() + digest, digest_size=8).digest(), "big")
        return NAMED_PRODUCER_IDS_FROM | (named & (NAMED_PRODUCER_IDS_FROM - 1))


@dataclass
class TaskWritten(WriterCommitMessage):  # type: ignore[misc, unused-ignore]
    """What a task has done: the rows it was given, and those of them that are left for the driver to write."""

    task: WriteTask
    rows: int
    chunks: int  # that the task has written itself
    tail: bytes | None  # an Arrow stream


def check_target(schema: StructType, options: WriteOptions, *, overwrite: bool) -> None:
    """Raises BadOption or Failed: better now than in a task, where Spark puts pages of its own around it."""
    if overwrite:
        raise BadOption('a topic cannot be overwritten: use mode("append")')
    _check_columns(schema, options)
    if options.topic is not None:
        with TopicClient(options.client) as cluster:
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

        return write_rows(iterator, self._options, WriteTask(self._writer_id, TaskContext.get().partitionId(), 0))

    @brief
    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        write_tails(messages, self._options)


class TopicStreamWriter(DataSourceStreamArrowWriter):
    """Writes micro-batches. Who writes is the query's id, which a checkpoint keeps over restarts."""

    def __init__(self, options: WriteOptions) -> None:
        self._options = options

    @brief
    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        return write_rows(iterator, self._options, stream_task())

    @brief
    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        write_tails(messages, self._options)


def stream_task() -> WriteTask:
    """Which task of which micro-batch of which query this is."""
    from pyspark import TaskContext

    context = TaskContext.get()
    query_id = context.getLocalProperty("sql.streaming.queryId")
    micro_batch = context.getLocalProperty("streaming.sql.batchId")
    if query_id is None or micro_batch is None:
        raise RuntimeError("Spark does not say which micro-batch of which query this is: it could be written twice")
    return WriteTask(query_id, context.partitionId(), int(micro_batch))


def write_rows(
    iterator: Iterator[pa.RecordBatch], options: WriteOptions, task: WriteTask, chunk_bytes: int = CHUNK_BYTES
) -> TaskWritten:
    """What a task does: all whole chunks, in order. Run again with the same rows, it writes what is missing."""
    rows = chunks = 0
    begin = time.monotonic()
    rate = options.rows_per_second
    cut = ChunkCutter(chunk_bytes, None if rate is None else max(rate // STEPS_A_SECOND, 1))
    with TopicClient(options.client) as cluster:
        for chunk in cut.chunks(iterator):
            _write_chunk(cluster, chunk, chunks, options, task)
            rows, chunks = rows + chunk.num_rows, chunks + 1
            if rate is not None:
                time.sleep(max(begin + rows / rate - time.monotonic(), 0))
    return TaskWritten(task, rows + cut.left_rows, chunks, cut.tail())


def write_tails(messages: Iterable[WriterCommitMessage | None], options: WriteOptions) -> None:
    """What the driver does when all tasks have succeeded: the rows behind the last whole chunk of each."""
    import pyarrow as pa

    with TopicClient(options.client) as cluster:
        for written in messages:
            if isinstance(written, TaskWritten) and written.tail is not None:
                rows = pa.ipc.open_stream(written.tail).read_all()
                _write_chunk(cluster, rows, written.chunks, options, written.task)


def _write_chunk(cluster: TopicClient, rows: pa.Table, number: int, options: WriteOptions, task: WriteTask) -> None:
    packed = packed_rows(rows, cluster, options, without_key=task.task + number)
    is_timed = "timestamp" in rows.column_names
    ready = {
        partition: _numbered(batches, task, number, partition, options.batch_bytes, is_timed)
        for partition, batches in packed.items()
    }
    # A request has one batch of each partition: they arrive in order.
    for turn in range(max(map(len, ready.values()), default=0)):
        for request in requests_of({part: batches[turn] for part, batches in ready.items() if turn < len(batches)}):
            cluster.produce(request)


def _numbered(
    batches: list[Packed], task: WriteTask, chunk: int, partition: ReadPartition, batch_bytes: int, is_timed: bool
) -> list[bytes]:
    """Batches of one partition with producer ids and sequences. Where they are cut follows from `batch_bytes` too."""
    from chronik.pipeline.columns.encode import Numbered

    numbered: list[bytes] = []
    for first in range(0, len(batches), BATCHES_REMEMBERED):
        group = batches[first : first + BATCHES_REMEMBERED]
        digest = hashlib.blake2b(batch_bytes.to_bytes(8, "big"), digest_size=32)
        for batch in group:
            # Rows without a time get that of the attempt: the same rows must have the same digest all the same.
            digest.update(f"{batch.count}/{batch.compression}/{batch.base_ms if is_timed else ''}/".encode())
            digest.update(batch.body)
        producer_id = task.producer_id(chunk, partition, first, digest.digest())
        sequence = 0
        for batch in group:
            numbered.append(batch.batch(Numbered(producer_id, 0, sequence)))
            sequence += batch.count
    return numbered


class ChunkCutter:
    """Cuts rows into chunks by what is in them: after the row that brings a chunk to `chunk_bytes` or `rows_max`."""

    def __init__(self, chunk_bytes: int, rows_max: int | None = None) -> None:
        self._chunk_bytes = chunk_bytes
        self._rows_max = rows_max
        self._held: list[pa.RecordBatch] = []
        self._held_bytes = 0
        self.left_rows = 0  # behind the last cut

    def chunks(self, iterator: Iterator[pa.RecordBatch]) -> Iterator[pa.Table]:
        """Whole chunks; the rest is the tail."""
        import pyarrow as pa

        for batch in iterator:
            rest = batch
            while (count := self._room(rest)) is not None:
                self._hold(rest.slice(0, count))
                yield pa.Table.from_batches(self._held)
                self._held, self._held_bytes, self.left_rows = [], 0, 0
                rest = rest.slice(count)
            self._hold(rest)

    def _hold(self, rows: pa.RecordBatch) -> None:
        if rows.num_rows:
            self._held.append(rows)
            self._held_bytes += int(row_bytes(rows).sum())
            self.left_rows += rows.num_rows

    def _room(self, rows: pa.RecordBatch) -> int | None:
        """How many of these rows fill the chunk; None when all of them do not."""
        import numpy as np

        sums = self._held_bytes + np.cumsum(row_bytes(rows))
        by_bytes = int(np.searchsorted(sums, self._chunk_bytes)) + 1
        by_rows = by_bytes if self._rows_max is None else self._rows_max - self.left_rows
        count = min(by_bytes, by_rows)
        return count if count <= rows.num_rows else None

    def tail(self) -> bytes | None:
        """The rows behind the last cut, as an Arrow stream."""
        import pyarrow as pa

        if not self._held:
            return None
        out = pa.BufferOutputStream()
        options = pa.ipc.IpcWriteOptions(compression="lz4")
        with pa.ipc.new_stream(out, self._held[0].schema, options=options) as stream:
            for batch in self._held:
                stream.write_batch(batch)
        return bytes(out.getvalue())


def row_bytes(rows: pa.RecordBatch) -> Any:
    """What each row counts, by its key, value and headers."""
    import numpy as np
    import pyarrow.compute as pc

    sizes = np.full(rows.num_rows, ROW_BYTES, np.int64)
    for name in ("key", "value"):
        if name in rows.schema.names:
            sizes += pc.fill_null(pc.binary_length(rows.column(name)), 0).to_numpy(zero_copy_only=False)
    if "headers" in rows.schema.names:
        headers = rows.column("headers")
        flat = headers.flatten()
        lengths = [pc.fill_null(pc.binary_length(flat.field(field)), 0).to_numpy(False) for field in (0, 1)]
        ends = np.cumsum(pc.fill_null(pc.list_value_length(headers), 0).to_numpy(False)).astype(np.int64)
        sums = np.concatenate(([0], np.cumsum(lengths[0].astype(np.int64) + lengths[1] + ROW_BYTES)))
        sizes += np.diff(sums[np.concatenate(([0], ends))])
    return sizes


def packed_rows(
    table: pa.Table, cluster: TopicClient, options: WriteOptions, without_key: int
) -> dict[ReadPartition, list[Packed]]:
    """Rows as batches, by partition and in their order."""
    import numpy as np

    from chronik.pipeline.columns.encode import choose_partitions, columns_of, pack_rows

    rows = columns_of(table, int(time.time() * 1000))
    packed: dict[ReadPartition, list[Packed]] = {}
    for topic, members in _by_topic(table, options.topic):
        count = len(cluster.known(topic).leaders)
        chosen = choose_partitions(rows, table, members, count, without_key % count)
        order = members[np.argsort(chosen[members], kind="stable")]
        for run in np.split(order, np.flatnonzero(np.diff(chosen[order])) + 1):
            batches = pack_rows(rows, run, options.batch_bytes, options.compression)
            packed[ReadPartition(topic, int(chosen[run[0]]))] = list(batches)
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


def requests_of(batches: dict[ReadPartition, bytes]) -> Iterator[dict[ReadPartition, bytes]]:
    request: dict[ReadPartition, bytes] = {}
    size = 0
    for partition, batch in batches.items():
        if request and size + len(batch) > REQUEST_BYTES:
            yield request
            request, size = {}, 0
        request[partition] = batch
        size += len(batch)
    if request:
        yield request
