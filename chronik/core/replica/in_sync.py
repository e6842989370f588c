"""The in-sync set of a partition, as its leader keeps it: who has what, who falls behind, who has caught up.

The set changes only through the controller (AlterPartition, KIP-497), so that the next leader knows it. Until the
controller has answered, the larger of the old and the wanted set counts for the watermark: a replica that may
already be in sync for the controller must have every record that is called safe.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

UNKNOWN = -1
ANY_EPOCH = -1
UNBOUNDED = 2**63 - 1


@dataclass(slots=True)
class FollowerProgress:
    """What a leader knows of a follower, from its fetches alone."""

    durable_end_offset: int = UNKNOWN  # it has everything below this safely
    fetched_ms: int = UNKNOWN
    caught_up_ms: int = UNKNOWN  # when it last had all that the leader had
    broker_epoch: int = ANY_EPOCH  # of the registration it fetched under (KIP-903)
    log_start: int = UNKNOWN  # where its log begins
    _leader_end_at_fetch: int = UNKNOWN  # where the leader's log ended when it fetched last

    def fetched(self, fetch_offset: int, leader_end: int, now_ms: int) -> bool:
        """It asks for what comes after `fetch_offset`, so all below is safe there, and nothing above. Returns whether
        that is as good as all.

        Less than before means that it lost something: it may not count with what it once had.
        """
        is_caught_up = True
        if fetch_offset >= leader_end:
            self.caught_up_ms = max(self.caught_up_ms, now_ms)
        elif self._leader_end_at_fetch != UNKNOWN and fetch_offset >= self._leader_end_at_fetch:
            # Under load no follower ever reaches the end: one that now has what there was at its last fetch was caught
            # up then.
            self.caught_up_ms = max(self.caught_up_ms, self.fetched_ms)
        else:
            is_caught_up = False
        self.durable_end_offset = fetch_offset
        self._leader_end_at_fetch = leader_end
        self.fetched_ms = now_ms
        return is_caught_up

    def is_behind(self, leader_end: int, now_ms: int, lag_time_max_ms: int) -> bool:
        return self.durable_end_offset < leader_end and now_ms - self.caught_up_ms > lag_time_max_ms


class InSyncSet:
    """Who must have a record before it is safe."""

    __slots__ = ("_joining", "followers", "in_sync", "node_id", "others_durable_end", "partition_epoch", "wanted")

    def __init__(
        self, node_id: int, replicas: tuple[int, ...], in_sync: tuple[int, ...], partition_epoch: int, now_ms: int
    ) -> None:
        self.node_id = node_id
        self.in_sync = in_sync
        self.partition_epoch = partition_epoch
        self.wanted: tuple[int, ...] | None = None  # asked of the controller and not answered yet
        # A new leader gives everyone the whole time to be heard of before it calls it behind.
        self.followers = {
            replica: FollowerProgress(caught_up_ms=now_ms if replica in in_sync else UNKNOWN)
            for replica in replicas
            if replica != node_id
        }
        # Outside the set and caught up: the watermark waits for them, or under load they would always be one fetch
        # behind it and never get in.
        self._joining: tuple[int, ...] = ()
        self.others_durable_end = self._others_durable_end()

    @property
    def replica_count(self) -> int:
        return len(self.followers) + 1

    @property
    def is_waiting_for_joiners(self) -> bool:
        return bool(self._joining)

    @property
    def maximal(self) -> tuple[int, ...]:
        """The set, and the replicas that the controller may just be adding."""
        if self.wanted is None:
            return self.in_sync
        return (*self.in_sync, *(replica for replica in self.wanted if replica not in self.in_sync))

    @property
    def counted(self) -> tuple[int, ...]:
        """Who counts for the watermark."""
        maximal = self.maximal
        return (*maximal, *(replica for replica in self._joining if replica not in maximal))

    def _others_durable_end(self) -> int:
        """Up to where the others that count have it; -1 while one of them has not been heard of."""
        others = (self.followers[replica].durable_end_offset for replica in self.counted if replica != self.node_id)
        return min(others, default=UNBOUNDED)

    def low_watermark(self, own_start: int) -> int:
        """From where on every replica that may lead next still has records; -1 while one is not heard of."""
        others = (self.followers[replica].log_start for replica in self.maximal if replica != self.node_id)
        return min(own_start, min(others, default=own_start))

    def slowest_fetching(self, now_ms: int, lag_time_max_ms: int) -> int:
        """Up to where every follower has come that has fetched lately. Silent ones do not count: they have all, or may
        stay away for ever."""
        fetching = (f.durable_end_offset for f in self.followers.values() if now_ms - f.fetched_ms <= lag_time_max_ms)
        return min((end for end in fetching if end != UNKNOWN), default=UNBOUNDED)

    # --- what followers report

    def fetched(
        self, follower_id: int, fetch_offset: int, leader_end: int, now_ms: int, broker_epoch: int = ANY_EPOCH
    ) -> None:
        """A follower asks for what comes after `fetch_offset`."""
        follower = self.followers[follower_id]
        if broker_epoch < follower.broker_epoch:
            return  # sent before it restarted, and come by after: what it had then may be gone
        follower.broker_epoch = broker_epoch
        before = follower.durable_end_offset
        is_caught_up = follower.fetched(fetch_offset, leader_end, now_ms)
        if is_caught_up and follower_id not in self.in_sync and follower_id not in self._joining:
            self._joining = (*self._joining, follower_id)
            before = UNKNOWN
        if follower.durable_end_offset != before:
            self.others_durable_end = self._others_durable_end()

    def may_change(self, follower_id: int, high_watermark: int, epoch_start: int, own_start: int = UNKNOWN) -> bool:
        """Whether what a follower has makes it worth asking `change_due` now."""
        if self.wanted is not None:
            return False
        follower = self.followers[follower_id]
        if follower_id in self.in_sync:
            return follower.durable_end_offset < high_watermark
        return follower.durable_end_offset >= max(high_watermark, epoch_start) and follower.log_start >= own_start

    def note_caught_up(self, leader_end: int, now_ms: int) -> None:
        """A follower that has everything lags nothing, though it is silent: an idle partition is not named in
        fetches."""
        for follower in self.followers.values():
            if follower.durable_end_offset >= leader_end:
                follower.caught_up_ms = max(follower.caught_up_ms, now_ms)

    # --- what the set should be

    def change_due(
        self,
        leader_end: int,
        high_watermark: int,
        epoch_start: int,
        now_ms: int,
        lag_time_max_ms: int,
        able: Mapping[int, int],
        own_start: int = UNKNOWN,
    ) -> tuple[int, ...] | None:
        """The set to ask the controller for; None when it is right as it is or a change is under way.

        `able` are the nodes that may join, with their broker epochs: alive, not fenced, not shutting down (KIP-841).
        """
        self.note_caught_up(leader_end, now_ms)
        self._drop_joining(leader_end, now_ms, lag_time_max_ms, able)
        if self.wanted is not None:
            return None
        stays = tuple(
            replica
            for replica in self.in_sync
            if replica == self.node_id or self._keeps_up(replica, leader_end, high_watermark, now_ms, lag_time_max_ms)
        )
        joins = tuple(
            replica
            for replica, follower in self.followers.items()
            # It must have all that is safe, and all that this leader began with: else the set would not protect it.
            if replica not in self.in_sync
            and self._is_able(replica, able)
            and follower.durable_end_offset >= max(high_watermark, epoch_start)
            # And nothing that was deleted: if it led, that would be there again. (In Kafka it is.)
            and follower.log_start >= own_start
        )
        due = (*stays, *joins)
        return due if due != self.in_sync else None

    def _keeps_up(self, replica: int, leader_end: int, high_watermark: int, now_ms: int, lag_time_max_ms: int) -> bool:
        follower = self.followers[replica]
        if UNKNOWN < follower.durable_end_offset < high_watermark:
            return False  # it had all that is safe and lost some of it: this one must not be elected
        return not follower.is_behind(leader_end, now_ms, lag_time_max_ms)

    def _is_able(self, replica: int, able: Mapping[int, int]) -> bool:
        return replica in able and self.followers[replica].broker_epoch in (ANY_EPOCH, able[replica])

    def _drop_joining(self, leader_end: int, now_ms: int, lag_time_max_ms: int, able: Mapping[int, int]) -> None:
        """Nothing waits for one that has fallen behind again, or that may not join."""
        joining = tuple(
            replica
            for replica in self._joining
            if replica not in self.in_sync
            and self._is_able(replica, able)
            and not self.followers[replica].is_behind(leader_end, now_ms, lag_time_max_ms)
        )
        if joining != self._joining:
            self._joining = joining
            self.others_durable_end = self._others_durable_end()

    # --- what the controller says

    def asked(self, wanted: tuple[int, ...]) -> None:
        """The controller has been asked for this set."""
        self.wanted = wanted
        self.others_durable_end = self._others_durable_end()

    def decided(
        self, in_sync: tuple[int, ...], partition_epoch: int, replicas: tuple[int, ...] | None = None, now_ms: int = 0
    ) -> bool:
        """The controller says what the set is. False for news that is older than what is known."""
        if partition_epoch < self.partition_epoch:
            return False
        if replicas is not None:
            self._assigned(replicas, in_sync, now_ms)
        self.in_sync, self.partition_epoch, self.wanted = in_sync, partition_epoch, None
        self._joining = tuple(replica for replica in self._joining if replica not in in_sync)
        self.others_durable_end = self._others_durable_end()
        return True

    def _assigned(self, replicas: tuple[int, ...], in_sync: tuple[int, ...], now_ms: int) -> None:
        """A reassignment: those that stay are known already."""
        self.followers = {
            replica: self.followers.get(replica)
            or FollowerProgress(caught_up_ms=now_ms if replica in in_sync else UNKNOWN)
            for replica in replicas
            if replica != self.node_id
        }
        self._joining = tuple(replica for replica in self._joining if replica in self.followers)

    def refused(self) -> None:
        """The controller did not take it; a fresh look decides whether to ask again."""
        self.wanted = None
        self.others_durable_end = self._others_durable_end()
