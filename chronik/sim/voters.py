"""A client that takes a node's vote away and gives it back, again and again (KIP-853): no client may notice. A node
that has none from the beginning is lent one.

Two voters of three cannot bear the loss of a disk, and that is not promised: so no vote is taken while a node is down,
and no disk is lost while votes change (`Faults.wipe`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

from chronik.core.errors import Code
from chronik.sim.client import SimClient, milliseconds
from chronik.sim.link import part_of
from chronik.sim.plans import CLUSTER_ID, PORT, host_name

TIMEOUT_MS = 3000


class VoterChanges(SimClient):
    """A round is one node's vote, gone and back, or there and gone. What a lost answer leaves open is settled by asking
    again."""

    is_over: Callable[[], bool]
    is_calm: Callable[[], bool]  # every node is up and has all that it should have
    node_ids: Sequence[int]
    voter_ids: Sequence[int]  # of those, the nodes that vote when no round is under way
    rounds = 0
    _node_id = 0  # whose vote it is now; 0: none yet
    _is_half_done = False

    @property
    def is_under_way(self) -> bool:
        return self._node_id != 0

    async def attempt(self) -> None:
        while not (self.is_over() and not self.is_under_way):
            if not self.is_under_way:
                await asyncio.sleep(self.chance.between(0.2, 3.0))
                if not self.is_calm():
                    continue
                self._node_id = self.chance.one_of(self.node_ids)
            first, second = (self._remove, self._add) if self._node_id in self.voter_ids else (self._add, self._remove)
            if not self._is_half_done:
                await first()
                self._is_half_done = True
                await asyncio.sleep(self.chance.between(0, 2.0))
            await second()
            self._node_id, self._is_half_done = 0, False
            self.rounds += 1

    async def _remove(self) -> None:
        answer = await self.ask(
            "remove_raft_voter", cluster_id=CLUSTER_ID, voter_id=self._node_id, voter_directory_id=None
        )
        self._check(answer, Code.VOTER_NOT_FOUND, "taking a vote away")
        self.story.tell(self.name, f"took the vote of node{self._node_id} away")

    async def _add(self) -> None:
        listener = part_of("add_raft_voter", "listeners")
        answer = await self.ask(
            "add_raft_voter",
            cluster_id=CLUSTER_ID,
            timeout=milliseconds(TIMEOUT_MS),
            voter_id=self._node_id,
            voter_directory_id=None,
            listeners=(listener(name="INTERNAL", host=host_name(self._node_id), port=PORT),),
        )
        self._check(answer, Code.DUPLICATE_VOTER, "giving a vote")
        self.story.tell(self.name, f"gave node{self._node_id} a vote")

    def _check(self, answer: Any, done_already: Code, what: str) -> None:
        if answer.error_code != done_already:
            self.check(answer.error_code, what)
