"""What must hold between the copies of a partition on different nodes, at any moment, whatever is under way.

- One node leads in a leader epoch.
- A node's watermark never goes back while its process lives, and lies within its log.
- The watermark of a leader has not passed any replica that is in sync: each has all below it, safely.
- A replica that the metadata counts as eligible to lead (KIP-966), or as the last in sync while there is no leader,
  has all that is below the watermark: it may be elected at any moment, and nothing safe may be lost then.
- What is below any node's watermark is the same wherever it is below the watermark, for ever.
- What two nodes wrote in the same leader epoch at the same offset is the same, safe or not (Raft's log matching).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from chronik.core.records.batch import BatchHeader
from chronik.sim.story import WorldStory

Key = tuple[bytes, int]  # topic id and partition: a name may be used again


class CopySight(NamedTuple):
    """What a look at one node's copy showed."""

    start_offset: int
    watermark: int
    durable_end_offset: int  # synced, or with `durability = "os"` written
    end_offset: int
    leader_epoch: int
    is_leader: bool
    counted: tuple[int, ...]  # who has to have a record before this leader calls it safe


class SafeBatch(NamedTuple):
    """A batch that nothing may change any more."""

    next_offset: int
    crc: int
    leader_epoch: int


class Copies:
    """It is given what is seen of each copy when it changes. Each method that finds a broken promise raises
    Violation."""

    def __init__(self, story: WorldStory) -> None:
        self._story = story
        self._seen: dict[Key, dict[int, CopySight]] = {}  # by partition and node, of the processes that live
        self._leaders: dict[tuple[Key, int], int] = {}  # by leader epoch, for ever
        self._safe: dict[Key, dict[int, SafeBatch]] = {}  # by base offset, for ever
        self._durable_end_offset: dict[Key, int] = {}
        self._watermarks: dict[Key, int] = {}  # the highest that any node had, for ever
        self._excused: dict[tuple[Key, int], bool] = {}  # copies that went with their disk and have not caught up yet
        self._eligible: dict[Key, tuple[int, ...]] = {}  # as the newest image has it
        self._dropped: set[tuple[Key, int]] = set()
        self._written: dict[tuple[Key, int, int], tuple[int, int]] = {}  # crc and node by epoch and base offset

    def last_seen(self, key: Key, node_id: int) -> CopySight | None:
        return self._seen.get(key, {}).get(node_id)

    def of(self, key: Key) -> dict[int, CopySight]:
        """What the nodes that live have of a partition."""
        return self._seen.get(key, {})

    def partitions(self) -> Iterable[dict[int, CopySight]]:
        """The same of every partition."""
        return self._seen.values()

    def process_ended(self, node_id: int) -> None:
        """The next process of this node begins with what is on its disk."""
        for sights in self._seen.values():
            sights.pop(node_id, None)

    def begins_anew(self, key: Key, node_id: int, *, is_let_go: bool = False) -> None:
        """This copy knows nothing any more. If it was let go before, a leader that counts it has not heard of that yet,
        and calls nothing more safe by it: it is not looked at as in sync until it has caught up."""
        self._seen.get(key, {}).pop(node_id, None)
        if is_let_go:
            self._excused[key, node_id] = True

    def dropped(self, key: Key, node_id: int) -> None:
        """The metadata took this copy from its node. One that it has later begins anew, in a later leader epoch."""
        self._seen.get(key, {}).pop(node_id, None)
        self._dropped.add((key, node_id))

    def lost_disk(self, node_id: int) -> None:
        """It begins anew with nothing. A node that still counts it as in sync has not heard of it, and must ask it
        nothing that it does not have: so it is not looked at as such until it has caught up."""
        self._excused.update({(key, node_id): True for key in self._seen})

    def saw(self, node_id: int, name: str, key: Key, sight: CopySight, *, may_lose: bool = False) -> None:
        """A node's copy has changed. With `may_lose`, its leaders may be elected uncleanly: then what was below a
        watermark may be gone, and only that one node leads in an epoch is to be held."""
        who, sights = f"node{node_id}", self._seen.setdefault(key, {})
        before = sights.get(node_id)
        if before is not None and sight.watermark < before.watermark and not may_lose:
            raise self._story.break_promise(
                f"{who}: the watermark of {name} went back from {before.watermark} to {sight.watermark}"
            )
        is_in_order = (
            sight.start_offset <= sight.watermark <= sight.end_offset and sight.durable_end_offset <= sight.end_offset
        )
        if not is_in_order:
            raise self._story.break_promise(
                f"{who}: {name} starts at {sight.start_offset}, ends at {sight.end_offset},"
                f" is safe to {sight.watermark} and synced to {sight.durable_end_offset}"
            )
        if sight.is_leader:
            leader = self._leaders.setdefault((key, sight.leader_epoch), node_id)
            if leader != node_id:
                raise self._story.break_promise(
                    f"{name} is led by node{leader} and by {who} in leader epoch {sight.leader_epoch}"
                )
        sights[node_id] = sight
        if may_lose:
            return
        self._watermarks[key] = max(self._watermarks.get(key, 0), sight.watermark)
        if (key, node_id) in self._excused and sight.durable_end_offset >= self._watermarks[key]:
            del self._excused[key, node_id]
        self._check_in_sync(name, key, sights)
        if key in self._eligible:
            self._check_eligible(name, key)

    def may_lead(self, name: str, key: Key, node_ids: tuple[int, ...]) -> None:
        """The newest image counts on these: each may be the next leader without being in sync with one now."""
        self._eligible[key] = node_ids
        self._check_eligible(name, key)

    def _check_eligible(self, name: str, key: Key) -> None:
        watermark, sights = self._watermarks.get(key, 0), self._seen.get(key, {})
        for node_id in self._eligible.get(key, ()):
            sight = sights.get(node_id)
            if sight is not None and sight.durable_end_offset < watermark and (key, node_id) not in self._excused:
                raise self._story.break_promise(
                    f"node{node_id} is an eligible leader of {name} and has it safely to"
                    f" {sight.durable_end_offset} only, where the watermark was {watermark}"
                )

    def _check_in_sync(self, name: str, key: Key, sights: dict[int, CopySight]) -> None:
        # One that a later leader has taken over from, dead or cut off, does not hear who is counted now: a damaged copy
        # that the later one has let go begins anew with nothing.
        newest = max(sight.leader_epoch for sight in sights.values())
        for leader, led in sights.items():
            for follower in led.counted if led.is_leader and led.leader_epoch == newest else ():
                sight = sights.get(follower)
                if sight is None or sight.durable_end_offset >= led.watermark or (key, follower) in self._excused:
                    continue
                # A leader that has not heard that it is none any more counts on a copy that was taken away since.
                if not ((key, follower) in self._dropped and sight.leader_epoch > led.leader_epoch):
                    raise self._story.break_promise(
                        f"node{leader}: the watermark of {name} is {led.watermark}, and node{follower},"
                        f" which is in sync, has it safely to {sight.durable_end_offset} only"
                    )

    def safe_batch(self, node_id: int, name: str, key: Key, header: BatchHeader) -> None:
        """A node's watermark has passed this batch of its log."""
        found = SafeBatch(header.next_offset, header.crc, header.leader_epoch)
        known = self._safe.setdefault(key, {})
        end_offset = self._durable_end_offset.get(key, 0)
        if header.base_offset >= end_offset:
            known[header.base_offset] = found
            self._durable_end_offset[key] = header.next_offset
            return
        if known.get(header.base_offset, found) != found or header.base_offset not in known:
            raise self._story.break_promise(
                f"node{node_id}: {name} has {_described(found)} at {header.base_offset},"
                f" where {_described(known.get(header.base_offset))} is safe"
            )

    def batch(self, node_id: int, name: str, key: Key, header: BatchHeader) -> None:
        """A node has this batch, safe or not."""
        place = key, header.leader_epoch, header.base_offset
        crc, first = self._written.setdefault(place, (header.crc, node_id))
        if crc != header.crc:
            raise self._story.break_promise(
                f"{name} offset {header.base_offset}: node{first} and node{node_id} have different batches"
                f" of leader epoch {header.leader_epoch}"
            )


def _described(batch: SafeBatch | None) -> str:
    if batch is None:
        return "another batch"
    return f"a batch of leader epoch {batch.leader_epoch} up to {batch.next_offset} ({batch.crc:08x})"
