"""Leaders elected on request (KIP-183, KIP-460), and led back to the preferred ones as time passes."""

from __future__ import annotations

from collections.abc import Iterator

from chronik.core.errors import Code, Refused
from chronik.core.machines.metadata.commands import DONE, ChangeOutcome
from chronik.core.machines.metadata.controller_commands import ElectedLeader, ElectLeaders
from chronik.core.machines.metadata.image import MetadataImage
from chronik.core.machines.metadata.leaders import ElectionKind, PartitionChange
from chronik.core.machines.metadata.records import LEADER_UNCHANGED, PartitionChangeRecord
from chronik.core.machines.metadata.sessions import BalanceLookedAt, BrokerSessions, ControllerConfig, MetadataFact

# So many leaders move at once; the others follow with the next call. Kafka has the same limit.
ELECTIONS_PER_BALANCE_MAX = 1_000


def elect_leaders(image: MetadataImage, command: ElectLeaders) -> tuple[list[MetadataFact], tuple[ElectedLeader, ...]]:
    """Records for every partition that has another leader, and how it went with each that was asked for.
    When all were asked for, those that needed no election are left out."""
    records: list[MetadataFact] = []
    results: list[ElectedLeader] = []
    seen: dict[tuple[str, int], None] = {}
    for name, number in _everything(image) if command.partitions is None else command.partitions:
        try:
            if (name, number) in seen:
                raise Refused(Code.INVALID_REQUEST, "The partition is named twice.")
            seen[name, number] = None
            records.append(_elected(image, name, number, command.is_unclean))
        except Refused as refused:
            if command.partitions is None and refused.code == Code.ELECTION_NOT_NEEDED:
                continue
            results.append(ElectedLeader(name, number, ChangeOutcome(refused.code, refused.message)))
        else:
            results.append(ElectedLeader(name, number, DONE))
    return records, tuple(results)


def _everything(image: MetadataImage) -> Iterator[tuple[str, int]]:
    for name, topic in sorted(image.topics.items()):
        for number in range(len(topic.partitions)):
            yield name, number


def _elected(image: MetadataImage, name: str, number: int, is_unclean: bool) -> PartitionChangeRecord:
    topic, partition = image.topic(name), image.partition(name, number)
    if topic is None or partition is None:
        raise Refused(Code.UNKNOWN_TOPIC_OR_PARTITION, f"No such partition as {name}-{number}")
    if partition.has_leader if is_unclean else partition.has_preferred_leader:
        raise Refused(Code.ELECTION_NOT_NEEDED, "Leader election not needed for topic partition.")
    change = PartitionChange(image, topic, number)
    change.election = ElectionKind.UNCLEAN if is_unclean else ElectionKind.PREFERRED
    record = change.record()
    if record is None or record.leader == LEADER_UNCHANGED:
        if is_unclean:
            raise Refused(Code.ELIGIBLE_LEADERS_NOT_AVAILABLE, "No replica is alive.")
        raise Refused(Code.PREFERRED_LEADER_NOT_AVAILABLE, f"{partition.replicas[0]} is not alive, or not in sync.")
    return record


def allowed_elections(image: MetadataImage) -> list[PartitionChangeRecord]:
    """Partitions that no node leads, of topics that allow unclean elections: anyone alive leads them."""
    records: list[PartitionChangeRecord] = []
    for topic_id in image.holdings.leaderless_topics():
        topic = image.topic_by_id(topic_id)
        if topic is None or not image.topic_config(topic.name).unclean_leader_election_enable:
            continue
        for number, partition in enumerate(topic.partitions):
            record = None if partition.has_leader else PartitionChange(image, topic, number).record()
            records += [] if record is None else [record]
    return records


def balance_due(
    image: MetadataImage, sessions: BrokerSessions, config: ControllerConfig, now_ms: int
) -> list[MetadataFact]:
    """Every so often, partitions are given back to the first of their replicas, where it is alive and in sync."""
    if not config.auto_leader_rebalance_enable or image.holdings.is_balanced:
        return []
    if sessions.balanced_ms is None:
        return [BalanceLookedAt(now_ms)]
    if now_ms < sessions.balanced_ms + config.leader_imbalance_check_interval_ms:
        return []
    records: list[MetadataFact] = []
    for topic_id in image.holdings.unbalanced_topics():
        topic = image.topic_by_id(topic_id)
        for number, partition in enumerate(topic.partitions if topic is not None else ()):
            if topic is None or not partition.has_leader or partition.has_preferred_leader:
                continue
            if len(records) >= ELECTIONS_PER_BALANCE_MAX:
                return records  # not looked at everything: the next call goes on at once
            change = PartitionChange(image, topic, number)
            change.election = ElectionKind.PREFERRED
            record = change.record()
            if record is not None and record.leader != LEADER_UNCHANGED:
                records.append(record)
    return [*records, BalanceLookedAt(now_ms)]
