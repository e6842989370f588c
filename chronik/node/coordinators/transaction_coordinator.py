"""The transaction coordinator of this node: the transactional ids of the partitions of `__transaction_state` it leads.

A guest of the coordinator runtime, which owns the machines. This module owns the step between a decision and its
effect: a machine decides how a transaction ends; when that record is durable (F53), and not before, the markers go
out; when they are everywhere, the machine is asked to complete the transaction. A node that takes over finds prepared
transactions in the log, and sends their markers again with its own epoch. Request handlers call `ask`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, TypeAlias, TypeVar, cast

from chronik.core.config.sections.transactions import TransactionsConfig
from chronik.core.errors import Code, Refused
from chronik.core.machines.machine import Machine
from chronik.core.machines.metadata.image import Broker, MetadataImage
from chronik.core.machines.metadata.names import TRANSACTIONS_TOPIC
from chronik.core.ports import Chance
from chronik.core.replica.replica import ACKS_ALL, Replica
from chronik.core.types import TopicPartition
from chronik.node.coordinators.runtime import AskMetadata, CoordinatorRuntime
from chronik.node.coordinators.transaction_markers import RETRY_MS, MarkerKey, MarkerSender
from chronik.node.machine_host import MachineHost
from chronik.node.replication.purgatory import Purgatory
from chronik.node.replication.replicas import Replicas
from chronik.node.runtime.steady_time import SteadyTime
from chronik.trace.observer import NOT_OBSERVED, Observation

if TYPE_CHECKING:
    from chronik.core.machines.transactions.commands import AnyTransactionCommand, TransactionCommand
    from chronik.core.machines.transactions.facts import TransactionFact
    from chronik.core.machines.transactions.machine import TransactionsMachine
    from chronik.core.machines.transactions.transaction import Transaction

    TransactionsHost: TypeAlias = MachineHost[AnyTransactionCommand, TransactionFact]

AnswerT = TypeVar("AnswerT")
FOR_EVER_MS = -1
APPEND_TIMEOUT_MS = 5_000  # until a decision is durable; then the response says to ask again (Kafka: a request timeout)


class TransactionCoordinator:
    """Asks the machine of a transactional id, and sees to it that what a machine decided happens."""

    topic = TRANSACTIONS_TOPIC

    def __init__(
        self,
        image: MetadataImage,
        ask_metadata: AskMetadata,
        replicas: Replicas,
        waiting: Purgatory,
        time: SteadyTime,
        chance: Chance,
        config: TransactionsConfig,
        markers: MarkerSender,
        version: Callable[[], int],
        observation: Observation = NOT_OBSERVED,
    ) -> None:
        self._observation = observation
        self._waiting = waiting
        self._config = config
        self._markers = markers
        self._version = version
        self.append_timeout_ms = APPEND_TIMEOUT_MS
        self._led: dict[int, Replica] = {}  # the log of each machine
        self.runtime: CoordinatorRuntime[AnyTransactionCommand, TransactionFact] = CoordinatorRuntime(
            self, image, ask_metadata, replicas, waiting, time, chance
        )

    # --- as a guest of the runtime

    def new_machine(self, replica: Replica) -> TransactionsMachine:
        from chronik.core.machines.transactions.machine import TransactionsMachine  # with the first transactional id

        self._led[replica.partition] = replica
        return TransactionsMachine(replica.partition, self._config, self._version)

    def loaded(self, host: TransactionsHost) -> None:
        for transaction in list(_transactions_of(host).prepared()):
            self._send(host.replica, transaction)

    def lost(self, host: TransactionsHost) -> None:
        self._led.pop(host.replica.partition, None)
        self._markers.forget(host.replica.partition)

    def applied(self, machine: Machine[AnyTransactionCommand, TransactionFact], facts: list[TransactionFact]) -> None:
        from chronik.core.machines.transactions.facts import TransactionSet

        replica = self._led[cast("TransactionsMachine", machine).partition]
        observer = self._observation.observer
        for fact in facts:
            if not isinstance(fact, TransactionSet):
                continue
            if fact.transaction.is_prepared:
                self._send_when_durable(replica, fact.transaction, replica.log.end_offset)
            if observer.is_observing:
                from chronik.node.coordinators import transaction_changes  # with the first that is traced

                transaction_changes.report(fact, observer)

    # --- from a decision to its effect

    def _send_when_durable(self, replica: Replica, transaction: Transaction, end_offset: int) -> None:
        decided = partial(self._decided, replica, transaction, end_offset)
        self._waiting.when_safe(replica, end_offset, ACKS_ALL, FOR_EVER_MS, decided)

    def _decided(self, replica: Replica, transaction: Transaction, end_offset: int, code: Code) -> None:
        if code is Code.NONE:
            self._send(replica, transaction)
        elif code is Code.NOT_ENOUGH_REPLICAS_AFTER_APPEND:  # by as many as there are, which is not enough to act on
            again = partial(self._send_when_durable, replica, transaction, end_offset)
            self._waiting.after_ms(RETRY_MS, again)
        # Else the log was lost or is another node's: that one finds the decision, or never will.

    def _send(self, replica: Replica, transaction: Transaction) -> None:
        if self._led.get(replica.partition) is replica:
            key = MarkerKey(replica.partition, replica.leader_epoch, transaction.transactional_id)
            self._markers.send(key, transaction, partial(self._complete, replica, transaction))

    def _complete(self, replica: Replica, transaction: Transaction) -> None:
        """Every partition has its marker. If the log takes nothing now this is tried again: a producer waits for it."""
        from chronik.core.machines.transactions.commands import MarkersWritten, ProducerIdentity

        if self._led.get(replica.partition) is not replica:
            return
        producer = ProducerIdentity(transaction.producer_id, transaction.producer_epoch)
        try:
            completed = self.runtime.host(replica.partition).ask(MarkersWritten(transaction.transactional_id, producer))
        except Refused:
            self._waiting.after_ms(RETRY_MS, partial(self._complete, replica, transaction))
        else:
            completed.add_done_callback(_outcome_seen)  # applied: what follows from it waits for it to be durable

    # --- asking

    async def ask(self, transactional_id: str, command: TransactionCommand[AnswerT]) -> AnswerT:
        """Raises Refused (NOT_COORDINATOR, COORDINATOR_LOAD_IN_PROGRESS, COORDINATOR_NOT_AVAILABLE; the machine's)."""
        host = await self.runtime.wait_for_host(transactional_id)
        return cast("AnswerT", await host.ask(cast("AnyTransactionCommand", command)))  # a test holds them equal

    async def coordinator(self, transactional_id: str) -> tuple[int, str, int]:
        """Node id, host and port of its coordinator. Raises Refused (COORDINATOR_NOT_AVAILABLE)."""
        return await self.runtime.coordinator(transactional_id)

    def coordinator_now(self, transactional_id: str) -> Broker | None:
        """The node that leads its partition, as far as the image says."""
        return self.runtime.coordinator_now(transactional_id)

    @property
    def is_loading(self) -> bool:
        """Whether some transactional ids of this node are not known yet."""
        return self.runtime.is_loading

    def machines(self) -> Iterator[TransactionsMachine]:
        """Those that have read their logs."""
        return map(_transactions_of, self.runtime.hosts())

    def unfinished(self) -> Iterator[tuple[Transaction, dict[TopicPartition, str]]]:
        """Transactions that are ongoing or prepared, and where the marker is missing of those, with the reason."""
        for host in self.runtime.hosts():
            replica = host.replica
            for one in _transactions_of(host).unfinished():
                key = MarkerKey(replica.partition, replica.leader_epoch, one.transactional_id)
                yield one, self._markers.missing(key) if one.is_prepared else {}

    def close(self) -> None:
        self.runtime.close()
        self._markers.close()


def _transactions_of(host: TransactionsHost) -> TransactionsMachine:
    return cast("TransactionsMachine", host.machine)  # `new_machine` makes no other


def _outcome_seen(answer: asyncio.Future[object]) -> None:
    """No request waits for it. Where it was refused leadership is lost, and the next coordinator completes it."""
    if not answer.cancelled():
        answer.exception()
