"""Topics whose records go: compacted ones, whose latest value of each key must stay, and ones with retention.

Their records have gaps, so the judge of dense topics does not know them. What is promised of them is kept here:

- an offset never changes its record: compaction and retention remove, and change nothing;
- when all is quiet, the latest value of each key is the last one that was acknowledged, on every copy; a key whose
  last record is a tombstone has none;
- from the log start on, a topic that is not compacted has all that was acknowledged;
- what DeleteRecords has deleted stays so: once it was answered, no leader starts below it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

from chronik.core.records.payload import walk
from chronik.core.replica.replica import Replica
from chronik.core.types import TopicPartition
from chronik.sim.chance import SimChance
from chronik.sim.plans import TopicPlan
from chronik.sim.story import WorldStory

if TYPE_CHECKING:
    from chronik.sim.world import World

KEYED, AGED = "keyed", "aged"
WITH_KEYED, WITH_AGED = 0.2, 0.15  # of all worlds
SECONDS = 22.0  # retention has a round each five seconds
CLEANED_EACH_MS = "1000"
READ_BYTES = 100_000


class Pair(NamedTuple):
    """A record, as far as it matters."""

    key: bytes | None
    value: bytes | None


class Records:
    """What is known of the one partition of such a topic. Each method that finds a broken promise raises Violation."""

    def __init__(self, name: TopicPartition, story: WorldStory, *, is_keyed: bool) -> None:
        self.name = name
        self.is_keyed = is_keyed
        self._story = story
        self._sent: set[Pair] = set()
        self._at: dict[int, Pair] = {}  # acknowledged or read, by offset, for ever
        self._promised: dict[int, Pair] = {}
        self.deleted_below = 0  # by DeleteRecords, acknowledged
        self.is_lost = False  # every copy that had it all was damaged: nothing can be said of it any more

    def sent(self, pairs: Iterable[Pair]) -> None:
        self._sent.update(pairs)

    def acknowledged(self, who: str, base_offset: int, pairs: list[Pair]) -> None:
        for offset, pair in enumerate(pairs, base_offset):
            self.saw(who, offset, pair)
            self._promised[offset] = pair

    def saw(self, who: str, offset: int, pair: Pair) -> None:
        if pair not in self._sent:
            raise self._story.break_promise(f"{who}: {self.name} offset {offset} has {pair}, which was never sent")
        before = self._at.setdefault(offset, pair)
        if before != pair:
            raise self._story.break_promise(f"{who}: {self.name} offset {offset} has {pair}, and it was {before}")

    def start_seen(self, who: str, seen_start: int, deleted_before: int) -> None:
        """Said in an answer to a request that was sent when all below `deleted_before` was deleted."""
        if seen_start < deleted_before:
            raise self._story.break_promise(
                f"{who}: {self.name} starts at {seen_start}, below {deleted_before} is deleted"
            )

    def deleted(self, below: int) -> None:
        self.deleted_below = max(self.deleted_below, below)

    def whole(self, who: str, start_offset: int, found: dict[int, Pair]) -> None:
        """After everything: these are all records that there are."""
        for offset, pair in found.items():
            self.saw(who, offset, pair)
        if self.is_keyed:
            self._check_latest(who, found)
            return
        missing = [offset for offset in self._promised if offset >= start_offset and offset not in found]
        if missing:
            raise self._story.break_promise(f"{who}: {self.name} starts at {start_offset} and has not {missing[:5]}")

    def _check_latest(self, who: str, found: dict[int, Pair]) -> None:
        latest = {pair.key: pair.value for _, pair in sorted(found.items())}
        expected = {pair.key: pair.value for _, pair in sorted(self._promised.items())}
        for key, value in expected.items():
            if latest.get(key) != value:
                raise self._story.break_promise(
                    f"{who}: {key!r} in {self.name} is {latest.get(key)!r}, and {value!r} was acknowledged last"
                )


class Cleaned:
    """Which of these topics a world has, and what is known of them."""

    def __init__(self, chance: SimChance, node_count: int, story: WorldStory) -> None:
        self.plans: dict[str, TopicPlan] = {}
        has_keyed, has_aged = chance.happens(WITH_KEYED), chance.happens(WITH_AGED)
        if has_keyed:
            self.plans[KEYED] = self._plan(chance, node_count, _keyed(chance))
        if has_aged:
            self.plans[AGED] = self._plan(chance, node_count, _aged(chance))
        names = (TopicPartition(topic, 0) for topic in self.plans)
        self.records = [Records(name, story, is_keyed=name.topic == KEYED) for name in names]
        self.seconds = SECONDS if self.plans else 0.0
        rounds = ("log.retention.check.interval.ms", "log.cleaner.backoff.ms")
        self.settings = dict.fromkeys(rounds, CLEANED_EACH_MS) if self.plans else {}

    def _plan(self, chance: SimChance, node_count: int, configs: dict[str, str]) -> TopicPlan:
        replicas = chance.one_of((1, 2, 3, 3)) if node_count > 1 else 1
        own = {
            "segment.bytes": str(chance.one_of((600, 1_500, 4_000))),
            "index.interval.bytes": str(chance.one_of((0, 300))),
            "min.insync.replicas": str(min(1 + chance.below(2), replicas)),
        }
        return TopicPlan(1, replicas, own | configs)

    def check_copies(self, world: World) -> None:
        """When all is quiet: every copy has what it should."""
        for known in self.records:
            for host in world.hosts:
                replicas = host.node.replicas.held() if host.node is not None else iter(())
                for replica in replicas:
                    if (replica.topic, replica.partition) == known.name and not known.is_lost:
                        known.whole(f"the copy on {host.name}", replica.log.start_offset, content_of(replica))


def _keyed(chance: SimChance) -> dict[str, str]:
    return {
        "cleanup.policy": "compact",
        "min.cleanable.dirty.ratio": "0.01",
        "delete.retention.ms": str(chance.one_of((0, 1_000, 4_000, 86_400_000))),
    }


def _aged(chance: SimChance) -> dict[str, str]:
    by_size, by_time = chance.one_of(((True, False), (False, True), (False, False)))
    return {
        "cleanup.policy": "delete",
        "retention.bytes": "3000" if by_size else "-1",
        "retention.ms": "6000" if by_time else "-1",
    }


def content_of(replica: Replica) -> dict[int, Pair]:
    """All records below the watermark that a copy has."""
    log, found = replica.log, dict[int, Pair]()
    offset = log.start_offset
    while (plan := log.read(offset, replica.high_watermark, READ_BYTES, at_least_one=True)) is not None:
        for record in walk(plan.file.read(plan.position, plan.length)):
            if log.start_offset <= record.offset < replica.high_watermark:
                found[record.offset] = Pair(record.key, record.value)
        offset = plan.next_offset
    return found
