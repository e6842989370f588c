"""What a cluster says of topics and groups beside records: where partitions begin and end, who committed what, and
whether anything was traced."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from chronik.client.connection import ConnectionFailed
from chronik.client.inspect_request import CANNOT_LOOK, Inspections, states
from chronik.client.request import NoAnswer
from chronik.core.errors import Code
from chronik.core.machines.metadata.names import TRACE_TOPIC
from chronik.pipeline.problems import JobCannotRun
from chronik.pipeline.topics.client import Failed, Passing, ReadPartition, TopicClient
from chronik.pipeline.topics.options import EARLIEST, LATEST, Topics, cluster_options
from chronik.pipeline.topics.places import find_topics, partitions_of
from chronik.trace.inspections import StateView
from chronik.trace.leading import sure_leaders

OFFSET_FETCH, FIND_COORDINATOR, LIST_GROUPS, DESCRIBE_CONFIGS = 9, 10, 16, 32
BY_NAME = 9  # the last version of OffsetFetch that names topics
TOPIC = 2  # a kind of thing that has settings
# Of groups: their coordinator has moved, or is about to know them.
SETTLING = frozenset(
    {
        Code.COORDINATOR_NOT_AVAILABLE,
        Code.COORDINATOR_LOAD_IN_PROGRESS,
        Code.NOT_COORDINATOR,
        Code.UNSTABLE_OFFSET_COMMIT,
    }
)
LOOK_S = 5.0
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
    """Raises JobCannotRun where there is no trace topic, before hours of work."""
    with TopicClient(cluster_options(kafka)) as cluster:
        if not cluster.topics([TRACE_TOPIC]):
            raise JobCannotRun(
                "nothing was ever traced in this cluster", "switch it on with `chronik trace on`; only Chronik has it"
            )


def bounds_of(cluster: TopicClient, topics: Sequence[str]) -> list[Bounds]:
    """Raises NoSuchTopic, Failed."""
    wanted = Topics(names=tuple(topics))
    partitions = partitions_of(find_topics(cluster, wanted), wanted)
    starts, ends = cluster.patiently(lambda: _told_by_leaders(cluster, partitions))
    compacted = {topic for topic in topics if _is_compacted(cluster, topic)}
    return [Bounds(*each, starts[each], max(ends[each], starts[each]), each.topic in compacted) for each in partitions]


def _told_by_leaders(
    cluster: TopicClient, partitions: Sequence[ReadPartition]
) -> tuple[dict[ReadPartition, int], dict[ReadPartition, int]]:
    """Where they begin and end. Raises Passing while it is not sure that those asked lead."""
    starts = cluster.offsets(dict.fromkeys(partitions, EARLIEST))
    ends = cluster.offsets(dict.fromkeys(partitions, LATEST))
    asked = {partition: cluster.known(partition.topic).leaders.get(partition.number) for partition in partitions}
    try:
        topics = sorted({partition.topic for partition in partitions})
        looks = states(cluster.nodes(), LOOK_S, topics, security=cluster.security)
    except CANNOT_LOOK:
        return starts, ends
    except NoAnswer as problem:
        raise Passing(f"whether the nodes that were asked lead is not known: {problem}") from problem
    check_led(looks, asked, ends)
    return starts, ends


def check_led(
    looks: Inspections[StateView], asked: Mapping[ReadPartition, int | None], ends: Mapping[ReadPartition, int]
) -> None:
    """A node that was cut off reports the ends of the time when it led: what came since would not be missed. Raises
    Passing where it is not sure that the node that was asked leads."""
    sure = sure_leaders(looks, looks.silent)
    closed = {
        (seen.topic, seen.partition): seen.leader
        for look in looks.values()
        for seen in look.unopened
        if not any(node in looks.silent for node in seen.in_sync)
    }
    for partition, node in asked.items():
        leader = sure.get(partition)
        is_empty = leader is None and ends[partition] == 0 and closed.get(partition) == node  # it was never opened
        if not is_empty and (leader is None or leader.node != node):
            raise Passing(f"{partition}: whether node {node}, which was asked, still leads it is not sure")


def log_starts(cluster: TopicClient, partitions: Sequence[ReadPartition]) -> dict[ReadPartition, int]:
    return cluster.offsets(dict.fromkeys(partitions, EARLIEST))


def _is_compacted(cluster: TopicClient, topic: str) -> bool:
    asked = {"resource_type": TOPIC, "resource_name": topic, "configuration_keys": ("cleanup.policy",)}
    (told,) = cluster.ask_any(DESCRIBE_CONFIGS, {"resources": [asked]}).results
    if told.error_code != Code.NONE:
        raise Failed(f"settings of topic {topic}: {Code(told.error_code).name}")
    policies = [each.value or "" for each in told.configs if each.name == "cleanup.policy"]
    if not policies:  # what is missing would be taken for lost
        raise Failed(f"settings of topic {topic}: the response has no cleanup.policy")
    return any("compact" in policy for policy in policies)


def groups_of(cluster: TopicClient) -> list[str]:
    """All groups, asked of every node: each knows those that it coordinates. Raises Failed."""
    return cluster.patiently(lambda: _groups(cluster))


def _groups(cluster: TopicClient) -> list[str]:
    groups: set[str] = set()
    for address in cluster.nodes():
        told = cluster.ask_at(address, LIST_GROUPS, {"states_filter": (), "types_filter": ()})
        _check(told.error_code, f"groups of {address[0]}:{address[1]}")
        groups |= {each.group_id for each in told.groups}
    return sorted(groups)


def commits_of(cluster: TopicClient, group: str, topics: Sequence[str]) -> list[Commit]:
    """How far a group is in these topics, or in all. Raises Failed."""
    asked = {"group_id": group, "member_id": None, "member_epoch": -1, "topics": None}
    body = {**asked, "groups": [asked], "require_stable": False}

    def ask() -> list[Commit]:
        address = _coordinator(cluster, group)
        try:
            return list(_commits(cluster.ask_at(address, OFFSET_FETCH, body, BY_NAME), group))
        except ConnectionFailed as problem:
            raise Passing(f"group {group}: {problem}") from problem  # another may be its coordinator soon

    return [commit for commit in cluster.patiently(ask) if not topics or commit.topic in topics]


def _commits(told: Any, group: str) -> Iterator[Commit]:
    (answer,) = getattr(told, "groups", None) or (told,)
    _check(getattr(answer, "error_code", Code.NONE), f"group {group}")
    for topic in answer.topics:
        for each in topic.partitions:
            _check(each.error_code, f"group {group}, {topic.name}-{each.partition_index}")
            if each.committed_offset >= 0:
                yield Commit(topic.name, each.partition_index, group, each.committed_offset)


def _coordinator(cluster: TopicClient, group: str) -> tuple[str, int]:
    told = cluster.ask_any(FIND_COORDINATOR, {"key": group, "key_type": GROUP, "coordinator_keys": (group,)})
    (found,) = getattr(told, "coordinators", None) or (told,)
    _check(found.error_code, f"group {group}")
    return found.host, found.port


def _check(code: int, of: str) -> None:
    """Raises Passing where the same question is worth asking again, as clients do, and Failed where it is not."""
    if code in SETTLING:
        raise Passing(f"{of}: {Code(code).name}")
    if code != Code.NONE:
        raise Failed(f"{of}: {Code(code).name}")
