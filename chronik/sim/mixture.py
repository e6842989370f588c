"""Nodes of a world that are not all alike: how many there are, which of them vote, and what their own files say.

Dice of their own decide: a world that has no part in it is as it was before there was any.
"""

from __future__ import annotations

from chronik.sim.chance import SimChance
from chronik.sim.plans import PORT, host_name

# Instead of three or five. Large worlds cost time and find little that four nodes do not show: they are rare.
OTHER_SIZES = {4: 8, 5: 3, 6: 2, 7: 1}
OF_ANOTHER_SIZE = 0.12  # of the worlds with several nodes
WITH_OBSERVERS = 0.6  # of those with more nodes than a quorum needs
VOTERS_MIN = 3  # with fewer, one lost disk is one too many
WITH_OWN_FILES = 0.3  # of the worlds with several nodes

# What operators forget to change on every node. All of it is harmless where each node keeps to its own, or where one
# value has to hold and the cluster agrees on it by itself.
OWN_SETTINGS: dict[str, tuple[str, ...]] = {
    "min.insync.replicas": ("1", "2", "3"),
    "log.cleanup.policy": ("delete", "compact", "compact,delete"),
    "log.retention.ms": ("604800000", "864000000", "-1"),  # longer than clocks jump in any world: nothing is old here
    "log.segment.bytes": ("3000", "100000", "1073741824"),
    "message.max.bytes": ("100000", "1048588", "2000000"),
    "num.partitions": ("1", "2", "3"),
    "default.replication.factor": ("1", "2", "3"),
    "log.retention.check.interval.ms": ("5000", "300000"),
    "log.cleaner.backoff.ms": ("1000", "15000"),
    "replica.lag.time.max.ms": ("1000", "4000", "30000"),
    "replica.fetch.max.bytes": ("2000", "1048576"),
    "replica.fetch.wait.max.ms": ("100", "500"),
    "leader.imbalance.check.interval.seconds": ("3", "300"),
    "controller.quorum.election.timeout.ms": ("200", "1000"),
    "controller.quorum.fetch.timeout.ms": ("500", "2000"),
    "group.initial.rebalance.delay.ms": ("0", "500"),
    "group.consumer.session.timeout.ms": ("2000", "6000"),
    "group.consumer.heartbeat.interval.ms": ("200", "1000"),
}
BEATS_MS = (200, 500, 1_000)
BEATS_PER_SESSION = (2, 4, 9)


def size(chance: SimChance, drawn: int) -> int:
    """How many nodes there are, where `drawn` has been drawn."""
    return chance.weighted(OTHER_SIZES) if drawn > 1 and chance.happens(OF_ANOTHER_SIZE) else drawn


def voter_ids(chance: SimChance, node_count: int) -> tuple[int, ...]:
    """The nodes that vote on the metadata from the beginning; the others are observers."""
    node_ids = list(range(1, node_count + 1))
    if node_count <= VOTERS_MIN or not chance.happens(WITH_OBSERVERS):
        return tuple(node_ids)
    wanted = chance.one_of(range(VOTERS_MIN, node_count))
    while len(node_ids) > wanted:
        node_ids.remove(chance.one_of(node_ids))
    return tuple(node_ids)


def voters_setting(node_ids: tuple[int, ...]) -> str:
    return ",".join(f"{node_id}@{host_name(node_id)}:{PORT}" for node_id in node_ids)


def are_files_different(chance: SimChance, node_count: int) -> bool:
    return node_count > 1 and chance.happens(WITH_OWN_FILES)


def own_settings(chance: SimChance) -> dict[str, str]:
    """What one node's file says, and perhaps no other's."""
    settings = {key: chance.one_of(values) for key, values in OWN_SETTINGS.items() if chance.happens(0.5)}
    if chance.happens(0.5):
        beat_ms = chance.one_of(BEATS_MS)
        settings["broker.heartbeat.interval.ms"] = str(beat_ms)
        settings["broker.session.timeout.ms"] = str(beat_ms * chance.one_of(BEATS_PER_SESSION))
    return settings
