"""What a cluster says of topics and groups beside records: where partitions begin and end, who committed what, and
whether anything was traced."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from chronik.core.errors import Code
from chronik.core.machines.metadata.names import TRACE_TOPIC
from chronik.pipeline.problems import CannotRun
from chronik.pipeline.topics.client import Cluster, Failed, Partition
from chronik.pipeline.topics.connection import Unreachable
from chronik.pipeline.topics.options import EARLIEST, LATEST, Topics, cluster_options
from chronik.pipeline.topics.places import find_topics, partitions_of

OFFSET_FETCH, FIND_COORDINATOR, LIST_GROUPS, DESCRIBE_CONFIGS = 9, 10, 16, 32
BY_NAME = 9  # the last version of OffsetFetch that names topics
TOPIC = 2  # a kind of thing that has settings
GROUP = 0  # a kind of thing that has a coordinator


class Bounds(NamedTuple):
    """Of one partition."""

    topic: str
    partition: int
    log_start: int
    log_end: int
    is_compacted: bool


class Commit(NamedTuple):
    topic: str
    partition: int
    group: str
    offset: int


def check_traced(kafka: Mapping[str, str]) -> None:
    """Raises CannotRun where there is no trace topic: before hours of work, and in other words than 'no such topic'."""
    with Cluster(cluster_options(kafka)) as cluster:
        if not cluster.topics([TRACE_TOPIC]):
            raise CannotRun(
                "nothing was ever traced in this cluster", "switch it on with `chronik trace on`; only Chronik has it"
            )


def bounds_of(cluster: Cluster, topics: Sequence[str]) -> list[Bounds]:
    """Raises NoSuchTopic, Failed."""
    wanted = Topics(names=tuple(topics))
    partitions = partitions_of(find_topics(cluster, wanted), wanted)
    starts = cluster.offsets(dict.fromkeys(partitions, EARLIEST))
    ends = cluster.offsets(dict.fromkeys(partitions, LATEST))
    compacted = {topic for topic in topics if _is_compacted(cluster, topic)}
    return [Bounds(*each, starts[each], max(ends[each], starts[each]), each.topic in compacted) for each in partitions]


def log_starts(cluster: Cluster, partitions: Sequence[Partition]) -> dict[Partition, int]:
    return cluster.offsets(dict.fromkeys(partitions, EARLIEST))


def _is_compacted(cluster: Cluster, topic: str) -> bool:
    asked = {"resource_type": TOPIC, "resource_name": topic, "configuration_keys": ("cleanup.policy",)}
    (told,) = cluster.ask_any(DESCRIBE_CONFIGS, {"resources": [asked]}).results
    if told.error_code != Code.NONE:
        raise Failed(f"settings of topic {topic}: {Code(told.error_code).name}")
    return any("compact" in (each.value or "") for each in told.configs if each.name == "cleanup.policy")


def groups_of(cluster: Cluster) -> list[str]:
    """All groups, asked of every node: each knows those that it coordinates."""
    groups: set[str] = set()
    for address in cluster.nodes():
        told = cluster.ask_at(address, LIST_GROUPS, {"states_filter": (), "types_filter": ()})
        if told.error_code != Code.NONE:
            raise Failed(f"groups of {address[0]}:{address[1]}: {Code(told.error_code).name}")
        groups |= {each.group_id for each in told.groups}
    return sorted(groups)


def commits_of(cluster: Cluster, group: str, topics: Sequence[str]) -> list[Commit]:
    """How far a group is in these topics, or in all. Raises Failed."""
    asked = {"group_id": group, "member_id": None, "member_epoch": -1, "topics": None}
    try:
        address = _coordinator(cluster, group)
        told = cluster.ask_at(address, OFFSET_FETCH, {**asked, "groups": [asked], "require_stable": False}, BY_NAME)
    except Unreachable as problem:
        raise Failed(f"group {group}: {problem}") from problem
    return [commit for commit in _commits(told, group) if not topics or commit.topic in topics]


def _commits(told: Any, group: str) -> Iterator[Commit]:
    (answer,) = getattr(told, "groups", None) or (told,)
    if getattr(answer, "error_code", Code.NONE) != Code.NONE:
        raise Failed(f"group {group}: {Code(answer.error_code).name}")
    for topic in answer.topics:
        for each in topic.partitions:
            if each.error_code == Code.NONE and each.committed_offset >= 0:
                yield Commit(topic.name, each.partition_index, group, each.committed_offset)


def _coordinator(cluster: Cluster, group: str) -> tuple[str, int]:
    told = cluster.ask_any(FIND_COORDINATOR, {"key": group, "key_type": GROUP, "coordinator_keys": (group,)})
    (found,) = getattr(told, "coordinators", None) or (told,)
    if found.error_code != Code.NONE:
        raise Failed(f"group {group}: {Code(found.error_code).name}")
    return found.host, found.port
