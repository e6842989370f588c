"""A world: hosts with real nodes, wires, clients and a judge, all made from one seed."""

from __future__ import annotations

import asyncio
import logging
from contextvars import Context
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeVar

from chronik.core.types import TopicPartition
from chronik.sim import administrator, mixture
from chronik.sim.administrator import Administrator, ConfigAuditor
from chronik.sim.chance import SimChance
from chronik.sim.checkers import Judge
from chronik.sim.churn import Churn
from chronik.sim.cleaned import Cleaned
from chronik.sim.cleaned_clients import cleaned_auditors, cleaned_clients
from chronik.sim.client import Admin, Auditor, SimClient
from chronik.sim.clock import SimClock
from chronik.sim.consumer_members import ConsumerMember
from chronik.sim.consumers import SimMember, SimReader
from chronik.sim.coverage import Coverage
from chronik.sim.group_client import GroupAuditor
from chronik.sim.host import Host
from chronik.sim.hostile import NOT_FOR_CLIENTS, HostileClient, HostilePeer
from chronik.sim.idle_time import IdleTime
from chronik.sim.inspector import Inspector
from chronik.sim.link import VERSIONS
from chronik.sim.loop import PROCESS, SimLoop, SimProcess
from chronik.sim.network import SimNetwork, Wires
from chronik.sim.orders import Orders
from chronik.sim.plans import (
    ALONE_S,
    SIZES,
    TOGETHER_S,
    UNKEYED,
    node_settings,
    snapshot_records,
    topic_plans,
    with_settings,
)
from chronik.sim.producers import IdempotentProducer, SimProducer
from chronik.sim.story import Violation, WorldStory
from chronik.sim.transactions import WITH_TRANSACTIONS, WorldTransactions
from chronik.sim.voters import VoterChanges

CLASSIC_GROUP, CONSUMER_GROUP = "group", "consumer-group"  # coordinated apart
WITH_CONSUMER_GROUP = 0.5  # of all worlds
WITH_HOSTILE_PEER = 0.25  # of those with several nodes
WITH_HOSTILE_CLIENT = 0.2

ClientT = TypeVar("ClientT", bound=SimClient)


class NodeLog(logging.Handler):
    """What nodes log is part of the story; a traceback in it is a fault."""

    def __init__(self, story: WorldStory) -> None:
        super().__init__()
        self._story = story

    def emit(self, record: logging.LogRecord) -> None:
        process = PROCESS.get(None)
        who = process.name if process is not None else "world"
        self._story.tell(who, f"{record.levelname.lower()}: {record.getMessage()}")
        if record.exc_info:
            self._story.break_promise(f"{who}: {record.getMessage()}: {record.exc_info[1]!r}")


@dataclass
class Population:
    """The clients of a world, and what they use."""

    clients: list[SimClient] = field(default_factory=list)
    producers: list[SimProducer] = field(default_factory=list)
    processes: list[SimProcess] = field(default_factory=list)
    groups: list[str] = field(default_factory=lambda: [CLASSIC_GROUP])


class WorldTraits(NamedTuple):
    """What sets a world apart from others, as its seed has it."""

    voter_ids: tuple[int, ...]
    has_administrator: bool
    is_only_transactions: bool


class World:
    """Everything there is."""

    def __init__(
        self,
        seed: int,
        seconds: float | None = None,
        node_count: int | None = None,
        *,
        is_whole_story_kept: bool = False,
        administrator_share: float = administrator.WITH_ADMINISTRATOR,
        transactions_share: float = WITH_TRANSACTIONS,
        is_only_transactions: bool = False,
    ) -> None:
        self.seed = seed
        self.loop = SimLoop()
        self.story = WorldStory(self.loop.time, is_whole=is_whole_story_kept)
        self.chance = SimChance(seed, "world")
        drawn = self.chance.weighted(SIZES)  # drawn in any case: what follows does not depend on who has a say in it
        self.node_count = node_count or mixture.size(self.chance.other("size"), drawn)
        self.cleaned = Cleaned(self.chance.other("keyed"), self.node_count, self.story)
        self.idle_time = IdleTime(self.chance.other("time"), self.node_count)
        self.seconds = seconds or max(ALONE_S if self.node_count == 1 else TOGETHER_S, self.cleaned.seconds)
        self.judge = Judge(self.story, self.node_count)
        self.wires = Wires(self.loop, self.chance.other("wires"), self.story)
        self.is_synced = not self.chance.happens(0.15)
        settings = node_settings(self.chance.other("settings"), self.node_count, is_synced=self.is_synced)
        self.transactions = WorldTransactions(self, transactions_share)
        settings |= self.cleaned.settings | self.transactions.settings
        voter_ids = mixture.voter_ids(self.chance.other("observers"), self.node_count)
        if self.node_count > 1:
            settings["controller.quorum.voters"] = mixture.voters_setting(voter_ids)
        are_files_different = mixture.are_files_different(self.chance.other("files"), self.node_count)
        self.hosts = [self._host(node_id, settings, are_files_different) for node_id in range(1, self.node_count + 1)]
        self.inspector = Inspector(self.hosts, self.judge, self.story, voter_ids)
        self.judge.truth = self.inspector
        self.topics = topic_plans(self.chance.other("topics"), self.node_count)
        is_only_transactions = is_only_transactions and self.transactions.is_there
        share = 0.0 if is_only_transactions else administrator_share
        has_administrator = administrator.is_there(self.chance, share)
        self.traits = WorldTraits(voter_ids, has_administrator, is_only_transactions)
        self.orders = Orders(self.story)
        if are_files_different or has_administrator:
            # Records without a key must be welcome, whatever a node's file or the administrator says.
            self.topics = {topic: with_settings(plan, UNKEYED) for topic, plan in self.topics.items()}
        if has_administrator:
            self.topics[administrator.KEYED] = administrator.KEYED_PLAN
        self.names = [
            TopicPartition(topic, partition)
            for topic, plan in self.topics.items()
            for partition in range(plan.partition_count)
        ]
        self.topics |= (
            self.cleaned.plans | self.transactions.plans
        )  # not among the names: what is dense is looked for there
        if has_administrator and self.node_count > 1:
            self.topics[administrator.LOSSY] = administrator.lossy_plan(self.node_count)
            self.inspector.lossy_topics.add(administrator.LOSSY)
        self.population = Population()
        self.loop.before_time_passes = self.inspector.look
        self.coverage = Coverage(self)

    def _host(self, node_id: int, settings: dict[str, str], is_file_its_own: bool) -> Host:
        chance = self.chance.other(f"node{node_id}")
        records = snapshot_records(self.chance.other("snapshots"))
        if is_file_its_own:
            settings = settings | mixture.own_settings(self.chance.other(f"file of node{node_id}"))
        settings = settings | self.idle_time.settings
        return Host(node_id, settings, self.loop, self.wires, chance, self.judge, self.story, records)

    # --- clients

    def client(self, kind: type[ClientT], name: str, **traits: Any) -> ClientT:
        """Bring a client into the world; it does nothing yet."""
        chance = self.chance.other(name)
        network = SimNetwork(self.wires, f"host-{name}")
        clock = SimClock(self.loop.time)
        addresses = [host.address for host in self.hosts]
        if chance.happens(0.3):  # all that it was given of the cluster: it finds the others by itself
            addresses = [chance.one_of(addresses)]
        client = kind(name, addresses, network, clock, chance, self.judge, self.story)
        for trait, value in traits.items():
            setattr(client, trait, value)
        self.population.clients.append(client)
        return client

    def set_to_work(self, client: SimClient) -> Any:
        """Returns its task."""
        process = SimProcess(client.name)
        self.population.processes.append(process)
        task = self.loop.create_task(client.work(), name=client.name, context=process.context)
        task.add_done_callback(self._ended, context=Context())
        return task

    def _ended(self, task: asyncio.Task[None]) -> None:
        problem = None if task.cancelled() else task.exception()
        if problem is not None and not isinstance(problem, Violation):
            self.story.break_promise(f"{task.get_name()}: {problem!r}")

    def admin(self) -> Admin:
        return self.client(Admin, "admin", topics=self.topics)

    def populate(self) -> list[SimClient]:
        """Producers, readers and a group, as many as the seed has it."""
        if self.traits.is_only_transactions:
            return [*self.transactions.clients(self), *self._hostile()]
        batches, chance = 10 + self.chance.below(40), self.chance
        traits: dict[str, Any] = {
            "batches": batches,
            "pace_s": self.seconds / batches * 0.8,
            "large": chance.one_of((0.0, 0.0, 0.1)),
        }
        for number, name in enumerate(self.names):
            if name.topic == administrator.KEYED:  # written by the administrator alone
                continue
            may_be_moved = self.traits.has_administrator and self.node_count > 1
            is_replicated = self.topics[name.topic].replica_count > 1 or may_be_moved
            traits.update(partition=name, is_replicated=is_replicated)
            idempotent = self.client(IdempotentProducer, f"idem{number}", is_lost=self._is_lost(), **traits)
            acks = chance.one_of((-1, -1, 1, 0))
            plain = self.client(SimProducer, f"plain{number}", acks=acks, is_lost=self._is_lost(), **traits)
            self.population.producers += [idempotent, plain]
        from_followers = chance.one_of((0.0, 0.3))
        others: list[SimClient] = [
            self.client(SimReader, "reader", names=self.names, is_over=self.is_written, from_followers=from_followers)
        ]
        others += self._members(1 + chance.below(3), chance.other("consumer group"))
        if chance.happens(0.5):
            others.append(self.client(Churn, "churn", is_over=self.is_written))
        if self.node_count > 1 and chance.other("voters").happens(0.3):
            node_ids = [host.node_id for host in self.hosts]
            traits = {"is_over": self.is_written, "is_calm": self.inspector.is_calm, "node_ids": node_ids}
            traits["voter_ids"] = self.traits.voter_ids
            others.append(self.client(VoterChanges, "voters", **traits))
        if self.traits.has_administrator:
            others.append(self._administrator(chance.other("administrator").other("appetite")))
        cleaned_producers, cleaned_readers = cleaned_clients(self, 2 * batches)
        self.population.producers += cleaned_producers
        transactional = self.transactions.clients(self)
        return [*self.population.producers, *others, *cleaned_readers, *transactional, *self._hostile()]

    def _hostile(self) -> list[SimClient]:
        """In some worlds, until the last fault: what they disturb must heal like anything else."""
        hostile: list[SimClient] = []
        until_s = self.loop.time() + self.seconds
        peer, client = self.chance.other("hostile peer"), self.chance.other("hostile client")
        if self.node_count > 1 and peer.happens(WITH_HOSTILE_PEER):
            traits: dict[str, Any] = {"until_s": until_s, "pace_s": peer.one_of((0.02, 0.2, 1.0))}
            hostile.append(self.client(HostilePeer, "hostile-peer", node_ids=self.traits.voter_ids, **traits))
        if client.happens(WITH_HOSTILE_CLIENT):
            kinds = [name for name in sorted(VERSIONS) if name not in NOT_FOR_CLIENTS]
            traits = {"until_s": until_s, "pace_s": client.one_of((0.02, 0.2, 1.0))}
            hostile.append(self.client(HostileClient, "hostile-client", topics=[*self.topics], kinds=kinds, **traits))
        return hostile

    def _administrator(self, chance: SimChance) -> Administrator:
        return self.client(
            Administrator,
            "ruler",
            is_over=self.is_written,
            placed=self.inspector.newest_place,
            met=lambda order: self.coverage.met(order, self._controller()),
            names=self.names,
            node_ids=[host.node_id for host in self.hosts],
            orders=self.orders,
            kinds=administrator.kinds_of(chance, self.node_count),
            pace_s=chance.one_of((0.1, 0.4, 1.0)),
            counts={},
        )

    def _controller(self) -> Host:
        """The node that carries out what is ordered; any other while there is none."""
        leads = [host for host in self.hosts if host.node is not None and host.node.cluster.quorum.is_leader]
        return (leads or self.hosts)[0]

    def _members(self, classic_count: int, chance: SimChance) -> list[SimClient]:
        """Of a classic group, and in some worlds of one of KIP-848 as well."""
        traits: dict[str, Any] = {"names": self.names, "is_over": self.is_written}
        members: list[SimClient] = [
            self.client(SimMember, f"member{number}", group=CLASSIC_GROUP, **traits) for number in range(classic_count)
        ]
        if not chance.happens(WITH_CONSUMER_GROUP):
            return members
        self.population.groups.append(CONSUMER_GROUP)
        traits.update(group=CONSUMER_GROUP, unrest=chance.one_of((0.0, 0.03, 0.3)))
        return members + [
            self.client(ConsumerMember, f"consumer{n}", assignor=chance.one_of((None, "uniform", "range")), **traits)
            for n in range(1 + chance.below(4))
        ]

    def _is_lost(self) -> bool:
        return self.node_count > 1 and self.chance.happens(0.3)

    def is_written(self) -> bool:
        """Whether all producers are done."""
        return all(producer.is_done for producer in self.population.producers)

    def auditors(self, number: int) -> list[SimClient]:
        """Those that look at everything, after everything."""
        return [
            self.client(
                ConfigAuditor,
                f"config{number}",
                orders=self.orders,
                all_addresses=[host.address for host in self.hosts],
            ),
            self.client(Auditor, f"audit{number}", names=list(self.names)),
            *cleaned_auditors(self, number),
            *self.transactions.auditors(self, number),
            *(
                self.client(GroupAuditor, f"{group}{number}", group=group, names=self.names)
                for group in self.population.groups
            ),
        ]
