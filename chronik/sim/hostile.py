"""Programs that mean no good, until the bad days are over: whatever they say, every promise holds.

The hostile peer introduces itself as a node and speaks in its name, with ids, epochs and offsets that are wrong, stale
or huge. It may disturb (a vote in the name of a voter, within reach, makes the others elect anew), and must not end or
lose anything. Three lies are not in its repertoire, since only authentication can tell them from the truth: a fetch of
a follower or a voter that is right in every respect (its progress would be believed); a node's own registration and
what is signed with its broker epoch; a vote for an empty log, which a node with a new disk takes for the beginning.

The hostile client sends well-formed requests of every kind with values that make no sense.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from chronik.sim.absurd import Absurd
from chronik.sim.client import SimClient, milliseconds
from chronik.sim.link import SimLink, part_of, request_type
from chronik.sim.plans import CLUSTER_ID
from chronik.wire.versions import NODE_SOFTWARE, node_name

METADATA = "__cluster_metadata"
STRANGER = 99  # a node that there is not
ANSWER_S = 0.2
# Among nodes only, and what changes votes on purpose. One more has a form that the links here do not speak.
# A transactional id without a transaction has begun at -1, as in Kafka, which kio does not read (seed 5024).
NOT_FOR_CLIENTS = frozenset(("api_versions", "offset_delete", "describe_transactions"))
# These only read: they may name what there is.
READS = (
    "fetch",
    "list_offsets",
    "offset_for_leader_epoch",
    "metadata",
    "find_coordinator",
    "describe_groups",
    "describe_configs",
    "describe_producers",
    "describe_log_dirs",
    "describe_topic_partitions",
    "describe_quorum",
    "list_groups",
)


class Hostile(SimClient):
    """Speaks until it is over. What becomes of it is not its concern."""

    until_s: float
    pace_s: float

    async def attempt(self) -> None:
        loop = asyncio.get_running_loop()
        while loop.time() < self.until_s:
            await asyncio.sleep(self.chance.between(0, 2 * self.pace_s))
            try:
                await self.speak(self.chance.one_of(self.addresses))
            except OSError as problem:
                self.story.tell(self.name, f"{type(problem).__name__}: {problem}", is_chatter=True)

    async def speak(self, address: tuple[str, int]) -> None:
        """Raises OSError."""
        raise NotImplementedError

    async def say(self, link: SimLink, name: str, **fields: Any) -> Any:
        """Send it, and return the answer if it comes in a moment. Raises OSError."""
        self.story.tell(self.name, f"says {name}", is_chatter=True)
        answer = link.send(name, is_answered=fields.get("acks") != 0, **fields)
        await asyncio.wait([answer], timeout=ANSWER_S)
        return answer.result() if answer.done() else None


class HostileClient(Hostile):
    """Sends requests of all kinds that no client would."""

    topics: Sequence[str]
    kinds: Sequence[str]

    async def speak(self, address: tuple[str, int]) -> None:
        link = await SimLink.open(self.name, self.story, self.network, address)
        try:
            for _ in range(1 + self.chance.below(8)):
                name = self.chance.one_of(self.kinds)
                absurd = Absurd(self.chance, self.topics if name in READS else ())
                await self.say(link, name, **absurd.fields(request_type(name)))
        finally:
            link.abort()


class HostilePeer(Hostile):
    """Speaks in the name of nodes."""

    node_ids: Sequence[int]
    _heard_epoch = 1  # of the quorum: the latest that an answer had

    async def speak(self, address: tuple[str, int]) -> None:
        chance = self.chance
        claimed = chance.one_of((*self.node_ids, *self.node_ids, STRANGER))
        link = await SimLink.open(node_name(claimed), self.story, self.network, address)
        try:
            if chance.happens(0.9):
                introduction = {"client_software_name": NODE_SOFTWARE, "client_software_version": "1.0"}
                await self.say(link, "api_versions", **introduction)
            for _ in range(1 + chance.below(6)):
                sender = claimed if chance.happens(0.9) else chance.one_of((*self.node_ids, -1, 77))
                await chance.one_of((self._vote, self._begin, self._end, self._fetch, self._follow, self._other))(
                    link, sender
                )
        finally:
            link.abort()

    # --- what it draws

    def _cluster(self) -> str | None:
        return self.chance.one_of((CLUSTER_ID,) * 6 + (None, "another"))

    def _epoch(self) -> int:
        chance = self.chance
        near = max(self._heard_epoch + chance.one_of((-1, 0, 0, 1, 1, 2, 5)), 0)
        return chance.one_of((near,) * 6 + (0, 1, 900, 10**6, 2**31 - 1, 2**31 - 2, -1, -(2**31)))

    async def _say_to_quorum(self, link: SimLink, name: str, **fields: Any) -> None:
        """And listen which epoch it is."""
        answer = await self.say(link, name, **fields)
        parts = [part for topic in answer.topics for part in topic.partitions] if answer is not None else []
        self._heard_epoch = max([self._heard_epoch, *(part.leader_epoch for part in parts)])

    def _offset(self) -> int:
        """Never one that is within any node's log."""
        return self.chance.one_of((10**6, 10**9, 2**63 - 1, -1, -(2**63)))

    # --- what it says

    async def _vote(self, link: SimLink, sender: int) -> None:
        epoch, chance = self._epoch(), self.chance
        part = part_of("vote", "topics", "partitions")(
            partition_index=0,
            replica_epoch=epoch,
            replica_id=sender,
            replica_directory_id=None,
            voter_directory_id=None,
            last_offset_epoch=chance.one_of((max(epoch - 1, -1), 0, 1, 2**31 - 1)),
            last_offset=chance.one_of((1, 5, 100, 10**9, 2**63 - 1, -1)),
            pre_vote=chance.happens(0.5),
        )
        topics = (part_of("vote", "topics")(topic_name=METADATA, partitions=(part,)),)
        await self._say_to_quorum(link, "vote", cluster_id=self._cluster(), voter_id=-1, topics=topics)

    async def _begin(self, link: SimLink, sender: int) -> None:
        part = part_of("begin_quorum_epoch", "topics", "partitions")(
            partition_index=0, voter_directory_id=None, leader_id=sender, leader_epoch=self._epoch()
        )
        topics = (part_of("begin_quorum_epoch", "topics")(topic_name=METADATA, partitions=(part,)),)
        fields = {"cluster_id": self._cluster(), "voter_id": -1, "topics": topics, "leader_endpoints": ()}
        await self._say_to_quorum(link, "begin_quorum_epoch", **fields)

    async def _end(self, link: SimLink, sender: int) -> None:
        successor = part_of("end_quorum_epoch", "topics", "partitions", "preferred_candidates")
        part = part_of("end_quorum_epoch", "topics", "partitions")(
            partition_index=0,
            leader_id=sender,
            leader_epoch=self._epoch(),
            preferred_candidates=tuple(
                successor(candidate_id=node_id, candidate_directory_id=None)
                for node_id in (self.chance.one_of((*self.node_ids, -1, STRANGER)),)
            ),
        )
        topics = (part_of("end_quorum_epoch", "topics")(topic_name=METADATA, partitions=(part,)),)
        await self._say_to_quorum(
            link, "end_quorum_epoch", cluster_id=self._cluster(), topics=topics, leader_endpoints=()
        )

    async def _fetch(self, link: SimLink, sender: int) -> None:
        """Of the metadata log, or of a snapshot of it."""
        if self.chance.happens(0.5):
            point = part_of("fetch_snapshot", "topics", "partitions")
            numbers = {"replica_id": (sender,), "partition": (0,), "current_leader_epoch": (self._epoch(),)}
            absurd = Absurd(self.chance, numbers=numbers)
            topics = (part_of("fetch_snapshot", "topics")(name=METADATA, partitions=(absurd.message(point),)),)
            fields = absurd.fields(request_type("fetch_snapshot"))
            await self.say(link, "fetch_snapshot", **{**fields, "cluster_id": self._cluster(), "topics": topics})
            return
        await self._replica_fetch(link, sender, METADATA, self._cluster())

    async def _follow(self, link: SimLink, sender: int) -> None:
        """A partition, under a registration that is not the node's."""
        await self._replica_fetch(link, sender, self.chance.one_of(("topic0", "topic1", "hostile")), None)

    async def _replica_fetch(self, link: SimLink, sender: int, topic: str, cluster_id: str | None) -> None:
        part = part_of("fetch", "topics", "partitions")(
            partition=0,
            current_leader_epoch=self._epoch(),
            fetch_offset=self._offset(),
            last_fetched_epoch=self._epoch(),
            log_start_offset=self._offset(),
            partition_max_bytes=self.chance.one_of((0, -1, 2**31 - 1)),
        )
        await self.say(
            link,
            "fetch",
            cluster_id=cluster_id,
            replica_id=sender,
            max_wait=milliseconds(self.chance.one_of((0, 100, -1))),
            min_bytes=1,
            max_bytes=self.chance.one_of((0, -1, 2**31 - 1)),
            session_id=self.chance.one_of((0, 0, 1, -1)),
            session_epoch=self.chance.one_of((-1, 0, 1, 2**31 - 1)),
            topics=(part_of("fetch", "topics")(topic=topic, partitions=(part,)),),
            forgotten_topics_data=(),
        )

    async def _other(self, link: SimLink, sender: int) -> None:
        """What a broker says to its controller, under an epoch that is not its own, or for a node that is not there."""
        name = self.chance.one_of(
            ("alter_partition", "broker_heartbeat", "broker_registration", "allocate_producer_ids", "unregister_broker")
        )
        ids: dict[str, Sequence[int]] = {"broker_id": (sender,)}
        if name in ("broker_registration", "unregister_broker"):
            ids = {"broker_id": (STRANGER, STRANGER, -1, 77)}
        fields = Absurd(self.chance, numbers=ids).fields(request_type(name))
        if name == "broker_registration":
            fields["cluster_id"] = self._cluster() or ""
        await self.say(link, name, **fields)
