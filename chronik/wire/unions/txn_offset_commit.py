"""TxnOffsetCommit: topics by name up to version 5, by id from version 6."""

from __future__ import annotations

import datetime
import uuid
from dataclasses import dataclass

from kio.schema.txn_offset_commit.v5.request import TxnOffsetCommitRequestPartition
from kio.schema.txn_offset_commit.v5.response import TxnOffsetCommitResponsePartition


@dataclass(frozen=True, slots=True, kw_only=True)
class AnyTxnOffsetCommitTopic:
    """By name or by id."""

    name: str = ""
    topic_id: uuid.UUID | None = None
    partitions: tuple[TxnOffsetCommitRequestPartition, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class AnyTxnOffsetCommitRequest:
    """All fields there ever were."""

    transactional_id: str = ""
    group_id: str = ""
    producer_id: int = -1
    producer_epoch: int = -1
    generation_id: int = -1  # or member epoch
    member_id: str = ""
    group_instance_id: str | None = None
    topics: tuple[AnyTxnOffsetCommitTopic, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class AnyTxnOffsetCommitTopicResponse:
    """By name or by id, as it was asked."""

    name: str = ""
    topic_id: uuid.UUID | None = None
    partitions: tuple[TxnOffsetCommitResponsePartition, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class AnyTxnOffsetCommitResponse:
    """One code a partition."""

    throttle_time: datetime.timedelta = datetime.timedelta(0)
    topics: tuple[AnyTxnOffsetCommitTopicResponse, ...] = ()
