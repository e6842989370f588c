"""Throttles of replication: the rate over windows, who is covered, who is never held back."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chronik.core.config.node import NodeConfig
from chronik.core.config.sections.replication import ReplicationConfig
from chronik.core.config.topic import TopicConfig
from chronik.core.replica.replica import Replica
from chronik.core.replica.throttle import (
    LOOK_AGAIN_MAX_MS,
    LOOK_AGAIN_MIN_MS,
    NO_LIMIT,
    Throttle,
    WindowedBytes,
    follower_throttle,
    leader_throttle,
    room_for_follower,
    room_to_follow,
)
from tests.unit.core.log.logs import NOW_MS, batch_of
from tests.unit.core.replica.test_replica import HERE, replica_of

WINDOWS, WINDOW_MS = 11, 1000
KEPT_MS = WINDOWS * WINDOW_MS
NEW = 2  # a replica that is not in sync


def windows() -> WindowedBytes:
    return WindowedBytes(WINDOWS, WINDOW_MS)


# --- the rate


def test_a_second_of_the_rate_may_go_at_once_and_then_as_much_as_time_has_passed() -> None:
    counted = windows()
    assert counted.room_bytes(100, 0) == 100

    counted.record(100, 0)

    assert [counted.room_bytes(100, now_ms) for now_ms in (0, 999, 1000, 1500, 10_000)] == [0, 0, 0, 50, 900]


def test_what_was_too_much_is_waited_for() -> None:
    counted = windows()
    counted.record(350, 0)

    assert counted.room_bytes(100, 3499) < 0
    assert counted.room_bytes(100, 3500) == 0
    assert counted.wait_ms(100, 500) == 3000
    assert counted.wait_ms(100, 3500) == 0


def test_a_batch_larger_than_all_windows_allow_is_forgotten_with_its_window() -> None:
    counted = windows()
    counted.record(1_000_000, 0)
    counted.record(5, 2000)

    assert counted.room_bytes(100, KEPT_MS - 1) < 0
    assert counted.wait_ms(100, 1000) == KEPT_MS - 1000
    assert counted.room_bytes(100, KEPT_MS) == 9 * 100 - 5


def test_with_a_rate_of_nothing_something_goes_whenever_the_windows_are_empty() -> None:
    counted = windows()
    assert counted.room_bytes(0, 0) == 0

    counted.record(1, 0)

    assert counted.room_bytes(0, KEPT_MS - 1) < 0
    assert counted.wait_ms(0, 1000) == KEPT_MS - 1000
    assert counted.room_bytes(0, KEPT_MS) == 0


SENDS = st.lists(st.tuples(st.integers(0, 5_000), st.integers(1, 50_000)), max_size=60)


@given(SENDS, st.integers(0, 20_000))
def test_nothing_waits_for_longer_than_the_windows_last(sends: list[tuple[int, int]], rate: int) -> None:
    counted, now_ms = windows(), 0
    for pause_ms, size_bytes in sends:
        now_ms += pause_ms
        if counted.room_bytes(rate, now_ms) >= 0:
            counted.record(size_bytes, now_ms)

    wait_ms = counted.wait_ms(rate, now_ms)

    assert 0 <= wait_ms <= KEPT_MS
    # One window may be forgotten and others still hold: each wait ends with less to wait for.
    for _ in range(WINDOWS):
        now_ms += counted.wait_ms(rate, now_ms)
    assert counted.room_bytes(rate, now_ms) >= 0


@given(st.integers(1_000, 1_000_000), st.lists(st.integers(1, 400), min_size=200, max_size=400), st.floats(0.01, 1))
def test_a_greedy_sender_of_small_batches_keeps_to_the_rate(rate: int, pauses: list[int], share: float) -> None:
    counted, now_ms, sent = windows(), 0, 0
    batch_max = max(1, int(rate * 0.5 * share))
    for pause_ms in pauses:
        room = counted.room_bytes(rate, now_ms)
        while room >= 0:
            size_bytes = max(1, min(batch_max, room))
            counted.record(size_bytes, now_ms)
            sent += size_bytes
            room = counted.room_bytes(rate, now_ms)
        now_ms += pause_ms

    assert sent <= rate * (now_ms / 1000) * 1.15 + 2 * rate
    if now_ms >= 20_000:
        assert sent >= rate * (now_ms / 1000) * 0.8


# --- who is covered, who is held back


def throttle_of(rate: int, **settings: str) -> Throttle:
    given = {"leader.replication.throttled.rate": str(rate)}
    return leader_throttle(HERE, lambda: NodeConfig.from_settings({**given, **settings}).replication)


def led_with(*listed: str, in_sync: tuple[int, ...] = (HERE,), replicas: tuple[int, ...] = (HERE, NEW)) -> Replica:
    config = TopicConfig(leader_replication_throttled_replicas=listed)
    return replica_of(1, in_sync=in_sync, replicas=replicas, config=config)


@pytest.mark.parametrize(
    ("listed", "is_covered"), [((), False), (("*",), True), (("0:1",), True), (("0:2", "1:1"), False)]
)
def test_a_replica_is_covered_when_its_topic_lists_it_for_this_node(listed: tuple[str, ...], is_covered: bool) -> None:
    assert throttle_of(10).covers(led_with(*listed)) is is_covered


def test_another_list_counts_from_then_on() -> None:
    throttle, replica = throttle_of(10), led_with("0:1")
    assert throttle.covers(replica)

    replica.log.config = replace(replica.log.config, leader_replication_throttled_replicas=("1:1",))
    assert not throttle.covers(replica)
    replica.log.config = TopicConfig()
    assert not throttle.covers(replica)


def test_each_direction_has_its_own_list_and_rate() -> None:
    config = ReplicationConfig(follower_replication_throttled_rate=10)
    leader, follower = leader_throttle(HERE, lambda: config), follower_throttle(HERE, lambda: config)
    replica = replica_of(config=TopicConfig(follower_replication_throttled_replicas=("*",)))

    assert (leader.covers(replica), follower.covers(replica)) == (False, True)
    assert (leader.room_bytes(0), follower.room_bytes(0)) == (NO_LIMIT, 10)


def test_a_leader_holds_back_only_who_is_not_in_sync() -> None:
    throttle = throttle_of(100)
    throttle.record(1000, NOW_MS)

    assert room_for_follower(throttle, led_with("*"), NEW, NOW_MS) < 0
    assert room_for_follower(throttle, led_with("*", in_sync=(HERE, NEW)), NEW, NOW_MS) == NO_LIMIT
    assert room_for_follower(throttle, led_with(), NEW, NOW_MS) == NO_LIMIT


def test_a_replica_that_the_watermark_waits_for_is_not_held_back() -> None:
    throttle, replica = throttle_of(100), led_with("*")
    throttle.record(1000, NOW_MS)
    replica.follower_fetched(NEW, 1, NOW_MS)  # caught up: it is about to be in sync
    replica.append(batch_of(), 1, NOW_MS)
    assert replica.in_sync is not None
    assert NEW not in replica.in_sync.in_sync

    assert room_for_follower(throttle, replica, NEW, NOW_MS) == NO_LIMIT


def test_holding_back_changes_nothing_of_what_is_safe() -> None:
    throttle, replica = throttle_of(1), led_with("*", in_sync=(HERE, 3), replicas=(HERE, NEW, 3))
    throttle.record(1000, NOW_MS)
    assert room_for_follower(throttle, replica, NEW, NOW_MS) < 0

    replica.own_safe(1)
    replica.follower_fetched(3, 1, NOW_MS)

    assert replica.high_watermark == 1


def test_a_follower_waits_only_while_it_is_not_in_sync() -> None:
    config = ReplicationConfig(follower_replication_throttled_rate=10)
    throttle = follower_throttle(HERE, lambda: config)
    replica = replica_of(config=TopicConfig(follower_replication_throttled_replicas=("0:1",)))
    throttle.record(1000, NOW_MS)

    assert room_to_follow(throttle, replica, is_in_sync=False, now_ms=NOW_MS) < 0
    assert room_to_follow(throttle, replica, is_in_sync=True, now_ms=NOW_MS) == NO_LIMIT


def test_what_is_held_back_is_looked_at_soon_enough_to_notice_another_rate() -> None:
    rates = [0]
    throttle = Throttle(HERE, lambda: rates[0], lambda config: ("*",), windows=WINDOWS, window_ms=WINDOW_MS)
    throttle.record(1000, 0)
    assert throttle.look_again_ms(0) == LOOK_AGAIN_MAX_MS

    rates[0] = 900
    assert throttle.look_again_ms(1000) == 112
    rates[0] = NO_LIMIT
    assert throttle.room_bytes(0) == NO_LIMIT
    assert throttle.look_again_ms(0) == LOOK_AGAIN_MIN_MS
