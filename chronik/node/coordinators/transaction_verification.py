"""Asks the coordinators of transactions about partitions that this node leads, before the first batch is appended.

With the older protocol the producer has added the partition by itself, and its coordinator is asked whether that is so;
with transaction version 2 the coordinator is asked to add it (KIP-890). It owns one queue for each node, with at most
one request under way: however many producers begin at once, a coordinator is asked once for all of them.

What comes back is by partition: NONE, or why the batch cannot be taken. A coordinator that cannot be asked is a code as
well; the producer sends its batch again then. With version 2 a producer may go on while the markers of its last
transaction are under way: the question waits here for a moment then, which is cheaper than the batch coming again.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from chronik.core.config.sections.transactions import TransactionsConfig
from chronik.core.errors import Code
from chronik.core.machines.metadata.image import Broker
from chronik.core.types import TopicPartition
from chronik.node.net.peers import Peers, Unreachable
from chronik.node.replication.purgatory import Purgatory
from chronik.trace.metrics import Metrics
from chronik.wire.unions.add_partitions_to_txn import (
    AnyAddPartitionsRequest,
    AnyAddPartitionsTopic,
    AnyAddPartitionsTransaction,
)

if TYPE_CHECKING:
    from chronik.core.machines.transactions.commands import ProducerIdentity

log = logging.getLogger(__name__)

ADD_PARTITIONS_TO_TXN = 24
PURPOSE = "verification"
REQUEST_MS = 30_000
QUESTIONS_A_REQUEST = 1_000


@dataclass(eq=False, slots=True)
class Question:
    """Of one produce request: all of its partitions that begin a transaction here."""

    transactional_id: str
    producer: ProducerIdentity
    partitions: tuple[TopicPartition, ...]
    adds: bool
    answer: asyncio.Future[dict[TopicPartition, Code]]
    waited_ms: int = 0  # for the transaction before to be over


class TransactionVerifier:
    """The questions to the coordinators, by the node that is asked."""

    def __init__(
        self,
        coordinator_now: Callable[[str], Broker | None],
        peers: Peers,
        waiting: Purgatory,
        metrics: Metrics,
        node_id: int,
        config: Callable[[], TransactionsConfig],
        ask_here: Callable[[AnyAddPartitionsRequest], Awaitable[Any]],
    ) -> None:
        self._coordinator_now = coordinator_now
        self._peers = peers
        self._waiting = waiting
        self._metrics = metrics
        self._node_id = node_id
        self._config = config
        self._ask_here = ask_here  # as the handler of the request does, for transactions that this node coordinates
        self._queues: dict[int, deque[Question]] = {}
        self._under_way: dict[int, asyncio.Future[Any]] = {}

    def confirm(
        self, transactional_id: str, producer: ProducerIdentity, partitions: Sequence[TopicPartition], *, adds: bool
    ) -> asyncio.Future[dict[TopicPartition, Code]]:
        """Whether these partitions are in the producer's transaction; with `adds` they are from then on."""
        answer: asyncio.Future[dict[TopicPartition, Code]] = asyncio.get_running_loop().create_future()
        question = Question(transactional_id, producer, tuple(partitions), adds, answer)
        if adds or self._config().transaction_partition_verification_enable:
            self._ask(question)
        else:
            _settle_all(question, Code.NONE)
        return answer

    def close(self) -> None:
        self._queues.clear()
        for future in self._under_way.values():
            future.cancel()

    # --- there

    def _ask(self, question: Question) -> None:
        broker = self._coordinator_now(question.transactional_id)
        if broker is None:
            _settle_all(question, Code.COORDINATOR_NOT_AVAILABLE)
            return
        self._queues.setdefault(broker.id, deque()).append(question)
        self._flush(broker.id)

    def _flush(self, node_id: int) -> None:
        queue = self._queues.get(node_id)
        if not queue or node_id in self._under_way:
            return
        asked = [queue.popleft() for _ in range(min(len(queue), QUESTIONS_A_REQUEST))]
        request = AnyAddPartitionsRequest(transactions=tuple(map(_transaction, asked)))
        future: asyncio.Future[Any]
        if node_id == self._node_id:
            future = asyncio.ensure_future(self._ask_here(request))
        else:
            future = self._peers.link(node_id, PURPOSE).ask(ADD_PARTITIONS_TO_TXN, request, timeout_ms=REQUEST_MS)
        self._under_way[node_id] = future
        future.add_done_callback(partial(self._answered, node_id, asked))

    # --- and back

    def _answered(self, node_id: int, asked: list[Question], future: asyncio.Future[Any]) -> None:
        self._under_way.pop(node_id, None)
        if future.cancelled():
            return
        problem = future.exception()
        if problem is not None:
            code = Code.NETWORK_EXCEPTION
            if not isinstance(problem, Unreachable):
                code = Code.UNKNOWN_SERVER_ERROR
                self._metrics.faults += 1
                log.error("transactions could not be verified on node %d", node_id, exc_info=problem)
            for question in asked:
                _settle_all(question, code)
        elif future.result().error_code:
            for question in asked:
                _settle_all(question, Code(future.result().error_code))
        else:
            for question, result in zip(asked, future.result().results_by_transaction, strict=True):
                self._take_answer(question, _codes(result))
        self._flush(node_id)

    def _take_answer(self, question: Question, codes: dict[TopicPartition, Code]) -> None:
        config = self._config()
        pause_ms = config.add_partitions_to_txn_retry_backoff_ms
        may_wait = question.adds and question.waited_ms + pause_ms <= config.add_partitions_to_txn_retry_backoff_max_ms
        if may_wait and Code.CONCURRENT_TRANSACTIONS in codes.values():
            question.waited_ms += pause_ms
            self._waiting.after_ms(pause_ms, partial(self._ask, question))
        elif not question.answer.done():
            question.answer.set_result({one: codes.get(one, Code.UNKNOWN_SERVER_ERROR) for one in question.partitions})


def _settle_all(question: Question, code: Code) -> None:
    if not question.answer.done():
        question.answer.set_result(dict.fromkeys(question.partitions, code))


def _transaction(question: Question) -> AnyAddPartitionsTransaction:
    topics: dict[str, list[int]] = {}
    for topic, partition in question.partitions:
        topics.setdefault(topic, []).append(partition)
    return AnyAddPartitionsTransaction(
        transactional_id=question.transactional_id,
        producer_id=question.producer.producer_id,
        producer_epoch=question.producer.producer_epoch,
        verify_only=not question.adds,
        topics=tuple(AnyAddPartitionsTopic(name=name, partitions=tuple(own)) for name, own in topics.items()),
    )


def _codes(result: Any) -> dict[TopicPartition, Code]:
    return {
        TopicPartition(topic.name, partition.partition_index): Code(partition.partition_error_code)
        for topic in result.topic_results
        for partition in topic.results_by_partition
    }
