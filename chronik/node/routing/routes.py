"""The links on which the requests of one client's connection travel on to other nodes.

They are that connection's alone, so its requests keep their order whatever other clients do, and they end with it:
when its last batches have arrived.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from functools import partial

from chronik.api.context import Caller
from chronik.core.types import Buffer
from chronik.node.net.peers import Client, Link, NotSent, Peers
from chronik.node.routing.acks0_sequencer import Acks0Sequencer


class Route:
    """One connection's links, made when they are first needed."""

    def __init__(self, peers: Peers, client: Client | None = None) -> None:
        self._peers = peers
        self._client = client  # for which is asked
        self._links: dict[int, Link] = {}
        self._writes: dict[int, int] = {}  # by node: batches sent on whose answer is not there yet
        self._sequencers: dict[tuple[str | bytes, int], Acks0Sequencer] = {}  # by partition
        self.is_closed = False

    def ask(self, node_id: int, pieces: Sequence[Buffer], timeout_ms: int) -> asyncio.Future[memoryview]:
        """Send a whole request on. Fails with Unreachable."""
        if self.is_closed:
            return _not_sent()
        return self._link(node_id).ask_frame(pieces, timeout_ms=timeout_ms)

    def write(self, node_id: int, pieces: Sequence[Buffer], timeout_ms: int) -> asyncio.Future[memoryview]:
        """The same for batches: a client that sends them and hangs up has sent them nevertheless."""
        self._writes[node_id] = self._writes.get(node_id, 0) + 1
        answer = self._link(node_id).ask_frame(pieces, timeout_ms=timeout_ms)
        answer.add_done_callback(partial(self._written, node_id))
        return answer

    def sequencer(self, topic: str | bytes, partition: int) -> Acks0Sequencer:
        """Of the batches for this partition whose client wants no answer."""
        return self._sequencers.setdefault((topic, partition), Acks0Sequencer())

    def _link(self, node_id: int) -> Link:
        link = self._links.get(node_id)
        if link is None:
            link = self._links[node_id] = self._peers.new_link(node_id, self._client)
        return link

    def _written(self, node_id: int, answer: asyncio.Future[memoryview]) -> None:
        self._writes[node_id] -= 1
        if self.is_closed and not self._writes[node_id]:
            self._drop(node_id)

    def _drop(self, node_id: int) -> None:
        link = self._links.pop(node_id, None)
        if link is not None:
            link.close()

    def drop_where(self, is_gone: Callable[[int], bool]) -> None:
        """End the links to such nodes; what is under way on them fails."""
        for node_id in [node_id for node_id in self._links if is_gone(node_id)]:
            self._drop(node_id)

    def close(self) -> None:
        """The client has gone. Links that still carry batches are left until those have arrived."""
        self.is_closed = True
        self.drop_where(lambda node_id: not self._writes.get(node_id))


def _not_sent() -> asyncio.Future[memoryview]:
    answer: asyncio.Future[memoryview] = asyncio.get_running_loop().create_future()
    answer.set_exception(NotSent("the client has hung up"))
    answer.exception()  # if nothing waits for it, that is no fault
    return answer


class Routes:
    """Those of all connections, by connection id."""

    def __init__(self, peers: Peers) -> None:
        self._peers = peers
        self._open: dict[int, Route] = {}

    def of(self, caller: Caller) -> Route:
        """The route of a connection that is open."""
        route = self._open.get(caller.connection_id)
        if route is None:
            client = caller.principal, caller.client_host  # the node that is asked has to know for whom
            route = self._open[caller.connection_id] = Route(self._peers, client)
        return route

    def connection_closed(self, connection_id: int) -> None:
        route = self._open.pop(connection_id, None)
        if route is not None:
            route.close()

    def drop_where(self, is_gone: Callable[[int], bool]) -> None:
        """End every link to such nodes."""
        for route in self._open.values():
            route.drop_where(is_gone)

    def __len__(self) -> int:
        return len(self._open)
