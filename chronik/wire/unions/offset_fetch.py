"""OffsetFetch: one group up to version 7, many from 8; topics by name up to version 9, by id from 10."""

from __future__ import annotations

import datetime
import uuid
from dataclasses import dataclass

from chronik.core.errors import Code


@dataclass(frozen=True, slots=True, kw_only=True)
class AnyOffsetFetchTopic:
    """By name or by id."""

    name: str = ""
    topic_id: uuid.UUID | None = None
    partition_indexes: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """Null topics means all of them."""

    group_id: str = ""
    member_id: str | None = None
    member_epoch: int = -1
    topics: tuple[AnyOffsetFetchTopic, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AnyOffsetFetchRequest:
    """`groups` from version 8, `group_id` and `topics` before."""

    group_id: str = ""
    topics: tuple[AnyOffsetFetchTopic, ...] | None = None
    groups: tuple[Group, ...] = ()
    require_stable: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionResponse:
    """A committed offset; -1 when there is none."""

    partition_index: int = 0
    committed_offset: int = -1
    committed_leader_epoch: int = -1
    metadata: str | None = ""
    error_code: Code = Code.NONE


@dataclass(frozen=True, slots=True, kw_only=True)
class AnyOffsetFetchTopicResponse:
    """By name or by id, as it was asked."""

    name: str = ""
    topic_id: uuid.UUID | None = None
    partitions: tuple[PartitionResponse, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupResponse:
    """One group's offsets."""

    group_id: str = ""
    topics: tuple[AnyOffsetFetchTopicResponse, ...] = ()
    error_code: Code = Code.NONE


@dataclass(frozen=True, slots=True, kw_only=True)
class AnyOffsetFetchResponse:
    """`groups` from version 8; before, the fields of the only one."""

    throttle_time: datetime.timedelta = datetime.timedelta(0)
    topics: tuple[AnyOffsetFetchTopicResponse, ...] = ()
    error_code: Code = Code.NONE
    groups: tuple[GroupResponse, ...] = ()
