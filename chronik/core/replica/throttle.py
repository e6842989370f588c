"""Replication throttles (KIP-73): how fast replicas that are not in sync may catch up.

A node has two, which know nothing of each other: one for what it gives as a leader, one for what it takes as a
follower. Each has a rate for the whole node and, per topic, a list of the replicas that it covers. The rate is measured
over the last `replication.quota.window.num` windows, as Kafka does: bytes count once they went, however many they were,
and nothing more goes until the average is back at the rate. So a batch may be larger than the rate allows in a second,
or even in all windows: it goes, and is forgotten with its window.

What is in sync is never held back, nor is a replica that the high watermark waits for: producers wait for those.
(Kafka's leader spares the in-sync set; its follower spares only those that have all below the watermark.)
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from chronik.core.config.definitions import LONG_MAX
from chronik.core.config.sections.replication import ReplicationConfig
from chronik.core.config.throttled import ALL_REPLICAS, partitions_of
from chronik.core.config.topic import TopicConfig
from chronik.core.replica.replica import Replica

NO_LIMIT = LONG_MAX
# A replica that is held back is looked at again after this time: not so soon that it gets one batch at a time, nor so
# late that it does not notice another rate.
LOOK_AGAIN_MIN_MS = 100
LOOK_AGAIN_MAX_MS = 500
TOPICS_REMEMBERED = 1_000


class WindowedBytes:
    """Bytes in the last few windows. A window begins with the first bytes that fall into it."""

    __slots__ = ("_kept_ms", "_total", "_window_ms", "_windows")

    def __init__(self, windows: int, window_ms: int) -> None:
        self._window_ms = window_ms
        self._kept_ms = windows * window_ms
        self._windows: deque[tuple[int, int]] = deque()  # when each began, and its bytes
        self._total = 0

    def record(self, size_bytes: int, now_ms: int) -> None:
        self._forget(now_ms)
        if self._windows and now_ms - self._windows[-1][0] < self._window_ms:
            began_ms, before = self._windows.pop()
            self._windows.append((began_ms, before + size_bytes))
        else:
            self._windows.append((now_ms, size_bytes))
        self._total += size_bytes

    def room_bytes(self, rate: int, now_ms: int) -> int:
        """Bytes that may go before the average is above the rate; negative while it is."""
        self._forget(now_ms)
        elapsed_ms = now_ms - self._windows[0][0] if self._windows else 0
        return rate * max(elapsed_ms, self._window_ms) // 1000 - self._total

    def wait_ms(self, rate: int, now_ms: int) -> int:
        """How long until the average is not above the rate, or the oldest window is forgotten."""
        if self.room_bytes(rate, now_ms) >= 0:
            return 0
        began_ms = self._windows[0][0]
        forgotten_ms = began_ms + self._kept_ms - now_ms
        if rate <= 0:
            return forgotten_ms
        return min(forgotten_ms, began_ms + -(-self._total * 1000 // rate) - now_ms)

    def _forget(self, now_ms: int) -> None:
        while self._windows and now_ms - self._windows[0][0] >= self._kept_ms:
            self._total -= self._windows.popleft()[1]


class Throttle:
    """One of a node's two. `rate` says how many bytes a second are allowed now, `listed` which replicas are covered."""

    def __init__(
        self,
        node_id: int,
        rate: Callable[[], int],
        listed: Callable[[TopicConfig], tuple[str, ...]],
        *,
        windows: int,
        window_ms: int,
    ) -> None:
        self._node_id = node_id
        self._rate = rate
        self._listed = listed
        self._bytes = WindowedBytes(windows, window_ms)
        # What each topic's list means to this node. The list itself is kept to see that it is another.
        self._partitions: dict[str, tuple[tuple[str, ...], frozenset[int] | None]] = {}

    def covers(self, replica: Replica) -> bool:
        """Whether this node's replica is on its topic's list."""
        listed = self._listed(replica.log.config)
        if not listed:
            return False
        known = self._partitions.get(replica.topic)
        if known is None or known[0] is not listed:
            if len(self._partitions) >= TOPICS_REMEMBERED:
                self._partitions.clear()
            known = self._partitions[replica.topic] = listed, partitions_of(listed, self._node_id)
        return known[1] is ALL_REPLICAS or replica.partition in known[1]

    def record(self, size_bytes: int, now_ms: int) -> None:
        """So many bytes of a covered replica went, held back before or not."""
        self._bytes.record(size_bytes, now_ms)

    def room_bytes(self, now_ms: int) -> int:
        """Bytes that may go now; negative while nothing may."""
        rate = self._rate()
        return NO_LIMIT if rate == NO_LIMIT else self._bytes.room_bytes(rate, now_ms)

    def look_again_ms(self, now_ms: int) -> int:
        """When to look at what is held back: perhaps it may go then."""
        wait_ms = self._bytes.wait_ms(self._rate(), now_ms)
        return min(max(wait_ms, LOOK_AGAIN_MIN_MS), LOOK_AGAIN_MAX_MS)


def leader_throttle(node_id: int, config: Callable[[], ReplicationConfig]) -> Throttle:
    """Of what a node gives; `config` are its settings as they are now."""
    return _throttle(
        node_id,
        config,
        lambda: config().leader_replication_throttled_rate,
        lambda topic: topic.leader_replication_throttled_replicas,
    )


def follower_throttle(node_id: int, config: Callable[[], ReplicationConfig]) -> Throttle:
    """Of what a node takes."""
    return _throttle(
        node_id,
        config,
        lambda: config().follower_replication_throttled_rate,
        lambda topic: topic.follower_replication_throttled_replicas,
    )


def _throttle(
    node_id: int,
    config: Callable[[], ReplicationConfig],
    rate: Callable[[], int],
    listed: Callable[[TopicConfig], tuple[str, ...]],
) -> Throttle:
    started_with = config()
    return Throttle(
        node_id,
        rate,
        listed,
        windows=started_with.replication_quota_window_num,
        window_ms=started_with.replication_quota_window_size_seconds * 1000,
    )


def room_for_follower(throttle: Throttle, replica: Replica, follower_id: int, now_ms: int) -> int:
    """Bytes that a leader may give a follower of this replica now; negative when it is to wait."""
    if not throttle.covers(replica):
        return NO_LIMIT
    if replica.in_sync is not None and follower_id in replica.in_sync.counted:
        return NO_LIMIT
    return throttle.room_bytes(now_ms)


def room_to_follow(throttle: Throttle, replica: Replica, *, is_in_sync: bool, now_ms: int) -> int:
    """Bytes that a follower may ask for now; negative when it is to wait."""
    if is_in_sync or not throttle.covers(replica):
        return NO_LIMIT
    return throttle.room_bytes(now_ms)
