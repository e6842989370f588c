"""The state of each partition that a node hosts: one at a time, and what leads from one to the next."""

from __future__ import annotations

import errno

import pytest

from chronik.core.errors import Corrupt
from chronik.core.replica.replica import Replica
from chronik.core.types import TopicPartition
from chronik.node.replication.hosted_partitions import (
    DamagedPartition,
    FailedPartition,
    HostedPartitions,
    OpenPartition,
    PutOffPartition,
)
from tests.unit.node.fakes import memory_replica

KEY = TopicPartition("topic", 0)
TOPIC_ID = bytes(16)
FULL = OSError(errno.ENOSPC, "No space left on device")
BROKEN = OSError(errno.EIO, "Input/output error")
DAMAGED = Corrupt("topic-0", "the checksum does not hold")


@pytest.fixture
def hosted() -> HostedPartitions:
    return HostedPartitions()


def opened(hosted: HostedPartitions) -> Replica:
    replica = memory_replica()
    hosted.opened(replica)
    return replica


def test_a_partition_without_a_state_is_closed_and_may_be_opened(hosted: HostedPartitions) -> None:
    assert (hosted.state(KEY), hosted.replica(KEY), hosted.why_not_open(KEY)) == (None, None, None)
    assert hosted.may_be_opened(KEY)
    assert (hosted.offline(), hosted.to_repair(), hosted.not_open()) == ({}, [], [])


def test_an_open_partition_is_served_until_its_replica_is_offline(hosted: HostedPartitions) -> None:
    replica = opened(hosted)
    assert (hosted.replica(KEY), list(hosted.replicas()), hosted.offline()) == (replica, [replica], {})

    replica.take_offline("write failed")

    assert hosted.offline() == {KEY: "write failed"}
    assert hosted.replica(KEY) is replica
    assert not hosted.may_be_opened(KEY)


@pytest.mark.parametrize(
    ("problem", "kind", "may_be_opened", "to_repair"),
    [
        (DAMAGED, DamagedPartition, False, [KEY]),
        (BROKEN, FailedPartition, False, []),
        (FULL, PutOffPartition, True, [KEY]),
    ],
)
def test_what_kept_it_from_being_opened_says_what_comes_next(
    hosted: HostedPartitions, problem: Corrupt | OSError, kind: type, may_be_opened: bool, to_repair: list[object]
) -> None:
    hosted.not_opened(KEY, TOPIC_ID, problem)

    assert isinstance(hosted.state(KEY), kind)
    assert (hosted.may_be_opened(KEY), hosted.to_repair(), hosted.not_open()) == (may_be_opened, to_repair, [KEY])
    assert hosted.why_not_open(KEY) == str(problem)
    assert hosted.offline() == {KEY: str(problem)}


def test_what_is_opened_anew_is_recovered_however_often_that_is_put_off(hosted: HostedPartitions) -> None:
    hosted.not_opened(KEY, TOPIC_ID, FULL, was_open=True)
    hosted.not_opened(KEY, TOPIC_ID, FULL)
    assert hosted.was_open(KEY)

    opened(hosted)
    assert not hosted.was_open(KEY)


def test_what_was_never_open_is_not_recovered_for_a_shortage(hosted: HostedPartitions) -> None:
    hosted.not_opened(KEY, TOPIC_ID, FULL)
    assert not hosted.was_open(KEY)


def test_damage_found_in_an_open_log_keeps_its_replica(hosted: HostedPartitions) -> None:
    replica = opened(hosted)
    hosted.damaged(replica, "read failed")

    assert (hosted.is_damaged(KEY), hosted.replica(KEY), hosted.to_repair()) == (True, replica, [KEY])
    assert hosted.why_not_open(KEY) is None


def test_damage_found_in_a_log_that_was_closed_meanwhile_says_nothing_of_the_next(hosted: HostedPartitions) -> None:
    before = opened(hosted)
    hosted.closed(KEY)
    hosted.damaged(before, "read failed")
    assert hosted.state(KEY) is None

    opened(hosted)
    hosted.damaged(before, "read failed")
    assert isinstance(hosted.state(KEY), OpenPartition)


def test_damage_that_cannot_be_moved_aside_stays_to_be_repaired(hosted: HostedPartitions) -> None:
    hosted.not_moved_aside(KEY, TOPIC_ID, "the directory cannot be renamed")

    assert (hosted.to_repair(), hosted.may_be_opened(KEY)) == ([KEY], False)


def test_damage_of_a_topic_that_is_gone_is_not_repaired(hosted: HostedPartitions) -> None:
    hosted.not_opened(KEY, TOPIC_ID, DAMAGED)
    hosted.not_repairable(KEY)
    assert hosted.state(KEY) == FailedPartition(TOPIC_ID, str(DAMAGED))

    replica = opened(hosted)
    hosted.damaged(replica, "read failed")
    hosted.not_repairable(KEY)
    assert hosted.state(KEY) == OpenPartition(replica)


def test_what_is_damaged_is_repaired_before_what_was_put_off(hosted: HostedPartitions) -> None:
    first, second, third = (TopicPartition("topic", number) for number in range(3))
    hosted.not_opened(third, TOPIC_ID, FULL)
    hosted.not_opened(first, TOPIC_ID, FULL)
    hosted.not_opened(second, TOPIC_ID, DAMAGED)

    assert hosted.to_repair() == [second, first, third]
