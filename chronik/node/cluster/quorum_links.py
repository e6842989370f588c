"""Requests of this node to the other voters: votes and announcements over one link, fetches over another, as they wait
at the leader for news. Loaded with the first of them: a node that is alone starts without it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

from chronik.api import begin_quorum_epoch, describe_quorum, end_quorum_epoch, fetch_snapshot, quorum_fetch, vote
from chronik.core.errors import Refused
from chronik.core.raft import messages as m
from chronik.core.raft.messages import LogPoint
from chronik.core.raft.ready import RaftSettings
from chronik.core.raft.view import QuorumView
from chronik.core.types import Buffer
from chronik.node.net.peers import Peers, Unreachable
from chronik.wire.errors import Malformed

log = logging.getLogger(__name__)

PURPOSE = "quorum"
FETCH_PURPOSE = "quorum-fetch"

_MODULES: dict[type, Any] = {m.Vote: vote, m.BeginEpoch: begin_quorum_epoch, m.EndEpoch: end_quorum_epoch}


class Cargo(NamedTuple):
    """What came with an answer: records, or bytes of a snapshot."""

    content: Buffer
    snapshot: LogPoint | None = None
    position: int = 0


class QuorumLinks:
    """Requests of the machine on their way to other nodes, and their answers on the way back."""

    def __init__(self, peers: Peers, settings: RaftSettings, cluster_id: str) -> None:
        self._peers = peers
        self._settings = settings
        self._cluster_id = cluster_id
        self._asked: dict[tuple[int, m.Message], asyncio.Future[Any]] = {}

    def ask(self, to: int, message: m.Request, heard: Callable[[m.Answer], None]) -> None:
        """Send it, unless the very same is under way; `heard` is called with the answer, if one comes."""
        if (to, message) in self._asked:
            return
        module = _MODULES[type(message)]
        request = module.request_of(message, to, self._cluster_id)
        link = self._peers.link(to, PURPOSE)
        future = self._asked[to, message] = link.ask(module.KEY, request, timeout_ms=self._settings.election_ms)
        future.add_done_callback(partial(self._answered, to, message, heard))

    def _answered(
        self, to: int, message: m.Request, heard: Callable[[m.Answer], None], future: asyncio.Future[Any]
    ) -> None:
        self._asked.pop((to, message), None)
        if future.cancelled():
            return
        try:
            answer = _MODULES[type(message)].answer_of(future.result(), message, to)
        except (Unreachable, Refused) as problem:
            if isinstance(problem, Refused):
                log.warning("node %d answers: %s", to, problem)
            return
        heard(answer)

    async def wait_until_answered(self, seconds: float) -> None:
        """Until nothing is under way, or so long."""
        if self._asked:
            await asyncio.wait(list(self._asked.values()), timeout=seconds)

    def fetch(
        self,
        to: int,
        message: m.Message,
        high_watermark: int,
        on_fetched: Callable[[m.Answer | None, Cargo | None], None],
    ) -> None:
        """Ask for records or for bytes of a snapshot, and say how far this node has applied them; `on_fetched` is given
        what came, or nothing."""
        link = self._peers.link(to, FETCH_PURPOSE)
        wait_ms = self._settings.fetch_ms * 3 // 10  # well before the leader would be missed
        future: asyncio.Future[Any]
        if isinstance(message, m.FetchSnapshot):
            request = fetch_snapshot.request_of(message, to, self._cluster_id)
            future = link.ask(fetch_snapshot.KEY, request, timeout_ms=self._settings.fetch_ms)
        else:
            assert isinstance(message, m.Fetch)  # there are no others
            frame = quorum_fetch.frame_of(message, self._cluster_id, wait_ms, high_watermark)
            future = link.ask_frame((frame,), timeout_ms=wait_ms + self._settings.fetch_ms)
        future.add_done_callback(partial(self._fetched, to, message, on_fetched))

    def _fetched(
        self,
        to: int,
        message: m.Fetch | m.FetchSnapshot,
        on_fetched: Callable[[m.Answer | None, Cargo | None], None],
        future: asyncio.Future[Any],
    ) -> None:
        if future.cancelled():
            return
        answer: m.RaftFetchAnswer | m.FetchSnapshotAnswer
        try:
            if isinstance(message, m.FetchSnapshot):
                answer, content = fetch_snapshot.answer_of(future.result(), message, to)
                cargo = Cargo(content, message.snapshot, message.position)
            else:
                answer, records = quorum_fetch.answer_of(future.result(), message, to)
                cargo = Cargo(records)
        except (Unreachable, Refused, Malformed) as problem:
            if not isinstance(problem, Unreachable):
                log.warning("node %d answers a fetch of the metadata: %s", to, problem)
            on_fetched(None, None)
            return
        on_fetched(answer, cargo)

    async def ask_view(self, leader: int, timeout_ms: int) -> QuorumView:
        """What the leader sees. Raises Unreachable, Refused."""
        link = self._peers.link(leader, PURPOSE)
        response = await link.ask(describe_quorum.KEY, describe_quorum.REQUEST_OF_ALL, timeout_ms=timeout_ms)
        return describe_quorum.view_in(response)
