"""Consumers of a simulated world: readers that read everything again and again, and members of a classic group."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Callable
from typing import Any

from chronik.core.errors import Code
from chronik.core.types import TopicPartition
from chronik.sim.client import OUT_OF_REACH, Auditor, TryAgain, earliest, fetch_one, milliseconds
from chronik.sim.group_client import GroupClient
from chronik.sim.link import part_of
from chronik.sim.routes import Address, KnownLeader

SESSION_MS = 6000
REBALANCE_MS = 8000
GIVEN_UP = 2**62  # the position in a partition that is damaged, and was refused
_REJOIN = frozenset(
    (Code.REBALANCE_IN_PROGRESS, Code.UNKNOWN_MEMBER_ID, Code.ILLEGAL_GENERATION, Code.MEMBER_ID_REQUIRED)
)


class SimReader(Auditor):
    """Reads all partitions, now and then from an earlier offset again, until it has read to the end of a done world."""

    is_over: Callable[[], bool]
    from_followers: float = 0.0  # how often it reads from one
    _positions: dict[TopicPartition, int]

    async def attempt(self) -> None:
        positions = self.__dict__.setdefault("_positions", dict.fromkeys(self.names, 0))
        while True:
            is_last = self.is_over()
            for name in self.names:
                if positions.setdefault(name, 0) == GIVEN_UP:
                    continue
                end_offset = await self.latest(name)
                await self._read(name, positions)
                while is_last and positions[name] < end_offset:
                    await self._read(name, positions)
            if is_last:
                return
            await asyncio.sleep(self.chance.between(0, 0.2))

    async def _read(self, name: TopicPartition, positions: dict[TopicPartition, int]) -> None:
        offset = positions[name]
        if self.chance.happens(0.1):
            offset = self.chance.below(offset + 1)
        max_bytes = self.chance.one_of((200, 2_000, 100_000))
        place = await self.place_of(name)
        follower = self._follower(place)
        known = self.judge.known(name).watermark_within(place.leader_epoch) if follower is None else 0  # followers lag
        wait_ms, gone = self.chance.one_of((0, 100, 500)), self.judge.starts.gone(name, place.leader_epoch)
        part = await fetch_one(self, name, offset, max_bytes, wait_ms, follower)
        if part.error_code != Code.NONE and self.judge.may_refuse(name):
            positions[name] = GIVEN_UP
            return
        if part.error_code == Code.OFFSET_OUT_OF_RANGE and offset < self.judge.starts.limit(name):
            positions[name] = max(positions[name], await earliest(self, name))
            return
        self.check(part.error_code, f"reading {name} from {offset}", OUT_OF_REACH if follower else frozenset())
        if follower is None and part.records:
            self.judge.starts.gave(self.name, name, offset, gone)
        records, watermark, epoch = part.records or b"", part.high_watermark, place.leader_epoch
        next_offset = self.judge.read(self.name, name, offset, records, watermark, known, epoch)
        positions[name] = max(positions[name], next_offset)

    def _follower(self, place: KnownLeader) -> Address | None:
        """Now and then one of the others that have it."""
        if len(place.replicas) == 1 or not self.chance.happens(self.from_followers):
            return None
        return self.routes.address_of(self.chance.one_of(place.replicas))


class SimMember(GroupClient):
    """A member of a classic group: joins, reads what it is given, commits, and leaves when all has been read."""

    member_id = ""
    rejoin_codes = _REJOIN
    _partition_count = 0  # that it knew when it joined

    async def attempt(self) -> None:
        while not await self.is_all_committed():
            generation, assigned = await self._join()
            try:
                await self._consume(generation, assigned)
            except TryAgain as problem:  # a rebalance: join again on the same connection
                await self.pause(problem)
        if self.member_id:
            member = part_of("leave_group", "members")(member_id=self.member_id)
            answer = await self.ask_coordinator("leave_group", group_id=self.group, members=(member,))
            self.check(answer.error_code, "leaving the group", _REJOIN)

    async def _join(self) -> tuple[int, list[TopicPartition]]:
        protocol = part_of("join_group", "protocols")
        answer = await self.ask_coordinator(
            "join_group",
            group_id=self.group,
            session_timeout=milliseconds(SESSION_MS),
            rebalance_timeout=milliseconds(REBALANCE_MS),
            member_id=self.member_id,
            protocol_type="consumer",
            protocols=(protocol(name="range", metadata=b"\x00\x00\x00\x00\x00\x00\xff\xff\xff\xff"),),
        )
        if answer.error_code == Code.MEMBER_ID_REQUIRED:
            self.member_id = answer.member_id
            return await self._join()
        if answer.error_code == Code.UNKNOWN_MEMBER_ID:
            self.member_id = ""
        self.check(answer.error_code, "joining", _REJOIN)
        self.member_id, generation, self._partition_count = answer.member_id, answer.generation_id, len(self.names)
        self.story.tell(
            self.name,
            f"joined generation {generation}" + " as leader" * (answer.leader == self.member_id),
            is_chatter=True,
        )
        plans = self._plan([m.member_id for m in answer.members]) if answer.leader == self.member_id else ()
        answer = await self.ask_coordinator(
            "sync_group",
            group_id=self.group,
            generation_id=generation,
            member_id=self.member_id,
            protocol_type="consumer",
            protocol_name="range",
            assignments=plans,
        )
        self.check(answer.error_code, "syncing", _REJOIN)
        assigned = [self.names[place] for place in struct.unpack(f">{len(answer.assignment)}B", answer.assignment)]
        for name in assigned:
            self.judge.owns(self.group, generation, name, self.member_id)
        return generation, assigned

    def _plan(self, members: list[str]) -> tuple[Any, ...]:
        kind = part_of("sync_group", "assignments")
        shares: dict[str, bytes] = dict.fromkeys(members, b"")
        for place in range(len(self.names)):
            shares[members[place % len(members)]] += bytes((place,))
        return tuple(kind(member_id=member, assignment=share) for member, share in shares.items())

    async def _consume(self, generation: int, assigned: list[TopicPartition]) -> None:
        positions = await self.fetch_committed(assigned)
        while True:
            await self.read_on(assigned, positions)
            offsets = {name: offset for name, offset in positions.items() if offset >= 0}
            await self.commit(self.member_id, generation, offsets)
            answer = await self.ask_coordinator(
                "heartbeat", group_id=self.group, generation_id=generation, member_id=self.member_id
            )
            self.check(answer.error_code, "heartbeat", _REJOIN)
            if await self.is_all_committed() or len(self.names) > self._partition_count:
                return  # there is nothing left; or there are more partitions, which its leader has to share out
            await asyncio.sleep(self.chance.between(0.1, 0.6))
