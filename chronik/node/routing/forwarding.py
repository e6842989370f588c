"""Requests that reached a node where they do not belong: sent on, and the answer brought back.

Three kinds. Batches for partitions that other nodes lead go to their leaders, so that a client that knows one node
loses nothing (`produce_forwarder`). What changes the cluster goes to the controller (`controller_forwarder`). And where
all nodes have one address, so that a client cannot choose, everything goes where it belongs (`one_address`).

All requests of a client's connection travel on links of their own (`routes`), which keeps their order. A request that
comes from a node is never sent on: two nodes that each take the other for the leader would send it to and fro. It is
refused, and the node that sent it on looks again at the metadata.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine
from types import ModuleType
from typing import Any

from chronik.api.call import Call
from chronik.api.context import PartitionBatch, PendingProduce, RequestContext
from chronik.api.table import Destination, at, module_of
from chronik.core.errors import Code, Refused
from chronik.core.machines.metadata.image import MetadataImage
from chronik.node.coordinators.group_coordinator import GroupCoordinator
from chronik.node.coordinators.transaction_coordinator import TransactionCoordinator
from chronik.node.net.peers import Peers, Unreachable
from chronik.node.routing.asked import Asked
from chronik.node.routing.cluster_metadata import ClusterMetadata
from chronik.node.routing.controller_forwarder import ControllerForwarder
from chronik.node.routing.one_address import OneAddress
from chronik.node.routing.produce_forwarder import ProduceForwarder
from chronik.node.routing.routes import Routes
from chronik.node.runtime.deadlines import Deadlines
from chronik.trace.metrics import Metrics
from chronik.wire.versions import FETCH

ASK_MS = 4000  # of a request for a named node; the client that asks waits 5 s

CONTROLLER_BOUND = at(Destination.CONTROLLER)
ANY_NODES_OWN = at(Destination.ANYWHERE)


class Forwarding:
    """Sends on what belongs elsewhere."""

    def __init__(
        self,
        node_id: int,
        cluster: ClusterMetadata,
        groups: GroupCoordinator,
        transactions: TransactionCoordinator,
        peers: Peers,
        deadlines: Deadlines,
        metrics: Metrics,
    ) -> None:
        self._cluster = cluster
        self._peers = peers
        self._routes = Routes(peers)
        self._produce = ProduceForwarder(node_id, cluster, self._routes, deadlines, metrics)
        self._controller = ControllerForwarder(node_id, cluster)
        self._one_address = OneAddress(node_id, cluster.image, groups, transactions)
        self.taken = CONTROLLER_BOUND  # the requests that are to be shown to `handle` or `fetch`

    # --- requests

    def produce(self, produce: PendingProduce, batches: list[PartitionBatch]) -> None:
        """Send each partition's batch to its leader. Each is settled once, or tried again."""
        self._produce.produce(produce, batches)

    def handle(self, module: ModuleType, request: Any, call: Call, context: RequestContext) -> Coroutine[Any, Any, Any]:
        """The response of the module, or a `Relayed` one. Raises Refused."""
        route = self._routes.of(call.caller)  # now: later, the connection may be gone
        asked = Asked(module, call, context, route)
        if call.header.api_key in CONTROLLER_BOUND:
            return self._controller.handle(asked, request)
        return self._one_address.handle(asked, request)

    def fetch(self, call: Call, context: RequestContext) -> Callable[[], None] | None:
        """As api.fetch's `start`."""
        route = self._routes.of(call.caller)
        return self._one_address.fetch(Asked(module_of(FETCH), call, context, route))

    def ask_node(self, node_id: int, call: Call) -> Awaitable[memoryview]:
        """Another node's whole answer to this request. Raises Refused (BROKER_NOT_AVAILABLE)."""
        if self._peers.address_of(node_id) is None:
            raise Refused(Code.BROKER_NOT_AVAILABLE, f"node {node_id} is not known here")
        return _reached(self._routes.of(call.caller).ask(node_id, (call.frame,), ASK_MS))

    @property
    def is_controller(self) -> bool:
        return self._cluster.is_controller

    # --- what happens meanwhile

    def metadata_applied(self, facts: list[Any]) -> None:
        """The image changed; the replicas have been notified before."""
        image = self._cluster.image
        self.taken = at(*Destination) - ANY_NODES_OWN if self._one_address.is_in_use else CONTROLLER_BOUND
        if len(self._routes):
            # A node that is out will not answer: waiting for it would only make the client wait. The controller does,
            # whatever becomes of its broker; without its answer what it has done would be asked of it once more.
            controller_id = self._cluster.controller_id
            self._routes.drop_where(lambda node_id: node_id != controller_id and _is_out(image, node_id))
        self._produce.metadata_applied()

    def connection_closed(self, connection_id: int) -> None:
        self._routes.connection_closed(connection_id)
        self._produce.connection_closed(connection_id)

    def close(self) -> None:
        """Nothing is waited for any longer."""
        self._produce.close()


async def _reached(asking: Awaitable[memoryview]) -> memoryview:
    """Raises Refused."""
    try:
        return await asking
    except Unreachable as problem:
        raise Refused(Code.BROKER_NOT_AVAILABLE, str(problem)) from problem


def _is_out(image: MetadataImage, node_id: int) -> bool:
    broker = image.brokers.get(node_id)
    return broker is None or broker.is_fenced
