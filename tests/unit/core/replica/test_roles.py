"""A replica through changes of which node leads: its watermark stays, its epochs tell, and old news changes nothing."""

from __future__ import annotations

from typing import Any, cast

import pytest

from chronik.core.config.topic import TopicConfig
from chronik.core.errors import Code, Refused
from chronik.core.log.log import Log
from chronik.core.replica.divergence import Diverging, diverging
from chronik.core.replica.replica import ACKS_ALL, Replica
from tests.unit.core.fakes import MemoryFiles
from tests.unit.core.log.logs import NOW_MS, batch_of, put

HERE = 1


def log_with(*epochs: int, config: TopicConfig | None = None) -> Log:
    """A log with one record of each of these epochs."""
    log = Log.open(cast(Any, MemoryFiles()), "topic-0", config or TopicConfig(), NOW_MS, was_clean=False)
    for epoch in epochs:
        put(log, batch_of(), leader_epoch=epoch)
    log.mark_synced(log.end_offset)
    return log


def replica_on(log: Log, high_watermark: int = 0) -> Replica:
    return Replica("topic", 0, bytes(16), log, node_id=HERE, is_synced=True, high_watermark=high_watermark)


# --- the follower's watermark (F6)


def test_a_followers_watermark_is_what_its_leader_says_and_not_what_it_has() -> None:
    follower = replica_on(log_with(1, 1, 1, 1, 1))
    follower.follow(leader_id=2, leader_epoch=1, partition_epoch=1)

    assert follower.apply_leader_watermark(high_watermark=3, start_offset=0)

    assert (follower.log.end_offset, follower.high_watermark) == (5, 3)


def test_a_followers_watermark_does_not_pass_what_it_has_itself() -> None:
    follower = replica_on(log_with(1, 1))
    follower.follow(leader_id=2, leader_epoch=1, partition_epoch=1)

    follower.apply_leader_watermark(high_watermark=100, start_offset=0)

    assert follower.high_watermark == 2


def test_a_followers_watermark_does_not_fall_when_its_leader_knows_less() -> None:
    follower = replica_on(log_with(1, 1, 1), high_watermark=3)
    follower.follow(leader_id=2, leader_epoch=1, partition_epoch=1)

    assert not follower.apply_leader_watermark(high_watermark=1, start_offset=0)

    assert follower.high_watermark == 3


# --- restart and failover (F7)


def test_a_replica_that_is_opened_begins_with_the_watermark_of_its_checkpoint() -> None:
    assert replica_on(log_with(1, 1, 1), high_watermark=2).high_watermark == 2
    assert replica_on(log_with(1, 1, 1), high_watermark=9).high_watermark == 3


def test_a_new_leader_begins_with_the_watermark_it_had_and_waits_for_the_others() -> None:
    """A new leader begins with the watermark it had and waits for the others with the rest."""
    replica = replica_on(log_with(1, 1, 1, 1), high_watermark=3)
    replica.follow(leader_id=2, leader_epoch=1, partition_epoch=1)

    replica.lead(2, 2, (HERE, 2, 3), (HERE, 3), NOW_MS)

    assert replica.high_watermark == 3
    assert not replica.is_watermark_known
    assert replica.follower_fetched(3, 4, NOW_MS)
    assert replica.high_watermark == 4
    assert replica.is_watermark_known


def test_a_leader_that_is_deposed_keeps_its_watermark() -> None:
    replica = replica_on(log_with(1, 1, 1))
    replica.lead(2, 2, (HERE,), (HERE,), NOW_MS)
    assert replica.high_watermark == 3

    replica.follow(leader_id=2, leader_epoch=3, partition_epoch=3)

    assert replica.high_watermark == 3


# --- enough in sync (F29)


def led(in_sync: tuple[int, ...], minimum: int) -> Replica:
    replica = replica_on(log_with(config=TopicConfig(min_insync_replicas=minimum)))
    replica.lead(1, 1, (HERE, 2, 3), in_sync, NOW_MS)
    return replica


def test_with_fewer_in_sync_than_wanted_nothing_becomes_safe() -> None:
    replica = led((HERE,), minimum=2)
    replica.append(batch_of(), 1, NOW_MS)

    assert not replica.own_safe(1)

    assert replica.high_watermark == 0


def test_a_set_that_shrank_after_the_append_is_said() -> None:
    replica = led((HERE, 2), minimum=2)
    replica.append(batch_of(), ACKS_ALL, NOW_MS)
    assert replica.code_when_safe() is Code.NONE

    replica.in_sync_decided((HERE,), partition_epoch=2)

    assert replica.code_when_safe() is Code.NOT_ENOUGH_REPLICAS_AFTER_APPEND


def test_a_replica_that_follows_takes_nothing_from_producers() -> None:
    replica = led((HERE, 2), minimum=1)
    replica.follow(leader_id=2, leader_epoch=2, partition_epoch=2)

    with pytest.raises(Refused) as refused:
        replica.append(batch_of(), 1, NOW_MS)

    assert refused.value.code is Code.NOT_LEADER_OR_FOLLOWER
    assert replica.log.end_offset == 0


# --- epochs (F32)


def test_news_older_than_what_is_known_changes_no_role() -> None:
    replica = replica_on(log_with())
    replica.lead(5, 7, (HERE, 2), (HERE, 2), NOW_MS)

    replica.follow(leader_id=2, leader_epoch=4, partition_epoch=6)

    assert (replica.is_leader, replica.leader_id, replica.leader_epoch) == (True, HERE, 5)


def test_a_new_leader_notes_where_its_epoch_begins_before_it_writes_anything() -> None:
    replica = replica_on(log_with(1, 1))

    replica.lead(4, 1, (HERE, 2), (HERE, 2), NOW_MS)

    # A follower with a batch of epoch 3, which this log never saw, is told that all of it is gone.
    assert diverging(replica.log, 3, 3) == Diverging(1, 2)
    assert replica.log.epochs.end_offset_for(4, replica.log.end_offset) == (4, 2)


def test_a_follower_with_an_epoch_that_its_leader_never_saw_diverges() -> None:
    """A follower with an epoch that its leader never saw diverges though it has less."""
    leader_log = log_with(1, 1, 1, 1, 3)

    # It ends with a batch of epoch 2 at offset 2; the leader has epoch 1 there.
    assert diverging(leader_log, 3, 2) == Diverging(1, 4)
