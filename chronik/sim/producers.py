"""Producers of a simulated world: idempotent with five requests in flight, plain with every kind of acks."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Any

from chronik.core.errors import Code
from chronik.core.records.payload import KeyValue, build
from chronik.core.types import TopicPartition
from chronik.sim.client import SimClient, TryAgain, milliseconds
from chronik.sim.hints import Placed
from chronik.sim.link import SimLink, part_of

IN_FLIGHT_MAX = 5
TIMEOUT_MS = 5000
HASTE = 0.1  # of the pauses that are left when nothing goes wrong any more
_SEQUENCE_LOST = frozenset((Code.OUT_OF_ORDER_SEQUENCE_NUMBER, Code.UNKNOWN_PRODUCER_ID))


class SimProducer(SimClient):
    """Sends its batches one after the other to one partition and waits for each, as its acks say."""

    partition: TopicPartition
    acks: int
    batches: int
    pace_s: float
    large: float = 0.0  # how often a batch is a large one
    is_lost = False  # it sends to any node, which has to send it on
    is_replicated = False  # more than one node has the partition
    _leader_epoch = 0  # of the leader that it sends to
    _done = 0  # batches that need not be sent again
    _made: list[list[bytes]]
    _placed: dict[asyncio.Future[Any], Placed | None]  # what the node that was asked knew then

    def values(self, number: int) -> list[bytes]:
        """The values of a batch: who sent them and which they are, so that each is the only one of its kind."""
        made = self.__dict__.setdefault("_made", [])
        while len(made) <= number:
            first = sum(map(len, made))
            count = 1 + self.chance.below(3)
            pad = 20_000 if self.chance.happens(self.large) else self.chance.below(200)
            made.append([b"%s:%d:%s" % (self.name.encode(), first + i, b"x" * pad) for i in range(count)])
        values: list[bytes] = made[number]
        return values

    def make_haste(self) -> None:
        """Nothing goes wrong any more: what is left is sent without leisure, for that would find nothing."""
        self.pace_s *= HASTE

    def send(self, link: SimLink, number: int, batch: bytes) -> asyncio.Future[Any]:
        topic, partition = part_of("produce", "topic_data"), part_of("produce", "topic_data", "partition_data")
        part = partition(index=self.partition.partition, records=batch)
        answer = link.send(
            "produce",
            is_answered=self.acks != 0,
            acks=self.acks,
            timeout=milliseconds(TIMEOUT_MS),
            topic_data=(topic(name=self.partition.topic, partition_data=(part,)),),
        )
        self.__dict__.setdefault("_placed", {})[answer] = self.judge.truth.placed(link.address, self.partition)
        return answer

    async def wait_for_answer(self, link: SimLink, answer: asyncio.Future[Any]) -> Any:
        """What became of the batch; the leader that it names is held against the truth. Raises OSError."""
        response = await link.wait_for(answer)
        part, before = response.responses[0].partition_responses[0], self._placed.pop(answer)
        after = self.judge.truth.placed(link.address, self.partition)
        self.judge.hints.heard(self.name, self.partition, part.current_leader, before, after)
        self.judge.hints.endpoints(self.name, response.node_endpoints)
        return part

    async def target(self) -> SimLink:
        """The connection to the leader, or to wherever this producer believes it to be. Raises OSError and TryAgain."""
        if self.is_lost:
            return await self.link()
        leader = await self.leader_of(self.partition)
        self._leader_epoch = self.routes.places[self.partition].leader_epoch
        return await self.link(leader)

    def acknowledged(self, number: int, part: Any) -> None:
        values, is_leaders_word = self.values(number), self.acks == 1 and self.is_replicated
        if not (is_leaders_word and self.is_lost):  # no node knows which leader's word it is then
            epoch = self._leader_epoch if is_leaders_word else None
            self.judge.acknowledged(self.name, self.partition, part.base_offset, values, epoch)
        self.story.count(b"ack %s %d %d" % (self.name.encode(), number, part.base_offset))

    def check_unless_damaged(self, code: Code, what: str) -> None:
        if code != Code.NONE and self.judge.may_refuse(self.partition):
            self._done = self.batches  # it is refused for good, and rightly
            raise TryAgain(f"{what}: {code.name}, for it is damaged")
        self.check(code, what)

    async def attempt(self) -> None:
        while self._done < self.batches:
            values = self.values(self._done)
            self.judge.sent(self.partition, values, is_idempotent=False)
            batch = build([KeyValue(None, value) for value in values], self.clock.now_ms())
            link = await self.target()
            answer = self.send(link, self._done, bytes(batch))
            if self.acks != 0:
                part = await self.wait_for_answer(link, answer)
                self.check_unless_damaged(part.error_code, f"produce to {self.partition}")
                self.acknowledged(self._done, part)
            self._done += 1
            await asyncio.sleep(self.chance.between(0, 2 * self.pace_s))


class IdempotentProducer(SimProducer):
    """Five in flight; whatever goes wrong, all that was not answered is sent again, in order, on a new connection."""

    acks = -1
    producer_id = -1

    async def attempt(self) -> None:
        if self.producer_id < 0:
            answer = await self.ask("init_producer_id", transactional_id=None, transaction_timeout=milliseconds(60_000))
            self.check(answer.error_code, "a producer id")
            self.producer_id = answer.producer_id
        in_flight: deque[tuple[int, asyncio.Future[Any]]] = deque()
        next_number = first = self._done
        link = await self.target()
        while self._done < self.batches:
            while len(in_flight) < IN_FLIGHT_MAX and next_number < self.batches:
                in_flight.append((next_number, self.send(link, next_number, self._batch(next_number))))
                next_number += 1
                if self.chance.happens(0.7):
                    await asyncio.sleep(self.chance.between(0, 2 * self.pace_s))
            number, answer = in_flight.popleft()
            part = await self.wait_for_answer(link, answer)
            if part.error_code in _SEQUENCE_LOST:
                self._sequence_lost(number, part.error_code, is_first=number == first)
            self.check_unless_damaged(part.error_code, f"produce to {self.partition}")
            self.acknowledged(number, part)
            self._done += 1

    def _sequence_lost(self, number: int, code: Code, *, is_first: bool) -> None:
        """Raises TryAgain, or Violation where that cannot be. A leader that has been left behind says it in good faith:
        it has not heard of what the next one took. The one after it must not, or this producer is never done.

        Of the last copy, damaged, only headers are read below the recovery point: a bit turned in a producer id there
        takes the batch from its producer. Any refusal is right then (seed 703)."""
        if self.judge.may_refuse(self.partition):
            self.check_unless_damaged(code, f"produce to {self.partition}")
        if is_first and not self.is_replicated:
            raise self.story.break_promise(
                f"{self.name}: batch {number} follows on what was acknowledged, yet it got {code.name}"
            )
        raise TryAgain(f"batch {number}: {code.name}, one before it was not taken")

    def _batch(self, number: int) -> bytes:
        values = self.values(number)
        self.judge.sent(self.partition, values, is_idempotent=True)
        sequence = sum(len(self.values(earlier)) for earlier in range(number))
        records = [KeyValue(None, value) for value in values]
        return bytes(
            build(records, self.clock.now_ms(), producer_id=self.producer_id, producer_epoch=0, base_sequence=sequence)
        )
