"""A world: hosts with real nodes, wires, clients and a judge, all made from one seed."""

from __future__ import annotations

import logging
from typing import Any, TypeVar

from chronik.core.types import TopicPartition
from chronik.sim.chance import SimChance
from chronik.sim.checkers import Judge
from chronik.sim.churn import Churn
from chronik.sim.client import Admin, Auditor, Client
from chronik.sim.clock import SimClock
from chronik.sim.consumers import GroupAuditor, Member, Reader
from chronik.sim.host import Host
from chronik.sim.loop import PROCESS, SimLoop, SimProcess
from chronik.sim.network import SimNetwork, Wires
from chronik.sim.producers import IdempotentProducer, Producer
from chronik.sim.story import Story

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

    def __init__(self, seed: int, seconds: float, node_count: int = 1) -> None:
        self.seed = seed
        self.seconds = seconds
        self.loop = SimLoop()
        self.story = Story(self.loop.time)
        self.chance = SimChance(seed, "world")
        self.judge = Judge(self.story)
        self.wires = Wires(self.loop, self.chance.other("wires"), self.story)
        self.is_synced = not self.chance.happens(0.15)
        self.hosts = [self._host(node_id) for node_id in range(1, node_count + 1)]
        self.topics = {f"topic{number}": 1 + self.chance.below(2) for number in range(1 + self.chance.below(2))}
        self.names = [
            TopicPartition(topic, partition) for topic, count in self.topics.items() for partition in range(count)
        ]
        self.clients: list[Client] = []
        self.producers: list[Producer] = []
        self.processes: list[SimProcess] = []
        self.loop.before_time_passes = self.check

    def _host(self, node_id: int) -> Host:
        chance = self.chance.other(f"node{node_id}")
        settings = {
            "durability": "sync" if self.is_synced else "os",
            "offsets.topic.num.partitions": "2",
            "offsets.topic.segment.bytes": str(chance.one_of((2_000, 100_000_000))),
            "group.initial.rebalance.delay.ms": str(chance.one_of((0, 500))),
            "auto.create.topics.enable": "false",
            "log.retention.check.interval.ms": str(chance.one_of((7_000, 300_000))),
        }
        return Host(node_id, settings, self.loop, self.wires, chance, self.judge, self.story)

    def check(self) -> None:
        """Between any two moments."""
        for host in self.hosts:
            host.check()

    # --- clients

    def client(self, kind: type[ClientT], name: str, **traits: Any) -> ClientT:
        """Bring a client into the world; it does nothing yet."""
        chance = self.chance.other(name)
        network = SimNetwork(self.wires, f"host-{name}")
        clock = SimClock(self.loop.time)
        addresses = [host.address for host in self.hosts]
        client = kind(name, addresses, network, clock, chance, self.judge, self.story)
        for trait, value in traits.items():
            setattr(client, trait, value)
        self.clients.append(client)
        return client

    def set_to_work(self, client: Client) -> Any:
        """Returns its task."""
        process = SimProcess(client.name)
        self.processes.append(process)
        return self.loop.create_task(client.work(), name=client.name, context=process.context)

    def admin(self) -> Admin:
        configs = {"segment.bytes": str(self.chance.one_of((1_000, 4_000, 1_000_000)))}
        configs["index.interval.bytes"] = str(self.chance.one_of((0, 300, 4096)))
        return self.client(Admin, "admin", topics=self.topics, configs=configs)

    def populate(self) -> list[Client]:
        """Producers, readers and a group, as many as the seed has it."""
        batches, chance = 10 + self.chance.below(40), self.chance
        traits = {"batches": batches, "pace_s": self.seconds / batches * 0.8, "large": chance.one_of((0.0, 0.0, 0.1))}
        for number, name in enumerate(self.names):
            idempotent = self.client(IdempotentProducer, f"idem{number}", partition=name, **traits)
            plain = self.client(
                Producer, f"plain{number}", partition=name, acks=chance.one_of((-1, -1, 1, 0)), **traits
            )
            self.producers += [idempotent, plain]
        others: list[Client] = [self.client(Reader, "reader", names=self.names, is_over=self.is_written)]
        others += [
            self.client(Member, f"member{number}", group="group", names=self.names, is_over=self.is_written)
            for number in range(1 + chance.below(3))
        ]
        if chance.happens(0.5):
            others.append(self.client(Churn, "churn", is_over=self.is_written))
        return [*self.producers, *others]

    def is_written(self) -> bool:
        """Whether all producers are done."""
        return all(producer.is_done for producer in self.producers)

    def auditors(self, number: int) -> list[Client]:
        """Those who look at everything, after everything."""
        return [
            self.client(Auditor, f"audit{number}", names=list(self.names)),
            self.client(GroupAuditor, f"commits{number}", group="group", names=self.names),
        ]
