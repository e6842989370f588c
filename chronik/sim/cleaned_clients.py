"""The clients of topics whose records go (`cleaned`): one that writes, one that reads and deletes, one that audits."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from chronik.core.errors import Code
from chronik.core.log.scan import sound_batches
from chronik.core.records.payload import KeyValue, build, walk
from chronik.sim.cleaned import AGED, Pair, Records
from chronik.sim.client import OUT_OF_REACH, Auditor, SimClient, TryAgain, fetch_one, milliseconds
from chronik.sim.link import part_of
from chronik.sim.producers import SimProducer

if TYPE_CHECKING:
    from chronik.sim.world import World

KEYS = 7
TOMBSTONES = 0.3  # of all records
EARLIEST, LATEST = -2, -1
_SEQUENCE_LOST = frozenset((Code.OUT_OF_ORDER_SEQUENCE_NUMBER, Code.UNKNOWN_PRODUCER_ID))


class CleanedProducer(SimProducer):
    """Idempotent, one batch after the other: so the last that was acknowledged of a key is the latest."""

    acks = -1
    known: Records
    _producer_id = -1

    async def attempt(self) -> None:
        if self._producer_id < 0:
            answer = await self.ask("init_producer_id", transactional_id=None, transaction_timeout=milliseconds(60_000))
            self.check(answer.error_code, "a producer id")
            self._producer_id = answer.producer_id
        while self._done < self.batches:
            pairs = self._pairs(self._done)
            link = await self.target()
            answer = self.send(link, self._done, self._batch(self._done))
            part = (await link.wait_for(answer)).responses[0].partition_responses[0]
            if part.error_code in _SEQUENCE_LOST:  # as with others: a leader that has been left behind says it
                raise TryAgain(f"batch {self._done}: {part.error_code.name}")
            self.check_unless_damaged(part.error_code, f"produce to {self.partition}")
            self.known.acknowledged(self.name, part.base_offset, pairs)
            self.story.count(b"ack %s %d %d" % (self.name.encode(), self._done, part.base_offset))
            self._done += 1
            await asyncio.sleep(self.chance.between(0, 2 * self.pace_s))

    def _pairs(self, number: int) -> list[Pair]:
        made: list[list[Pair]] = self.__dict__.setdefault("_made_pairs", [])
        while len(made) <= number:
            made.append([self._pair(len(made), i) for i in range(1 + self.chance.below(3))])
        return made[number]

    def _pair(self, batch: int, place: int) -> Pair:
        value = b"%s:%d:%d:%s" % (self.name.encode(), batch, place, b"x" * self.chance.below(150))
        if not self.known.is_keyed:
            return Pair(None, value)
        is_tombstone = self.chance.happens(TOMBSTONES)
        return Pair(b"key%d" % self.chance.below(KEYS), None if is_tombstone else value)

    def _batch(self, number: int) -> bytes:
        pairs = self._pairs(number)
        self.known.sent(pairs)
        sequence = sum(len(self._pairs(earlier)) for earlier in range(number))
        records = [KeyValue(*pair) for pair in pairs]
        return bytes(
            build(records, self.clock.now_ms(), producer_id=self._producer_id, producer_epoch=0, base_sequence=sequence)
        )


class CleanedAuditor(Auditor):
    """Reads all that there is, once, and compares."""

    known: Records

    async def attempt(self) -> None:
        if self.is_lost():
            return
        found = await self.read_all()
        if found is not None:
            self.known.whole(self.name, *found)

    def is_lost(self) -> bool:
        self.known.is_lost = self.known.is_lost or self.judge.may_refuse(self.known.name)
        return self.known.is_lost

    async def read_all(self) -> tuple[int, dict[int, Pair]] | None:
        """The log start, and every record from there on; None when it was deleted while it was read."""
        name = self.known.name
        start_offset, end_offset = await self._offset_at(EARLIEST), await self._offset_at(LATEST)
        offset, found = start_offset, dict[int, Pair]()
        while offset < end_offset:
            part = await fetch_one(self, name, offset, self.chance.one_of((500, 100_000)), wait_ms=0)
            if part.error_code == Code.OFFSET_OUT_OF_RANGE:
                return None
            self.check(part.error_code, f"reading {name} from {offset}")
            records = list(walk(part.records or b""))
            for record in records:
                if record.offset >= offset:
                    found[record.offset] = Pair(record.key, record.value)
                    self.known.saw(self.name, record.offset, found[record.offset])
            if not part.records:
                raise TryAgain(f"{name} has nothing from {offset} on and ends at {end_offset}")
            offset = next_offset_of(part.records)
        return start_offset, found

    async def _offset_at(self, timestamp: int) -> int:
        name = self.known.name
        topic, partition = part_of("list_offsets", "topics"), part_of("list_offsets", "topics", "partitions")
        leader, epoch = await self.leader_of(name), self.routes.places[name].leader_epoch
        deleted_below = self.known.deleted_below
        wanted = partition(partition_index=name.partition, current_leader_epoch=epoch, timestamp=timestamp)
        asked = (topic(name=name.topic, partitions=(wanted,)),)
        answer = await self.ask("list_offsets", leader, replica_id=-1, isolation_level=0, topics=asked)
        part = answer.topics[0].partitions[0]
        self.check(part.error_code, f"an offset of {name}")
        if timestamp == EARLIEST:
            self.known.start_seen(self.name, part.offset, deleted_below)
        return int(part.offset)


class CleanedReader(CleanedAuditor):
    """Reads it again and again while it is written, and now and then deletes from one that is not compacted."""

    is_over: Callable[[], bool]

    async def attempt(self) -> None:
        while not self.is_over() and not self.is_lost():
            await self.read_all()
            if self.known.name.topic == AGED and self.chance.happens(0.3):
                await self._delete()
            await asyncio.sleep(self.chance.between(0.2, 1.5))

    async def _delete(self) -> None:
        name = self.known.name
        start_offset, end_offset = await self._offset_at(EARLIEST), await self._offset_at(LATEST)
        target = start_offset + self.chance.below(end_offset - start_offset + 1)
        topic, partition = part_of("delete_records", "topics"), part_of("delete_records", "topics", "partitions")
        wanted = (topic(name=name.topic, partitions=(partition(partition_index=name.partition, offset=target),)),)
        answer = await self.ask("delete_records", await self.leader_of(name), topics=wanted, timeout=milliseconds(3000))
        part: Any = answer.topics[0].partitions[0]
        self.check(part.error_code, f"deleting from {name}", OUT_OF_REACH)  # retention was quicker
        self.story.tell(self.name, f"{name} is deleted below {target}")
        self.known.deleted(target)


def next_offset_of(records: bytes) -> int:
    """Behind the last batch, whose last records may be gone."""
    *_, last = sound_batches(records, "an answer")
    return last.header.next_offset


def cleaned_clients(world: World, batches: int) -> tuple[list[SimProducer], list[SimClient]]:
    """Those of a world, while it lasts."""
    producers: list[SimProducer] = []
    readers: list[SimClient] = []
    for known in world.cleaned.records:
        topic = known.name.topic
        traits: dict[str, Any] = {"batches": batches, "pace_s": world.seconds / batches * 0.8, "known": known}
        is_replicated = world.topics[topic].replica_count > 1
        producers.append(
            world.client(
                CleanedProducer, f"writes-{topic}", partition=known.name, is_replicated=is_replicated, **traits
            )
        )
        readers.append(world.client(CleanedReader, f"reads-{topic}", known=known, is_over=world.is_written, names=[]))
    return producers, readers


def cleaned_auditors(world: World, number: int) -> list[SimClient]:
    return [
        world.client(CleanedAuditor, f"audit-{known.name.topic}{number}", known=known, names=[])
        for known in world.cleaned.records
    ]
