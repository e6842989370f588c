"""What a world is made of, drawn from its seed: how many nodes, how they are set up, and which topics there are."""

from __future__ import annotations

from typing import NamedTuple

from chronik.sim.chance import SimChance

PORT = 9092
CLUSTER_ID = "c2ltdWxhdGVkLWNsdXN0ZQ"
SIZES = {1: 10, 3: 9, 5: 1}  # how often a world has so many nodes
ALONE_S = 12.0  # of load and faults, in simulated time
TOGETHER_S = 8.0  # several nodes do more in less time
UNKEYED = {"cleanup.policy": "delete"}  # a topic that takes records without a key, whatever the default is


class TopicPlan(NamedTuple):
    """A topic as it is asked for."""

    partition_count: int
    replica_count: int
    configs: dict[str, str]


def with_settings(plan: TopicPlan, settings: dict[str, str]) -> TopicPlan:
    return plan._replace(configs=plan.configs | settings)


def host_name(node_id: int) -> str:
    return f"node{node_id}"


def node_settings(chance: SimChance, node_count: int, *, is_synced: bool) -> dict[str, str]:
    """The settings that all nodes of a world share."""
    settings = {
        "durability": "sync" if is_synced else "os",
        "offsets.topic.num.partitions": "2",
        "offsets.topic.segment.bytes": str(chance.one_of((2_000, 100_000_000))),
        "group.initial.rebalance.delay.ms": str(chance.one_of((0, 500))),
        "auto.create.topics.enable": "false",
        "log.retention.check.interval.ms": str(chance.one_of((7_000, 300_000))),
    }
    if node_count > 1:
        settings.update(_cluster_settings(chance, node_count))
    settings.update(_consumer_group_settings(chance.other("consumer groups")))
    if chance.other("trace").below(4) == 0:  # nothing else may change by it
        settings["chronik.trace"] = "true"
    return settings


def _consumer_group_settings(chance: SimChance) -> dict[str, str]:
    """Short enough that sessions end within a world."""
    return {
        "group.consumer.min.session.timeout.ms": "1000",
        "group.consumer.session.timeout.ms": str(chance.one_of((2_000, 6_000))),
        "group.consumer.min.heartbeat.interval.ms": "100",
        "group.consumer.heartbeat.interval.ms": str(chance.one_of((200, 1_000))),
    }


def snapshot_records(chance: SimChance) -> int | None:
    """After how many records of metadata a snapshot is due. None: as in real life; no world is long enough for that."""
    return chance.one_of((None, None, 5, 20))


def _cluster_settings(chance: SimChance, node_count: int) -> dict[str, str]:
    beat_ms = chance.one_of((200, 500, 1_000))
    replicas = chance.one_of((1, min(node_count, 3), min(node_count, 3)))
    return {
        "cluster.id": CLUSTER_ID,
        "controller.quorum.voters": ",".join(f"{n}@{host_name(n)}:{PORT}" for n in range(1, node_count + 1)),
        "controller.quorum.election.timeout.ms": str(chance.one_of((200, 500, 1_000))),
        "controller.quorum.fetch.timeout.ms": str(chance.one_of((500, 1_000, 2_000))),
        # In small pieces a snapshot is still under way when the next fault comes.
        "controller.quorum.fetch.snapshot.max.bytes": str(chance.other("pieces").one_of((50, 400, 1_048_576))),
        "broker.heartbeat.interval.ms": str(beat_ms),
        "broker.session.timeout.ms": str(beat_ms * chance.one_of((2, 4, 9))),
        "replica.lag.time.max.ms": str(chance.one_of((1_000, 4_000, 30_000))),
        "replica.fetch.wait.max.ms": str(chance.one_of((100, 500))),
        "replica.fetch.max.bytes": str(chance.one_of((2_000, 1_048_576))),
        "leader.imbalance.check.interval.seconds": str(chance.one_of((3, 300))),
        "default.replication.factor": str(replicas),
        "offsets.topic.replication.factor": str(min(node_count, 3)),
        "min.insync.replicas": str(1 + chance.below(2) if replicas > 1 else 1),
    }


def topic_plans(chance: SimChance, node_count: int) -> dict[str, TopicPlan]:
    """One topic or two, of one partition or two, with any number of replicas."""
    plans: dict[str, TopicPlan] = {}
    for number in range(1 + chance.below(2)):
        # Most of what can go wrong among nodes needs replicas: a topic with a single one is the exception there.
        replicas = chance.one_of((1, 2, 3, 3, 3, node_count)) if node_count > 1 else 1
        configs = {
            "segment.bytes": str(chance.one_of((1_000, 4_000, 1_000_000))),
            "index.interval.bytes": str(chance.one_of((0, 300, 4096))),
            "min.insync.replicas": str(min(1 + chance.below(2), replicas)),
        }
        plans[f"topic{number}"] = TopicPlan(1 + chance.below(2), replicas, configs)
    return plans
