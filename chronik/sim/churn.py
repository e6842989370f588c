"""A client that makes a topic, writes to it, deletes it, makes it anew: a new topic must know nothing of the old."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from chronik.core.errors import Code
from chronik.core.records.payload import KeyValue, build, walk
from chronik.core.types import TopicPartition
from chronik.sim.client import SimClient, create_topics, fetch_one, milliseconds
from chronik.sim.link import part_of
from chronik.sim.plans import UNKEYED, TopicPlan

_NO_TOPIC = frozenset((Code.UNKNOWN_TOPIC_OR_PARTITION,))


class Churn(SimClient):
    """Each round is one topic's life. What a lost answer leaves open is settled by asking again. What was given up may
    still arrive, from the way or from a node that sends requests on: so the next topic has another name then. And a
    node that is cut off with a topic's only copy goes on taking what is written to its name, as Kafka's does: it cannot
    know that the topic is gone. Where there are more copies it has no follower to make it safe, and acknowledges
    nothing."""

    is_over: Callable[[], bool]
    rounds = 0
    _step = 0  # 0: to be made, 1: to be written and read, 2: to be deleted
    _tries = 0  # of the step under way
    _name = TopicPartition("scratch", 0)
    _has_doubts = False  # something was asked for again in this round
    _strayed = 0  # of the whole network, when this round began

    async def attempt(self) -> None:
        while not (self.is_over() and self._step == 0):
            self._tries += 1
            self._has_doubts |= self._tries > 1
            await (self._create, self._write, self._delete)[self._step]()
            self._step, self._tries = (self._step + 1) % 3, 0
            if self._step == 0:
                place = self.routes.places.get(self._name)
                is_only_copy = place is None or len(place.replicas) == 1
                self.routes.forget(self._name.topic)
                if self._may_come_late() or (self.is_in_cluster and (self._has_doubts or is_only_copy)):
                    self._name, self._has_doubts = TopicPartition(f"scratch{self.rounds}", 0), False
                self._strayed = self.network.strayed
            await asyncio.sleep(self.chance.between(0, 1.0))

    def _may_come_late(self) -> bool:
        """What was asked in this round: by this client, or by a node that it asked and that asked another one twice."""
        return self.network.strayed != self._strayed

    async def _create(self) -> None:
        answer = await create_topics(self, {self._name.topic: TopicPlan(1, -1, UNKEYED)})
        code = answer.topics[0].error_code
        # A controller that lost its office leaves open what it had decided, and the next one is asked again for it.
        is_open = self._tries > 1 or self.is_in_cluster or self._may_come_late()
        if code != Code.TOPIC_ALREADY_EXISTS or not is_open:
            self.check(code, "creating a topic that was deleted")
        self.rounds += 1

    async def _write(self) -> None:
        value = b"%s round %d" % (self.name.encode(), self.rounds)
        topic, partition = part_of("produce", "topic_data"), part_of("produce", "topic_data", "partition_data")
        batch = bytes(build([KeyValue(None, value)], self.clock.now_ms()))
        answer = await self.ask(
            "produce",
            await self.leader_of(self._name),
            acks=-1,
            timeout=milliseconds(5000),
            topic_data=(topic(name=self._name.topic, partition_data=(partition(index=0, records=batch),)),),
        )
        part = answer.responses[0].partition_responses[0]
        self.check(part.error_code, "writing to a topic that was made")
        if part.base_offset >= self._tries:
            raise self.story.break_promise(
                f"{self.name}: the first record of a new topic is at {part.base_offset} after {self._tries} tries"
            )
        found = await fetch_one(self, self._name, 0, 10_000, wait_ms=0)
        self.check(found.error_code, "reading a topic that was made")
        values = {record.value for record in walk(found.records or b"")}
        if values != {value}:
            raise self.story.break_promise(
                f"{self.name}: the topic of round {self.rounds} holds {sorted(map(str, values))}"
            )

    async def _delete(self) -> None:
        answer = await self.ask("delete_topics", topic_names=(self._name.topic,), timeout=milliseconds(5000))
        code = answer.responses[0].error_code
        if code not in _NO_TOPIC or (self._tries == 1 and not self._may_come_late()):
            self.check(code, "deleting a topic that was made")
