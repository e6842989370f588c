"""The replica of the quorum's log: written by the leader of an epoch, safe when the quorum says so."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import pytest

from chronik.core.config.topic import TopicConfig
from chronik.core.errors import Code, Refused
from chronik.core.log.log import Log
from chronik.core.raft.quorum_replica import QuorumReplica
from chronik.core.records.payload import KeyValue, build
from tests.unit.core.fakes import MemoryFiles


def replica(synced: Callable[[], None] = lambda: None) -> QuorumReplica:
    log = Log.open(cast(Any, MemoryFiles()), "__cluster_metadata-0", TopicConfig(), 0, was_clean=False)
    return QuorumReplica("__cluster_metadata", 0, bytes(16), log, node_id=1, synced=synced)


def a_batch() -> bytearray:
    return bytearray(build([KeyValue(None, b"x")], 0))


def test_only_the_leader_writes_and_in_its_epoch() -> None:
    one = replica()
    with pytest.raises(Refused) as refused:
        one.append(a_batch(), -1, 0)
    assert refused.value.code is Code.NOT_CONTROLLER

    one.set_office(5, 1)
    one.append(a_batch(), -1, 0)

    assert one.is_leader
    assert one.log.epochs.latest == 5
    one.set_office(6, 2)
    assert (one.is_leader, one.leader_id, one.leader_epoch) == (False, 2, 6)
    one.set_office(7, None)
    assert one.leader_id == -1


def test_the_metadata_does_not_say_who_leads_it() -> None:
    one = replica()
    one.set_office(5, 1)
    one.append(a_batch(), -1, 0)

    one.lead_alone(0)

    assert one.leader_epoch == 5
    assert one.log.epochs.latest == 5


def test_a_sync_is_told_and_makes_nothing_safe_by_itself() -> None:
    told: list[int] = []
    one: QuorumReplica = replica(lambda: told.append(one.durable_end_offset))
    one.set_office(1, 1)
    one.append(a_batch(), -1, 0)
    assert one.is_synced  # whatever durability says
    assert told == []

    assert not one.own_safe(1)

    assert told == [1]
    assert one.high_watermark == 0
    one.set_watermark(1)
    one.set_watermark(0)
    assert one.high_watermark == 1
