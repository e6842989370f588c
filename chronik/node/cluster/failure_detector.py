"""On the controller: fences a broker whose process is gone before its session is over.

A killed process refuses connections; one that hangs, or cannot be reached, does not. So the controller keeps a link to
every live broker and sends a small request now and then: when the process dies the link breaks, and the next question
finds the port closed. A refusal on any other link of this node says the same. The machine decides whether that is
enough (BrokerGone): as long as it has heard of the broker lately it is not, and the broker is looked at again.
"""

from __future__ import annotations

import asyncio
import logging
from functools import partial
from typing import Any

from chronik import __version__
from chronik.core.errors import Refused
from chronik.core.machines.metadata.controller_commands import BrokerGone
from chronik.node.cluster.controller_link import LocalMetadata
from chronik.node.net.peers import Peers
from chronik.node.runtime.deadlines import Deadline, Deadlines
from chronik.wire.versions import API_VERSIONS

log = logging.getLogger(__name__)

PURPOSE = "watch"
ANSWER_MS = 1_000
ALONE_LOOK_MS = 2_000  # a node alone has no other to look at, until another joins
LOOKS_PER_INTERVAL = 4  # how often it looks whether it has become the controller, in a heartbeat interval


class FailureDetector:
    """Runs on every node, and is idle on all but the controller."""

    def __init__(
        self, metadata: LocalMetadata, peers: Peers, deadlines: Deadlines, node_id: int, interval_ms: int
    ) -> None:
        self._metadata = metadata
        self._peers = peers
        self._deadlines = deadlines
        self._node_id = node_id
        self._look_ms = max(1, interval_ms // LOOKS_PER_INTERVAL)
        self._looks = 0
        self._was_controller = False
        self._next_look: Deadline | None = None
        self._again: dict[int, Deadline] = {}  # brokers that refused, and were heard of too lately
        self._asked: dict[int, asyncio.Future[Any]] = {}

    def start(self) -> None:
        self._peers.listen_for_refusals(self.refused)
        self._next_look = self._deadlines.after_ms(self._look_ms, self._look)

    def stop(self) -> None:
        self._peers.stop_listening(self.refused)
        for deadline in (self._next_look, *self._again.values()):
            if deadline is not None:
                self._deadlines.cancel(deadline)
        self._next_look = None
        self._again.clear()

    def _look(self) -> None:
        """Every interval, and at once when this node has become the controller: the last one is gone, most likely."""
        has_company = len(self._metadata.image.brokers) > 1
        self._next_look = self._deadlines.after_ms(self._look_ms if has_company else ALONE_LOOK_MS, self._look)
        is_controller = self._metadata.is_controller and has_company
        self._looks = self._looks + 1 if is_controller and self._was_controller else 0
        self._was_controller = is_controller
        if is_controller and self._looks % LOOKS_PER_INTERVAL == 0:
            for broker in self._metadata.image.live_brokers():
                self._ask(broker.id)

    def _ask(self, broker_id: int) -> None:
        self._again.pop(broker_id, None)
        under_way = self._asked.get(broker_id)
        if broker_id == self._node_id or (under_way is not None and not under_way.done()):
            return
        from kio.schema.api_versions.v4.request import ApiVersionsRequest  # a node that is alone starts without it

        message = ApiVersionsRequest(client_software_name="chronik", client_software_version=__version__)
        # Whether it answers does not matter: whether the connection is refused does, and that is reported by the peers.
        self._asked[broker_id] = self._peers.link(broker_id, PURPOSE).ask(API_VERSIONS, message, timeout_ms=ANSWER_MS)

    def refused(self, broker_id: int) -> None:
        """Nothing listens where this broker should be."""
        if not self._metadata.is_controller or broker_id in self._again:
            return
        try:
            future = self._metadata.ask_here(BrokerGone(broker_id))
        except Refused:  # no longer the controller, or its disk is full: the session ends by itself
            return
        future.add_done_callback(partial(self._decided, broker_id))

    def _decided(self, broker_id: int, future: asyncio.Future[Any]) -> None:
        if future.cancelled() or future.exception() is not None or self._next_look is None:
            return
        wait_ms = future.result()
        if wait_ms > 0 and broker_id not in self._again:
            self._again[broker_id] = self._deadlines.after_ms(wait_ms, partial(self._ask, broker_id))
