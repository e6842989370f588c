"""Batches for partitions that other nodes lead: each goes to its leader, and its answer comes back.

They travel on links of their client's connection alone (`routes`), so they keep their order. One without a leader waits
for it (`leader_waits`). What is refused there is refused to the client, which then looks for the leader. Only where the
client would never hear of it (acks=0), a batch that its leader does not know about yet goes again, in its turn
(`acks0_sequencer`).
"""

from __future__ import annotations

import asyncio
import logging
from functools import partial

from chronik.api.context import PartitionBatch, PendingProduce
from chronik.core.errors import Code
from chronik.node.net.peers import NotSent, Unreachable
from chronik.node.routing.acks0_sequencer import Acks0Sequencer, Returned
from chronik.node.routing.cluster_metadata import ClusterMetadata
from chronik.node.routing.forwarded_batch import ForwardedBatch, leadership_of, placed
from chronik.node.routing.leader_waits import LEADER_WAIT_MS, LeaderWaits
from chronik.node.routing.routes import Route, Routes
from chronik.node.runtime.deadlines import Deadline, Deadlines
from chronik.trace.metrics import Metrics
from chronik.wire import forwarded_produce as wire
from chronik.wire.produce import PartitionAnswer

log = logging.getLogger(__name__)

# A leader that is given as long as its client gives it answers in that time; this is for the way there and back. An
# answer of ours that came sooner than the leader's would make a batch that is safe look as if it had failed (F24).
SLACK_MS = 10_000
AGAIN_MS = 10
LEADER_ONLY = 1  # acks
NOT_KNOWN_THERE = (
    Code.NOT_LEADER_OR_FOLLOWER,
    Code.LEADER_NOT_AVAILABLE,
    Code.UNKNOWN_TOPIC_OR_PARTITION,
    Code.UNKNOWN_TOPIC_ID,
)


class ProduceForwarder:
    """Sends batches to their leaders."""

    def __init__(
        self, node_id: int, cluster: ClusterMetadata, routes: Routes, deadlines: Deadlines, metrics: Metrics
    ) -> None:
        self._node_id = node_id
        self._cluster = cluster
        self._routes = routes
        self._deadlines = deadlines
        self._metrics = metrics
        self._waits = LeaderWaits(cluster, deadlines, metrics)
        self._again: dict[Acks0Sequencer, Deadline] = {}  # those whose batches go again in a moment

    def metadata_applied(self) -> None:
        self._waits.metadata_applied()
        for sequencer in list(self._again):  # perhaps to another leader, before any that come later
            self._go_again(sequencer)

    def connection_closed(self, connection_id: int) -> None:
        self._waits.connection_closed(connection_id)

    def close(self) -> None:
        self._waits.close()

    # --- there

    def produce(self, produce: PendingProduce, batches: list[PartitionBatch]) -> None:
        """Send each partition's batch to its leader. Each is settled once, or tried again."""
        route = self._route_of(produce)
        by_leader: dict[int, list[ForwardedBatch]] = {}
        for batch in batches:
            now = placed(self._cluster.image, batch)
            forwarded = ForwardedBatch(produce, batch, now, route)
            sequencer = _sequencer(forwarded) if forwarded.wants_no_answer else None
            if sequencer is not None and sequencer.must_wait(leadership_of(now)):
                sequencer.hold(produce, batch)
            elif sequencer is None and not forwarded.goes_in_order():
                forwarded.refuse(Code.NOT_LEADER_OR_FOLLOWER)
            elif now is None:
                self._waits.park_unknown(forwarded)
            elif not now.has_leader:
                self._waits.park(forwarded)
            elif now.leader == self._node_id:  # it is not ready to lead
                forwarded.refuse(Code.NOT_LEADER_OR_FOLLOWER)
            else:
                by_leader.setdefault(now.leader, []).append(forwarded)
                if sequencer is not None:
                    sequencer.under_way += 1
        for leader, theirs in by_leader.items():
            self._send(produce, leader, theirs, route)

    def _route_of(self, produce: PendingProduce) -> Route:
        """The same whenever a batch of it is tried again: its client may have hung up meanwhile."""
        if not isinstance(produce.route, Route):
            produce.route = self._routes.of(produce.call.caller)
        return produce.route

    def _send(self, produce: PendingProduce, leader: int, batches: list[ForwardedBatch], route: Route) -> None:
        request, header = produce.request, produce.call.header
        topics: dict[str | bytes, list[ForwardedBatch]] = {}
        for forwarded in batches:
            topics.setdefault(forwarded.batch.topic, []).append(forwarded)
        ordered = [forwarded for own in topics.values() for forwarded in own]
        # A client that wants no answer gets none; this node wants one, as a leader that does not know yet that it leads
        # would lose the batch.
        sent = request._replace(
            acks=request.acks or LEADER_ONLY,
            topics=[
                (topic, [(one.batch.partition, one.batch.records) for one in own]) for topic, own in topics.items()
            ],
        )
        pieces = wire.encode(header.version, header.correlation_id, header.client_id, sent)
        timeout_ms = max(request.timeout_ms, 0) + SLACK_MS
        answer = route.write(leader, pieces, timeout_ms)
        answer.add_done_callback(partial(self._answered, ordered))

    # --- and back

    def _answered(self, batches: list[ForwardedBatch], answer: asyncio.Future[memoryview]) -> None:
        unsettled = list(batches)
        route, version = batches[0].route, batches[0].produce.call.header.version
        try:
            problem = answer.exception()
            if isinstance(problem, NotSent) and not route.is_closed:
                while unsettled:
                    self._never_left(unsettled.pop(0))
            elif isinstance(problem, Unreachable):
                while unsettled:
                    unsettled.pop(0).refuse(Code.NOT_LEADER_OR_FOLLOWER)
            elif problem is not None:
                raise problem
            else:
                for forwarded, own in zip(batches, _partition_answers(answer.result(), version), strict=True):
                    unsettled.pop(0)
                    self._take_answer(forwarded, own)
        except Exception:
            self._metrics.faults += 1
            log.exception("fault in the answer to batches that were sent on")
            for forwarded in unsettled:
                forwarded.refuse(Code.UNKNOWN_SERVER_ERROR)
        for forwarded in batches:
            if forwarded.wants_no_answer:
                self._next(_sequencer(forwarded))

    def _take_answer(self, forwarded: ForwardedBatch, answer: PartitionAnswer) -> None:
        if forwarded.wants_no_answer:
            self._take_unwanted_answer(forwarded, answer)
        elif answer.error_code == Code.OUT_OF_ORDER_SEQUENCE_NUMBER:
            # Batches before it may have been refused here, by a leader that stepped down, and come again: it has
            # overtaken them. With NOT_LEADER_OR_FOLLOWER the client sends all of them once more, in order; with a
            # gap, it would begin a new epoch, and what had arrived would be there twice.
            forwarded.refuse(Code.NOT_LEADER_OR_FOLLOWER)
        else:
            forwarded.settle(answer)

    def _never_left(self, forwarded: ForwardedBatch) -> None:
        if forwarded.wants_no_answer:
            answer = PartitionAnswer(forwarded.batch.partition, Code.NOT_LEADER_OR_FOLLOWER, -1, -1, -1)
            self._send_again(forwarded, answer)
        else:
            self._waits.park(forwarded)

    # --- with acks=0, in turn

    def _take_unwanted_answer(self, forwarded: ForwardedBatch, answer: PartitionAnswer) -> None:
        if answer.error_code in NOT_KNOWN_THERE:
            self._send_again(forwarded, answer)
            return
        if not answer.error_code:
            for late in _sequencer(forwarded).taken(leadership_of(forwarded.seen)):
                late.produce.settle(late.batch, late.answer)  # its client is hung up on
        forwarded.settle(answer)

    def _send_again(self, forwarded: ForwardedBatch, answer: PartitionAnswer) -> None:
        """The client would never know: so the leader is given a moment to learn that it leads."""
        now, batch = asyncio.get_running_loop().time(), forwarded.batch
        if batch.until is None:
            batch.until = now + LEADER_WAIT_MS / 1000
        if now < batch.until:
            _sequencer(forwarded).refused(Returned(forwarded.produce, batch, answer))
        else:
            forwarded.settle(answer)

    def _next(self, sequencer: Acks0Sequencer) -> None:
        """One of them is not under way any longer."""
        sequencer.under_way -= 1
        if sequencer.has_refused:
            if not sequencer.under_way:
                self._again[sequencer] = self._deadlines.after_ms(AGAIN_MS, lambda: self._go_again(sequencer))
        elif sequencer.has_held:
            self._let_go(sequencer)

    def _go_again(self, sequencer: Acks0Sequencer) -> None:
        self._deadlines.cancel(self._again.pop(sequencer))
        self._let_go(sequencer)

    def _let_go(self, sequencer: Acks0Sequencer) -> None:
        """Try all that wait, in their order: with the first under way, the others may have to wait again."""
        for produce, batch in sequencer.let_go():
            try:
                produce.again(batch)
            except Exception:
                self._metrics.faults += 1
                log.exception("fault in a batch that goes again")


def _sequencer(forwarded: ForwardedBatch) -> Acks0Sequencer:
    return forwarded.route.sequencer(forwarded.batch.topic, forwarded.batch.partition)


def _partition_answers(frame: memoryview, version: int) -> list[PartitionAnswer]:
    topics = wire.parse(frame, version).topics
    return [answer for _, answers in topics for answer in answers]
