"""A small cluster that tells what nodes tell: producers, followers, consumers in a group, by the tenth of a second.

Healthy by itself, however it is set up. What is wrong is switched on from outside, at a time, one thing at a time.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from chronik.trace.events import (
    AnyEvent,
    Committed,
    EventsLost,
    FetchAnswered,
    FetchDropped,
    FetchWaits,
    FollowerSeen,
    GroupChanged,
    GroupJoined,
    GroupLeft,
    GroupSeen,
    LeaderChanged,
    MemberSeen,
    MetadataTold,
    OffsetSeen,
    PartitionSeen,
    ProduceAnswered,
    ProduceAppended,
    RefusedEvent,
    Replicated,
    TraceBegan,
    WatermarkMoved,
)

START_US = 1_763_265_600_000_000
TICK_US = 100_000
TICKS = 10  # a second
TOPIC = "orders"
GROUP = "billing"
WRITER, READER, HOST = "writer", "reader", "10.0.0.7"
NODES = (1, 2, 3)
MAX_WAIT_TICKS = 5
BATCH = 40


@dataclass
class Partition:
    number: int
    leader: int
    rate: int = 3  # records a tick
    ends: dict[int, int] = field(default_factory=lambda: dict.fromkeys(NODES, 0))
    in_sync: tuple[int, ...] = NODES
    in_sync_min: int = 2
    epoch: int = 1
    watermark: int = 0
    log_start: int = 0
    lag: dict[int, int] = field(default_factory=dict)  # how many ticks a follower takes
    past_ends: list[int] = field(default_factory=list)  # of the leader's log, tick by tick
    behind_since: dict[int, int] = field(default_factory=dict)

    @property
    def end(self) -> int:
        return self.past_ends[-1] if self.past_ends else 0


@dataclass
class Consumer:
    client_id: str
    member_id: str
    assigned: tuple[int, ...]
    speed: int = 10**9  # records it works off in a tick, per partition
    commit_every: int = 5  # ticks; 0: it never commits
    buffer: int = 500  # it asks for no more of a partition of which it has so many
    asks_when_empty: bool = False  # it asks for nothing as long as it has records of any partition, as kafka-python
    group: str | None = GROUP
    first_connection: int = 10
    given: dict[int, int] = field(default_factory=dict)
    worked: dict[int, int] = field(default_factory=dict)
    waits: dict[int, tuple[int, list[int]]] = field(default_factory=dict)  # by node: since which tick, for what
    told: dict[int, int] = field(default_factory=dict)  # by node: when an empty fetch was last told
    stops: bool = False
    paused: set[int] = field(default_factory=set)


class World:
    def __init__(self, partitions: list[Partition], consumers: list[Consumer], is_traced: bool = True) -> None:
        self.events: list[AnyEvent] = []
        self.partitions = {each.number: each for each in partitions}
        self.consumers = consumers
        self.is_traced = is_traced
        self.tick = 0
        self.state, self.state_since, self.generation = "Stable", 0, 1
        self.committed: dict[int, int] = {}
        self.actions: dict[int, list[Callable[[], None]]] = {}
        # what is wrong
        self.frozen_followers: set[int] = set()
        self.frozen_disks: set[int] = set()
        self.frozen_watermark = False
        self.starved: set[int] = set()
        self.hangs = False
        self.refuses_writer_for: set[int] = set()
        self.down: set[int] = set()

    # --- running

    @property
    def now_us(self) -> int:
        return START_US + self.tick * TICK_US

    def at(self, second: float, action: Callable[[], None]) -> None:
        self.actions.setdefault(int(second * TICKS), []).append(action)

    def every(self, second: float, until: float, step: float, action: Callable[[], None]) -> None:
        while second < until:
            self.at(second, action)
            second += step

    def run(self, until_s: float) -> None:
        while self.tick < until_s * TICKS:
            self.tick += 1
            for action in self.actions.get(self.tick, ()):
                action()
            for partition in self.partitions.values():
                self._write(partition)
                self._replicate(partition)
            for consumer in self.consumers:
                self._read(consumer)
            if self.tick % TICKS == 0:
                self.see()

    def add(self, event: AnyEvent) -> None:
        """Some are told whatever is traced: those of state."""
        if self.is_traced or isinstance(event, PartitionSeen | GroupSeen | EventsLost):
            self.events.append(event)

    # --- producing

    def _write(self, p: Partition) -> None:
        end, now_us = p.end, self.now_us
        is_refused = p.number in self.refuses_writer_for
        if p.rate and is_refused and self.tick % 3 == 0:
            self.add(refused(now_us, 1, "produce", WRITER, 6, "NOT_LEADER_OR_FOLLOWER", TOPIC, p.number, p.leader))
        count = 0 if is_refused or p.leader in self.down else p.rate
        p.past_ends = [*p.past_ends[-50:], end + count]
        p.ends[p.leader] = max(p.ends[p.leader], p.past_ends[-1] if p.leader not in self.frozen_disks else 0)
        if count:
            at = (TOPIC, p.number, WRITER, HOST, 1, 1)
            self.add(
                ProduceAppended(
                    now_us, p.leader, *at, -1, -1, -1, end, end + count, 100 * count, False, p.epoch, p.watermark
                )
            )
            self.add(
                ProduceAnswered(
                    now_us, p.leader, *at, end, end + count, p.watermark, p.watermark, p.in_sync, TICK_US // 10
                )
            )

    def _replicate(self, p: Partition) -> None:
        for node in NODES:
            if node == p.leader or node in self.frozen_followers or node in self.down:
                continue
            lag = p.lag.get(node, 1)
            reached = p.past_ends[-1 - lag] if len(p.past_ends) > lag else p.past_ends[0]
            if reached > p.ends[node]:
                if self.tick % 7 == 0:
                    self.add(Replicated(self.now_us, p.leader, TOPIC, p.number, node, p.ends[node], reached))
                p.ends[node] = reached
        reached = min(p.ends[node] for node in p.in_sync)
        is_held = self.frozen_watermark or len(p.in_sync) < p.in_sync_min or p.leader in self.down
        if reached > p.watermark and not is_held:
            before, p.watermark = p.watermark, reached
            self.add(WatermarkMoved(self.now_us, p.leader, TOPIC, p.number, before, p.watermark, p.end, is_leader=True))

    # --- consuming

    def _read(self, c: Consumer) -> None:
        for number in c.assigned:
            given, worked = c.given.setdefault(number, 0), c.worked.setdefault(number, 0)
            if not c.stops:
                c.worked[number] = min(given, worked + c.speed)
                if c.asks_when_empty and given > worked:
                    break  # one partition after the other
        is_in = c.group is None or self.state == "Stable"
        if is_in and not c.stops:
            is_busy = c.asks_when_empty and any(c.given[number] > c.worked[number] for number in c.assigned)
            for node in NODES:
                self._fetch(c, node, is_busy)
        if c.group is not None and is_in and c.commit_every and self.tick % c.commit_every == 0 and not c.stops:
            for number in c.assigned:
                self.commit(c, number)

    def commit(self, c: Consumer, number: int) -> None:
        if self.committed.get(number) != c.worked[number]:
            self.committed[number] = c.worked[number]
            where = (TOPIC, number, GROUP, c.client_id, HOST, c.worked[number])
            self.add(Committed(self.now_us, 2, *where))

    def _fetch(self, c: Consumer, node: int, is_busy: bool) -> None:
        if node in self.down:
            c.waits.pop(node, None)
            return
        begun = c.waits.get(node)
        if begun is None:
            asked = [
                number
                for number in c.assigned
                if self.partitions[number].leader == node
                and number not in c.paused
                and c.given[number] - c.worked[number] < c.buffer
                and not is_busy
            ]
            since = self.tick
        else:
            since, asked = begun
        if not asked:
            c.waits.pop(node, None)
            return
        ready = [n for n in asked if self.partitions[n].watermark > c.given[n] and n not in self.starved]
        if (ready or self.tick - since >= MAX_WAIT_TICKS) and not self.hangs:
            self._answer(c, node, since, asked, ready)
        else:
            c.waits[node] = (since, asked)
            is_long = self.tick - since >= TICKS and (self.tick - since) % TICKS == 0
            if (begun is None and self.tick - c.told.get(node, -99) >= TICKS) or is_long:
                c.told[node] = self.tick
                for number in asked:
                    self._tell_wait(c, node, number, since)

    def _answer(self, c: Consumer, node: int, since: int, asked: list[int], ready: list[int]) -> None:
        is_told = c.told.get(node, -99) >= since
        c.waits.pop(node, None)
        for number in asked:
            p, offset = self.partitions[number], c.given[number]
            to_offset = min(p.watermark, offset + BATCH) if number in ready else offset
            c.given[number] = to_offset
            if to_offset > offset or is_told or offset < p.watermark:
                self.add(
                    FetchAnswered(
                        self.now_us,
                        node,
                        *self._asked(c, node, number, offset),
                        to_offset,
                        100 * (to_offset - offset),
                        self.tick > since,
                        (self.tick - since) * TICK_US,
                    )
                )

    def _tell_wait(self, c: Consumer, node: int, number: int, since: int) -> None:
        asked = self._asked(c, node, number, c.given[number])
        self.add(FetchWaits(self.now_us, node, *asked, (self.tick - since) * TICK_US))

    def _asked(
        self, c: Consumer, node: int, number: int, offset: int
    ) -> tuple[str, int, str, str, int, str | None, int, int, int, int, bool, int, int, int]:
        p = self.partitions[number]
        return (
            TOPIC,
            number,
            c.client_id,
            HOST,
            c.first_connection + node,
            c.group,
            offset,
            1 << 20,
            1,
            MAX_WAIT_TICKS * TICK_US // 1000,
            False,
            p.watermark,
            p.watermark,
            p.end,
        )

    # --- state

    def see(self) -> None:
        for p in self.partitions.values():
            if p.leader in self.down:
                continue
            for node in NODES:
                if p.ends[node] >= p.end:
                    p.behind_since.pop(node, None)
                else:
                    p.behind_since.setdefault(node, self.tick)
            followers = tuple(
                FollowerSeen(
                    node,
                    node in p.in_sync,
                    p.ends[node],
                    p.end - p.ends[node],
                    (self.tick - p.behind_since.get(node, self.tick)) * 100,
                    100,
                )
                for node in NODES
                if node != p.leader
            )
            self.add(
                PartitionSeen(
                    self.now_us,
                    p.leader,
                    TOPIC,
                    p.number,
                    p.epoch,
                    p.log_start,
                    p.watermark,
                    p.watermark,
                    p.end,
                    p.ends[p.leader],
                    p.in_sync,
                    p.in_sync_min,
                    followers,
                    100 * p.end,
                    self.is_traced,
                )
            )
        self.see_group()

    def see_group(self) -> None:
        members = tuple(
            MemberSeen(c.member_id, c.client_id, HOST, tuple((TOPIC, number) for number in c.assigned))
            for c in self.consumers
            if c.group is not None
        )
        offsets = tuple(OffsetSeen(TOPIC, number, offset) for number, offset in sorted(self.committed.items()))
        self.add(
            GroupSeen(
                self.now_us,
                2,
                GROUP,
                "classic",
                self.state if members else "Empty",
                self.generation,
                (self.tick - self.state_since) * 100,
                members,
                offsets,
            )
        )

    def enter(self, state: str) -> None:
        """The group goes into another state; a new generation begins when it is dealt out."""
        if state == "CompletingRebalance":
            self.generation += 1
        members = sum(c.group is not None for c in self.consumers)
        self.add(GroupChanged(self.now_us, 2, GROUP, self.state, state, self.generation, members))
        self.state, self.state_since = state, self.tick
        if state != "Stable":
            for c in self.consumers:
                c.waits.clear()

    def join(self, c: Consumer) -> None:
        self.add(GroupJoined(self.now_us, 2, GROUP, c.member_id, c.client_id, HOST))

    def leave(self, c: Consumer, reason: str = "left") -> None:
        self.consumers.remove(c)
        self.add(GroupLeft(self.now_us, 2, GROUP, c.member_id, c.client_id, HOST, reason))
        self.drop_fetches(c)

    def drop_fetches(self, c: Consumer) -> None:
        """It hangs up on what it waits for, as all that ends."""
        for node, (since, asked) in c.waits.items():
            if c.told.get(node, -99) >= since:
                for number in asked:
                    self.drop(c.client_id, c.first_connection + node, node, number, c.given[number], self.tick - since)
        c.waits.clear()

    def drop(self, client_id: str, connection: int, node: int, number: int, offset: int, waited: int) -> None:
        wait_ms = MAX_WAIT_TICKS * TICK_US // 1000
        where = (TOPIC, number, client_id, HOST, connection, None, offset, wait_ms, waited * TICK_US)
        self.add(FetchDropped(self.now_us, node, *where))

    def rebalance(self, seconds: float = 1.0) -> None:
        """Everyone joins again, and it ends."""
        self.enter("PreparingRebalance")
        for c in self.consumers:
            if c.group is not None:
                self.join(c)
        ends = self.tick / TICKS + seconds
        self.at(ends, lambda: self.enter("CompletingRebalance"))
        self.at(ends + 0.2, lambda: self.enter("Stable"))

    def lead(self, number: int, node: int) -> None:
        """Another node leads from now on."""
        p = self.partitions[number]
        before, epoch = p.leader, p.epoch
        p.leader, p.epoch = node, epoch + 1
        p.past_ends = [max(p.ends[node], p.watermark)]
        for each in NODES:
            p.ends[each] = min(p.ends[each], p.past_ends[-1])
        for c in self.consumers:
            c.waits.pop(before, None)
        self.add(LeaderChanged(self.now_us, node, TOPIC, number, before, epoch, node, p.epoch))

    def tell_metadata(self, client_id: str, brokers: tuple[int, ...], leaders: tuple[int, ...] | None = None) -> None:
        true = tuple(self.partitions[number].leader for number in sorted(self.partitions))
        leaders = true if leaders is None else leaders
        self.add(MetadataTold(self.now_us, 1, TOPIC, client_id, HOST, 1, brokers, 1, leaders))

    def restart(self, node: int) -> None:
        self.add(TraceBegan(self.now_us, node))


def refused(
    at_us: int,
    node: int,
    api: str,
    client_id: str,
    code: int,
    error: str,
    topic: str | None = None,
    partition: int = -1,
    leader: int = -1,
) -> RefusedEvent:
    return RefusedEvent(at_us, node, api, client_id, HOST, 1, code, error, None, topic, partition, leader, 1)


def three_partitions(rate: int = 3) -> list[Partition]:
    return [Partition(number, NODES[number], rate) for number in range(3)]


def reader(*assigned: int, name: str = READER, **habits: Any) -> Consumer:
    return Consumer(name, f"{name}-1", assigned or (0, 1, 2), **habits)


def world(rate: int = 3, *, is_traced: bool = True, **habits: Any) -> World:
    """Three partitions on three nodes, one that writes, one that reads."""
    return World(three_partitions(rate), [reader(0, 1, 2, **habits)], is_traced)
