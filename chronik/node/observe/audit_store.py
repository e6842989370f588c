"""Keeping the audit trail: lines of JSON go, many in a record, to a partition of `__chronik_audit` that is led here.

As the trace's: the record has this node's id as its key and the schema's version in a header, and nothing waits for
it. While this node leads no partition of that topic the latest lines are kept, and how many were not is said in it.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable
from typing import Any

from chronik.core.errors import Refused
from chronik.core.machines.metadata.commands import CreateInternalTopic
from chronik.core.machines.metadata.image import MetadataImage
from chronik.core.machines.metadata.names import AUDIT_TOPIC
from chronik.core.ports import Chance, Clock
from chronik.core.records.payload import Header, Record
from chronik.core.replica.replica import Replica
from chronik.node.observe.trace_store import ACKS_LEADER, RECORD_BYTES, packed_batch
from chronik.node.replication.replicas import Replicas
from chronik.trace.audit import SCHEMA_VERSION, AuditTrail
from chronik.trace.metrics import Metrics

log = logging.getLogger(__name__)

FLUSH_S = 0.5


class AuditStore:
    """While the setting says so, all lines go to the topic."""

    def __init__(
        self,
        trail: AuditTrail,
        image: MetadataImage,
        replicas: Replicas,
        ask_controller: Callable[[Any], Awaitable[Any]],
        clock: Clock,
        chance: Chance,
        metrics: Metrics,
        node_id: int,
    ) -> None:
        self._trail = trail
        self._image = image
        self._replicas = replicas
        self._ask_controller = ask_controller
        self._clock = clock
        self._chance = chance
        self._metrics = metrics
        self._node_id = node_id
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        if self._task is None:
            self._trail.is_stored = self._image.node_config.audit.chronik_audit_store
            self._task = asyncio.get_running_loop().create_task(self._run(), name="audit-store")

    def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            self._task = None

    def flush(self) -> None:
        """Store what there is, at once."""
        self._trail.say_what_is_missing()
        while self._trail.pending and self._store_one():
            pass

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(FLUSH_S)
            try:
                self._trail.is_stored = self._image.node_config.audit.chronik_audit_store
                self._trail.say_what_is_missing()
                if self._trail.pending and self._home() is None:
                    with contextlib.suppress(Refused):  # no controller, or no broker for it: asked again
                        await self._ask_controller(CreateInternalTopic(AUDIT_TOPIC, self._chance.uuid()))
                while self._trail.pending:
                    if not self._store_one():
                        break
                    await asyncio.sleep(0)  # others have their turn
            except Exception:
                self._metrics.faults += 1
                log.exception("fault in storing the audit trail")

    def _home(self) -> Replica | None:
        """The first partition of the topic that this node leads."""
        topic = self._image.topic(AUDIT_TOPIC)
        for number, placed in enumerate(topic.partitions if topic is not None else ()):
            if placed.leader == self._node_id:
                with contextlib.suppress(Refused):  # it does not any more, or not yet, or its disk fails
                    return self._replicas.leader(AUDIT_TOPIC, number)
        return None

    def _store_one(self) -> bool:
        """Store the first lines that are pending, as one record. False when nothing takes it now."""
        home = self._home()
        if home is None:
            return False
        lines, size = [self._trail.lost_line()], 0
        for line in self._trail.pending:
            if size > RECORD_BYTES:
                break
            lines.append(line)
            size += len(line)
        headers = (Header("schema", str(SCHEMA_VERSION).encode()),)
        record = Record(0, self._clock.now_ms(), str(self._node_id).encode(), b"".join(lines), headers)
        try:
            self._replicas.append(home, packed_batch(record), ACKS_LEADER)
        except Refused as refusal:  # the disk is full, say
            log.debug("the audit trail cannot be stored now: %s", refusal)
            return False
        for _ in lines[1:]:
            self._trail.pending.popleft()
        self._trail.lost = 0
        return True
