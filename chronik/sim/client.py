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
from chronik.sim.link import SimLink, part_of
from chronik.sim.network import SimNetwork
from chronik.sim.plans import TopicPlan
from chronik.sim.routes import Address, KnownLeader, SimRoutes
from chronik.sim.story import WorldStory

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
# Among several nodes also what one of them says that has not heard the news, or cannot reach the others.
PASSING_IN_A_CLUSTER = PASSING | frozenset(
    (
        Code.UNKNOWN_TOPIC_OR_PARTITION,
        Code.UNKNOWN_TOPIC_ID,
        Code.NOT_ENOUGH_REPLICAS,
        Code.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        Code.FENCED_LEADER_EPOCH,
        Code.UNKNOWN_LEADER_EPOCH,
        Code.OFFSET_NOT_AVAILABLE,
        Code.NOT_CONTROLLER,
        Code.BROKER_NOT_AVAILABLE,
        Code.INVALID_REPLICATION_FACTOR,  # too few of them have registered yet
    )
)
OUT_OF_REACH = frozenset((Code.OFFSET_OUT_OF_RANGE,))  # said by a follower that lags behind


REFUSED = -1
EARLIEST = -2


class TryAgain(Exception):
    """The node said no in a way that passes."""


def milliseconds(count: int) -> datetime.timedelta:
    return datetime.timedelta(milliseconds=count)


class SimClient:
    """One client on a host of its own."""

    def __init__(
        self,
        name: str,
        addresses: Sequence[tuple[str, int]],
        network: SimNetwork,
        clock: SimClock,
        chance: SimChance,
        judge: Judge,
        story: WorldStory,
    ) -> None:
        self.name = name
        self.addresses = addresses
        self.network = network
        self.clock = clock
        self.chance = chance
        self.judge = judge
        self.story = story
        self.routes = SimRoutes()
        self.is_done = False
        self._links: dict[Address, SimLink] = {}
        self._home: Address | None = None  # the node for whatever any node can do

    # --- connections

    async def link(self, address: Address | None = None) -> SimLink:
        """The connection to a node, or to any, opened when there is none. Raises OSError."""
        if address is None:
            if self._home is None:
                self._home = self.chance.one_of([*self.addresses, *self.routes.brokers.values()])
            address = self._home
        if address not in self._links:
            self._links[address] = await SimLink.open(self.name, self.story, self.network, address)
        return self._links[address]

    def hang_up(self) -> None:
        """All connections; what was known is to be asked for again."""
        for link in self._links.values():
            link.abort()
        self._links.clear()
        self._home = None
        self.routes.doubt()

    async def ask(self, name: str, to: Address | None = None, **fields: Any) -> Any:
        """Raises OSError; all connections are given up then."""
        try:
            return await (await self.link(to)).ask(name, **fields)
        except OSError:
            self.hang_up()
            raise

    # --- finding the way

    async def place_of(self, name: TopicPartition) -> KnownLeader:
        """Raises OSError, and TryAgain while no node leads it."""
        if self.routes.is_stale or name not in self.routes.places:
            topic = part_of("metadata", "topics")
            wanted = sorted({name.topic, *(known.topic for known in self.routes.places)})
            answer = await self.ask(
                "metadata",
                topics=tuple(topic(name=each, topic_id=None) for each in wanted),
                allow_auto_topic_creation=False,
                include_topic_authorized_operations=False,
            )
            for found in answer.topics:
                self.check(found.error_code, f"where {found.name} is")
            self.routes.learn(answer)
        place = self.routes.places.get(name)
        if place is None or self.routes.address_of(place.leader) is None:
            self.routes.doubt()
            raise TryAgain(f"no node leads {name}")
        return place

    async def leader_of(self, name: TopicPartition) -> Address:
        """Raises OSError and TryAgain."""
        place = await self.place_of(name)
        return self.routes.brokers[place.leader]

    async def coordinator_of(self, group: str) -> Address:
        """Raises OSError and TryAgain."""
        if group not in self.routes.coordinators:
            answer = await self.ask("find_coordinator", key=group, key_type=0)
            self.check(answer.error_code, f"which node coordinates {group}")
            self.routes.coordinators[group] = (answer.host, answer.port)
        return self.routes.coordinators[group]

    @property
    def is_in_cluster(self) -> bool:
        return self.judge.node_count > 1

    def check(self, code: Code, what: str, also: frozenset[Code] = frozenset()) -> None:
        """Raises TryAgain for what passes, Violation for what never should have been said."""
        if code == Code.NONE:
            return
        passing = PASSING_IN_A_CLUSTER if self.is_in_cluster else PASSING
        if code not in passing and code not in also:
            raise self.story.break_promise(f"{self.name}: {what} was answered {code.name}")
        if code not in also:
            self.routes.doubt()
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
                if self.is_in_vain():
                    break
        self.hang_up()
        self.is_done = True
        self.story.tell(self.name, "is done")

    def is_in_vain(self) -> bool:
        """Whether it may be refused for ever."""
        return False

    def make_haste(self) -> None:
        """Nothing goes wrong any more: what is left to do is done soon."""

    async def attempt(self) -> None:
        raise NotImplementedError


class Admin(SimClient):
    """Makes the topics."""

    topics: dict[str, TopicPlan]

    async def attempt(self) -> None:
        answer = await create_topics(self, self.topics)
        for made in answer.topics:
            if made.error_code != Code.TOPIC_ALREADY_EXISTS:  # this may be the second try
                self.check(made.error_code, f"creating {made.name}")


class Auditor(SimClient):
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
        # It begins at 0, unless something was to be deleted.
        offset, read = await earliest(self, name) if self.judge.starts.limit(name) else 0, {}
        start_offset = offset
        while offset < end_offset:
            part = await fetch_one(self, name, offset, 100_000, wait_ms=0)
            if part.error_code == Code.OFFSET_OUT_OF_RANGE and offset < self.judge.starts.limit(name):
                raise TryAgain(f"{name} from {offset} was deleted meanwhile")
            if part.error_code != Code.NONE and self.judge.may_refuse(name):
                self.story.tell(self.name, f"{name} is refused from {offset} on, as damage is to be")
                return
            self.check(part.error_code, f"reading {name} from {offset}")
            epoch = self.routes.places[name].leader_epoch
            next_offset = self.judge.read(self.name, name, offset, part.records or b"", part.high_watermark, 0, epoch)
            if next_offset == offset:
                raise self.story.break_promise(f"{name} has nothing at {offset} and says it ends at {end_offset}")
            seen = self.judge.known(name).seen
            read.update({place: seen[place] for place in range(offset, next_offset)})
            offset = next_offset
        self.judge.complete(name, end_offset, read, start_offset)

    async def latest(self, name: TopicPartition) -> int:
        """The end, as consumers see it, or REFUSED for a damaged partition."""
        topic, partition = part_of("list_offsets", "topics"), part_of("list_offsets", "topics", "partitions")
        leader, epoch = await self.leader_of(name), self.routes.places[name].leader_epoch
        known = self.judge.known(name).watermark_at(epoch)
        wanted = partition(partition_index=name.partition, current_leader_epoch=epoch, timestamp=-1)
        asked = (topic(name=name.topic, partitions=(wanted,)),)
        answer = await self.ask("list_offsets", leader, replica_id=-1, isolation_level=0, topics=asked)
        part = answer.topics[0].partitions[0]
        if part.error_code != Code.NONE and self.judge.may_refuse(name):
            return REFUSED
        self.check(part.error_code, f"the latest offset of {name}")
        self.judge.watermark(self.name, name, part.offset, known, epoch)
        return int(part.offset)


async def create_topics(client: SimClient, topics: dict[str, TopicPlan]) -> Any:
    """Ask any node for topics. Raises OSError."""
    topic, config = part_of("create_topics", "topics"), part_of("create_topics", "topics", "configs")
    wanted = tuple(
        topic(
            name=name,
            num_partitions=plan.partition_count,
            replication_factor=plan.replica_count,
            assignments=(),
            configs=tuple(config(name=key, value=value) for key, value in plan.configs.items()),
        )
        for name, plan in topics.items()
    )
    return await client.ask("create_topics", topics=wanted, timeout=milliseconds(5000), validate_only=False)


async def fetch_one(
    client: SimClient, name: TopicPartition, offset: int, max_bytes: int, wait_ms: int, source: Address | None = None
) -> Any:
    """Fetch from one partition: from its leader, or from `source`. Raises OSError and TryAgain."""
    topic, partition = part_of("fetch", "topics"), part_of("fetch", "topics", "partitions")
    place = await client.place_of(name)
    wanted = partition(
        partition=name.partition,
        current_leader_epoch=place.leader_epoch,
        fetch_offset=offset,
        partition_max_bytes=max_bytes,
    )
    address = source or await client.leader_of(name)
    before = client.judge.truth.placed(address, name)
    answer = await client.ask(
        "fetch",
        address,
        max_wait=milliseconds(wait_ms),
        min_bytes=1,
        max_bytes=max_bytes,
        topics=(topic(topic=name.topic, partitions=(wanted,)),),
        forgotten_topics_data=(),
    )
    client.check(answer.error_code, "fetch")
    part = answer.responses[0].partitions[0]
    client.judge.hints.heard(client.name, name, part.current_leader, before, client.judge.truth.placed(address, name))
    return part


async def earliest(client: SimClient, name: TopicPartition) -> int:
    """Where a log begins, as its leader says, held against what was deleted. Raises OSError and TryAgain."""
    topic, partition = part_of("list_offsets", "topics"), part_of("list_offsets", "topics", "partitions")
    place = await client.place_of(name)
    gone = client.judge.starts.gone(name, place.leader_epoch)
    wanted = partition(partition_index=name.partition, current_leader_epoch=place.leader_epoch, timestamp=EARLIEST)
    asked: Any = (topic(name=name.topic, partitions=(wanted,)),)
    answer = await client.ask(
        "list_offsets", await client.leader_of(name), replica_id=-1, isolation_level=0, topics=asked
    )
    part = answer.topics[0].partitions[0]
    client.check(part.error_code, f"the earliest offset of {name}")
    client.judge.starts.begins(client.name, name, part.offset, gone)
    return int(part.offset)
