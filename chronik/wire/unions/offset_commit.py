"""OffsetCommit: topics by name up to version 9, by id from version 10; versions 2 to 4 bring a retention time."""

from __future__ import annotations

import datetime
import uuid
from dataclasses import dataclass

from kio.schema.offset_commit.v10.response import OffsetCommitResponsePartition

NO_RETENTION = datetime.timedelta(milliseconds=-1)


@dataclass(frozen=True, slots=True, kw_only=True)
class AnyOffsetCommitPartition:
    """An offset to keep."""

    partition_index: int = 0
    committed_offset: int = 0
    committed_leader_epoch: int = -1
    committed_metadata: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AnyOffsetCommitTopic:
    """By name or by id."""

    name: str = ""
    topic_id: uuid.UUID | None = None
    partitions: tuple[AnyOffsetCommitPartition, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class AnyOffsetCommitRequest:
    """All fields there ever were."""

    group_id: str = ""
    generation_id_or_member_epoch: int = -1
    member_id: str = ""
    group_instance_id: str | None = None
    retention_time: datetime.timedelta = NO_RETENTION
    topics: tuple[AnyOffsetCommitTopic, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class AnyOffsetCommitTopicResponse:
    """By name or by id, as it was asked."""

    name: str = ""
    topic_id: uuid.UUID | None = None
    partitions: tuple[OffsetCommitResponsePartition, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class AnyOffsetCommitResponse:
    """One code a partition."""

    throttle_time: datetime.timedelta = datetime.timedelta(0)
    topics: tuple[AnyOffsetCommitTopicResponse, ...] = ()
