"""A desk with real replicas over files in memory, for the two requests that read and write them.

async with-less: make one inside a running loop, send it requests, `settle` to let syncs happen.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from types import ModuleType
from typing import Any, cast

from chronik.api import fetch, produce
from chronik.api.context import Caller, FetchContext, RequestContext
from chronik.core.config.node import NodeConfig
from chronik.core.fetch_sessions import FetchSessions
from chronik.core.machines.metadata.commands import AllocateProducerIds
from chronik.core.replica.throttle import leader_throttle
from chronik.wire.framing import RequestHeader
from tests.unit.api.calls import call_of
from tests.unit.core.fakes import MemoryFiles
from tests.unit.node.fakes import FakeChance, House
from tests.unit.wire.messages import read, response_type, write

WAITING = object()  # what a request has been answered with that was not answered yet


class Metadata:
    """What a handler reads of the metadata."""

    def __init__(self, house: House) -> None:
        self.image = house.image


class Asked:
    """A request under way, and its answer: WAITING, None (hung up), `()` (none), or what kio reads in the frame."""

    def __init__(self, api_key: int, version: int) -> None:
        self._api_key = api_key
        self._version = version
        self.answers: list[Any] = []
        self.leave: Any = None  # what starting it gave

    def __call__(self, buffers: Any) -> None:
        self.answers.append(buffers)

    @property
    def raw(self) -> Any:
        assert len(self.answers) < 2, "answered twice"
        return self.answers[0] if self.answers else WAITING

    @property
    def response(self) -> Any:
        raw = self.raw
        if raw is WAITING or raw is None or raw == ():
            return raw
        frame = b"".join(piece.read() if hasattr(piece, "read") else bytes(piece) for piece in raw)
        kind = response_type(self._api_key, self._version)
        head = write(kind.__header_schema__(correlation_id=9))
        assert frame[4 : 4 + len(head)] == head
        return read(kind, frame[4 + len(head) :])


class HouseContext:
    """A house, a desk in it, and the way to ask."""

    def __init__(
        self,
        topics: dict[str, int] | None = None,
        *,
        files: MemoryFiles | None = None,
        is_synced: bool = True,
        config: NodeConfig | None = None,
    ) -> None:
        self.house = House(files, topics or {"orders": 2}, is_synced=is_synced, config=config)
        self.house.tell(AllocateProducerIds(1))  # so that a test may use ids below 1000
        self.tasks: list[asyncio.Task[None]] = []
        self.context = RequestContext(
            node_id=1,
            cluster_id="a-test-cluster",
            fetching=FetchContext(
                self.house.config.fetch,
                FetchSessions(100),
                leader_throttle(1, lambda: self.house.image.node_config.replication),
            ),
            clock=self.house.clock,
            chance=FakeChance(),
            metadata=cast(Any, Metadata(self.house)),
            groups=cast(Any, None),
            replicas=self.house.replicas,
            waiting=self.house.waiting,
            start=self._start,
            metrics=self.house.metrics,
            observation=self.house.trace,
        )

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        self.tasks.append(asyncio.get_running_loop().create_task(work))

    def ask(self, module: ModuleType, version: int, body: bytes) -> Asked:
        api_key = {produce: 0, fetch: 1}[module]
        asked = Asked(api_key, version)
        header = RequestHeader(api_key, version, 9, "test", 0)
        caller = Caller("test", "10.0.0.7", version, 1)
        asked.leave = module.start(call_of(bytearray(body), header, caller, asked), self.context)
        return asked

    async def settle(self) -> None:
        """Until everything due has been synced, and work that was started is done."""
        await self.house.settle()
        await asyncio.gather(*self.tasks)


def run(
    topics: dict[str, int] | None = None, **options: Any
) -> Callable[[Callable[[HouseContext], Coroutine[Any, Any, None]]], Callable[[], None]]:
    """The test in a loop of its own, with a desk of these topics."""

    def decorate(test: Callable[[HouseContext], Coroutine[Any, Any, None]]) -> Callable[[], None]:
        async def with_desk() -> None:
            await test(HouseContext(topics, **options))

        def wrapped() -> None:
            asyncio.run(with_desk())

        wrapped.__name__ = test.__name__
        return wrapped

    return decorate
