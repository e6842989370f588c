"""A transactions machine in a test: asked, applied, and replayed from what it wrote."""

from __future__ import annotations

from chronik.core.config.sections.transactions import TransactionsConfig
from chronik.core.errors import Code, Refused
from chronik.core.machines.machine import Decision, LogRecord
from chronik.core.machines.transactions.commands import (
    AddPartitions,
    AnyTransactionCommand,
    EndTransaction,
    InitProducer,
    MarkersWritten,
    ProducerIdentity,
    ProducerIdNeeded,
)
from chronik.core.machines.transactions.facts import TransactionFact
from chronik.core.machines.transactions.machine import TransactionsMachine
from chronik.core.machines.transactions.transaction import Transaction, TransactionStatus
from chronik.core.types import TopicPartition

NOW_MS = 1_700_000_000_000
ID = "orders"
ORDERS_0, ORDERS_1, BILLS_0 = TopicPartition("orders", 0), TopicPartition("orders", 1), TopicPartition("bills", 0)


class Host:
    """Carries decisions out as node.machine_host does, without a log to wait for."""

    def __init__(self, version: int = 2, config: TransactionsConfig | None = None, ids_max: int = 1_000) -> None:
        self.version = version
        self.config = config or TransactionsConfig()
        self.machine = TransactionsMachine(0, self.config, lambda: self.version, ids_max)
        self.log: list[LogRecord] = []
        self.now_ms = NOW_MS
        self.next_producer_id = 1000
        self.expire()  # as after a replay

    def ask(self, command: AnyTransactionCommand) -> object:
        """The answer, or the code of the refusal."""
        try:
            decision = self.machine.decide(7, command, self.now_ms, self.now_ms)
        except Refused as refused:
            return refused.code
        self._take(decision)
        (reply,) = decision.replies
        assert reply.ticket == 7
        return reply.answer.code if isinstance(reply.answer, Refused) else reply.answer

    def _take(self, decision: Decision[TransactionFact]) -> None:
        for fact in decision.facts:
            if fact.durable:
                self.log.append(self.machine.encode(fact))
            self.machine.apply(fact)

    def expire(self) -> None:
        """All that is due now."""
        while True:
            due_ms = self.machine.next_deadline_ms()
            if due_ms is None or due_ms > self.now_ms:
                return
            self._take(self.machine.expire(self.now_ms, self.now_ms))

    def replayed(self) -> Host:
        """Another node takes over, with what is in the log."""
        other = Host(self.version, self.config)
        other.machine = TransactionsMachine(0, self.config, lambda: other.version)
        other.log, other.now_ms, other.next_producer_id = list(self.log), self.now_ms, self.next_producer_id
        for record in self.log:
            other.machine.replay(record)
        other.expire()
        return other

    # In short

    @property
    def transaction(self) -> Transaction:
        return self.machine.transactions[ID]

    def status(self) -> TransactionStatus:
        return self.transaction.status

    def init(self, expected: ProducerIdentity | None = None, *, timeout_ms: int = 60_000, id: str = ID) -> object:
        answer = self.ask(InitProducer(id, timeout_ms, expected))
        if isinstance(answer, ProducerIdNeeded):
            self.next_producer_id += 1
            answer = self.ask(InitProducer(id, timeout_ms, expected, self.next_producer_id))
        return answer

    def producer(self) -> ProducerIdentity:
        answer = self.init()
        assert isinstance(answer, ProducerIdentity), answer
        return answer

    def add(self, producer: ProducerIdentity, *partitions: TopicPartition, client: int = 0) -> object:
        return self.ask(AddPartitions(ID, producer, partitions or (ORDERS_0,), client))

    def end(self, producer: ProducerIdentity, *, commit: bool, client: int = 0) -> object:
        answer = self.ask(EndTransaction(ID, producer, commit, client))
        if isinstance(answer, ProducerIdNeeded):
            self.next_producer_id += 1
            answer = self.ask(EndTransaction(ID, producer, commit, client, self.next_producer_id))
        return answer

    def markers(self) -> object:
        one = self.transaction
        return self.ask(MarkersWritten(ID, ProducerIdentity(one.producer_id, one.producer_epoch)))


def is_code(answer: object) -> bool:
    return isinstance(answer, Code)
