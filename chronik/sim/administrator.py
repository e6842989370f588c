"""The administrator of a simulated world: moves partitions, changes its mind, adds partitions, alters settings, deletes
records and elects leaders, all through whichever node it reaches, while all other clients go on.

It elects leaders uncleanly too, of a topic of its own (`LOSSY`): records may be lost there, so that nothing of what it
holds is promised. That one node leads in an epoch, and that all copies are the same in the end, is.

An order whose answer is lost may come true or not; nothing asks again for it. In the end, when everything else is
written and nothing of what was sent can still arrive, each thing that was ordered is ordered once more, and has to be
exactly so (`wholeness`, `ConfigAuditor`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

from chronik.core.errors import Code
from chronik.core.machines.metadata.commands import ResourceType
from chronik.core.machines.metadata.image import ALL_BROKERS, Partition
from chronik.core.machines.metadata.names import OFFSETS_TOPIC
from chronik.core.records.payload import KeyValue, build
from chronik.core.types import TopicPartition
from chronik.sim import admin_requests as requests
from chronik.sim.chance import SimChance
from chronik.sim.client import SimClient, TryAgain, milliseconds
from chronik.sim.coverage import register
from chronik.sim.link import part_of
from chronik.sim.network import STRAY_S
from chronik.sim.orders import OrderedSetting, Orders
from chronik.sim.plans import UNKEYED, TopicPlan

WITH_ADMINISTRATOR = 0.25  # of all worlds
KEYED = "once"  # the topic that is written with keys, each once: compacting it loses nothing
KEYED_PLAN = TopicPlan(1, -1, {"segment.bytes": "1000", "min.cleanable.dirty.ratio": "0.01"})
LOSSY = "lossy"  # the topic whose leaders may be elected uncleanly
PARTITIONS_MAX = 4  # of one topic
QUIET_S = STRAY_S[1] + 4.0  # what was sent before has arrived or never will, and nodes have given up sending it on

TOPIC_SETTINGS: dict[str, tuple[str | None, ...]] = {
    "min.insync.replicas": ("1", "2", "3", None),
    "segment.bytes": ("1000", "4000", "1000000"),
    "segment.ms": ("1000", "604800000", None),
    "index.interval.bytes": ("0", "300", "4096"),
    "retention.ms": ("-1", "604800000", "1000", None),
    "retention.bytes": ("-1", "2000", None),
    "max.message.bytes": ("100000", "1048588", None),
    "file.delete.delay.ms": ("0", "60000", None),
}
KEYED_SETTINGS: dict[str, tuple[str | None, ...]] = {
    "cleanup.policy": ("delete", "compact", "compact,delete", None),
    "min.insync.replicas": ("1", "2", None),
    "segment.bytes": ("300", "1000"),
}
LOSSY_SETTINGS: dict[str, tuple[str | None, ...]] = {"unclean.leader.election.enable": ("true", "false", None)}
ALL_BROKERS_SETTINGS: dict[str, tuple[str | None, ...]] = {
    "min.insync.replicas": ("1", "2", "3"),  # it cannot be taken back
    "log.cleanup.policy": ("delete", "compact", "compact,delete", None),
    "log.retention.ms": ("604800000", "-1", None),
    "log.segment.bytes": ("3000", "1000000", None),
    "message.max.bytes": ("200000", "1048588", None),
}
DELETES = {"retention.ms": ("1000",), "retention.bytes": ("2000",)}  # these values let records go

KINDS = {"move": 6, "redirect": 4, "cancel": 4, "grow": 2, "topic_setting": 5, "broker_setting": 3, "delete": 4}
KINDS |= {"prefer": 4, "write": 3, "unclean": 12}
AMONG_NODES = frozenset(("move", "redirect", "cancel", "prefer", "unclean"))
register(*(f"admin {kind}" for kind in KINDS))


def lossy_plan(node_count: int) -> TopicPlan:
    return TopicPlan(1, min(node_count, 2), UNKEYED | {"min.insync.replicas": "1", "segment.bytes": "1000"})


def is_there(chance: SimChance, share: float = WITH_ADMINISTRATOR) -> bool:
    """Whether a world with these dice has an administrator."""
    return chance.other("administrator").happens(share)


def kinds_of(chance: SimChance, node_count: int) -> dict[str, int]:
    """What this administrator does, and how often: few kinds at once go deeper."""
    possible = {kind: weight for kind, weight in KINDS.items() if node_count > 1 or kind not in AMONG_NODES}
    return {kind: weight for kind, weight in possible.items() if chance.happens(0.6)} or possible


class Administrator(SimClient):
    """One order after the other, each to any node."""

    is_over: Callable[[], bool]
    placed: Callable[[TopicPartition], Partition | None]  # by the newest metadata that any node has
    met: Callable[[str], None]  # called with what it is about to order, for the table of coverage
    names: list[TopicPartition]  # of all clients; partitions that are added are added here
    node_ids: Sequence[int]
    orders: Orders
    kinds: dict[str, int]
    pace_s: float
    counts: dict[str, int]  # how often each kind was answered as done
    _written = 0  # records with a key
    _is_content = False  # it has nothing more to order

    async def attempt(self) -> None:
        while not self.is_over():
            await asyncio.sleep(self.chance.between(0, 2 * self.pace_s))
            if self._is_content:
                continue
            kind = self.chance.weighted(self.kinds)
            self.met(f"admin {kind}")
            await getattr(self, f"_{kind}")()
            self.counts[kind] = self.counts.get(kind, 0) + 1
        await self._settle()

    def make_haste(self) -> None:
        """When partitions that move all the time are led by others each moment, the others take too long."""
        self._is_content = True

    def _passes(self, code: Code, what: str, *others: Code) -> bool:
        """Whether it was done. What is neither that, nor one of these, nor passes, is a broken promise."""
        self.story.tell(self.name, f"{what}: {code.name}")
        if code in others:
            return False
        self.check(code, what)
        return True

    # --- replicas

    async def _move(self) -> None:
        await self._order_move(self._any_partition())

    async def _redirect(self) -> None:
        """While it is under way, if there is one."""
        under_way = [name for name in self.orders.moved() if self._is_moving(name)]
        await self._order_move(self.chance.one_of(under_way) if under_way else self._any_partition())

    def _any_partition(self) -> TopicPartition:
        groups = [TopicPartition(OFFSETS_TOPIC, number) for number in (0, 1)]
        known = [name for name in (*self.names, *groups) if self.placed(name) is not None]
        return self.chance.one_of(known)

    def _is_moving(self, name: TopicPartition) -> bool:
        placed = self.placed(name)
        return placed is not None and placed.is_moving

    async def _order_move(self, name: TopicPartition) -> tuple[int, ...] | None:
        """Returns where to, if that was answered as done."""
        placed = self.placed(name)
        factor = min(3, len(self.node_ids)) if placed is None else len(placed.replicas) - len(placed.adding)
        if self.chance.happens(0.4):
            factor = 1 + self.chance.below(min(4, len(self.node_ids)))
        nodes = list(self.node_ids)
        target: tuple[int, ...] = ()
        for _ in range(min(max(1, factor), len(self.node_ids))):
            target = (*target, nodes.pop(self.chance.below(len(nodes))))
        self.orders.moves(name, target)
        code = await requests.reassign(self, name, target)
        return target if self._passes(code, f"moving {name} to {target}") else None

    async def _cancel(self) -> None:
        """It is then as before: what a move added is gone again."""
        moved = [name for name in self.orders.moved() if self._is_moving(name)] or self.orders.moved()
        if not moved:
            return
        name = self.chance.one_of(moved)
        before, strayed = self.placed(name), self.network.strayed
        self.orders.cancels(name)
        code = await requests.reassign(self, name, None)
        also = (Code.NO_REASSIGNMENT_IN_PROGRESS, Code.INVALID_REPLICA_ASSIGNMENT)
        if not self._passes(code, f"taking back the move of {name}", *also):
            return
        after = self.placed(name)
        if before is None or after is None or strayed != self.network.strayed:
            return
        wanted = {replica for replica in before.replicas if replica not in before.adding}
        if before.is_moving and not after.is_moving and set(after.replicas) != wanted:
            kept = {replica for replica in before.replicas if replica not in before.removing}
            if set(after.replicas) != kept:  # it may have been over before this came
                raise self.story.break_promise(
                    f"{name} had {before.replicas} while {before.adding} were added, and has {after.replicas} after"
                    " that was taken back"
                )

    # --- partitions and leaders

    async def _grow(self) -> None:
        topic = self.chance.one_of(sorted({name.topic for name in self.names if name.topic != KEYED}))
        count = sum(name.topic == topic for name in self.names)
        if count >= PARTITIONS_MAX:
            return
        code = await requests.create_partitions(self, topic, count + 1)
        # One that was given up may have been done, or come late and find it done.
        is_done = self._passes(code, f"a partition more for {topic}", Code.INVALID_PARTITIONS)
        name = TopicPartition(topic, count)
        if not is_done and self.placed(name) is None:
            return
        self.orders.counted(topic, count + 1)
        if any(self.orders.settings.get(OrderedSetting(ResourceType.TOPIC, topic, key)) for key in DELETES):
            self.judge.starts.asked(name, -1)
        self.names.append(name)
        await self._append(name, KeyValue(None, b"%s-%d:0:" % (self.name.encode(), len(self.names))))

    async def _prefer(self) -> None:
        name = self._any_partition() if self.chance.happens(0.7) else None
        code = await requests.elect(self, name, requests.PREFERRED)
        also = (Code.ELECTION_NOT_NEEDED, Code.PREFERRED_LEADER_NOT_AVAILABLE)
        self._passes(code, f"electing the preferred leader of {name or 'everything'}", *also)

    async def _unclean(self) -> None:
        """Where no node leads; else a record is written that may be lost, or leaders are elected so from now on."""
        name = TopicPartition(LOSSY, 0)
        placed = self.placed(name)
        if self.chance.happens(0.2):
            key = self.chance.one_of(sorted(LOSSY_SETTINGS))
            await self._order_setting(
                OrderedSetting(ResourceType.TOPIC, LOSSY, key), self.chance.one_of(LOSSY_SETTINGS[key])
            )
            return
        if placed is None or placed.has_leader:
            self._written += 1
            await self._produce(name, KeyValue(None, b"%d" % self._written), acks=1)
            return
        code = await requests.elect(self, name, requests.UNCLEAN)
        also = (Code.ELECTION_NOT_NEEDED, Code.ELIGIBLE_LEADERS_NOT_AVAILABLE)
        self._passes(code, f"electing any leader of {name}", *also)

    # --- records

    async def _delete(self) -> None:
        name = self.chance.one_of([name for name in self.names if name.topic != KEYED])
        epoch = (await self.place_of(name)).leader_epoch
        offset = self.chance.one_of((-1, self.chance.below(self.judge.known(name).watermark + 1)))
        self.judge.starts.asked(name, offset)
        code, start_offset = await requests.delete_records(self, name, offset)
        if code != Code.NONE and self.judge.may_refuse(name):
            return
        # A new leader may know a lower watermark than clients were sent, for a moment.
        if self._passes(code, f"deleting {name} up to {offset}", Code.OFFSET_OUT_OF_RANGE):
            self.judge.starts.deleted(name, max(offset, start_offset), epoch)

    async def _write(self) -> None:
        self._written += 1
        value = b"%s:%d:%s" % (self.name.encode(), self._written, b"k" * self.chance.below(200))
        await self._append(TopicPartition(KEYED, 0), KeyValue(b"key%d" % self._written, value))

    async def _append(self, name: TopicPartition, record: KeyValue) -> None:
        self.judge.sent(name, [record.value or b""], is_idempotent=False)
        base_offset = await self._produce(name, record, acks=-1)
        if base_offset is not None:
            self.judge.acknowledged(self.name, name, base_offset, [record.value or b""])

    async def _produce(self, name: TopicPartition, record: KeyValue, acks: int) -> int | None:
        """The offset that was acknowledged; None where every copy is damaged. Raises OSError and TryAgain."""
        topic, partition = part_of("produce", "topic_data"), part_of("produce", "topic_data", "partition_data")
        part = partition(index=name.partition, records=bytes(build([record], self.clock.now_ms())))
        answer: Any = await self.ask(
            "produce",
            await self.leader_of(name),
            acks=acks,
            timeout=milliseconds(requests.TIMEOUT_MS),
            topic_data=(topic(name=name.topic, partition_data=(part,)),),
        )
        response = answer.responses[0].partition_responses[0]
        if response.error_code != Code.NONE and self.judge.may_refuse(name):
            return None
        self.check(response.error_code, f"produce to {name}")
        return int(response.base_offset)

    # --- settings

    async def _topic_setting(self) -> None:
        topic = self.chance.one_of(sorted({name.topic for name in self.names}))
        table = KEYED_SETTINGS if topic == KEYED else TOPIC_SETTINGS
        key = self.chance.one_of(sorted(table))
        await self._order_setting(OrderedSetting(ResourceType.TOPIC, topic, key), self.chance.one_of(table[key]))

    async def _broker_setting(self) -> None:
        key = self.chance.one_of(sorted(ALL_BROKERS_SETTINGS))
        value = self.chance.one_of(ALL_BROKERS_SETTINGS[key])
        await self._order_setting(OrderedSetting(ResourceType.BROKER, ALL_BROKERS, key), value)

    async def _order_setting(self, setting: OrderedSetting, value: str | None) -> bool:
        self.orders.sets(setting, value)
        if value in DELETES.get(setting.key, ()):
            for name in self.names:
                if name.topic == setting.resource_name:
                    self.judge.starts.asked(name, -1)
        code = await requests.alter_config(self, setting, value)
        return self._passes(code, f"{setting.key} of {setting.resource_name or 'all brokers'} to {value}")

    # --- in the end

    async def _settle(self) -> None:
        """Everything once more, when nothing is left on its way; anew when something strays again."""
        while True:
            await asyncio.sleep(QUIET_S)
            strayed = self.network.strayed
            moves = {name: await self._order_move(name) for name in self.orders.moved()}
            settings = {setting: self._last_value(setting) for setting in sorted(self.orders.settings)}
            for setting, value in settings.items():
                await self._order_setting(setting, value)
            if self.network.strayed == strayed:
                break
        for name, target in moves.items():
            if target is not None:
                self.orders.settled(name, target)
        for setting, value in settings.items():
            self.orders.holds(setting, value)

    def _last_value(self, setting: OrderedSetting) -> str | None:
        table = {KEYED: KEYED_SETTINGS, LOSSY: LOSSY_SETTINGS}.get(setting.resource_name, TOPIC_SETTINGS)
        if setting.resource_type == ResourceType.BROKER:
            table = ALL_BROKERS_SETTINGS
        return self.chance.one_of(table[setting.key])


class ConfigAuditor(SimClient):
    """Every node tells the settings as they were ordered last, however long it takes it to hear of them."""

    orders: Orders

    async def attempt(self) -> None:
        for setting, values in sorted(self.orders.settings.items()):
            for node in self.all_addresses:
                code, response = await requests.described_config(self, setting, node)
                self.check(code, f"the settings of {setting.resource_name or 'all brokers'}")
                if response not in values:
                    raise TryAgain(f"{node[0]} says {setting} is {response}, ordered was {values}")

    all_addresses: Sequence[tuple[str, int]]
