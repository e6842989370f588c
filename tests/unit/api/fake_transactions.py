"""A transaction coordinator for the tests of its requests: a real machine, without a log."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from chronik.api.context import RequestContext, TransactionContext
from chronik.core.config.sections.transactions import TransactionsConfig
from chronik.core.errors import Refused
from chronik.core.machines.transactions.commands import MarkersWritten, ProducerIdentity
from chronik.core.machines.transactions.machine import TransactionsMachine
from tests.unit.api.fake_context import fake_context

NOW_MS = 1_700_000_000_000


class FakeTransactions:
    """As node.coordinators.transaction_coordinator, on this node alone."""

    def __init__(self) -> None:
        self.machine = TransactionsMachine(0, TransactionsConfig(), lambda: 2)
        self.asked: list[Any] = []
        self.is_loading = False

    async def ask(self, transactional_id: str, command: Any) -> Any:
        self.asked.append(command)
        return self.tell(command)

    def tell(self, command: Any) -> Any:
        decision = self.machine.decide(1, command, NOW_MS, NOW_MS)
        for fact in decision.facts:
            self.machine.apply(fact)
        answer = decision.replies[0].answer
        if isinstance(answer, Refused):
            raise answer
        return answer

    def write_markers(self, transactional_id: str) -> None:
        one = self.machine.transactions[transactional_id]
        self.tell(MarkersWritten(transactional_id, ProducerIdentity(one.producer_id, one.producer_epoch)))

    async def coordinator(self, transactional_id: str) -> tuple[int, str, int]:
        return 3, "host-3", 9094

    def machines(self) -> Iterable[TransactionsMachine]:
        return [self.machine]


def context_with_transactions(**options: Any) -> tuple[RequestContext, FakeTransactions]:
    desk = FakeTransactions()
    return replace(fake_context(**options), transactional=TransactionContext(desk)), desk
