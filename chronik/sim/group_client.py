"""What the members of any kind of group have in common: they read what is theirs, commit it, and look commits up."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from chronik.core.errors import Code
from chronik.core.types import TopicPartition
from chronik.sim.client import SimClient, earliest, fetch_one
from chronik.sim.link import part_of

NO_MEMBER, NO_EPOCH = None, -1  # a client that looks commits up without being a member


class GroupClient(SimClient):
    """A client of one group."""

    group: str
    names: list[TopicPartition]
    is_over: Callable[[], bool]
    # Error codes after which a member has to rejoin or ask again before it goes on.
    rejoin_codes: frozenset[Code] = frozenset()

    def shown(self) -> tuple[str | None, int]:
        """The member id and epoch that it looks commits up with."""
        return NO_MEMBER, NO_EPOCH

    def is_in_vain(self) -> bool:
        return self.judge.may_refuse_group(self.group)

    async def ask_coordinator(self, name: str, **fields: Any) -> Any:
        """Raises OSError and TryAgain."""
        return await self.ask(name, await self.coordinator_of(self.group), **fields)

    async def is_all_committed(self) -> bool:
        if not self.is_over():
            return False
        committed = await self.fetch_committed(self.names)
        judge = self.judge
        return all(committed[name] >= judge.known(name).watermark for name in self.names if not judge.may_refuse(name))

    async def read_on(self, names: list[TopicPartition], positions: dict[TopicPartition, int]) -> None:
        """A little of each partition."""
        for name in names:
            epoch = (await self.place_of(name)).leader_epoch
            known, offset = self.judge.known(name).watermark_within(epoch), max(positions[name], 0)
            part = await fetch_one(self, name, offset, 5_000, wait_ms=50)
            if part.error_code != Code.NONE and self.judge.may_refuse(name):
                continue
            if part.error_code == Code.OFFSET_OUT_OF_RANGE and offset < self.judge.starts.limit(name):
                positions[name] = await earliest(self, name)
                continue
            self.check(part.error_code, f"reading {name}")
            records, of_topic = part.records or b"", part.high_watermark
            positions[name] = self.judge.read(self.name, name, offset, records, of_topic, known, epoch)

    async def commit(self, member_id: str, epoch: int, offsets: dict[TopicPartition, int]) -> None:
        """As a member, in a generation or at an epoch. Raises OSError and TryAgain."""
        topic, partition = part_of("offset_commit", "topics"), part_of("offset_commit", "topics", "partitions")
        topics = tuple(
            topic(
                name=name.topic,
                partitions=(partition(partition_index=name.partition, committed_offset=offset, committed_metadata=""),),
            )
            for name, offset in offsets.items()
        )
        if not topics:
            return
        try:
            answer = await self.ask_coordinator(
                "offset_commit",
                group_id=self.group,
                generation_id_or_member_epoch=epoch,
                member_id=member_id,
                topics=topics,
            )
        except OSError:
            for name, offset in offsets.items():
                self.judge.commit_given_up(self.group, name, offset, (member_id, epoch))
            raise
        for of_topic in answer.topics:
            for part in of_topic.partitions:
                self.check(part.error_code, "a commit", self.rejoin_codes)
                name = TopicPartition(of_topic.name, part.partition_index)
                self.judge.committed(self.group, name, offsets[name], (member_id, epoch))

    async def fetch_committed(self, names: list[TopicPartition]) -> dict[TopicPartition, int]:
        """Raises OSError and TryAgain."""
        known = {name: self.judge.commit_known(self.group, name) for name in names}
        leads = self.judge.truth.coordinator(self.group)
        answer = await self._ask_for_commits(names)
        self.check(answer.error_code, "reading commits", self.rejoin_codes)
        asked = self.routes.coordinators[self.group][0]
        # Another may have taken over unknown to this one, which then knows less in good faith.
        is_sure = leads == self.judge.truth.coordinator(self.group) and leads.host in (asked, "")
        found: dict[TopicPartition, int] = {}
        for of_topic in answer.topics:
            for part in of_topic.partitions:
                self.check(part.error_code, "reading a commit")
                name = TopicPartition(of_topic.name, part.partition_index)
                if is_sure:
                    self.judge.commit_read(self.name, self.group, name, part.committed_offset, known[name])
                found[name] = part.committed_offset
        return found

    async def _ask_for_commits(self, names: list[TopicPartition]) -> Any:
        group, topic = part_of("offset_fetch", "groups"), part_of("offset_fetch", "groups", "topics")
        topics = tuple(topic(name=name.topic, partition_indexes=(name.partition,)) for name in names)
        member_id, epoch = self.shown()
        wanted = group(group_id=self.group, member_id=member_id, member_epoch=epoch, topics=topics)
        answer = await self.ask_coordinator("offset_fetch", groups=(wanted,), require_stable=False)
        return answer.groups[0]


class GroupAuditor(GroupClient):
    """Only looks whether every commit that was acknowledged is still there."""

    async def attempt(self) -> None:
        await self.fetch_committed(self.names)
