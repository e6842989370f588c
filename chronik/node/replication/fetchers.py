"""Replication to this node (Kafka's ReplicaFetcherThread): one ordered stream of fetches to each leader.

A fetch names only the partitions that moved since the last one; the leader remembers the others (KIP-227), and answers
as soon as it has records or a watermark for any of them. What it gives is appended and synced before the next fetch
says so, by naming the new offset: so the offset a follower asks from is what it has safely. Two fetches may be under
way when there is news for the leader: the second makes it answer the first at once. A throttled partition that is not
in sync is not named while the throttle's rate is exceeded, so the leader gives nothing for it.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from typing import NamedTuple, TypeAlias

from chronik.core.config.sections.replication import ReplicationConfig
from chronik.core.errors import Code
from chronik.core.machines.metadata.names import METADATA_TOPIC
from chronik.core.ports import Clock
from chronik.core.replica.divergence import Diverging
from chronik.core.replica.follower import Append, AskAgain, BeginAnew, LeaderAnswer, Truncation, position_of, step
from chronik.core.replica.replica import NO_LEADER, Replica
from chronik.core.replica.throttle import Throttle, room_to_follow
from chronik.node.net.peers import Peers, Unreachable
from chronik.node.replication.replicas import Replicas
from chronik.node.replication.stored_starts import StoredStarts
from chronik.node.runtime.deadlines import Deadlines
from chronik.trace.metrics import FOLLOWER, Metrics
from chronik.wire import follower_fetch as wire
from chronik.wire.errors import Malformed
from chronik.wire.fetch import FetchPartition, FetchRequest
from chronik.wire.follower_fetch import FetchedPartition

log = logging.getLogger(__name__)

Key: TypeAlias = tuple[bytes, int]  # topic id and partition

PURPOSE = "replicas"
NO_SESSION = 0
FIRST_EPOCH = 0
LAST_EPOCH = 2**31 - 1
ANSWER_MS = 10_000  # beyond what the leader may wait by itself
SOON_MS = 50  # the leader has not heard of it, or this node has not
LATER_MS = 1_000  # something is wrong with the leader's copy, or with this one
# After these a short while is enough: the metadata is on its way to one of the two.
SOON = (
    Code.UNKNOWN_LEADER_EPOCH,
    Code.FENCED_LEADER_EPOCH,
    Code.NOT_LEADER_OR_FOLLOWER,
    Code.UNKNOWN_TOPIC_ID,
    Code.UNKNOWN_TOPIC_OR_PARTITION,
)


class Fetchers:
    """The streams of this node."""

    def __init__(
        self,
        peers: Peers,
        replicas: Replicas,
        deadlines: Deadlines,
        clock: Clock,
        metrics: Metrics,
        config: ReplicationConfig,
        *,
        node_id: int,
        broker_epoch: Callable[[], int],
        throttle: Throttle,
    ) -> None:
        self.peers = peers
        self.replicas = replicas
        self.deadlines = deadlines
        self.clock = clock
        self.metrics = metrics
        self.config = config
        self.node_id = node_id
        self.broker_epoch = broker_epoch
        self.throttle = throttle
        self._streams: dict[int, _Stream] = {}  # by the node that leads
        self._stream_of: dict[Replica, _Stream] = {}
        self._is_started = False
        self.starts = StoredStarts(replicas, self.start_moved)

    def start(self) -> None:
        self._is_started = True
        for replica in self.replicas.held():
            self.role_changed(replica)

    async def stop(self) -> None:
        self._is_started = False
        streams, self._streams = list(self._streams.values()), {}
        self._stream_of.clear()
        for stream in streams:
            stream.close()
        await asyncio.gather(*(stream.task for stream in streams), return_exceptions=True)
        await self.starts.stop()

    def start_moved(self, replica: Replica) -> None:
        """Its leader may wait to hear of it."""
        stream = self._stream_of.get(replica)
        if stream is not None:
            stream.join_again(replica)

    def role_changed(self, replica: Replica) -> None:
        """It leads or follows anew, is offline or gone: fetch from its present leader, if there is one."""
        if not self._is_started or replica.topic == METADATA_TOPIC:  # that one is the quorum's
            return
        before = self._stream_of.pop(replica, None)
        if before is not None:
            before.leave(replica)
        if replica.is_leader or replica.leader_id == NO_LEADER or replica.offline is not None:
            return
        stream = self._streams.get(replica.leader_id)
        if stream is None:
            stream = self._streams[replica.leader_id] = _Stream(self, replica.leader_id)
        self._stream_of[replica] = stream
        stream.join(replica)


class _Asked(NamedTuple):
    """A partition as the leader's session has it."""

    fetch_offset: int
    leader_epoch: int
    request: int  # the one that said so: answers to earlier ones are of another time, perhaps of another log


class _Stream:
    """The fetches to one node, one after the other."""

    def __init__(self, fetchers: Fetchers, leader_id: int) -> None:
        self._all = fetchers
        self._leader_id = leader_id
        self._link = fetchers.peers.link(leader_id, PURPOSE)
        self._followed: dict[Key, Replica] = {}
        self._in_session: dict[Key, _Asked] = {}
        self._to_name: dict[Key, None] = {}  # new, or further than the leader knows
        self._to_forget: dict[Key, None] = {}
        self._held_back: dict[Key, None] = {}  # throttled: named when the rate allows
        self._caught_up: set[Key] = set()  # has all below the watermark, by the leader's last word
        self._unsynced: dict[Key, Replica] = {}  # appended, and not safe yet
        self._session_id = NO_SESSION
        self._epoch = FIRST_EPOCH
        self._broker_epoch = fetchers.broker_epoch()  # that the session began under
        self._asked_total = 0
        self._under_way: deque[tuple[int, asyncio.Future[memoryview]]] = deque()
        self._is_paused = False
        self._is_closed = False
        self._is_silent = False  # the last thing heard was that it cannot be reached
        self._wake = asyncio.Event()
        self.task = asyncio.get_running_loop().create_task(self._run(), name=f"fetch-from-{leader_id}")
        self.task.add_done_callback(self._ended)

    # --- who is followed

    def join(self, replica: Replica) -> None:
        key = (replica.topic_id, replica.partition)
        self._followed[key] = replica
        self._to_forget.pop(key, None)
        if replica.durable_end_offset < replica.log.end_offset:
            self._wait_for_sync(key, replica)
        else:
            self._to_name[key] = None
        self._wake.set()

    def leave(self, replica: Replica) -> None:
        key = (replica.topic_id, replica.partition)
        self._followed.pop(key, None)
        self._to_name.pop(key, None)
        self._held_back.pop(key, None)
        self._caught_up.discard(key)
        self._stop_waiting(key)
        if self._in_session.pop(key, None) is not None:
            self._to_forget[key] = None
        self._wake.set()

    def close(self) -> None:
        self._is_closed = True
        for key in list(self._unsynced):
            self._stop_waiting(key)
        self.task.cancel()

    def _ended(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and task.exception() is not None:
            self._all.metrics.faults += 1
            log.error("fault in following node %d", self._leader_id, exc_info=task.exception())

    # --- what is safe here

    def _wait_for_sync(self, key: Key, replica: Replica) -> None:
        self._unsynced[key] = replica
        self._all.replicas.purgatory.watch(replica, self)
        self._all.replicas.sync_rounds.due(replica)

    def _stop_waiting(self, key: Key) -> None:
        replica = self._unsynced.pop(key, None)
        if replica is not None:
            self._all.replicas.purgatory.unwatch(replica, self)

    def changed(self, replica: Replica) -> None:
        """As a watcher: something happened to a replica whose sync is waited for."""
        if replica.durable_end_offset >= replica.log.end_offset:
            key = (replica.topic_id, replica.partition)
            self._stop_waiting(key)
            if self._followed.get(key) is replica:
                self._to_name[key] = None
            self._wake.set()

    # --- the stream

    async def _run(self) -> None:
        while not self._is_closed:
            if self._may_ask():
                self._ask()
            await self._wake.wait()
            self._wake.clear()
            while self._under_way and self._under_way[0][1].done():
                try:
                    self._answered(*self._under_way.popleft())
                except Exception:
                    self._all.metrics.faults += 1
                    log.exception("fault in what node %d gave", self._leader_id)
                    self._begin_session_anew()
                    self._pause(LATER_MS)

    def _may_ask(self) -> bool:
        if self._is_paused or self._unsynced or not self._followed:
            return False
        if not self._under_way:
            return True
        has_news = bool(self._to_name or self._to_forget)
        return has_news and len(self._under_way) == 1 and self._session_id != NO_SESSION

    def _ask(self) -> None:
        config, broker_epoch = self._all.config, self._all.broker_epoch()
        if broker_epoch != self._broker_epoch:
            # The leader lets no follower join that fetched under another registration (KIP-903), and an idle partition
            # is named only when a session begins.
            self._begin_session_anew()
            self._broker_epoch = broker_epoch
            if self._unsynced:
                return
        self._asked_total += 1
        partitions: list[FetchPartition] = []
        for key, max_bytes in self._named_now():
            replica = self._followed[key]
            fetch_offset, last_epoch = position_of(replica.log)
            self._in_session[key] = _Asked(fetch_offset, replica.leader_epoch, self._asked_total)
            partitions.append(
                FetchPartition(
                    *key,
                    fetch_offset,
                    max_bytes,
                    replica.leader_epoch,
                    last_epoch,
                    self._all.starts.of(replica),
                )
            )
        request = FetchRequest(
            replica_id=self._all.node_id,
            max_wait_ms=config.replica_fetch_wait_max_ms,
            min_bytes=1,
            max_bytes=config.replica_fetch_response_max_bytes,
            isolation_level=0,
            session_id=self._session_id,
            session_epoch=self._epoch,
            partitions=partitions,
            forgotten=list(self._to_forget) if self._epoch else [],
            replica_epoch=broker_epoch,
        )
        self._to_name.clear()
        self._to_forget.clear()
        frame = wire.encode(0, f"chronik-{self._all.node_id}", request)
        answer = self._link.ask_frame((frame,), timeout_ms=config.replica_fetch_wait_max_ms + ANSWER_MS)
        if self._epoch == FIRST_EPOCH:
            self._epoch = 1
        else:
            self._epoch = 1 if self._epoch == LAST_EPOCH else self._epoch + 1
        self._under_way.append((self._asked_total, answer))
        answer.add_done_callback(lambda _: self._wake.set())

    def _named_now(self) -> list[tuple[Key, int]]:
        """The partitions to name, and how many bytes to ask of each. Others are held back."""
        throttle, max_bytes = self._all.throttle, self._all.config.replica_fetch_max_bytes
        named: list[tuple[Key, int]] = []
        asked_bytes, now_ms = 0, -1
        for key in self._to_name:
            replica = self._followed[key]
            if not throttle.covers(replica):
                named.append((key, max_bytes))
                continue
            now_ms = self._all.clock.monotonic_ms() if now_ms < 0 else now_ms
            is_in_sync = key in self._caught_up or self._is_in_sync(replica)
            room = room_to_follow(throttle, replica, is_in_sync=is_in_sync, now_ms=now_ms) - asked_bytes
            if room < 0 or (room == 0 and asked_bytes):
                self._hold_back(key, now_ms)
                continue
            named.append((key, min(max_bytes, max(room, 1))))
            asked_bytes += 0 if is_in_sync else named[-1][1]
        return named

    def _is_in_sync(self, replica: Replica) -> bool:
        placed = self._all.replicas.partitions.placed(replica)
        return placed is not None and self._all.node_id in placed.in_sync

    def _hold_back(self, key: Key, now_ms: int) -> None:
        self._all.metrics.throttled_waits[FOLLOWER] += 1
        if not self._held_back:
            self._all.deadlines.after_ms(self._all.throttle.look_again_ms(now_ms), self._let_go_on)
        self._held_back[key] = None

    def _let_go_on(self) -> None:
        due = {key: None for key in self._held_back if key not in self._unsynced}
        self._to_name = {**due, **self._to_name}  # they have waited longest
        self._held_back.clear()
        self._wake.set()

    def _answered(self, request: int, answer: asyncio.Future[memoryview]) -> None:
        try:
            fetched = wire.parse(answer.result())
        except asyncio.CancelledError:
            raise
        except Unreachable as problem:
            if not self._is_silent:
                log.info("node %d is not followed: %s", self._leader_id, problem)
            self._is_silent = True
            self._begin_session_anew()
            return
        except Malformed as problem:
            log.warning("node %d gave an answer that is none: %s", self._leader_id, problem)
            self._begin_session_anew()
            self._pause(LATER_MS)
            return
        if self._is_silent:
            self._is_silent = False
            log.info("node %d is followed again", self._leader_id)
        if fetched.error:
            self._begin_session_anew()
            if fetched.error is not Code.FETCH_SESSION_ID_NOT_FOUND:
                self._pause(SOON_MS)
            return
        if self._session_id == NO_SESSION:
            self._session_id = fetched.session_id
        self._take(request, fetched.partitions)
        if self._session_id == NO_SESSION:  # it keeps none for us: everything is named every time
            self._begin_session_anew()

    def _begin_session_anew(self) -> None:
        for _, answer in self._under_way:
            answer.cancel()
        self._under_way.clear()
        self._session_id, self._epoch = NO_SESSION, FIRST_EPOCH
        self._in_session.clear()
        self._to_forget.clear()
        self._to_name.clear()
        self._held_back.clear()
        for key, replica in list(self._followed.items()):
            if key not in self._unsynced:
                # Of what is left out for a while some may not be synced: the disk became full between two batches.
                self.join(replica)

    def _pause(self, pause_ms: int) -> None:
        self._is_paused = True
        self._all.deadlines.after_ms(pause_ms, self._go_on)

    def _go_on(self) -> None:
        self._is_paused = False
        self._wake.set()

    # --- what the leader gives

    def _take(self, request: int, parts: list[FetchedPartition]) -> None:
        cuts: list[tuple[Replica, int, bool]] = []
        for part in parts:
            key = (part.topic_id, part.partition)
            replica, asked = self._followed.get(key), self._in_session.get(key)
            if replica is None or asked is None or replica.offline is not None:
                continue
            if request < asked.request or asked[:2] != (replica.log.end_offset, replica.leader_epoch):
                continue  # it has another leader or another end since, and is named anew with that
            diverging = Diverging(*part.diverging) if part.diverging is not None else None
            from_leader = LeaderAnswer(
                part.error, part.log_start_offset, diverging, part.records, part.tombstone_horizon
            )
            match step(replica.log, from_leader):
                case Append():
                    self._append(key, replica, part)
                case Truncation(offset, is_reset):
                    cuts.append((replica, offset, is_reset))
                case BeginAnew(offset):
                    if self._all.replicas.may_begin_anew(replica, part.tombstone_horizon):
                        cuts.append((replica, offset, True))
                case AskAgain(code):
                    self._delay(key, SOON_MS if code in SOON else LATER_MS)
                case _:
                    start_before = replica.log.start_offset
                    self._take_bounds(key, replica, part)
                    if replica.log.start_offset != start_before:
                        self.join_again(replica)  # a DeleteRecords may wait until records are gone here too
        has_cut = not cuts or self._all.replicas.cut(cuts)
        for replica, _, _ in cuts:
            if has_cut:
                self.join_again(replica)
            else:
                self._delay((replica.topic_id, replica.partition), LATER_MS)

    def _append(self, key: Key, replica: Replica, part: FetchedPartition) -> None:
        if not self._all.replicas.append_as_follower(replica, part.records, part.tombstone_horizon):
            self._delay(key, LATER_MS)
            return
        throttle = self._all.throttle
        if throttle.covers(replica):
            throttle.record(len(part.records), self._all.clock.monotonic_ms())
            self._all.metrics.throttled_bytes[FOLLOWER] += len(part.records)
        self._take_bounds(key, replica, part)
        self.join_again(replica)

    def _take_bounds(self, key: Key, replica: Replica, part: FetchedPartition) -> None:
        self._all.replicas.apply_leader_watermark(replica, part.high_watermark, part.log_start_offset)
        if part.high_watermark <= replica.log.end_offset:
            self._caught_up.add(key)
        else:
            self._caught_up.discard(key)

    def join_again(self, replica: Replica) -> None:
        """Its log ends elsewhere now: name it in the next fetch, when that is safe."""
        if replica.offline is None:
            self.join(replica)

    def _delay(self, key: Key, delay_ms: int) -> None:
        """Leave it out for a while."""
        self._to_name.pop(key, None)
        if self._in_session.pop(key, None) is not None:
            self._to_forget[key] = None
        self._all.deadlines.after_ms(delay_ms, lambda: self._name_again(key))

    def _name_again(self, key: Key) -> None:
        replica = self._followed.get(key)
        if replica is not None and key not in self._in_session and key not in self._unsynced:
            self.join(replica)
