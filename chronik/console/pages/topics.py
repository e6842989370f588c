"""The list of topics, and one topic with its partitions and configs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from chronik.client.admin import ConfigValue
from chronik.console.pages.frame import Frame, paged, rows_words
from chronik.console.sight import GroupSight, Sight, TopicSight, topic_of
from chronik.inspect.live_model import Row
from chronik.trace.events import FollowerSeen

PAGE_SIZE = 100
SORTS: Mapping[str, Callable[[TopicSight], Any]] = {
    "name": lambda topic: topic.name,
    "partitions": lambda topic: topic.partitions,
    "messages": lambda topic: -1 if topic.messages is None else topic.messages,
    "size": lambda topic: -1 if topic.size_bytes is None else topic.size_bytes,
    "rate": lambda topic: topic.in_per_s or 0.0,
    "gap": lambda topic: topic.gap or 0,
    "trouble": lambda topic: topic.under_replicated + topic.leaderless,
}
FILTERS: Mapping[str, Callable[[TopicSight], bool]] = {
    "": lambda topic: not topic.is_internal,
    "all": lambda topic: True,
    "internal": lambda topic: topic.is_internal,
    "empty": lambda topic: topic.messages == 0 and not topic.is_internal,
    "troubled": lambda topic: topic.is_troubled,
    "lagging": lambda topic: bool(topic.lag_records),
    "unbalanced": lambda topic: topic.is_unbalanced,
}


@dataclass(frozen=True)
class TopicList:
    """How the list is asked for; every part of it is in the page's address."""

    words: str = ""
    sort: str = "name"
    is_down: bool = False
    only: str = ""
    page: int = 1


def parse_list(given: Mapping[str, str]) -> TopicList:
    """What makes no sense is left out: an address that was typed by hand still shows a list."""
    page = given.get("page", "1")
    sort, only = given.get("sort", "name"), given.get("only", "")
    return TopicList(
        given.get("q", "").strip(),
        sort if sort in SORTS else "name",
        given.get("dir") == "down",
        only if only in FILTERS else "",
        int(page) if page.isdecimal() and len(page) < 9 else 1,
    )


@dataclass(frozen=True)
class TopicsPage:
    frame: Frame
    list: TopicList
    rows: tuple[TopicSight, ...]
    total: int
    page: int
    pages: int
    words: str
    unknown: tuple[str, ...]


def topics_page(frame: Frame, sight: Sight, wanted: TopicList) -> TopicsPage:
    looked_for = wanted.words.lower().split()
    fits = FILTERS[wanted.only]
    found = [
        topic
        for topic in sight.topics.values()
        if (fits(topic) or (looked_for and not wanted.only)) and all(word in topic.name.lower() for word in looked_for)
    ]
    found.sort(key=SORTS[wanted.sort], reverse=wanted.is_down)
    page, begin, end = paged(len(found), wanted.page, PAGE_SIZE)
    return TopicsPage(
        frame, wanted, tuple(found[begin:end]), len(found), page, max((len(found) + PAGE_SIZE - 1) // PAGE_SIZE, 1),
        rows_words(begin, end, len(found), "topic"), sight.unknown,
    )  # fmt: skip


@dataclass(frozen=True)
class PartitionRow:
    partition: int
    leader: int | None
    trouble: str | None
    replicas: tuple[int, ...]
    in_sync: tuple[int, ...]
    out_of_sync: tuple[int, ...]
    log_start: int | None
    last_stable_offset: int | None
    high_watermark: int | None
    next_offset: int | None
    gap: int | None
    messages: int | None
    size_bytes: int | None
    in_per_s: float | None
    followers: tuple[FollowerSeen, ...]


@dataclass(frozen=True)
class ConfigRow:
    name: str
    value: str | None
    source: str


@dataclass(frozen=True)
class GroupOfTopic:
    name: str
    state: str
    lag: int | None


@dataclass(frozen=True)
class TopicPage:
    frame: Frame
    topic: TopicSight
    partitions: tuple[PartitionRow, ...]
    page: int
    pages: int
    words: str
    configs: tuple[ConfigRow, ...]
    configs_problem: str | None
    is_every_config: bool
    groups: tuple[GroupOfTopic, ...]


def topic_page(
    frame: Frame,
    sight: Sight,
    rows: Sequence[Row],
    configs: Mapping[str, ConfigValue] | str,
    *,
    page: int = 1,
    is_every_config: bool = False,
) -> TopicPage:
    """`configs` as text is why they are not known."""
    name = rows[0].topic
    page, begin, end = paged(len(rows), page, PAGE_SIZE)
    shown = (
        ()
        if isinstance(configs, str)
        else tuple(
            ConfigRow(key, config.value, config.source)
            for key, config in configs.items()
            if is_every_config or config.source != "default"
        )
    )
    return TopicPage(
        frame,
        topic_of(name, rows),
        tuple(_partition(row) for row in rows[begin:end]),
        page,
        max((len(rows) + PAGE_SIZE - 1) // PAGE_SIZE, 1),
        rows_words(begin, end, len(rows), "partition"),
        shown,
        configs if isinstance(configs, str) else None,
        is_every_config,
        tuple(_group(group, name, sight) for group in sight.groups if name in group.topics),
    )


def _partition(row: Row) -> PartitionRow:
    trouble = None
    if row.offline:
        trouble = f"offline: {row.offline}"
    elif row.leader is None:
        trouble = "no leader"
    elif row.is_leader_unsure:
        trouble = "its leader may lead no more"
    elif not row.is_heard:
        trouble = "its leader does not answer"
    start, end = row.log_start, row.watermark
    return PartitionRow(
        row.partition, row.leader, trouble, row.replicas, row.in_sync, row.out_of_sync, start, row.last_stable_offset,
        end, row.next_offset, row.gap, None if start is None or end is None else max(end - start, 0),
        row.size_bytes if row.size_bytes >= 0 else None, row.in_per_s, tuple(row.followers),
    )  # fmt: skip


def _group(group: GroupSight, topic: str, sight: Sight) -> GroupOfTopic:
    places = [place for place in group.committed if place[0] == topic]
    ends = [sight.watermarks.get(place) for place in places]
    lag = None
    if places and all(end is not None for end in ends):
        lag = sum(max((end or 0) - group.committed[place], 0) for place, end in zip(places, ends, strict=True))
    return GroupOfTopic(group.name, group.state, lag)
