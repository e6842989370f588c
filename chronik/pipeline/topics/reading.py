"""One range of one partition, from its leader to Arrow batches: what a Spark task does."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

from chronik.core.errors import Corrupt
from chronik.pipeline.topics.client import RETRY_PAUSE_S, Failed, FetchFrom, OutOfRange, TopicClient
from chronik.pipeline.topics.options import EARLIEST, LATEST, ReadOptions
from chronik.pipeline.topics.places import data_loss
from chronik.pipeline.topics.plan import OffsetRange

if TYPE_CHECKING:
    import pyarrow as pa


def read_range(wanted: OffsetRange, options: ReadOptions) -> Iterator[pa.RecordBatch]:
    """The records of this range in order, or its batches.

    While one answer is decoded, the leader prepares the next.
    """
    from chronik.pipeline.columns.batches import batch_rows
    from chronik.pipeline.columns.decode import Aborted, WantedRows, decode, read_batches

    partition, end_offset = wanted.partition, wanted.end_offset
    with TopicClient(options.client) as cluster:
        cluster.check_id(partition.topic, wanted.topic_id)
        position = wanted.start_offset
        receive = cluster.ask_for_records(FetchFrom(partition, wanted.topic_id, position))
        patience = _Patience(options)
        while position < end_offset:
            try:
                fetched = receive()
            except OutOfRange as problem:
                before, position = position, _after_loss(cluster, wanted, position, options)
                if position == before:
                    patience.pause(str(problem))
                receive = cluster.ask_for_records(FetchFrom(partition, wanted.topic_id, position))
                continue
            batches = read_batches(fetched.records)
            if not len(batches):
                patience.check(f"{partition} gives nothing from offset {position} on, and should up to {end_offset}")
                receive = cluster.ask_for_records(FetchFrom(partition, wanted.topic_id, position))
                continue
            if batches.next_offset <= position:
                raise Corrupt(str(partition), f"asked for offset {position}, its leader gave what is before it")
            patience.renew()
            # From `position` on: a batch is whole, and may begin with records that were read or deleted before.
            columns = WantedRows(partition.topic, partition.number, position, end_offset, options.has_headers)
            position = batches.next_offset
            if position < end_offset:
                receive = cluster.ask_for_records(FetchFrom(partition, wanted.topic_id, position))
            if options.is_by_batch:
                yield from batch_rows(batches, columns)
            else:
                yield from decode(batches, columns, [Aborted(*each) for each in fetched.aborted])


def _after_loss(cluster: TopicClient, wanted: OffsetRange, position: int, options: ReadOptions) -> int:
    """Where to read on when `position` is not in the log; at the end of the range if nothing of it is left."""
    cluster.check_id(wanted.partition.topic, wanted.topic_id)
    log_start = cluster.offsets({wanted.partition: EARLIEST})[wanted.partition]
    if log_start <= position < cluster.offsets({wanted.partition: LATEST})[wanted.partition]:
        return position  # it is there: the node that said otherwise knew less, and the caller asks again
    if log_start > position:
        lost_to = min(log_start, wanted.end_offset)
        data_loss(options, f"{wanted.partition}: offsets {position} to before {lost_to} are gone (retention?)")
        return lost_to
    data_loss(options, f"{wanted.partition} ends before offset {position} now: its log was cut back")
    return wanted.end_offset


class _Patience:
    """How long nothing may come."""

    def __init__(self, options: ReadOptions) -> None:
        self._limit_s = options.client.timeout_ms / 1000
        self.renew()

    def renew(self) -> None:
        self._deadline = time.monotonic() + self._limit_s

    def pause(self, words: str) -> None:
        """Before the same is asked again. Raises Failed when that was done for long enough."""
        self.check(words)
        time.sleep(RETRY_PAUSE_S)

    def check(self, words: str) -> None:
        if time.monotonic() > self._deadline:
            raise Failed(f"{words}; waited {self._limit_s:g} s")
