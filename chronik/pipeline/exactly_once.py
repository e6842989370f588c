"""`exactlyOnce=true`: a micro-batch or a batch job is one transaction, visible to read_committed whole or not at all.

Tasks write nothing: they pack their rows into record batches, and hand those to the driver. When every task has
succeeded the driver writes them all in one transaction, under an id that follows from the query (or the job's
`writerId`), and notes the number of the micro-batch as an offset in the same transaction. What a restart does follows
from what it finds (docs/decisions/0045):

    killed before the transaction ended     InitProducerId fences the old driver and aborts it; the batch is written
    killed after it was committed           the note says that this batch is there: nothing is written
    the end of it is not known              InitProducerId waits for it, and then it is one of the two above

A task that is killed, runs twice or is slow has written nothing. A driver that was taken for dead is fenced: neither
its batches nor its end are taken.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage

from chronik.pipeline.brief import brief
from chronik.pipeline.sink import CHUNK_BYTES, ChunkCutter, WriteTask, packed_rows, requests_of, stream_task
from chronik.pipeline.topics.client import Failed, ReadPartition, TopicClient
from chronik.pipeline.topics.transactions import WriterTransaction

if TYPE_CHECKING:
    import pyarrow as pa

    from chronik.pipeline.columns.encode import Packed
    from chronik.pipeline.topics.options import WriteOptions

NAME = "chronik-exactly-once-"


@dataclass
class TaskPacked(WriterCommitMessage):  # type: ignore[misc, unused-ignore]
    """The rows of a task as batches, in their order."""

    task: WriteTask
    rows: int
    batches: list[tuple[ReadPartition, Packed]]


class OneTransaction(Protocol):
    """As topics.transactions has it."""

    @property
    def producer_id(self) -> int: ...

    @property
    def producer_epoch(self) -> int: ...

    def begin(self) -> None: ...

    def committed(self) -> int: ...

    def add(self, partitions: Iterable[ReadPartition]) -> None: ...

    def produce(self, batches: Mapping[ReadPartition, bytes]) -> None: ...

    def note(self, number: int, topic: str) -> None: ...

    def end(self, *, is_commit: bool) -> None: ...


class ExactlyOnceWriter(DataSourceArrowWriter):
    """Writes once. With the same `writerId` again nothing is written; one that has none is never met again."""

    def __init__(self, options: WriteOptions, writer_id: str) -> None:
        self._options = options
        self._writer_id = writer_id
        self._number = None if options.writer_id is None else 0

    @brief
    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        from pyspark import TaskContext

        return pack_task(iterator, self._options, WriteTask(self._writer_id, TaskContext.get().partitionId(), 0))

    @brief
    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        commit_batch(messages, self._options, self._number)


class ExactlyOnceStreamWriter(DataSourceStreamArrowWriter):
    """Writes micro-batches. Who writes is the query's id, which a checkpoint keeps over restarts."""

    def __init__(self, options: WriteOptions) -> None:
        self._options = options

    @brief
    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        return pack_task(iterator, self._options, stream_task())

    @brief
    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        commit_batch(messages, self._options, batchId)


def pack_task(
    iterator: Iterator[pa.RecordBatch], options: WriteOptions, task: WriteTask, chunk_bytes: int = CHUNK_BYTES
) -> TaskPacked:
    """What a task does. Spark takes its answer only when its rows came to their real end."""
    import pyarrow as pa

    batches: list[tuple[ReadPartition, Packed]] = []
    rows = number = 0
    cut = ChunkCutter(chunk_bytes)
    with TopicClient(options.client) as cluster:

        def pack(chunk: pa.Table) -> None:
            nonlocal rows, number
            found = packed_rows(chunk, cluster, options, without_key=task.task + number)
            batches.extend((partition, each) for partition, own in found.items() for each in own)
            rows, number = rows + chunk.num_rows, number + 1

        for chunk in cut.chunks(iterator):
            pack(chunk)
        tail = cut.tail()
        if tail is not None:
            pack(pa.ipc.open_stream(tail).read_all())
    return TaskPacked(task, rows, batches)


def commit_batch(messages: Iterable[WriterCommitMessage | None], options: WriteOptions, number: int | None) -> bool:
    """What the driver does when all tasks have succeeded. Whether anything was written: not what is there already.
    Without a number it is not asked what is there, and nothing is noted."""
    packed = sorted(
        (each for each in messages if isinstance(each, TaskPacked) and each.batches), key=lambda each: each.task.task
    )
    if not packed:
        return False
    name = NAME + packed[0].task.writer_id
    with TopicClient(options.client) as cluster:
        transaction = WriterTransaction(cluster, name, options.transaction_timeout_ms)
        return commit_once(transaction, [batch for each in packed for batch in each.batches], number)


def commit_once(
    transaction: OneTransaction, batches: Sequence[tuple[ReadPartition, Packed]], number: int | None
) -> bool:
    """All of these batches and the number, in one transaction; nothing where the number is committed already."""
    transaction.begin()
    if number is not None and transaction.committed() > number:
        return False
    try:
        transaction.add({partition for partition, _ in batches})
        for request in _numbered_requests(transaction, batches):
            transaction.produce(request)
        if number is not None:
            transaction.note(number + 1, min(partition.topic for partition, _ in batches))
    except Exception as problem:
        _give_up(transaction, problem)
        raise
    # From here on nothing is taken back: an answer that is lost may stand for a commit.
    transaction.end(is_commit=True)
    return True


def _give_up(transaction: OneTransaction, problem: Exception) -> None:
    """So that readers need not wait for its timeout. Where this fails too, the next driver or the timeout does it."""
    try:
        transaction.end(is_commit=False)
    except Failed as second:
        problem.add_note(f"it could not be aborted either, and is so by its timeout: {second}")


def _numbered_requests(
    transaction: OneTransaction, batches: Sequence[tuple[ReadPartition, Packed]]
) -> Iterator[dict[ReadPartition, bytes]]:
    """A request has one batch of each partition: they arrive in order. Sequences begin with 0: the epoch is new."""
    from chronik.pipeline.columns.encode import Numbered

    ready: dict[ReadPartition, list[Packed]] = {}
    for partition, batch in batches:
        ready.setdefault(partition, []).append(batch)
    sequences = dict.fromkeys(ready, 0)
    for turn in range(max(map(len, ready.values()))):
        made: dict[ReadPartition, bytes] = {}
        for partition, own in ready.items():
            if turn < len(own):
                who = transaction.producer_id, transaction.producer_epoch
                made[partition] = own[turn].batch(Numbered(*who, sequences[partition], is_transactional=True))
                sequences[partition] += own[turn].count
        yield from requests_of(made)
