"""The in-sync set of a partition, as its leader keeps it: who has what, who falls behind, who has caught up.

The set changes only through the controller (AlterPartition, KIP-497), so that whoever leads next knows it. Until the
controller has answered, the larger of the old and the wanted set counts for the watermark: a replica that may
already be in sync for the controller must have every record that is called safe.
"""

from __future__ import annotations

from dataclasses import dataclass

UNKNOWN = -1


@dataclass(slots=True)
class FollowerProgress:
    """What a leader knows of a follower, from its fetches alone."""

    safe_end: int = UNKNOWN  # it has everything below this safely
    fetched_ms: int = UNKNOWN
    caught_up_ms: int = UNKNOWN  # when it last had all that the leader had
    _leader_end_at_fetch: int = UNKNOWN  # where the leader's log ended when it fetched last

    def fetched(self, fetch_offset: int, leader_end: int, now_ms: int) -> None:
        """It asks for what comes after `fetch_offset`, so all below is safe there."""
        if fetch_offset >= leader_end:
            self.caught_up_ms = max(self.caught_up_ms, now_ms)
        elif self._leader_end_at_fetch != UNKNOWN and fetch_offset >= self._leader_end_at_fetch:
            # Under load nobody ever reaches the end: who now has what there was at his last fetch was caught up then.
            self.caught_up_ms = max(self.caught_up_ms, self.fetched_ms)
        self.safe_end = max(self.safe_end, fetch_offset)
        self._leader_end_at_fetch = leader_end
        self.fetched_ms = now_ms

    def is_behind(self, leader_end: int, now_ms: int, lag_time_max_ms: int) -> bool:
        return self.safe_end < leader_end and now_ms - self.caught_up_ms > lag_time_max_ms


class InSyncSet:
    """Who must have a record before it is safe."""

    def __init__(
        self, node_id: int, replicas: tuple[int, ...], in_sync: tuple[int, ...], partition_epoch: int, now_ms: int
    ) -> None:
        self.node_id = node_id
        self.in_sync = in_sync
        self.partition_epoch = partition_epoch
        self.wanted: tuple[int, ...] | None = None  # asked of the controller and not answered yet
        # A new leader gives everyone the whole time to be heard of before it calls him behind.
        self.followers = {
            replica: FollowerProgress(caught_up_ms=now_ms if replica in in_sync else UNKNOWN)
            for replica in replicas
            if replica != node_id
        }

    @property
    def counted(self) -> tuple[int, ...]:
        """Who counts for the watermark: the set, and whoever the controller may just be adding."""
        if self.wanted is None:
            return self.in_sync
        return (*self.in_sync, *(replica for replica in self.wanted if replica not in self.in_sync))

    def safe_end(self, own_safe_end: int) -> int:
        """Up to where everyone who counts has it; -1 while one of them has not been heard of."""
        others = [self.followers[replica].safe_end for replica in self.counted if replica != self.node_id]
        return min([own_safe_end, *others])

    def change_due(
        self,
        leader_end: int,
        high_watermark: int,
        epoch_start: int,
        now_ms: int,
        lag_time_max_ms: int,
        able: frozenset[int],
    ) -> tuple[int, ...] | None:
        """The set to ask the controller for; None when it is right as it is or a change is under way.

        `able` are the nodes that may join: alive, not fenced, not shutting down (KIP-841).
        """
        if self.wanted is not None:
            return None
        stays = tuple(
            replica
            for replica in self.in_sync
            if replica == self.node_id or not self.followers[replica].is_behind(leader_end, now_ms, lag_time_max_ms)
        )
        joins = tuple(
            replica
            for replica, follower in self.followers.items()
            # It must have all that is safe, and all that this leader began with: else the set would not protect it.
            if replica not in self.in_sync and replica in able and follower.safe_end >= max(high_watermark, epoch_start)
        )
        due = (*stays, *joins)
        return due if due != self.in_sync else None

    def asked(self, wanted: tuple[int, ...]) -> None:
        """The controller has been asked for this set."""
        self.wanted = wanted

    def decided(self, in_sync: tuple[int, ...], partition_epoch: int) -> bool:
        """The controller says what the set is. False for news that is older than what is known."""
        if partition_epoch < self.partition_epoch:
            return False
        self.in_sync, self.partition_epoch, self.wanted = in_sync, partition_epoch, None
        return True

    def refused(self) -> None:
        """The controller did not take it; a fresh look decides whether to ask again."""
        self.wanted = None
