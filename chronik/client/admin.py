"""The questions that commands ask a cluster: which topics, which offsets, which groups. Answers are plain values."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from chronik.client.connecting import (
    ANSWER_TIMEOUT_S,
    check_reachable,
    client_settings,
    explain,
    parse_addresses,
    plain_errors,
    reason,
)
from chronik.client.current_groups import unknown_group
from chronik.client.current_topics import Unsure, current_topics, unknown_topic
from chronik.client.errors import ChronikError, RefusedByNode
from chronik.client.inspect_request import CANNOT_LOOK
from chronik.client.request import NoAnswer

if TYPE_CHECKING:
    from confluent_kafka.admin import AdminClient, ConsumerGroupDescription, ConsumerGroupListing

# Some requests, such as creating topics, wait on the node for their effect.
REQUEST_TIMEOUT_S = 15.0
LISTS_MAX = 3
# Kafka's numbers for the two ends of a log, where otherwise a time in milliseconds stands.
EARLIEST, LATEST = -2, -1

Partition = tuple[str, int]


@dataclass(frozen=True)
class PartitionState:
    partition: int
    leader: int | None
    replicas: list[int]
    in_sync: list[int]


@dataclass(frozen=True)
class TopicState:
    name: str
    id: str
    is_internal: bool
    partitions: list[PartitionState]

    @property
    def replication(self) -> int:
        return max((len(partition.replicas) for partition in self.partitions), default=0)


@dataclass(frozen=True)
class ConfigValue:
    value: str | None
    source: str
    """`topic`, `node` or `default`."""


def told_offset(offset: int, at: int) -> int | None:
    """What an answer to ListOffsets says: -1 for a time that no record has reached; None when the response has no
    offset. librdkafka gives -1001, and no error, for a partition whose leader went away before it answered. A log has
    both of its ends, so nothing below 0 is one."""
    is_end = at in (EARLIEST, LATEST)
    return None if offset < (0 if is_end else -1) else offset


class ClusterAdmin:
    """One cluster, asked through any of its nodes. Refusals come out as `RefusedByNode`."""

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap
        check_reachable(bootstrap)

    @cached_property
    def admin(self) -> AdminClient:
        from confluent_kafka.admin import AdminClient

        return AdminClient(client_settings(self.bootstrap))

    def answer(self, ask: Callable[[], Any]) -> Any:
        """The result of one admin request: `ask` gives a future, or a mapping with one future in it."""
        with plain_errors(self.bootstrap):
            asked = ask()
            future = next(iter(asked.values())) if isinstance(asked, dict) else asked
            return future.result()

    def topic_names(self) -> list[str]:
        return sorted(self._metadata().topics)

    def topics(self) -> list[TopicState]:
        """Every topic, by name, from one Metadata answer."""
        found = []
        for name, topic in sorted(self._metadata().topics.items()):
            partitions = [
                PartitionState(
                    number, None if state.leader < 0 else state.leader, list(state.replicas), list(state.isrs)
                )
                for number, state in sorted(topic.partitions.items())
            ]
            found.append(TopicState(name, "", name.startswith("__"), partitions))
        return found

    def topics_now(self) -> tuple[list[TopicState], str | None]:
        """Every topic, by name, and why that is not sure: None where a node that is in touch with the others says the
        same, and at another Kafka, where that cannot be known. Raises Unsure where it says something else."""
        addresses, differing = parse_addresses(self.bootstrap), ""
        for _ in range(LISTS_MAX):  # topics come and go meanwhile
            try:
                current = current_topics(addresses).partitions
            except CANNOT_LOOK:
                return self.topics(), None
            except NoAnswer as problem:
                return self.topics(), str(problem)
            topics = self.topics()
            listed = {topic.name: len(topic.partitions) for topic in topics}
            differing = min({name for name, _ in current.items() ^ listed.items()}, default="")
            if not differing:
                return topics, None
        raise Unsure(
            f"the node that was asked is behind the others: topic {differing} is not as it lists it",
            "ask again, or give another node with --bootstrap",
        )

    def doubt(self) -> str | None:
        """Why what nodes say of the cluster as a whole is not sure; None where one answers that is in touch with a
        majority, and at another Kafka, where that cannot be known."""
        try:
            current_topics(parse_addresses(self.bootstrap))
        except CANNOT_LOOK:
            return None
        except NoAnswer as problem:
            return str(problem)
        return None

    def topic(self, name: str) -> TopicState:
        """One topic; an unknown one is an error that names the nearest."""
        from confluent_kafka import KafkaError, TopicCollection

        try:
            found = self.answer(
                lambda: self.admin.describe_topics(TopicCollection([name]), request_timeout=REQUEST_TIMEOUT_S)
            )
        except RefusedByNode as refused:
            if refused.code not in (KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError.TOPIC_EXCEPTION):
                raise
            raise self.unknown_topic(name, f"create it with `chronik topic create {name}`") from None
        partitions = [
            PartitionState(
                part.id,
                None if part.leader is None else part.leader.id,
                [node.id for node in part.replicas],
                [node.id for node in part.isr],
            )
            for part in found.partitions
        ]
        # The client writes ids in the other of the two base64 alphabets; Kafka's tools and files have this one.
        topic_id = str(found.topic_id).replace("+", "-").replace("/", "_")
        return TopicState(name, topic_id, found.is_internal, partitions)

    def unknown_topic(self, name: str, otherwise: str) -> ChronikError:
        """The error for a topic that a node did not know: with the nearest name, or that it is not sure."""
        return unknown_topic(parse_addresses(self.bootstrap), name, self.topic_names(), otherwise)

    def unknown_group(self, name: str) -> ChronikError:
        """The error for a group that a node did not know: with the nearest name, or that it is not sure."""
        names = [str(listed.group_id) for listed in self.groups()]
        otherwise = "`chronik group list` lists the groups"
        return unknown_group(parse_addresses(self.bootstrap), name, names, otherwise)

    def configs(self, topic: str) -> dict[str, ConfigValue]:
        """The settings in force for a topic, each with who set it."""
        from confluent_kafka.admin import ConfigResource, ConfigSource, ResourceType

        sources = {ConfigSource.DYNAMIC_TOPIC_CONFIG.value: "topic", ConfigSource.DEFAULT_CONFIG.value: "default"}
        resource = ConfigResource(ResourceType.TOPIC, topic)
        entries = self.answer(lambda: self.admin.describe_configs([resource], request_timeout=REQUEST_TIMEOUT_S))
        return {
            name: ConfigValue(entry.value, sources.get(entry.source, "node")) for name, entry in sorted(entries.items())
        }

    def offsets(
        self, partitions: Iterable[Partition], at: int, *, is_committed_only: bool = False
    ) -> dict[Partition, int | None]:
        """The offset at an end or a time, per partition; None where no leader could tell, -1 where none is so late.
        Of transactions only what is committed, if that is wanted."""
        from confluent_kafka import IsolationLevel, KafkaException, TopicPartition
        from confluent_kafka.admin import OffsetSpec

        spec = OffsetSpec(at)  # type: ignore[abstract]  # its __new__ gives the right kind
        wanted = {TopicPartition(topic, number): spec for topic, number in partitions}
        found: dict[Partition, int | None] = {}
        if not wanted:
            return found
        level = IsolationLevel.READ_COMMITTED if is_committed_only else IsolationLevel.READ_UNCOMMITTED
        with plain_errors(self.bootstrap):
            asked = self.admin.list_offsets(wanted, request_timeout=REQUEST_TIMEOUT_S, isolation_level=level)
            for partition, future in asked.items():
                try:
                    found[partition.topic, partition.partition] = told_offset(future.result().offset, at)
                except KafkaException:
                    found[partition.topic, partition.partition] = None
        return found

    def start_offsets(self, partitions: Iterable[Partition]) -> dict[Partition, int | None]:
        return self.offsets(partitions, EARLIEST)

    def end_offsets(self, partitions: Iterable[Partition]) -> dict[Partition, int | None]:
        return self.offsets(partitions, LATEST)

    def stable_offsets(self, partitions: Iterable[Partition]) -> dict[Partition, int | None]:
        """The last stable offset of each: where it ends for who reads committed transactions only."""
        return self.offsets(partitions, LATEST, is_committed_only=True)

    def groups(self) -> list[ConsumerGroupListing]:
        """All groups. Raises ChronikError where a node does not tell of those that it coordinates: a list without them
        would say that they are not there."""
        listing = self.answer(lambda: self.admin.list_consumer_groups(request_timeout=REQUEST_TIMEOUT_S))
        if listing.errors:
            raise explain(listing.errors[0].args[0], self.bootstrap)
        return sorted(listing.valid, key=lambda group: str(group.group_id))

    def group(self, name: str) -> ConsumerGroupDescription:
        """One group as its coordinator knows it; one that does not exist is described as dead and empty."""
        found: ConsumerGroupDescription = self.answer(
            lambda: self.admin.describe_consumer_groups([name], request_timeout=REQUEST_TIMEOUT_S)
        )
        return found

    def committed(self, group: str) -> dict[Partition, int]:
        """What a group has committed, per partition. Raises RefusedByNode where a response lacks one of them."""
        from confluent_kafka import ConsumerGroupTopicPartitions

        found = self.answer(
            lambda: self.admin.list_consumer_group_offsets(
                [ConsumerGroupTopicPartitions(group)], request_timeout=REQUEST_TIMEOUT_S
            )
        )
        for part in found.topic_partitions:
            if part.error is not None:
                raise RefusedByNode(
                    part.error.code(), f"{part.topic}:{part.partition} of group {group}: {reason(part.error)}"
                )
        return {(part.topic, part.partition): part.offset for part in found.topic_partitions if part.offset >= 0}

    def commit(self, group: str, offsets: Mapping[Partition, int]) -> None:
        """Sets a group's offsets from outside, which a coordinator takes only while the group has no members."""
        from confluent_kafka import ConsumerGroupTopicPartitions, TopicPartition

        wanted = [TopicPartition(topic, number, offset) for (topic, number), offset in offsets.items()]
        done = self.answer(
            lambda: self.admin.alter_consumer_group_offsets(
                [ConsumerGroupTopicPartitions(group, wanted)], request_timeout=REQUEST_TIMEOUT_S
            )
        )
        for partition in done.topic_partitions:
            if partition.error is not None:
                raise RefusedByNode(
                    partition.error.code(), f"{partition.topic}:{partition.partition} {partition.error.str()}"
                )

    def create_topic(
        self, name: str, partitions: int | None, replication: int | None, configs: Mapping[str, str]
    ) -> None:
        """None leaves a number to the cluster's default."""
        from confluent_kafka.admin import NewTopic

        wanted = NewTopic(name, partitions or -1, replication or -1, config=dict(configs))
        self.answer(lambda: self.admin.create_topics([wanted], request_timeout=REQUEST_TIMEOUT_S))

    def alter_topic_configs(self, name: str, configs: Mapping[str, str | None]) -> None:
        """None puts a config back to its default."""
        from confluent_kafka.admin import ResourceType

        self._alter_configs(ResourceType.TOPIC, name, configs)

    def alter_node_configs(self, node: int, configs: Mapping[str, str | None]) -> None:
        """Of one node, while it runs. None puts a config back to what its file or the default says."""
        from confluent_kafka.admin import ResourceType

        self._alter_configs(ResourceType.BROKER, str(node), configs)

    def _alter_configs(self, kind: Any, name: str, configs: Mapping[str, str | None]) -> None:
        from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource

        entries = [
            ConfigEntry(
                key, value, incremental_operation=AlterConfigOpType.DELETE if value is None else AlterConfigOpType.SET
            )
            for key, value in configs.items()
        ]
        resource = ConfigResource(kind, name, incremental_configs=entries)
        self.answer(lambda: self.admin.incremental_alter_configs([resource], request_timeout=REQUEST_TIMEOUT_S))

    def add_partitions(self, name: str, partitions: int) -> None:
        """`partitions` is how many it has then."""
        from confluent_kafka.admin import NewPartitions

        wanted = NewPartitions(name, partitions)
        self.answer(lambda: self.admin.create_partitions([wanted], request_timeout=REQUEST_TIMEOUT_S))

    def clear_records(self, ends: Mapping[Partition, int]) -> None:
        """Delete the records of each partition that are before that offset."""
        from confluent_kafka import TopicPartition

        places = [TopicPartition(topic, partition, end) for (topic, partition), end in ends.items()]
        with plain_errors(self.bootstrap):
            for asked in self.admin.delete_records(places, request_timeout=REQUEST_TIMEOUT_S).values():
                asked.result()

    def elect_preferred(self, partitions: Iterable[Partition]) -> dict[Partition, str]:
        """Let the first replica of each partition lead it, where that is in sync. Returns what was refused, and why;
        one that leads already is as wanted."""
        from confluent_kafka import ElectionType, KafkaError, TopicPartition

        places = [TopicPartition(topic, partition) for topic, partition in partitions]
        answered = self.answer(
            lambda: self.admin.elect_leaders(ElectionType.PREFERRED, places, request_timeout=REQUEST_TIMEOUT_S)
        )
        return {
            (place.topic, place.partition): reason(error)
            for place, error in answered.items()
            if error is not None and error.code() != KafkaError.ELECTION_NOT_NEEDED
        }

    def delete_topic(self, name: str) -> None:
        self.answer(lambda: self.admin.delete_topics([name], request_timeout=REQUEST_TIMEOUT_S))

    def delete_group(self, name: str) -> None:
        self.answer(lambda: self.admin.delete_consumer_groups([name], request_timeout=REQUEST_TIMEOUT_S))

    def _metadata(self) -> Any:
        with plain_errors(self.bootstrap):
            return self.admin.list_topics(timeout=ANSWER_TIMEOUT_S)
