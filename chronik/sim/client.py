"""What all clients of a simulated world have in common: they find the node again, ask again, believe no nonsense."""

from __future__ import annotations

import asyncio
import datetime
from collections.abc import Sequence
from typing import Any

from chronik.core.errors import Code
from chronik.core.types import TopicPartition
from chronik.sim.chance import SimChance
from chronik.sim.checkers import Judge
from chronik.sim.clock import SimClock
from chronik.sim.link import Link, part_of
from chronik.sim.network import SimNetwork
from chronik.sim.story import Story

# Answers after which a client tries again. Anything else, in this world, is a broken promise.
PASSING = frozenset(
    (
        Code.KAFKA_STORAGE_ERROR,
        Code.REQUEST_TIMED_OUT,
        Code.LEADER_NOT_AVAILABLE,
        Code.NOT_LEADER_OR_FOLLOWER,
        Code.COORDINATOR_NOT_AVAILABLE,
        Code.COORDINATOR_LOAD_IN_PROGRESS,
        Code.NOT_COORDINATOR,
    )
)


REFUSED = -1


class TryAgain(Exception):
    """The node said no in a way that passes."""


def milliseconds(count: int) -> datetime.timedelta:
    return datetime.timedelta(milliseconds=count)


class Client:
    """One client on a host of its own."""

    def __init__(
        self,
        name: str,
        addresses: Sequence[tuple[str, int]],
        network: SimNetwork,
        clock: SimClock,
        chance: SimChance,
        judge: Judge,
        story: Story,
    ) -> None:
        self.name = name
        self.addresses = addresses
        self.network = network
        self.clock = clock
        self.chance = chance
        self.judge = judge
        self.story = story
        self.is_done = False
        self._link: Link | None = None

    async def link(self) -> Link:
        """The connection, opened when there is none. Raises OSError."""
        if self._link is None:
            address = self.chance.one_of(self.addresses)
            self._link = await Link.open(self.name, self.story, self.network, address)
        return self._link

    def hang_up(self) -> None:
        if self._link is not None:
            self._link.abort()
            self._link = None

    async def ask(self, name: str, **fields: Any) -> Any:
        """Raises OSError; the connection is given up then."""
        try:
            return await (await self.link()).ask(name, **fields)
        except OSError:
            self.hang_up()
            raise

    def check(self, code: Code, what: str, also: frozenset[Code] = frozenset()) -> None:
        """Raises TryAgain for what passes, Violation for what never should have been said."""
        if code == Code.NONE:
            return
        if code not in PASSING and code not in also:
            raise self.story.break_promise(f"{self.name}: {what} was answered {code.name}")
        raise TryAgain(f"{what}: {code.name}")

    async def pause(self, problem: Exception) -> None:
        """Before the next try."""
        self.story.tell(self.name, f"{type(problem).__name__}: {problem}", is_chatter=True)
        await asyncio.sleep(self.chance.between(0.05, 0.3))

    async def work(self) -> None:
        """Until it is done, however often that takes."""
        while True:
            try:
                await self.attempt()
                break
            except (OSError, TryAgain) as problem:
                self.hang_up()
                await self.pause(problem)
        self.hang_up()
        self.is_done = True
        self.story.tell(self.name, "is done")

    async def attempt(self) -> None:
        raise NotImplementedError


class Admin(Client):
    """Makes the topics."""

    topics: dict[str, int]
    configs: dict[str, str]

    async def attempt(self) -> None:
        answer = await create_topics(self, self.topics, self.configs)
        for made in answer.topics:
            if made.error_code != Code.TOPIC_ALREADY_EXISTS:  # this may be the second try
                self.check(made.error_code, f"creating {made.name}")


class Auditor(Client):
    """Reads everything, after everything, and compares it with what was promised."""

    names: list[TopicPartition]

    async def attempt(self) -> None:
        for name in list(self.names):
            await self._audit(name)
            self.names.remove(name)

    async def _audit(self, name: TopicPartition) -> None:
        end_offset = await self.latest(name)
        if end_offset == REFUSED:
            return
        offset, read = 0, {}
        while offset < end_offset:
            part = await fetch_one(self, name, offset, 100_000, wait_ms=0)
            if part.error_code != Code.NONE and name in self.judge.damaged:
                self.story.tell(self.name, f"{name} is refused from {offset} on, as damage is to be")
                return
            self.check(part.error_code, f"reading {name} from {offset}")
            next_offset = self.judge.read(self.name, name, offset, part.records or b"", part.high_watermark, 0)
            if next_offset == offset:
                raise self.story.break_promise(f"{name} has nothing at {offset} and says it ends at {end_offset}")
            seen = self.judge.known(name).seen
            read.update({place: seen[place] for place in range(offset, next_offset)})
            offset = next_offset
        self.judge.complete(name, end_offset, read)

    async def latest(self, name: TopicPartition) -> int:
        """The end, as consumers see it, or REFUSED for a damaged partition."""
        topic, partition = part_of("list_offsets", "topics"), part_of("list_offsets", "topics", "partitions")
        known = self.judge.known(name).watermark
        asked = (topic(name=name.topic, partitions=(partition(partition_index=name.partition, timestamp=-1),)),)
        answer = await self.ask("list_offsets", replica_id=-1, isolation_level=0, topics=asked)
        part = answer.topics[0].partitions[0]
        if part.error_code != Code.NONE and name in self.judge.damaged:
            return REFUSED
        self.check(part.error_code, f"the latest offset of {name}")
        self.judge.watermark(self.name, name, part.offset, known)
        return int(part.offset)


async def create_topics(client: Client, topics: dict[str, int], configs: dict[str, str]) -> Any:
    """Ask for topics with so many partitions each. Raises OSError."""
    topic, config = part_of("create_topics", "topics"), part_of("create_topics", "topics", "configs")
    wanted = tuple(
        topic(
            name=name,
            num_partitions=count,
            replication_factor=-1,
            assignments=(),
            configs=tuple(config(name=key, value=value) for key, value in configs.items()),
        )
        for name, count in topics.items()
    )
    return await client.ask("create_topics", topics=wanted, timeout=milliseconds(5000), validate_only=False)


async def fetch_one(client: Client, name: TopicPartition, offset: int, max_bytes: int, wait_ms: int) -> Any:
    """Fetch from one partition. Raises OSError."""
    topic, partition = part_of("fetch", "topics"), part_of("fetch", "topics", "partitions")
    asked = topic(
        topic=name.topic,
        partitions=(partition(partition=name.partition, fetch_offset=offset, partition_max_bytes=max_bytes),),
    )
    answer = await client.ask(
        "fetch",
        max_wait=milliseconds(wait_ms),
        min_bytes=1,
        max_bytes=max_bytes,
        topics=(asked,),
        forgotten_topics_data=(),
    )
    client.check(answer.error_code, "fetch")
    return answer.responses[0].partitions[0]
