"""Batches for a partition whose leader is not known, held until the metadata names one or time is up.

While a partition has no leader, or its leader has just died, a batch waits for a moment until the metadata names
another: an election takes less time than a client's refusal, its new look at the metadata and its second try, and some
clients have few tries. So does one for a topic that this node does not know, until this node knows what the controller
does: a client that creates a topic at one node and writes at another must not be answered that there is none, least of
all with acks=0, when it gets no response at all. Batches that wait go in the order in which they came.
"""

from __future__ import annotations

import asyncio
import logging

from chronik.node.routing.cluster_metadata import ClusterMetadata
from chronik.node.routing.forwarded_batch import ForwardedBatch, placed
from chronik.node.runtime.deadlines import Deadline, Deadlines
from chronik.trace.metrics import Metrics

log = logging.getLogger(__name__)

LEADER_WAIT_MS = 1000


class LeaderWaits:
    """The batches that wait, each until its partition has another leader, its time is up or its client is gone."""

    def __init__(self, cluster: ClusterMetadata, deadlines: Deadlines, metrics: Metrics) -> None:
        self._cluster = cluster
        self._deadlines = deadlines
        self._metrics = metrics
        self._parked: dict[int, tuple[ForwardedBatch, Deadline]] = {}  # in the order in which they came
        self._parked_total = 0
        self._catching_up: asyncio.Task[None] | None = None

    def park(self, waiting: ForwardedBatch) -> None:
        if waiting.route.is_closed:
            self._refuse(waiting)
            return
        loop, batch = asyncio.get_running_loop(), waiting.batch
        if batch.until is None:
            batch.until = loop.time() + min(LEADER_WAIT_MS, max(waiting.produce.request.timeout_ms, 0)) / 1000
        if waiting.has_other_leader(placed(self._cluster.image, batch)):
            waiting.produce.again(batch)  # it was named while the batch was on its way to the one before
            return
        left_ms = int((batch.until - loop.time()) * 1000)
        if left_ms <= 0:
            self._refuse(waiting)
            return
        waiting.holds_up_its_producer()
        ticket = self._parked_total = self._parked_total + 1
        deadline = self._deadlines.after_ms(left_ms, lambda: self._give_up(ticket))
        self._parked[ticket] = waiting, deadline

    def park_unknown(self, waiting: ForwardedBatch) -> None:
        """This node does not know the partition: until it knows what the controller knew a moment ago."""
        if self._cluster.is_controller:
            self._refuse(waiting)
            return
        self.park(waiting)
        if self._catching_up is None:
            self._catch_up()

    def metadata_applied(self) -> None:
        for ticket, (waiting, _) in list(self._parked.items()):
            now = placed(self._cluster.image, waiting.batch)
            if now is None:
                if waiting.seen is not None:  # deleted
                    self._give_up(ticket)
            elif waiting.has_other_leader(now):
                self._unpark(ticket)
                waiting.produce.again(waiting.batch)

    def connection_closed(self, connection_id: int) -> None:
        for ticket, (waiting, _) in list(self._parked.items()):
            if waiting.produce.call.caller.connection_id == connection_id:
                self._unpark(ticket)

    def close(self) -> None:
        if self._catching_up is not None:
            self._catching_up.cancel()

    def _catch_up(self) -> None:
        waiting = self._wait_for_controllers_metadata(self._parked_total)
        self._catching_up = asyncio.get_running_loop().create_task(waiting, name="catch-up")
        self._catching_up.add_done_callback(self._caught_up)

    def _caught_up(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and task.exception() is not None:
            self._metrics.faults += 1
            log.error("fault while finding out what the controller knows", exc_info=task.exception())

    async def _wait_for_controllers_metadata(self, last_ticket: int) -> None:
        """Then those up to this ticket whose partition is still unknown are refused; later ones need another look."""
        try:
            await self._cluster.wait_until_caught_up(LEADER_WAIT_MS)
        finally:
            self._catching_up = None
        for ticket in [ticket for ticket, (waiting, _) in self._parked.items() if waiting.seen is None]:
            parked = self._parked.get(ticket)
            if parked is None or ticket > last_ticket:
                continue
            if placed(self._cluster.image, parked[0].batch) is None:
                self._give_up(ticket)
        has_later = any(waiting.seen is None for waiting, _ in self._parked.values())
        if has_later and self._catching_up is None:
            self._catch_up()

    def _unpark(self, ticket: int) -> None:
        _, deadline = self._parked.pop(ticket)
        self._deadlines.cancel(deadline)

    def _give_up(self, ticket: int) -> None:
        waiting, _ = self._parked[ticket]
        self._unpark(ticket)
        self._refuse(waiting)

    def _refuse(self, waiting: ForwardedBatch) -> None:
        waiting.refuse_unplaced(placed(self._cluster.image, waiting.batch))
