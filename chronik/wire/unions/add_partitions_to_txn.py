"""AddPartitionsToTxn: one transaction up to version 3, a batch of them from version 4."""

from __future__ import annotations

import datetime
from dataclasses import dataclass

from chronik.core.errors import Code


@dataclass(frozen=True, slots=True, kw_only=True)
class AnyAddPartitionsTopic:
    name: str = ""
    partitions: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class AnyAddPartitionsTransaction:
    transactional_id: str = ""
    producer_id: int = -1
    producer_epoch: int = -1
    verify_only: bool = False
    topics: tuple[AnyAddPartitionsTopic, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class AnyAddPartitionsRequest:
    """`transactions` from version 4; before, the fields of the only one."""

    transactions: tuple[AnyAddPartitionsTransaction, ...] = ()
    v3_and_below_transactional_id: str = ""
    v3_and_below_producer_id: int = -1
    v3_and_below_producer_epoch: int = -1
    v3_and_below_topics: tuple[AnyAddPartitionsTopic, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class AnyAddPartitionsPartitionResult:
    partition_index: int = 0
    partition_error_code: Code = Code.NONE


@dataclass(frozen=True, slots=True, kw_only=True)
class AnyAddPartitionsTopicResult:
    name: str = ""
    results_by_partition: tuple[AnyAddPartitionsPartitionResult, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class AnyAddPartitionsResult:
    transactional_id: str = ""
    topic_results: tuple[AnyAddPartitionsTopicResult, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class AnyAddPartitionsResponse:
    """`results_by_transaction` from version 4; before, the topics of the only one."""

    throttle_time: datetime.timedelta = datetime.timedelta(0)
    error_code: Code = Code.NONE
    results_by_transaction: tuple[AnyAddPartitionsResult, ...] = ()
    results_by_topic_v3_and_below: tuple[AnyAddPartitionsTopicResult, ...] = ()
