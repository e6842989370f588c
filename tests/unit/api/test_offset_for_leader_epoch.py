"""OffsetForLeaderEpoch."""

from __future__ import annotations

from typing import Any

import pytest
from kio.schema.offset_for_leader_epoch.v4.request import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)

from chronik.api import offset_for_leader_epoch
from chronik.api.context import RequestContext
from chronik.core.errors import Code
from tests.unit.api.fake_context import FakeLog, ask, fake_context, replicas_of


def request(epoch: int, current: int = -1, partition: int = 0) -> Any:
    part = OffsetForLeaderPartition(partition=partition, current_leader_epoch=current, leader_epoch=epoch)
    return OffsetForLeaderEpochRequest(replica_id=-1, topics=(OffsetForLeaderTopic(topic="a", partitions=(part,)),))


def desk_with_log() -> RequestContext:
    """Epoch 2 from offset 10, epoch 4 from 15, end at 20."""
    log = FakeLog(start_offset=10, end_offset=20)
    log.epochs.assign(2, 10)
    log.epochs.assign(4, 15)
    context = fake_context()
    replicas_of(context).add("a", 0, log, leader_epoch=4)
    return context


def answered(asked: Any) -> tuple[Code, int, int]:
    [topic] = ask(offset_for_leader_epoch, asked, desk_with_log(), version=4).topics
    [part] = topic.partitions
    assert topic.topic == "a"
    return part.error_code, part.leader_epoch, part.end_offset


@pytest.mark.parametrize(
    ("epoch", "answer"),
    [(4, (4, 20)), (3, (2, 15)), (2, (2, 15)), (1, (1, 10)), (5, (-1, -1)), (-1, (-1, -1))],
)
def test_an_epoch_ends_where_the_next_begins(epoch: int, answer: tuple[int, int]) -> None:
    assert answered(request(epoch)) == (Code.NONE, *answer)


@pytest.mark.parametrize(("current", "code"), [(3, Code.FENCED_LEADER_EPOCH), (5, Code.UNKNOWN_LEADER_EPOCH)])
def test_a_client_with_another_leader_epoch_is_told(current: int, code: Code) -> None:
    assert answered(request(4, current)) == (code, -1, -1)


def test_a_partition_that_is_not_here_is_refused() -> None:
    assert answered(request(4, partition=7)) == (Code.UNKNOWN_TOPIC_OR_PARTITION, -1, -1)
