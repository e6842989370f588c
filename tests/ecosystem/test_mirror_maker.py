"""MirrorMaker 2 between Chronik and Apache Kafka, both ways at once: what is on one side is on the other."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import pytest

from chronik.testing import cluster
from tests.clients.apache_kafka import apache_kafka
from tests.clients.jvm import jars_of
from tests.clients.support import needs as needs_client
from tests.cluster.support import check_logs
from tests.ecosystem.brokers import Brokers
from tests.ecosystem.programs import PROGRAM_SECONDS, Program, java, needs, properties

needs("kafka ecosystem")
needs_client("kafka tools")

pytestmark = pytest.mark.timeout(3 * PROGRAM_SECONDS)

MAIN = "org.apache.kafka.connect.mirror.MirrorMaker"
PARTITIONS = 3
RECORDS = 300
GROUP = "readers"
# For each topic the settings that must be the same on the other side (MirrorMaker leaves out some others by itself).
TOPICS: Mapping[str, Mapping[str, str]] = {
    "plain": {},
    "compacted": {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.4", "delete.retention.ms": "12345"},
    "retained": {"retention.ms": "86400001", "retention.bytes": "987654321", "segment.bytes": "10485760"},
    "packed": {
        "compression.type": "zstd",
        "compression.zstd.level": "5",
        "compression.gzip.level": "7",
        "compression.lz4.level": "3",
        "max.message.bytes": "2000000",
        "cleanup.policy": "compact,delete",
    },
}
# A mirror in production looks around every few minutes; here it has nothing else to do.
EVERY_SECOND = (
    "emit.checkpoints.interval.seconds",
    "emit.heartbeats.interval.seconds",
    "refresh.groups.interval.seconds",
    "refresh.topics.interval.seconds",
    "sync.group.offsets.interval.seconds",
    "sync.topic.configs.interval.seconds",
)
# What it says on its own account, with any Kafka: of its jars at each start; and when a task is given new settings
# while its scheduler is in a round, the clients of the task are closed under it (on both sides, on a busy machine).
HARMLESS = ("consider reconfiguring plugin.discovery", "Cannot accept new calls when AdminClient is closing.")


@dataclass(frozen=True)
class Way:
    """One direction: `source` is the name by which MirrorMaker calls the cluster that it reads from."""

    source: str
    here: Brokers
    there: Brokers

    def mirrored(self, topic: str) -> str:
        return f"{self.source}.{topic}"


@dataclass(frozen=True)
class Mirror:
    program: Program
    ways: Mapping[str, Way]


@pytest.fixture(scope="module")
def mirror(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mirror]:
    """MirrorMaker at work between three nodes of Chronik and one of Kafka, each with topics, records and a group."""
    folder = tmp_path_factory.mktemp("mirror")
    with apache_kafka(jars_of("tools"), folder, {}) as kafka_address, cluster(nodes=3) as nodes:
        chronik, kafka = Brokers(nodes.bootstrap, replicas=3), Brokers(kafka_address, replicas=1)
        ways = {"chronik": Way("chronik", chronik, kafka), "kafka": Way("kafka", kafka, chronik)}
        for name, way in ways.items():
            for topic, settings in TOPICS.items():
                way.here.create(f"{topic}-of-{name}", PARTITIONS, settings)
                keyed = [(b"%s key %d" % (name.encode(), at), b"value %d" % at) for at in range(RECORDS)]
                way.here.send(f"{topic}-of-{name}", keyed)
                way.here.records(f"{topic}-of-{name}", GROUP + name)
        # Only Chronik knows this setting, and `chronik.gaps`, which it sets by itself: neither may get to Kafka.
        chronik.alter("compacted-of-chronik", {"chronik.trace": "true"})
        settings_file = properties(folder / "mm2.properties", settings_of(ways))
        with Program("mirror-maker", java(MAIN, str(settings_file)), folder) as program:
            yield Mirror(program, ways)
            complaints = [line for line in program.complaints() if not any(each in line for each in HARMLESS)]
        assert complaints == []
        check_logs(nodes)


def settings_of(ways: Mapping[str, Way]) -> dict[str, str]:
    clusters = {name: way.here for name, way in ways.items()}
    made: dict[str, str] = {"clusters": ",".join(clusters), "tasks.max": "2"}
    for name, brokers in clusters.items():
        made[f"{name}.bootstrap.servers"] = brokers.bootstrap
        for kind in ("offset.storage", "config.storage", "status.storage"):
            made[f"{name}.{kind}.replication.factor"] = str(brokers.replicas)
    for source, way in ways.items():
        flow = f"{source}->{next(name for name in clusters if name != source)}"
        made |= {f"{flow}.enabled": "true", f"{flow}.replication.factor": str(way.there.replicas)}
    for kind in ("checkpoints", "heartbeats", "offset-syncs"):
        made[f"{kind}.topic.replication.factor"] = "1"
    # Every record is a point at which a group's offset can be translated exactly.
    made |= {"sync.group.offsets.enabled": "true", "offset.lag.max": "0", "groups": f"{GROUP}.*"}
    return made | dict.fromkeys(EVERY_SECOND, "1")


@pytest.mark.parametrize("topic", TOPICS)
@pytest.mark.parametrize("source", ["chronik", "kafka"])
def test_records_are_mirrored_with_their_places_and_times(mirror: Mirror, source: str, topic: str) -> None:
    way = mirror.ways[source]
    original = f"{topic}-of-{source}"
    ends = way.here.ends(original)

    mirror.program.wait_until(
        lambda: way.there.ends(way.mirrored(original)) == ends,
        lambda: f"all is there: {ends} of {way.mirrored(original)}",
    )

    assert sum(ends) == RECORDS
    assert way.there.records(way.mirrored(original)) == way.here.records(original)


@pytest.mark.parametrize("topic", TOPICS)
@pytest.mark.parametrize("source", ["chronik", "kafka"])
def test_a_mirrored_topic_has_the_settings_of_its_original(mirror: Mirror, source: str, topic: str) -> None:
    way = mirror.ways[source]
    original = f"{topic}-of-{source}"
    mirror.program.wait_until(lambda: way.mirrored(original) in way.there.topics(), f"{original} is mirrored")

    def seen() -> str:
        return f"{way.here.settings(original)} here, {way.there.settings(way.mirrored(original))} there"

    mirror.program.wait_until(
        lambda: way.there.settings(way.mirrored(original)) == way.here.settings(original) == TOPICS[topic],
        lambda: f"the settings of {original} are {dict(TOPICS[topic])} on both sides: {seen()}",
    )


@pytest.mark.parametrize("source", ["chronik", "kafka"])
def test_settings_that_change_and_go_are_mirrored_too(mirror: Mirror, source: str) -> None:
    way = mirror.ways[source]
    original = f"changed-of-{source}"
    way.here.create(original, 1, {"retention.ms": "5000000", "cleanup.policy": "compact"})
    way.here.send(original, [(b"key", b"value")])
    mirror.program.wait_until(lambda: way.there.ends(way.mirrored(original)) == [1], "the new topic is mirrored")

    way.here.alter(original, {"retention.ms": "6000000", "cleanup.policy": None})

    mirror.program.wait_until(
        lambda: way.there.settings(way.mirrored(original)) == {"retention.ms": "6000000"},
        lambda: f"the change is there: {way.there.settings(way.mirrored(original))}",
    )


@pytest.mark.parametrize("source", ["chronik", "kafka"])
def test_a_group_stands_at_the_same_offsets_on_both_sides(mirror: Mirror, source: str) -> None:
    way = mirror.ways[source]
    group = GROUP + source
    committed = way.here.committed(group)
    expected = {(way.mirrored(topic), partition): offset for (topic, partition), offset in committed.items()}

    mirror.program.wait_until(
        lambda: way.there.committed(group) == expected,
        lambda: f"the group stands where it did: {expected}, and not {way.there.committed(group)}",
    )

    assert sum(committed.values()) == RECORDS * len(TOPICS)
