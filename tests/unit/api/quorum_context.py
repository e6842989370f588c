"""A desk with a quorum that says what the test wants, and keeps what it was asked."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, cast

from chronik.api.context import RequestContext
from chronik.core.errors import Refused
from chronik.core.raft.messages import LastAnswer, LogPoint
from chronik.core.raft.view import QuorumView
from tests.unit.api.fake_context import fake_context


class FakeApplied:
    """Keeps what it was told."""

    def __init__(self) -> None:
        self.noted: dict[int, int] = {}

    def note(self, node_id: int, end_offset: int) -> None:
        self.noted[node_id] = end_offset


class FakeQuorum:
    """Answers each step with `answer`, an answer or a function of the request."""

    def __init__(self, answer: Any = None) -> None:
        self.answer = answer
        self.asked: list[Any] = []
        self.leader_id: int | None = 2
        self.epoch = 5
        self.view: QuorumView | Refused | None = None
        self.snapshot = b""
        self.refusal: Refused | None = None
        self.replica: Any = None
        self.last_answers: dict[int, LastAnswer] = {}
        self.time_ms = 1000
        self.applied = FakeApplied()
        self.readers: list[Callable[[], None]] = []

    def now_ms(self) -> int:
        return self.time_ms

    def step(self, request: Any) -> Any:
        self.asked.append(request)
        if self.refusal is not None:
            raise self.refusal
        return self.answer(request) if callable(self.answer) else self.answer

    def describe(self) -> QuorumView:
        if isinstance(self.view, Refused):
            raise self.view
        assert self.view is not None
        return self.view

    def address_of(self, node_id: int) -> tuple[str, int] | None:
        return (f"host{node_id}", 9000 + node_id) if node_id != 9 else None

    def read_snapshot_part(self, point: LogPoint, position: int, length: int) -> bytes:
        return self.snapshot[position : position + length]

    def when_news(self, reader: Callable[[], None]) -> None:
        self.readers.append(reader)

    def stop_reading(self, reader: Callable[[], None]) -> None:
        if reader in self.readers:
            self.readers.remove(reader)

    async def add_voter(self, node_id: int, address: tuple[str, int] | None, *, is_waited_for: bool = True) -> None:
        self.asked.append(("add", node_id, address, is_waited_for))
        if self.refusal is not None:
            raise self.refusal

    async def remove_voter(self, node_id: int) -> None:
        self.asked.append(("remove", node_id))
        if self.refusal is not None:
            raise self.refusal


def quorum_context(quorum: FakeQuorum) -> RequestContext:
    return replace(fake_context(), quorum=cast(Any, quorum))
