"""Sends the markers of transactions that are decided to the leaders of their partitions, until each one has its own.

It owns one queue for each destination node, with at most one WriteTxnMarkers request under way: however many
transactions end at once, a node is asked once for all of them. No transaction has a task or a timer of its own. Its
only caller is the transaction coordinator, which hands a transaction over when the decision is durable, and never
before (F53).

Markers are idempotent at the partition and carry the coordinator's epoch, so whatever is not known to have arrived is
sent again: to the same leader, or to the one that the metadata names by then. A transaction is given up only where a
partition says that another coordinator has taken over.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from chronik.core.errors import Code
from chronik.core.machines.metadata.image import MetadataImage
from chronik.core.machines.transactions.transaction import Transaction
from chronik.core.types import TopicPartition
from chronik.node.net.peers import Peers, Unreachable
from chronik.node.replication.purgatory import Purgatory
from chronik.trace.metrics import Metrics

if TYPE_CHECKING:
    from kio.schema.write_txn_markers.v2.request import WriteTxnMarkersRequest
    from kio.schema.write_txn_markers.v2.response import WriteTxnMarkersResponse

log = logging.getLogger(__name__)

WRITE_TXN_MARKERS = 27
PURPOSE = "markers"
RETRY_MS = 100
REQUEST_MS = 30_000
TRANSACTIONS_A_REQUEST = 1_000
# Another coordinator has the transaction, or had: this one has nothing more to say about it.
_FENCED = (Code.INVALID_PRODUCER_EPOCH, Code.TRANSACTION_COORDINATOR_FENCED)


class MarkerKey(NamedTuple):
    """Which transaction of which coordinator. An epoch of a producer may end many (transaction.version below 2)."""

    state_partition: int
    coordinator_epoch: int
    transactional_id: str


@dataclass(eq=False, slots=True)
class PendingMarkers:
    """A transaction whose markers are not everywhere yet."""

    key: MarkerKey
    transaction: Transaction
    written: Callable[[], None]
    missing: set[TopicPartition] = field(default_factory=set)
    problems: dict[TopicPartition, str] = field(default_factory=dict)  # why the last try failed


class MarkerSender:
    """The queues of markers, by the node that leads their partitions."""

    def __init__(
        self,
        image: MetadataImage,
        peers: Peers,
        waiting: Purgatory,
        metrics: Metrics,
        node_id: int,
        write_here: Callable[[WriteTxnMarkersRequest], Awaitable[WriteTxnMarkersResponse]],
    ) -> None:
        self._image = image
        self._peers = peers
        self._waiting = waiting
        self._metrics = metrics
        self._node_id = node_id
        self._write_here = write_here  # as the handler of the request does, for partitions that this node leads
        self._pending: dict[MarkerKey, PendingMarkers] = {}
        self._queues: dict[int, dict[MarkerKey, set[TopicPartition]]] = {}
        self._under_way: dict[int, asyncio.Future[WriteTxnMarkersResponse]] = {}
        self._put_off: dict[MarkerKey, set[TopicPartition]] = {}  # no leader, or no success: sent again later
        self._is_retry_due = False

    def __len__(self) -> int:
        """Transactions that wait for their markers."""
        return len(self._pending)

    def send(self, key: MarkerKey, transaction: Transaction, written: Callable[[], None]) -> None:
        """`written` is called when every partition has its marker; never from within this call."""
        if key in self._pending:
            return
        pending = PendingMarkers(key, transaction, written, set(transaction.partitions))
        self._pending[key] = pending
        if pending.missing:
            self._place(key, pending.missing)
        else:
            self._waiting.after_ms(0, lambda: self._finish(pending))

    def missing(self, key: MarkerKey) -> dict[TopicPartition, str]:
        """Partitions that have no marker yet, with the reason why the last try failed; '' where none has."""
        pending = self._pending.get(key)
        if pending is None:
            return {}
        return {partition: pending.problems.get(partition, "") for partition in sorted(pending.missing)}

    def forget(self, state_partition: int) -> None:
        """This node coordinates them no longer: what has been sent cannot be taken back, and does no harm."""
        for key in [key for key in self._pending if key.state_partition == state_partition]:
            self._drop(key)

    def close(self) -> None:
        self._pending.clear()
        self._put_off.clear()
        self._queues.clear()
        for future in self._under_way.values():
            future.cancel()

    # --- where to

    def _place(self, key: MarkerKey, partitions: set[TopicPartition]) -> None:
        nodes: dict[int, None] = {}
        for partition in sorted(partitions):
            leader = self._leader(partition)
            if leader is None:
                self._has_it(key, partition)
            elif leader < 0:
                self._put_off_for(key, partition, "no node leads it")
            else:
                self._queues.setdefault(leader, {}).setdefault(key, set()).add(partition)
                nodes[leader] = None
        for node_id in nodes:
            self._flush(node_id)
        self._retry_later()

    def _leader(self, partition: TopicPartition) -> int | None:
        """-1 while there is none; None when the partition is deleted: there is nothing left to mark. That this node has
        not heard of it yet cannot be: it was in the image when it was added, and so when this node began to lead."""
        topic = self._image.topic(partition.topic)
        if topic is None or partition.partition >= len(topic.partitions):
            return None
        return topic.partitions[partition.partition].leader

    # --- sending

    def _flush(self, node_id: int) -> None:
        queue = self._queues.get(node_id)
        if not queue or node_id in self._under_way:
            return
        sent: dict[MarkerKey, set[TopicPartition]] = {}
        for key in list(queue)[:TRANSACTIONS_A_REQUEST]:
            partitions = queue.pop(key)
            if key in self._pending:
                sent[key] = partitions
        if not sent:
            self._flush(node_id)
            return
        request = self._request(sent)
        future: asyncio.Future[WriteTxnMarkersResponse]
        if node_id == self._node_id:
            future = asyncio.ensure_future(self._write_here(request))
        else:
            future = self._peers.link(node_id, PURPOSE).ask(WRITE_TXN_MARKERS, request, timeout_ms=REQUEST_MS)
        self._under_way[node_id] = future
        future.add_done_callback(lambda done: self._answered(node_id, sent, done))

    def _request(self, sent: dict[MarkerKey, set[TopicPartition]]) -> WriteTxnMarkersRequest:
        from kio.schema.write_txn_markers.v2 import request as message  # with the first transaction that ends

        markers = []
        for key, partitions in sent.items():
            transaction = self._pending[key].transaction
            topics: dict[str, list[int]] = {}
            for topic, partition in sorted(partitions):
                topics.setdefault(topic, []).append(partition)
            markers.append(
                message.WritableTxnMarker(
                    producer_id=transaction.producer_id,
                    producer_epoch=transaction.producer_epoch,
                    transaction_result=transaction.is_commit,
                    topics=tuple(
                        message.WritableTxnMarkerTopic(name=name, partition_indexes=tuple(numbers))
                        for name, numbers in topics.items()
                    ),
                    coordinator_epoch=key.coordinator_epoch,
                    transaction_version=transaction.client_version,
                )
            )
        return message.WriteTxnMarkersRequest(markers=tuple(markers))

    # --- what became of it

    def _answered(
        self,
        node_id: int,
        sent: dict[MarkerKey, set[TopicPartition]],
        future: asyncio.Future[WriteTxnMarkersResponse],
    ) -> None:
        self._under_way.pop(node_id, None)
        if future.cancelled():
            return
        problem = future.exception()
        failure = (
            "" if problem is None else f"node {node_id} could not be asked: {str(problem) or type(problem).__name__}"
        )
        if problem is None:
            codes = _codes(future.result())
        else:
            codes = {}
            if not isinstance(problem, Unreachable):
                self._metrics.faults += 1
                log.error("markers could not be written on node %d", node_id, exc_info=problem)
        for key, partitions in sent.items():
            if key in self._pending:
                self._settle(key, partitions, codes, failure)
        self._retry_later()
        self._flush(node_id)

    def _settle(
        self,
        key: MarkerKey,
        partitions: set[TopicPartition],
        codes: dict[tuple[int, TopicPartition], int],
        failure: str,
    ) -> None:
        producer_id = self._pending[key].transaction.producer_id
        for partition in sorted(partitions):
            code = codes.get((producer_id, partition))
            if code == Code.NONE:
                self._has_it(key, partition)
            elif code in _FENCED:
                log.info("markers of %s: %s refuses with %s", key.transactional_id, partition, Code(code).name)
                self._drop(key)
                return
            else:
                answer = "it was not in the answer" if code is None else f"its leader answered {Code(code).name}"
                self._put_off_for(key, partition, failure or answer)

    def _put_off_for(self, key: MarkerKey, partition: TopicPartition, problem: str) -> None:
        self._put_off.setdefault(key, set()).add(partition)
        self._pending[key].problems[partition] = problem

    def _has_it(self, key: MarkerKey, partition: TopicPartition) -> None:
        pending = self._pending.get(key)
        if pending is None:
            return
        pending.missing.discard(partition)
        if not pending.missing:
            self._waiting.after_ms(0, lambda: self._finish(pending))

    def _finish(self, pending: PendingMarkers) -> None:
        if self._pending.get(pending.key) is pending:
            self._drop(pending.key)
            pending.written()

    def _drop(self, key: MarkerKey) -> None:
        self._pending.pop(key, None)
        self._put_off.pop(key, None)

    def _retry_later(self) -> None:
        if self._put_off and not self._is_retry_due:
            self._is_retry_due = True
            self._waiting.after_ms(RETRY_MS, self._retry)

    def _retry(self) -> None:
        self._is_retry_due = False
        put_off, self._put_off = self._put_off, {}
        for key, partitions in put_off.items():
            self._place(key, partitions)


def _codes(response: WriteTxnMarkersResponse) -> dict[tuple[int, TopicPartition], int]:
    """By producer, since a producer has one transaction at a time."""
    return {
        (marker.producer_id, TopicPartition(topic.name, partition.partition_index)): int(partition.error_code)
        for marker in response.markers
        for topic in marker.topics
        for partition in topic.partitions
    }
