"""What follows from wanting topics and partitions, or wanting them gone: records and a result for each.

The checks and their order are those of Kafka's controller, so that clients see the same refusals.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from chronik.core.config.definitions import BadConfig
from chronik.core.config.topic import TopicConfig
from chronik.core.errors import Code, Refused
from chronik.core.machines.metadata.assignments import check_new_assignment
from chronik.core.machines.metadata.commands import (
    DONE,
    USE_DEFAULT,
    ChangeOutcome,
    CreatedTopic,
    CreateInternalTopic,
    CreatePartitions,
    CreateTopics,
    DeletedTopic,
    DeleteTopics,
    MorePartitions,
    NewTopic,
    ResourceType,
    TopicToDelete,
)
from chronik.core.machines.metadata.configs import GAPS, needs_gaps_mark
from chronik.core.machines.metadata.image import MetadataImage, Topic
from chronik.core.machines.metadata.names import (
    AUDIT_TOPIC,
    METADATA_TOPIC,
    OFFSETS_TOPIC,
    TRACE_TOPIC,
    TRANSACTIONS_TOPIC,
    is_internal,
    problem_with,
)
from chronik.core.machines.metadata.partition import Replicas
from chronik.core.machines.metadata.placement import place
from chronik.core.machines.metadata.records import (
    ConfigRecord,
    MetadataRecord,
    PartitionChangeRecord,
    PartitionRecord,
    RemoveTopicRecord,
    TopicRecord,
)

# One command may add so many: an absurd number must not take all memory. Kafka has the same limit.
PARTITIONS_PER_COMMAND_MAX = 10_000

TRACE_PARTITIONS = 3
TRACE_REPLICAS = 3
TRACE_PARTITION_BYTES = 1024**3  # a trace must not fill the disk of what it is about
TRACE_SEGMENT_BYTES = 64 * 1024**2
TRACE_SEGMENT_MS = 3_600_000
TRACE_RECORD_BYTES_MAX = 16 * 1024**2


def create_topics(image: MetadataImage, command: CreateTopics) -> tuple[list[MetadataRecord], tuple[CreatedTopic, ...]]:
    """Records for every topic that can be created, and what became of each one asked for."""
    times_named = Counter(wanted.name for wanted in command.topics)
    records: list[MetadataRecord] = []
    results: dict[str, CreatedTopic] = {}
    creation = _Creation(image)
    for wanted in command.topics:
        if times_named[wanted.name] > 1:
            outcome = ChangeOutcome(Code.INVALID_REQUEST, "Duplicate topic name.")
            results[wanted.name] = CreatedTopic(wanted.name, outcome)
            continue
        try:
            new_records, created = creation.create(wanted)
        except Refused as refused:
            results[wanted.name] = CreatedTopic(wanted.name, ChangeOutcome(refused.code, refused.message))
        else:
            records += new_records
            results[wanted.name] = created
    return ([] if command.validate_only else records), tuple(results.values())


def create_internal_topic(
    image: MetadataImage, command: CreateInternalTopic
) -> tuple[list[MetadataRecord], CreatedTopic]:
    """As `create_topics`, with the settings that topic has to have; done already is as good. Raises Refused."""
    existing = image.topic(command.name)
    if existing is not None:
        records: list[MetadataRecord] = []
        count = len(existing.partitions)
        if command.name in (TRACE_TOPIC, AUDIT_TOPIC):
            added = _for_each_node(image, existing)
            count += len(added)
            records = [*_back_to_their_nodes(image, existing), *added]
        return records, CreatedTopic(command.name, DONE, existing.id, count, existing.replication_factor)
    if command.name == OFFSETS_TOPIC:
        return _Creation(image).create(_offsets_topic(image, command))
    if command.name == TRANSACTIONS_TOPIC:
        return _Creation(image).create(_transactions_topic(image, command))
    if command.name == TRACE_TOPIC:
        retention_ms = image.node_config.trace.chronik_trace_retention_ms
        return _Creation(image).create(_trace_topic(image, command, retention_ms))
    if command.name == AUDIT_TOPIC:
        retention_ms = image.node_config.audit.chronik_audit_retention_ms
        return _Creation(image).create(_trace_topic(image, command, retention_ms))
    raise Refused(Code.INVALID_TOPIC_EXCEPTION, f"'{command.name}' is not a topic that this node keeps for itself")


def _offsets_topic(image: MetadataImage, command: CreateInternalTopic) -> NewTopic:
    """A replica for each node there is, up to the setting: one that is down counts, or its place would be lost for
    good, and the next one to go down would stop every group. While voters have not registered it is refused."""
    offsets, node_count = image.node_config.offsets, max(_registered_count(image), command.voter_count)
    return NewTopic(
        name=OFFSETS_TOPIC,
        topic_id=command.topic_id,
        partition_count=offsets.offsets_topic_num_partitions,
        replication_factor=min(offsets.offsets_topic_replication_factor, node_count),
        configs=(
            ("cleanup.policy", "compact"),
            ("compression.type", "producer"),
            ("segment.bytes", str(offsets.offsets_topic_segment_bytes)),
        ),
    )


def _transactions_topic(image: MetadataImage, command: CreateInternalTopic) -> NewTopic:
    """As `_offsets_topic`; what it holds decides what readers see, so by default two replicas must have it."""
    settings, node_count = image.node_config.transactions, max(_registered_count(image), command.voter_count)
    replication_factor = min(settings.transaction_state_log_replication_factor, node_count)
    return NewTopic(
        name=TRANSACTIONS_TOPIC,
        topic_id=command.topic_id,
        partition_count=settings.transaction_state_log_num_partitions,
        replication_factor=replication_factor,
        configs=(
            ("cleanup.policy", "compact"),
            ("compression.type", "uncompressed"),
            ("min.insync.replicas", str(min(settings.transaction_state_log_min_isr, replication_factor))),
            ("segment.bytes", str(settings.transaction_state_log_segment_bytes)),
            ("unclean.leader.election.enable", "false"),
        ),
    )


def _trace_topic(image: MetadataImage, command: CreateInternalTopic, retention_ms: int) -> NewTopic:
    """Every node writes to a partition that it leads, so there is at least one for each."""
    nodes = _registered_count(image)
    # What is past its time is deleted a segment at a time: a segment holds a tenth of that time, or less.
    segment_ms = TRACE_SEGMENT_MS if retention_ms < 0 else min(TRACE_SEGMENT_MS, max(retention_ms // 10, 60_000))
    return NewTopic(
        name=command.name,
        topic_id=command.topic_id,
        partition_count=max(TRACE_PARTITIONS, nodes),
        replication_factor=min(TRACE_REPLICAS, nodes),
        configs=(
            ("cleanup.policy", "delete"),
            ("compression.type", "producer"),
            ("max.message.bytes", str(TRACE_RECORD_BYTES_MAX)),
            ("retention.bytes", str(TRACE_PARTITION_BYTES)),
            ("retention.ms", str(retention_ms)),
            ("segment.bytes", str(TRACE_SEGMENT_BYTES)),
            ("segment.ms", str(segment_ms)),
        ),
    )


def _for_each_node(image: MetadataImage, topic: Topic) -> list[PartitionRecord]:
    """A partition more for each node that came after the topic was made, and so is the first choice to lead none."""
    nodes = [broker.id for broker in image.live_brokers() if broker.is_active]
    first = dict.fromkeys(placed.replicas[0] for placed in topic.partitions)
    replicas = [
        tuple((nodes[index:] + nodes[:index])[:TRACE_REPLICAS])
        for index, node_id in enumerate(nodes)
        if node_id not in first
    ]
    return _partition_records(image, topic.id, len(topic.partitions), replicas)


def _back_to_their_nodes(image: MetadataImage, topic: Topic) -> list[PartitionChangeRecord]:
    """Every node leads a partition again if it can, and need not wait for leaders to be balanced."""
    return [
        PartitionChangeRecord(number, topic.id, leader=placed.replicas[0])
        for number, placed in enumerate(topic.partitions)
        if placed.leader != placed.replicas[0]
        and placed.replicas[0] in placed.in_sync
        and image.is_active(placed.replicas[0])
    ]


def _registered_count(image: MetadataImage) -> int:
    return max(1, len(image.brokers))


class _Creation:
    """One command's worth of new topics: later ones see the names and partitions of the earlier ones."""

    def __init__(self, image: MetadataImage) -> None:
        self._image = image
        self._collisions: dict[str, str] = {}
        self._partitions_added = 0

    def create(self, wanted: NewTopic) -> tuple[list[MetadataRecord], CreatedTopic]:
        """The records of one topic. Raises Refused."""
        self._check_name(wanted.name)
        overrides = self._checked_overrides(wanted)
        replicas = self._by_hand(wanted) if wanted.assignments else self._placed(wanted)
        self._partitions_added += len(replicas)
        self._collisions[wanted.name.replace(".", "_")] = wanted.name
        records: list[MetadataRecord] = [TopicRecord(wanted.name, wanted.topic_id)]
        records += [ConfigRecord(ResourceType.TOPIC, wanted.name, key, value) for key, value in overrides]
        records += _partition_records(self._image, wanted.topic_id, 0, replicas)
        factor = len(replicas[0])
        return records, CreatedTopic(wanted.name, DONE, wanted.topic_id, len(replicas), factor, overrides)

    def _check_name(self, name: str) -> None:
        problem = problem_with(name)
        if problem is not None:
            raise Refused(Code.INVALID_TOPIC_EXCEPTION, problem)
        if name == METADATA_TOPIC:
            raise Refused(Code.INVALID_REQUEST, f"Creation of internal topic {name} is prohibited.")
        if self._image.topic(name) is not None:
            raise Refused(Code.TOPIC_ALREADY_EXISTS, f"Topic '{name}' already exists.")
        colliding = self._image.colliding(name) or self._collisions.get(name.replace(".", "_"))
        if colliding is not None:
            raise Refused(Code.INVALID_TOPIC_EXCEPTION, f"Topic '{name}' collides with existing topic: {colliding}")

    def _checked_overrides(self, wanted: NewTopic) -> tuple[tuple[str, str], ...]:
        without_value = [key for key, value in wanted.configs if value is None]
        if without_value:
            raise Refused(Code.INVALID_CONFIG, f"Null value not supported for topic configs: {','.join(without_value)}")
        overrides = {key: value for key, value in wanted.configs if value is not None}
        try:
            config = TopicConfig.from_overrides(self._image.node_config, overrides).checked()
        except BadConfig as problem:
            raise Refused(Code.INVALID_CONFIG, problem.message) from problem
        if needs_gaps_mark(self._image, config, overrides):
            overrides[GAPS] = "true"
        return tuple(overrides.items())

    def _by_hand(self, wanted: NewTopic) -> list[Replicas]:
        if wanted.replication_factor != USE_DEFAULT or wanted.partition_count != USE_DEFAULT:
            raise Refused(
                Code.INVALID_REQUEST,
                "A manual partition assignment was specified, but replication factor or partition count was not -1.",
            )
        by_number: dict[int, Replicas] = {}
        factor: int | None = None
        for number, replicas in wanted.assignments:
            if number in by_number:
                message = f"Found multiple manual partition assignments for partition {number}"
                raise Refused(Code.INVALID_REPLICA_ASSIGNMENT, message)
            check_new_assignment(self._image, number, replicas, factor)
            factor = len(replicas)
            by_number[number] = replicas
        if sorted(by_number) != list(range(len(by_number))):
            message = "partitions should be a consecutive 0-based integer sequence"
            raise Refused(Code.INVALID_REPLICA_ASSIGNMENT, message)
        self._check_count(len(by_number))
        return [by_number[number] for number in range(len(by_number))]

    def _placed(self, wanted: NewTopic) -> list[Replicas]:
        defaults = self._image.node_config.topics
        count, factor = wanted.partition_count, wanted.replication_factor
        if factor < USE_DEFAULT or factor == 0:
            message = "Replication factor must be larger than 0, or -1 to use the default value."
            raise Refused(Code.INVALID_REPLICATION_FACTOR, message)
        if count < USE_DEFAULT or count == 0:
            message = "Number of partitions was set to an invalid non-positive value."
            raise Refused(Code.INVALID_PARTITIONS, message)
        count = defaults.num_partitions if count == USE_DEFAULT else count
        factor = defaults.default_replication_factor if factor == USE_DEFAULT else factor
        self._check_count(count)
        return _placed(self._image, count, factor, self._image.partition_count + self._partitions_added)

    def _check_count(self, count: int) -> None:
        if self._partitions_added + count > PARTITIONS_PER_COMMAND_MAX:
            raise Refused(Code.POLICY_VIOLATION, "Unable to perform excessively large batch operation.")


def delete_topics(image: MetadataImage, command: DeleteTopics) -> tuple[list[MetadataRecord], tuple[DeletedTopic, ...]]:
    """Records for every topic that goes. Our own topics stay: groups would be lost with them (Kafka lets them go)."""
    times_named = Counter(_meant(image, wanted) for wanted in command.topics)
    records: list[MetadataRecord] = []
    results: dict[TopicToDelete, DeletedTopic] = {}
    for wanted in command.topics:
        try:
            topic = _topic_to_delete(image, wanted, times_named[_meant(image, wanted)])
        except Refused as refused:
            results[wanted] = DeletedTopic(wanted.name, wanted.topic_id, ChangeOutcome(refused.code, refused.message))
            continue
        records.append(RemoveTopicRecord(topic.id))
        results[wanted] = DeletedTopic(topic.name, topic.id, DONE)
    return records, tuple(results.values())


def _meant(image: MetadataImage, wanted: TopicToDelete) -> object:
    """The same for a topic's name and its id. What is named by both or neither means no topic."""
    if (wanted.name is None) == (wanted.topic_id is None):
        return wanted
    topic = image.topic(wanted.name) if wanted.name is not None else None
    return topic.id if topic is not None else wanted.name or wanted.topic_id


def _topic_to_delete(image: MetadataImage, wanted: TopicToDelete, times_named: int) -> Topic:
    if wanted.name is not None and wanted.topic_id is not None:
        raise Refused(Code.INVALID_REQUEST, "You may not specify both topic name and topic id.")
    if wanted.name is None and wanted.topic_id is None:
        raise Refused(Code.INVALID_REQUEST, "Neither topic name nor id were specified.")
    if times_named > 1:
        raise Refused(Code.INVALID_REQUEST, "The topic is named twice.")
    if wanted.name is not None:
        topic = image.topic(wanted.name)
        if topic is None:
            raise Refused(Code.UNKNOWN_TOPIC_OR_PARTITION, "This server does not host this topic-partition.")
    else:
        topic = image.topic_by_id(wanted.topic_id or b"")
        if topic is None:
            raise Refused(Code.UNKNOWN_TOPIC_ID, "This server does not host this topic ID.")
    if topic.is_internal:
        raise Refused(Code.INVALID_REQUEST, f"Topic '{topic.name}' is internal and is not deleted.")
    return topic


def create_partitions(
    image: MetadataImage, command: CreatePartitions
) -> tuple[list[MetadataRecord], tuple[ChangeOutcome, ...]]:
    """Records for the partitions that come to be, and how it went with each topic."""
    times_named = Counter(wanted.name for wanted in command.topics)
    records: list[MetadataRecord] = []
    results: list[ChangeOutcome] = []
    for wanted in command.topics:
        try:
            if times_named[wanted.name] > 1:
                raise Refused(Code.INVALID_REQUEST, "Duplicate topic name.")
            added = _more_partitions(image, wanted, len(records))
        except Refused as refused:
            results.append(ChangeOutcome(refused.code, refused.message))
            continue
        records += added
        results.append(DONE)
    return ([] if command.validate_only else records), tuple(results)


def _more_partitions(image: MetadataImage, wanted: MorePartitions, already_added: int) -> list[PartitionRecord]:
    topic = image.topic(wanted.name)
    if topic is None:
        raise Refused(Code.UNKNOWN_TOPIC_OR_PARTITION, f"The topic '{wanted.name}' does not exist.")
    present = len(topic.partitions)
    if wanted.count == present:
        raise Refused(Code.INVALID_PARTITIONS, f"Topic already has {present} partition(s).")
    if wanted.count < present:
        message = (
            f"The topic {wanted.name} currently has {present} partition(s); {wanted.count} would not be an increase."
        )
        raise Refused(Code.INVALID_PARTITIONS, message)
    if is_internal(wanted.name):
        # A group lives in the partition its name hashes to: with another count, it would be looked for elsewhere.
        raise Refused(Code.INVALID_PARTITIONS, f"The number of partitions of {wanted.name} is fixed.")
    added = wanted.count - present
    if already_added + added > PARTITIONS_PER_COMMAND_MAX:
        raise Refused(Code.POLICY_VIOLATION, "Unable to perform excessively large batch operation.")
    if wanted.assignments is None:
        start = image.partition_count + already_added
        replicas = _placed(image, added, topic.replication_factor, start)
    else:
        if len(wanted.assignments) != added:
            raise Refused(
                Code.INVALID_REPLICA_ASSIGNMENT,
                f"Attempted to add {added} additional partition(s), but {len(wanted.assignments)} assignment(s) "
                "were specified.",
            )
        for number, by_hand in enumerate(wanted.assignments, start=present):
            check_new_assignment(image, number, by_hand, topic.replication_factor)
        replicas = list(wanted.assignments)
    return _partition_records(image, topic.id, present, replicas)


def _placed(image: MetadataImage, count: int, factor: int, start: int) -> list[Replicas]:
    """Replicas may go to fenced brokers where there are too few others: they are most likely back soon. One that is
    shutting down becomes one of them in a moment."""
    brokers = [broker for _, broker in sorted(image.brokers.items()) if broker.is_fenced or broker.is_active]
    unable = f"Unable to replicate the partition {factor} time(s):"
    if factor > len(brokers):
        raise Refused(
            Code.INVALID_REPLICATION_FACTOR,
            f"{unable} The target replication factor of {factor} cannot be "
            f"reached because only {len(brokers)} broker(s) are registered.",
        )
    if all(broker.is_fenced for broker in brokers):
        raise Refused(Code.INVALID_REPLICATION_FACTOR, f"{unable} All brokers are currently fenced.")
    return place(brokers, count, factor, start)


def _partition_records(
    image: MetadataImage, topic_id: bytes, first: int, all_replicas: Sequence[Replicas]
) -> list[PartitionRecord]:
    records: list[PartitionRecord] = []
    for number, replicas in enumerate(all_replicas, start=first):
        in_sync = tuple(broker_id for broker_id in replicas if image.is_active(broker_id))
        records.append(
            PartitionRecord(
                partition_id=number,
                topic_id=topic_id,
                replicas=replicas,
                isr=in_sync,
                removing_replicas=(),
                adding_replicas=(),
                leader=in_sync[0],
                leader_epoch=0,
                partition_epoch=0,
            )
        )
    return records
