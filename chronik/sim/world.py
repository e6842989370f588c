"""A world: hosts with real nodes, wires, clients and a judge, all made from one seed."""

from __future__ import annotations

import asyncio
import logging
from contextvars import Context
from typing import Any, TypeVar

from chronik.core.types import TopicPartition
from chronik.sim.chance import SimChance
from chronik.sim.checkers import Judge
from chronik.sim.churn import Churn
from chronik.sim.client import Admin, Auditor, Client
from chronik.sim.clock import SimClock
from chronik.sim.consumer_members import ConsumerMember
from chronik.sim.consumers import Member, Reader
from chronik.sim.group_client import GroupAuditor
from chronik.sim.host import Host
from chronik.sim.inspector import Inspector
from chronik.sim.loop import PROCESS, SimLoop, SimProcess
from chronik.sim.network import SimNetwork, Wires
from chronik.sim.plans import ALONE_S, SIZES, TOGETHER_S, node_settings, snapshot_records, topic_plans
from chronik.sim.producers import IdempotentProducer, Producer
from chronik.sim.story import Story, Violation
from chronik.sim.voters import VoterChanges

CLASSIC_GROUP, CONSUMER_GROUP = "group", "consumer-group"  # coordinated apart
WITH_CONSUMER_GROUP = 0.5  # of all worlds

ClientT = TypeVar("ClientT", bound=Client)


class NodeLog(logging.Handler):
    """What nodes log is part of the story; a traceback in it is a fault."""

    def __init__(self, story: Story) -> None:
        super().__init__()
        self._story = story

    def emit(self, record: logging.LogRecord) -> None:
        process = PROCESS.get(None)
        who = process.name if process is not None else "world"
        self._story.tell(who, f"{record.levelname.lower()}: {record.getMessage()}")
        if record.exc_info:
            self._story.break_promise(f"{who}: {record.getMessage()}: {record.exc_info[1]!r}")


class World:
    """Everything there is."""

    def __init__(
        self,
        seed: int,
        seconds: float | None = None,
        node_count: int | None = None,
        *,
        is_whole_story_kept: bool = False,
    ) -> None:
        self.seed = seed
        self.loop = SimLoop()
        self.story = Story(self.loop.time, is_whole=is_whole_story_kept)
        self.chance = SimChance(seed, "world")
        drawn = self.chance.weighted(SIZES)  # drawn in any case: what follows does not depend on who has a say in it
        self.node_count = node_count or drawn
        self.seconds = seconds or (ALONE_S if self.node_count == 1 else TOGETHER_S)
        self.judge = Judge(self.story, self.node_count)
        self.wires = Wires(self.loop, self.chance.other("wires"), self.story)
        self.is_synced = not self.chance.happens(0.15)
        settings = node_settings(self.chance.other("settings"), self.node_count, is_synced=self.is_synced)
        self.hosts = [self._host(node_id, settings) for node_id in range(1, self.node_count + 1)]
        self.inspector = Inspector(self.hosts, self.judge, self.story)
        self.judge.truth = self.inspector
        self.topics = topic_plans(self.chance.other("topics"), self.node_count)
        self.names = [
            TopicPartition(topic, partition)
            for topic, plan in self.topics.items()
            for partition in range(plan.partition_count)
        ]
        self.groups = [CLASSIC_GROUP]
        self.clients: list[Client] = []
        self.producers: list[Producer] = []
        self.processes: list[SimProcess] = []
        self.loop.before_time_passes = self.inspector.look

    def _host(self, node_id: int, settings: dict[str, str]) -> Host:
        chance = self.chance.other(f"node{node_id}")
        records = snapshot_records(self.chance.other("snapshots"))
        return Host(node_id, settings, self.loop, self.wires, chance, self.judge, self.story, records)

    # --- clients

    def client(self, kind: type[ClientT], name: str, **traits: Any) -> ClientT:
        """Bring a client into the world; it does nothing yet."""
        chance = self.chance.other(name)
        network = SimNetwork(self.wires, f"host-{name}")
        clock = SimClock(self.loop.time)
        addresses = [host.address for host in self.hosts]
        if chance.happens(0.3):  # all that it was told of the cluster: it finds the others by itself
            addresses = [chance.one_of(addresses)]
        client = kind(name, addresses, network, clock, chance, self.judge, self.story)
        for trait, value in traits.items():
            setattr(client, trait, value)
        self.clients.append(client)
        return client

    def set_to_work(self, client: Client) -> Any:
        """Returns its task."""
        process = SimProcess(client.name)
        self.processes.append(process)
        task = self.loop.create_task(client.work(), name=client.name, context=process.context)
        task.add_done_callback(self._ended, context=Context())
        return task

    def _ended(self, task: asyncio.Task[None]) -> None:
        problem = None if task.cancelled() else task.exception()
        if problem is not None and not isinstance(problem, Violation):
            self.story.break_promise(f"{task.get_name()}: {problem!r}")

    def admin(self) -> Admin:
        return self.client(Admin, "admin", topics=self.topics)

    def populate(self) -> list[Client]:
        """Producers, readers and a group, as many as the seed has it."""
        batches, chance = 10 + self.chance.below(40), self.chance
        traits: dict[str, Any] = {
            "batches": batches,
            "pace_s": self.seconds / batches * 0.8,
            "large": chance.one_of((0.0, 0.0, 0.1)),
        }
        for number, name in enumerate(self.names):
            traits.update(partition=name, is_replicated=self.topics[name.topic].replica_count > 1)
            idempotent = self.client(IdempotentProducer, f"idem{number}", is_lost=self._is_lost(), **traits)
            acks = chance.one_of((-1, -1, 1, 0))
            plain = self.client(Producer, f"plain{number}", acks=acks, is_lost=self._is_lost(), **traits)
            self.producers += [idempotent, plain]
        from_followers = chance.one_of((0.0, 0.3))
        others: list[Client] = [
            self.client(Reader, "reader", names=self.names, is_over=self.is_written, from_followers=from_followers)
        ]
        others += self._members(1 + chance.below(3), chance.other("consumer group"))
        if chance.happens(0.5):
            others.append(self.client(Churn, "churn", is_over=self.is_written))
        if self.node_count > 1 and chance.other("voters").happens(0.3):
            node_ids = [host.node_id for host in self.hosts]
            traits = {"is_over": self.is_written, "is_calm": self.inspector.is_calm, "node_ids": node_ids}
            others.append(self.client(VoterChanges, "voters", **traits))
        return [*self.producers, *others]

    def _members(self, classic_count: int, chance: SimChance) -> list[Client]:
        """Of a classic group, and in some worlds of one of KIP-848 as well."""
        traits: dict[str, Any] = {"names": self.names, "is_over": self.is_written}
        members: list[Client] = [
            self.client(Member, f"member{number}", group=CLASSIC_GROUP, **traits) for number in range(classic_count)
        ]
        if not chance.happens(WITH_CONSUMER_GROUP):
            return members
        self.groups.append(CONSUMER_GROUP)
        traits.update(group=CONSUMER_GROUP, unrest=chance.one_of((0.0, 0.03, 0.3)))
        return members + [
            self.client(ConsumerMember, f"consumer{n}", assignor=chance.one_of((None, "uniform", "range")), **traits)
            for n in range(1 + chance.below(4))
        ]

    def _is_lost(self) -> bool:
        return self.node_count > 1 and self.chance.happens(0.3)

    def is_written(self) -> bool:
        """Whether all producers are done."""
        return all(producer.is_done for producer in self.producers)

    def auditors(self, number: int) -> list[Client]:
        """Those who look at everything, after everything."""
        return [
            self.client(Auditor, f"audit{number}", names=list(self.names)),
            *(self.client(GroupAuditor, f"{group}{number}", group=group, names=self.names) for group in self.groups),
        ]
