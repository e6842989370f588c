"""Keeping what is traced: events go, many at a time, to a partition of `__chronik_trace` that this node leads.

A record is some chunks of the recorder's: hundreds of events, one JSON object a line. It has this node's id as its key
and the schema's version in a header; a batch is one record, compressed. Nothing waits for it to be safe. While this
node leads no partition of that topic the latest events are kept, and when it does again, how many
were not is recorded.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any

import cramjam

from chronik.core.errors import Refused
from chronik.core.machines.metadata.commands import CreateInternalTopic
from chronik.core.machines.metadata.image import MetadataImage
from chronik.core.machines.metadata.names import AUDIT_TOPIC, TRACE_TOPIC
from chronik.core.ports import Chance, Clock
from chronik.core.records.batch import MAGIC, BatchHeader
from chronik.core.records.payload import Header, Record, assemble, write_record
from chronik.core.replica.replica import Replica
from chronik.core.types import NO_EPOCH, NO_PRODUCER_ID, NO_SEQUENCE
from chronik.node.replication.replicas import Replicas
from chronik.trace.metrics import Metrics
from chronik.trace.recorder import Chunk, Recorder

log = logging.getLogger(__name__)

FLUSH_S = 0.2
# Of text, about: to compress many small records costs more than few, and a large one takes long.
RECORD_BYTES = 256 * 1024
KEPT_MAX = 20_000  # events that wait for a partition to go to
ASK_AGAIN_FLUSHES = 5  # between two attempts to have the topic made
OTHERS_FLUSHES = 50  # that the others have time to start
ZSTD = 4
ZSTD_LEVEL = 1
ACKS_LEADER = 1


class TraceStore:
    """While it runs, all events go to the topic."""

    def __init__(
        self,
        recorder: Recorder,
        image: MetadataImage,
        replicas: Replicas,
        ask_controller: Callable[[Any], Awaitable[Any]],
        clock: Clock,
        chance: Chance,
        metrics: Metrics,
    ) -> None:
        self._recorder = recorder
        self._image = image
        self._replicas = replicas
        self._ask_controller = ask_controller
        self._clock = clock
        self._chance = chance
        self._metrics = metrics
        self._pending: deque[Chunk] = deque()
        self._pending_events = 0
        self._lost = 0  # events, since the last that were stored
        self._passed = 0  # events of the recorder's that had come when it last stopped
        self._until_asked = 0  # flushes
        self._waited_flushes = 0
        self._task: asyncio.Task[None] | None = None

    @property
    def is_running(self) -> bool:
        return self._task is not None

    def start(self) -> None:
        if self._task is None:
            self._recorder.seal()  # what was recorded before is not stored, but a reader sees that it was
            self._lost += self._recorder.added - self._passed
            self._recorder.store_with(self._take)
            self._task = asyncio.get_running_loop().create_task(self._run(), name="trace-store")

    def stop(self) -> None:
        """What there is now is still stored, if it can be; what cannot counts as lost, should it go on."""
        if self._task is not None:
            self._task.cancel()
            self._task = None
            self.flush()
            self._recorder.stop_storing()
            self._lost += self._pending_events
            self._pending.clear()
            self._pending_events = 0
            self._passed = self._recorder.added

    def flush(self) -> None:
        """Store what there is, at once."""
        if self._task is not None or self._recorder.is_stored:
            self._recorder.seal()
        while self._pending and self._store_one():
            pass

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(FLUSH_S)
            try:
                self._recorder.seal()
                if self._pending and self._home() is None:
                    await self._ask_for_place()
                while self._pending:
                    if not self._store_one():
                        break
                    await asyncio.sleep(0)  # others have their turn
            except Exception:
                self._metrics.faults += 1
                log.exception("fault in storing the trace")

    def _take(self, chunk: Chunk) -> None:
        """Keep it, and no more than the latest of what nothing takes."""
        self._pending.append(chunk)
        self._pending_events += chunk.events
        while self._pending_events > KEPT_MAX:
            self._lost += self._pending[0].events
            self._pending_events -= self._pending.popleft().events

    async def _ask_for_place(self) -> None:
        """Have the topic made, or a partition of it that this node leads: it may have come after the topic, or lost
        its partition to another for a while."""
        self._until_asked -= 1
        if self._until_asked <= 0 and not self._waits_for_others():
            self._until_asked = ASK_AGAIN_FLUSHES
            with contextlib.suppress(Refused):  # no controller, or no broker for it: asked again
                await self._ask_controller(CreateInternalTopic(TRACE_TOPIC, self._chance.uuid()))

    def _waits_for_others(self) -> bool:
        """A cluster that starts: who is not there yet could have no replica of the topic."""
        if self._image.topic(TRACE_TOPIC) is not None:
            return False
        self._waited_flushes += 1
        missing = len(self._image.node_config.voters) - sum(1 for _ in self._image.live_brokers())
        return missing > 0 and self._waited_flushes <= OTHERS_FLUSHES

    def _home(self) -> Replica | None:
        """The first partition of the topic that this node leads."""
        topic = self._image.topic(TRACE_TOPIC)
        for number, placed in enumerate(topic.partitions if topic is not None else ()):
            if placed.leader == self._recorder.node_id:
                with contextlib.suppress(Refused):  # it does not any more, or not yet, or its disk fails
                    return self._replicas.leader(TRACE_TOPIC, number)
        return None

    def _store_one(self) -> bool:
        """Store the first chunks that are pending, as one record. False when nothing takes it now."""
        home = self._home()
        if home is None:
            return False
        from chronik.trace.events import EventsLost  # loaded by what made the events
        from chronik.trace.lines import SCHEMA_VERSION, to_lines

        node_id, chunks = self._recorder.node_id, self._first_pending()
        lines = b"".join(chunk.lines for chunk in chunks)
        if self._lost:
            lines = to_lines([EventsLost(self._clock.now_us(), node_id, self._lost)]) + lines
        headers = (Header("schema", str(SCHEMA_VERSION).encode()),)
        record = Record(0, self._clock.now_ms(), str(node_id).encode(), lines, headers)
        try:
            self._replicas.append(home, packed_batch(record), ACKS_LEADER)
        except Refused as refusal:  # the disk is full, say
            log.debug("the trace cannot be stored now: %s", refusal)
            return False
        for chunk in chunks:
            self._pending.popleft()
            self._pending_events -= chunk.events
        self._lost = 0
        return True

    def _first_pending(self) -> list[Chunk]:
        """As many as go into a record."""
        chunks: list[Chunk] = []
        size = 0
        for chunk in self._pending:
            size += len(chunk.lines)
            if chunks and size > RECORD_BYTES:
                break
            chunks.append(chunk)
        return chunks


def is_sync_awaited(replica: Replica) -> bool:
    """Whether a response may wait for this replica's syncs; for those of the trace and the audit trail none does."""
    return replica.topic not in (TRACE_TOPIC, AUDIT_TOPIC)


def packed_batch(record: Record) -> bytearray:
    """A batch of one record, compressed as fast as can be: a trace is all repetition, and shrinks to a twentieth."""
    body = bytearray()
    write_record(body, record, 0, 0)
    at_ms = record.timestamp
    header = BatchHeader(
        0, 0, NO_EPOCH, MAGIC, 0, ZSTD, 0, at_ms, at_ms, NO_PRODUCER_ID, NO_EPOCH, NO_SEQUENCE, record_count=1
    )
    return assemble(bytes(cramjam.zstd.compress(body, level=ZSTD_LEVEL)), header)
