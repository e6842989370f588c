"""Members of the groups of KIP-848: by one request, ConsumerGroupHeartbeat, they join, stay, give up and leave.

Some come and go all the time, vanish without a word, or doze until they have been given up. Whatever happens, they use
a partition only from the answer that assigns it until they let go of it, and say so only then.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
from typing import Any

from chronik.core.errors import Code
from chronik.core.types import TopicPartition
from chronik.sim.client import TryAgain, milliseconds
from chronik.sim.group_client import NO_EPOCH, NO_MEMBER, GroupClient
from chronik.sim.link import part_of

LEAVE_EPOCH = -1
REVOKE_MS = 4000  # how long its coordinator is to wait for what it must give up
DOZE_S = 8.0  # at most: longer than any session, and than REVOKE_MS
GIVES_UP = 0.3  # how often it gives up now what it must; else it goes on for a while
OLD_EPOCH = 0.1  # how often it commits at an epoch that is over
_OUT = frozenset((Code.FENCED_MEMBER_EPOCH, Code.UNKNOWN_MEMBER_ID))  # drop everything, and join again
_STALE = _OUT | frozenset((Code.STALE_MEMBER_EPOCH,))  # said to who commits, or looks commits up


class ConsumerMember(GroupClient):
    """Joins, reads what it is given, commits, and leaves when all has been read and the group has come to rest."""

    unrest: float  # how often it does something that makes the others rebalance
    assignor: str | None
    rejoin_codes = _STALE
    member_id = ""
    epoch = 0  # 0: not a member
    _old_epoch = 0  # the one before: nothing counts at it any more
    _next_beat_ms = 0
    _said: list[TopicPartition] | None = None  # what it last said it holds; None: everything is to be said
    _held: list[TopicPartition]
    _to_give_up: list[TopicPartition]  # of those
    _positions: dict[TopicPartition, int]

    async def attempt(self) -> None:
        if not self.member_id:
            self._begin_anew()
        self._said, self._next_beat_ms = None, 0  # after any error, as Kafka's consumer does it
        while True:
            if self.clock.monotonic_ms() >= self._next_beat_ms:
                await self._beat()
            if self._to_give_up and self.chance.happens(GIVES_UP):
                await self._give_up()
            if await self._is_at_rest():
                break
            await self._consume()
            if not self.is_over() and self.chance.happens(self.unrest):
                await self.chance.one_of((self._come_and_go, self._vanish, self._doze))()
            await asyncio.sleep(self.chance.between(0.05, 0.3))
        await self._leave()

    def shown(self) -> tuple[str | None, int]:
        return (self.member_id, self.epoch) if self.epoch else (NO_MEMBER, NO_EPOCH)

    async def _is_at_rest(self) -> bool:
        """Everything is committed, and every partition has a member that knows of it."""
        if not self.judge.holders.are_all_held(self.group, self.names) or not await self.is_all_committed():
            return False
        answer = await self.ask_coordinator(
            "consumer_group_describe", group_ids=(self.group,), include_authorized_operations=False
        )
        group = answer.groups[0]
        self.check(group.error_code, "describing the group")
        return bool(group.group_state == "Stable")

    # --- coming and going

    def _begin_anew(self, *, is_another: bool = True) -> None:
        """It holds nothing; before it has joined again it is no member, or another one."""
        if self.member_id:
            self.judge.holders.dropped_all(self.group, self.member_id)
        if is_another:
            self.member_id = base64.urlsafe_b64encode(self.chance.uuid()).decode().rstrip("=")
        self.epoch = self._old_epoch = self._next_beat_ms = 0
        self._said, self._held, self._to_give_up, self._positions = None, [], [], {}

    async def _leave(self) -> None:
        was_member = self.epoch != 0
        self._begin_anew(is_another=False)
        if was_member:
            with contextlib.suppress(OSError, TryAgain):  # nothing asks twice: its session ends in any case
                answer = await self._ask_to_beat(LEAVE_EPOCH, None, is_full=False)
                self.check(answer.error_code, "leaving the group", _OUT)

    async def _come_and_go(self) -> None:
        await self._leave()
        self._begin_anew(is_another=self.chance.happens(0.5))
        await asyncio.sleep(self.chance.between(0, 2.0))

    async def _vanish(self) -> None:
        self.hang_up()
        self._begin_anew()
        await asyncio.sleep(self.chance.between(0, 2.0))

    async def _doze(self) -> None:
        """And go on as if nothing had happened."""
        await asyncio.sleep(self.chance.between(0, DOZE_S))
        await self._commit(self._held)

    # --- heartbeats

    async def _beat(self) -> None:
        for name in self.names:
            if name not in self.routes.places:  # with the ids of topics, by which partitions are named here
                await self.place_of(name)
        sent_ms, is_full = self.clock.monotonic_ms(), self._said is None
        claim = list(self._held) if is_full or self._said != self._held else None
        try:
            answer = await self._ask_to_beat(self.epoch, claim, is_full=is_full)
        except OSError:
            if claim is not None and self.epoch:
                self.judge.holders.gave_up(self.group, self.member_id, self.epoch, claim)
            raise
        if self.epoch and answer.error_code in _OUT:
            self.story.tell(self.name, f"is out: {answer.error_code.name}", is_chatter=True)
            self._begin_anew(is_another=False)
            return
        self.check(answer.error_code, "a heartbeat" if self.epoch else "joining")
        self._said = claim if claim is not None else self._said
        self._learn(answer, sent_ms)

    async def _ask_to_beat(self, epoch: int, claim: list[TopicPartition] | None, *, is_full: bool) -> Any:
        topic = part_of("consumer_group_heartbeat", "topic_partitions")
        owned = None
        if claim is not None:
            # By the topic: a coordinator may know of more partitions than this member has asked where they are.
            ids = {name.topic: place.topic_id for name, place in self.routes.places.items()}
            owned = tuple(topic(topic_id=ids[name.topic], partitions=(name.partition,)) for name in claim)
        return await self.ask_coordinator(
            "consumer_group_heartbeat",
            group_id=self.group,
            member_id=self.member_id,
            member_epoch=epoch,
            instance_id=None,
            rack_id=None,
            rebalance_timeout=milliseconds(REVOKE_MS if is_full else -1),
            subscribed_topic_names=tuple(sorted({name.topic for name in self.names})) if is_full else None,
            subscribed_topic_regex=None,
            server_assignor=self.assignor if is_full else None,
            topic_partitions=owned,
        )

    def _learn(self, answer: Any, sent_ms: int) -> None:
        holders, assigned = self.judge.holders, answer.assignment
        holders.answered(self.group, self.member_id, answer.member_epoch, sent_ms)
        if answer.member_epoch != self.epoch:
            self._old_epoch, self.epoch = self.epoch, answer.member_epoch
        self._next_beat_ms = self.clock.monotonic_ms() + round(answer.heartbeat_interval.total_seconds() * 1000)
        if assigned is None:
            return
        mine = self._named(assigned.topic_partitions)
        self.story.tell(self.name, f"has {len(mine)} partitions at epoch {self.epoch}", is_chatter=True)
        gained = [name for name in mine if name not in self._held]
        self._to_give_up = [name for name in self._held if name not in mine]
        self._held = sorted([*self._held, *gained])
        holders.gained(self.group, self.member_id, gained)
        if gained:
            self._next_beat_ms = 0  # what it has is to be said at once

    def _named(self, topics: Any) -> list[TopicPartition]:
        ids = {place.topic_id: name.topic for name, place in self.routes.places.items()}
        return sorted(TopicPartition(ids[topic.topic_id], number) for topic in topics for number in topic.partitions)

    async def _give_up(self) -> None:
        """First a last commit, if that can be had; then it is not used any more; then, at once, a heartbeat says so."""
        with contextlib.suppress(OSError, TryAgain):
            await self._commit(self._to_give_up)
        self.judge.holders.let_go(self.group, self.member_id, self._to_give_up)
        for name in self._to_give_up:
            self._held.remove(name)
            self._positions.pop(name, None)
        self._to_give_up, self._next_beat_ms = [], 0

    # --- what it is all for

    async def _consume(self) -> None:
        new = [name for name in self._held if name not in self._positions]
        if new:
            self._positions.update(await self.fetch_committed(new))
        await self.read_on(self._held, self._positions)
        if self._old_epoch and self.chance.happens(OLD_EPOCH):
            await self._commit_at_old_epoch()
        await self._commit(self._held)

    async def _commit(self, names: list[TopicPartition]) -> None:
        """Raises OSError and TryAgain."""
        offsets = {name: self._positions[name] for name in names if self._positions.get(name, -1) >= 0}
        overtaken = [name for name in offsets if self.judge.holders.is_overtaken(self.group, self.member_id, name)]
        await self.commit(self.member_id, self.epoch, offsets)
        if overtaken:
            raise self.story.break_promise(f"{self.name} committed {overtaken[0]}, which belongs to another by now")

    async def _commit_at_old_epoch(self) -> None:
        offsets = {name: offset for name, offset in self._positions.items() if offset >= 0}
        if not offsets:
            return
        try:
            await self.commit(self.member_id, self._old_epoch, offsets)
        except TryAgain:
            return
        raise self.story.break_promise(f"{self.name} committed at epoch {self._old_epoch}, and is at {self.epoch}")
