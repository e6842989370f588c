"""The transactional part of a world: its topics, its clients, and what is known of their transactions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from chronik.core.machines.metadata.names import OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from chronik.core.types import TopicPartition
from chronik.sim.checkers import Judge
from chronik.sim.client import SimClient
from chronik.sim.plans import UNKEYED, TopicPlan
from chronik.sim.story import WorldStory
from chronik.sim.transaction_checks import TransactionChecks
from chronik.sim.transactional_clients import CommittedReader, Copier, TransactionalWriter, TransactionAuditor
from chronik.wire.versions import APIS

if TYPE_CHECKING:
    from chronik.sim.world import World

LEDGER, COPY = "ledger", "ledger-copy"
WITH_TRANSACTIONS = 0.25  # of all worlds
STATE_PARTITIONS = 2
ARE_OFFERED = any(api.name == "txn_offset_commit" for api in APIS.values())  # all of it: this one comes last


class DamagedChecks(TransactionChecks):
    """Knows by itself when the last good copy of something was damaged."""

    def __init__(self, story: WorldStory, judge: Judge, names: list[TopicPartition]) -> None:
        super().__init__(story)
        self._judge = judge
        self._names = names
        self._was_lost = False

    @property
    def is_lost(self) -> bool:
        self._was_lost = self._was_lost or any(self._judge.may_refuse(name) for name in self._names)
        return self._was_lost


class WorldTransactions:
    """Which transactional clients a world has. Its dice are its own."""

    def __init__(self, world: World, share: float) -> None:
        self._chance = chance = world.chance.other("transactions")
        self.is_there = chance.happens(share) and ARE_OFFERED
        self.plans: dict[str, TopicPlan] = {}
        self.settings: dict[str, str] = {}
        partition_count = 1 + chance.below(3)
        self._ledger = [TopicPartition(LEDGER, number) for number in range(partition_count)]
        self._pairs = {name: TopicPartition(COPY, name.partition) for name in self._ledger}
        names = [*self._ledger, *self._pairs.values()]
        names += [TopicPartition(TRANSACTIONS_TOPIC, number) for number in range(STATE_PARTITIONS)]
        names += [TopicPartition(OFFSETS_TOPIC, number) for number in range(2)]
        self.checks = DamagedChecks(world.story, world.judge, names)
        if self.is_there:
            self._plan(world.node_count)

    def _plan(self, node_count: int) -> None:
        chance = self._chance
        self.settings = {
            "transaction.state.log.num.partitions": str(STATE_PARTITIONS),
            "transaction.state.log.segment.bytes": str(chance.one_of((2_000, 100_000_000))),
        }
        for topic in (LEDGER, COPY):
            replicas = chance.one_of((1, 2, 3, 3)) if node_count > 1 else 1
            configs = {
                "segment.bytes": str(chance.one_of((1_000, 4_000, 1_000_000))),
                "min.insync.replicas": str(min(1 + chance.below(2), replicas)),
            }
            self.plans[topic] = TopicPlan(len(self._ledger), min(replicas, node_count), configs | UNKEYED)

    def clients(self, world: World) -> list[SimClient]:
        """Writers, one that copies what they write, and one that reads both."""
        if not self.is_there:
            return []
        chance, count = self._chance, 5 + self._chance.below(25)
        writers: list[SimClient] = [
            world.client(
                TransactionalWriter,
                f"txn{number}",
                count=count,
                pace_s=world.seconds / count * 0.6,
                partitions=self._ledger,
                **self._traits(f"txn{number}"),
            )
            for number in range(1 + chance.below(3))
        ]
        copier = world.client(
            Copier,
            "copier",
            pairs=self._pairs,
            is_over=lambda: all(writer.is_done for writer in writers),
            **self._traits("copier"),
        )
        reader = world.client(
            CommittedReader,
            "committed",
            checks=self.checks,
            partitions=[*self._ledger, *self._pairs.values()],
            is_over=lambda: copier.is_done,
        )
        return [*writers, copier, reader]

    def _traits(self, transactional_id: str) -> dict[str, Any]:
        return {
            "checks": self.checks,
            "transactional_id": transactional_id,
            "adds_by_itself": self._chance.happens(0.5),
            "timeout_ms": self._chance.one_of((1_000, 4_000, 15_000)),
        }

    def auditors(self, world: World, number: int) -> list[SimClient]:
        if not self.is_there:
            return []
        names = [*self._ledger, *self._pairs.values()]
        traits: dict[str, Any] = {"checks": self.checks, "partitions": names, "pairs": self._pairs}
        return [world.client(TransactionAuditor, f"audit-transactions{number}", **traits)]
