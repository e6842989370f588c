"""Batches from their append to their answer, as they are told to the trace.

Most steps that a node takes are these two, so they are made to cost little: what is the same for batch after batch of
a connection is looked at once, and what differs is one small value, made when the batch is appended and completed when
it is answered. They are told together, when the recorder writes down what there is: a *run* is one event.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Protocol, TypeAlias

from chronik.core.log.log import Appended
from chronik.core.replica.replica import Replica
from chronik.core.types import Buffer
from chronik.trace.events import Batch, ProduceAnswered, ProduceAppended, ProducedBatches, Written

_read_producer = struct.Struct(">qhi").unpack_from  # producer id, epoch and first sequence number
_PRODUCER_AT = 43  # bytes from the beginning of a batch
UNANSWERED = -1  # as `took_us`
REFUSED = -2  # never answered: its producer is told something else
TOLD = -3  # that it was appended has been told, without an answer


class Client(Protocol):
    """Who asked (api.desk.Caller)."""

    @property
    def client_id(self) -> str: ...

    @property
    def client_host(self) -> str: ...

    @property
    def connection_id(self) -> int: ...


Run: TypeAlias = tuple[Replica, int, str, str, int, int]
"""What its batches have in common: replica, acks, client id, host, connection and leader epoch."""


class Batches:
    """Those that were appended and not written down yet."""

    def __init__(self, node_id: int, now_us: Callable[[], int], put: Callable[[Written], None]) -> None:
        self.now_us = now_us
        self._node_id = node_id
        self._put = put
        self._runs: dict[Run, list[Batch]] = {}

    @property
    def count(self) -> int:
        return sum(map(len, self._runs.values()))

    def appended(
        self,
        replica: Replica,
        acks: int,
        client: Client,
        began_us: int,
        watermark_before: int,
        appended: Appended,
        records: Buffer,
    ) -> Batch:
        """A batch is in the log, or was already. Time and watermark are those before: both may have gone on."""
        base_offset, last_offset, _, is_new = appended
        producer_id, producer_epoch, base_sequence = _read_producer(records, _PRODUCER_AT)
        batch = Batch(
            began_us,
            UNANSWERED,
            producer_id,
            producer_epoch,
            base_sequence,
            base_offset,
            last_offset + 1,
            len(records),
            not is_new,
            watermark_before,
            watermark_before,
            (),
        )
        run = (replica, acks, client.client_id, client.client_host, client.connection_id, replica.leader_epoch)
        if acks == 0:
            self._tell_appended(run, batch)
            return batch
        batches = self._runs.get(run)
        if batches is None:
            self._runs[run] = [batch]
        else:
            batches.append(batch)
        return batch

    def answered(self, batch: Batch, replica: Replica, acks: int, client: Client) -> None:
        """The batch is as safe as its producer asked."""
        is_told, in_sync, took_us = batch.took_us == TOLD, replica.in_sync, self.now_us() - batch.appended_us
        batch.took_us = took_us if took_us > 0 else 0  # clocks may be set back
        batch.watermark = replica.high_watermark
        if in_sync is not None:
            batch.in_sync = in_sync.in_sync
        if is_told:
            self._tell_answered(batch, replica, acks, client)

    def not_answered(self, batch: Batch) -> None:
        """Its producer is told something else: that the batch was appended is true all the same."""
        if batch.took_us == UNANSWERED:
            batch.took_us = REFUSED

    def tell(self, unanswered_us: int = 0) -> None:
        """Tell of those that were answered; and without an answer, which will then be told apart, of those that have
        waited for one for so long."""
        now_us = self.now_us()
        runs, self._runs = self._runs, {}
        for run, batches in runs.items():
            answered = [batch for batch in batches if batch.took_us >= 0]
            if len(answered) < len(batches):
                self._tell_unanswered(run, batches, now_us - unanswered_us)
            if answered:
                replica, acks, client_id, host, connection, leader_epoch = run
                self._put(
                    ProducedBatches(
                        now_us,
                        self._node_id,
                        replica.topic,
                        replica.partition,
                        client_id,
                        host,
                        connection,
                        acks,
                        leader_epoch,
                        answered,
                    )
                )

    def _tell_unanswered(self, run: Run, batches: list[Batch], until_us: int) -> None:
        """Of a run's batches. Those that may still be answered soon wait for the next time."""
        waiting: list[Batch] = []
        for batch in batches:
            if batch.took_us == UNANSWERED and batch.appended_us > until_us:
                waiting.append(batch)
            elif batch.took_us < 0:
                self._tell_appended(run, batch)
        if waiting:
            self._runs[run] = waiting

    def _tell_appended(self, run: Run, batch: Batch) -> None:
        replica, acks, client_id, host, connection, leader_epoch = run
        batch.took_us = TOLD
        self._put(
            ProduceAppended(
                batch.appended_us,
                self._node_id,
                replica.topic,
                replica.partition,
                client_id,
                host,
                connection,
                acks,
                batch.producer_id,
                batch.producer_epoch,
                batch.base_sequence,
                batch.base_offset,
                batch.to_offset,
                batch.size_bytes,
                batch.is_duplicate,
                leader_epoch,
                batch.watermark_before,
            )
        )

    def _tell_answered(self, batch: Batch, replica: Replica, acks: int, client: Client) -> None:
        self._put(
            ProduceAnswered(
                batch.appended_us + batch.took_us,
                self._node_id,
                replica.topic,
                replica.partition,
                client.client_id,
                client.client_host,
                client.connection_id,
                acks,
                batch.base_offset,
                batch.to_offset,
                batch.watermark_before,
                batch.watermark,
                batch.in_sync,
                batch.took_us,
            )
        )
