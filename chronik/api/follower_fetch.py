"""Fetch (1) as followers send it: what a leader remembers of each of them, and how it answers.

A follower names its partitions once and then those that moved; its session knows which of them have something new to
tell (`_news`), so a round costs what happened in it, however many partitions lie idle. Naming an offset is the
follower's word that it has everything below. It is answered at once when there are records (synced here or not), a
watermark or a log start that it has not been sent, or an error; else it waits. When it has more to say meanwhile, its
next request comes before the last is answered: that one then gets its empty answer. Records of a throttled partition
that is not in sync there are held back while the throttle's rate is exceeded (`_held_back`); all else is sent.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from chronik.api.call import Call
from chronik.api.context import Caller, RequestContext
from chronik.api.leaders import LEADER_CHANGED, current_leader, endpoints_of
from chronik.api.topic_ids import topic_name
from chronik.core.errors import Code, Corrupt, Refused
from chronik.core.fetch_sessions import FINAL_EPOCH, INITIAL_EPOCH, NO_SESSION, Key
from chronik.core.log.horizon import NOTHING_GONE
from chronik.core.log.segment import Slice
from chronik.core.ports import Outgoing, Unread
from chronik.core.replica.divergence import Diverging, diverging
from chronik.core.replica.in_sync import ANY_EPOCH
from chronik.core.replica.replica import Replica
from chronik.core.replica.throttle import room_for_follower
from chronik.trace.metrics import LEADER
from chronik.wire import fetch as wire
from chronik.wire.fetch import EpochEnd, FetchAnswer, FetchPartition, FetchRequest
from chronik.wire.versions import FETCH

SESSION_IDS = 2**31 - 1


def begin(call: Call, request: FetchRequest, context: RequestContext) -> Callable[[], None] | None:
    """Answer a follower, now or when there is something new. Returns what to call if it is gone before that."""
    session = _objection(request, call.caller, context) or _session(request, context)
    if isinstance(session, Code):
        context.metrics.refused(FETCH, session)
        call.answer(wire.encode(call.header.version, call.header.correlation_id, session, NO_SESSION, []))
        return None
    if session.session_id == NO_SESSION:
        session.asked(call, request._replace(max_wait_ms=0))
        session.close()
        return None
    return session.asked(call, request)


def _objection(request: FetchRequest, caller: Caller, context: RequestContext) -> Code:
    """Why this is not a fetch of the node that it names; NONE when nothing speaks against it.

    What a follower has counts only under the registration that this node knows of (KIP-903). One that has not
    registered in this life yet may read, and does not count. Only authentication can tell more.
    """
    if caller.node_id != request.replica_id:
        return Code.CLUSTER_AUTHORIZATION_FAILED
    broker = context.metadata.image.brokers.get(request.replica_id)
    if broker is None or request.replica_epoch not in (broker.epoch, ANY_EPOCH):
        return Code.STALE_BROKER_EPOCH  # or of one that this node has not heard of yet: it asks again
    return Code.NONE


def _session(request: FetchRequest, context: RequestContext) -> FollowerSession | Code:
    followers = context.fetching.sessions.followers
    known = followers.get(request.replica_id)
    if request.session_epoch in (INITIAL_EPOCH, FINAL_EPOCH):
        # A follower has one stream to each leader: whatever was before this is over.
        if isinstance(known, FollowerSession):
            known.close()
            del followers[request.replica_id]
        if request.session_epoch == FINAL_EPOCH:
            return FollowerSession(NO_SESSION, request.replica_id, context)
        session = FollowerSession(1 + context.chance.below(SESSION_IDS), request.replica_id, context)
        followers[request.replica_id] = session
        return session
    if not isinstance(known, FollowerSession) or known.session_id != request.session_id:
        return Code.FETCH_SESSION_ID_NOT_FOUND
    return known if known.advance(request.session_epoch) else Code.INVALID_FETCH_SESSION_EPOCH


class _Entry:
    """A partition of a follower."""

    __slots__ = ("asked", "is_out", "replica", "sent_bounds")

    def __init__(self, asked: FetchPartition) -> None:
        self.asked = asked
        self.replica: Replica | None = None  # the one that is watched for it
        self.sent_bounds: tuple[int, int] | None = None  # watermark and log start of the last answer
        self.is_out = False  # it was given records, and has not said since how far it is


class _Part(NamedTuple):
    """What one partition gives."""

    key: Key
    code: Code
    replica: Replica | None
    given: Slice | Diverging | None


class _Parked(NamedTuple):
    call: Call
    request: FetchRequest


class FollowerSession:
    """What a leader remembers of one follower."""

    def __init__(self, session_id: int, follower_id: int, context: RequestContext) -> None:
        self.session_id = session_id
        self._follower_id = follower_id
        self._broker_epoch = -1
        self._context = context
        self._epoch = 1  # the one the next request must carry
        self._entries: dict[Key, _Entry] = {}
        self._keys: dict[Replica, Key] = {}
        self._news: dict[Key, None] = {}  # partitions that may have something to tell
        self._held_back: dict[Key, None] = {}  # throttled ones whose records have to wait
        self._throttle_timer: object | None = None  # set while there are any
        self._parked: _Parked | None = None
        self._deadline: object | None = None
        self._is_look_due = False

    def advance(self, epoch: int) -> bool:
        if epoch != self._epoch:
            return False
        self._epoch = 1 if epoch == SESSION_IDS else epoch + 1
        return True

    def asked(self, call: Call, request: FetchRequest) -> Callable[[], None] | None:
        if self._parked is not None:
            self._answer([])  # the follower did not want to wait for it
        self._broker_epoch = request.replica_epoch
        for key in request.forgotten:
            self._forget(key)
        for asked in request.partitions:
            key = (asked.topic, asked.partition)
            entry = self._entries.get(key)
            if entry is None:
                entry = self._entries[key] = _Entry(asked)
            before = entry.asked
            if asked.leader_epoch != before.leader_epoch or asked.fetch_offset <= before.fetch_offset:
                # It cut off its end, or began anew, and did not take the watermark. Or it is where it was: an answer
                # that it passed over, since this request crossed it, may have had a watermark that is not known there.
                entry.sent_bounds = None
            entry.asked, entry.is_out = asked, False
            self._news.pop(key, None)
            self._news[key] = None
        self._parked = parked = _Parked(call, request)
        for asked in request.partitions:  # all of them first: the answer then has the watermarks that follow
            self._note((asked.topic, asked.partition))
        if self._parked is parked:
            self._look(is_first=True)
        return lambda: self._abandoned(parked)

    def _abandoned(self, parked: _Parked) -> None:
        """The follower hung up."""
        if self._parked is parked:
            self._unpark()

    def close(self) -> None:
        """Forget it all."""
        if self._parked is not None:
            self._answer([])
        for key in list(self._entries):
            self._forget(key)
        if self._throttle_timer is not None:
            self._context.waiting.cancel(self._throttle_timer)
            self._throttle_timer = None

    def _forget(self, key: Key) -> None:
        self._news.pop(key, None)
        self._held_back.pop(key, None)
        entry = self._entries.pop(key, None)
        if entry is not None and entry.replica is not None:
            self._keys.pop(entry.replica, None)
            self._context.waiting.unwatch(entry.replica, self)

    # --- what happens meanwhile

    def changed(self, replica: Replica) -> None:
        """As a watcher: there is more in the log, or its watermark, start or leader is another."""
        key = self._keys.get(replica)
        if key is None:
            return
        self._news[key] = None
        if self._parked is not None and not self._is_look_due:
            # Whatever else happens in this turn goes into the same answer.
            self._is_look_due = True
            self._context.waiting.after_ms(0, self._look_again)

    def _look_again(self) -> None:
        self._is_look_due = False
        if self._parked is not None:
            self._look()

    def _hold_back(self, key: Key, now_ms: int) -> None:
        """Its records wait until the throttle may let them go. What else there is to say of it is sent."""
        self._held_back[key] = None
        self._context.metrics.throttled_waits[LEADER] += 1
        if self._throttle_timer is None:
            delay_ms = self._context.fetching.leader_throttle.look_again_ms(now_ms)
            self._throttle_timer = self._context.waiting.after_ms(delay_ms, self._let_go_on)

    def _let_go_on(self) -> None:
        self._throttle_timer = None
        self._news = {**self._held_back, **self._news}  # they have waited longest
        self._held_back.clear()
        if self._parked is not None:
            self._look()

    # --- answering

    def _look(self, *, is_first: bool = False) -> None:
        """Answer if there is anything to tell; else wait, if that has not begun yet."""
        parked = self._parked
        assert parked is not None  # only then is there a request to answer
        try:
            parts = self._plan(parked.request)
        except Exception:
            self._unpark()
            parked.call.answer(None)
            raise
        if parts or parked.request.max_wait_ms <= 0:
            self._read(parts)
        elif is_first:
            self._deadline = self._context.waiting.after_ms(
                parked.request.max_wait_ms, lambda: self._time_is_up(parked)
            )

    def _time_is_up(self, parked: _Parked) -> None:
        if self._parked is parked:
            self._answer([])

    def _unpark(self) -> _Parked:
        parked, self._parked = self._parked, None
        assert parked is not None
        if self._deadline is not None:
            self._context.waiting.cancel(self._deadline)
            self._deadline = None
        return parked

    def _replica(self, key: Key, entry: _Entry) -> Replica:
        """The replica that is fetched from, if it leads here and this is one of its followers. Raises Refused."""
        topic, partition = key
        image = self._context.metadata.image
        replica = self._context.replicas.leader(topic_name(image, topic), partition)
        if entry.asked.leader_epoch < 0:
            raise Refused(Code.UNKNOWN_LEADER_EPOCH, "a follower knows its leader's epoch")
        replica.check_epoch(entry.asked.leader_epoch)
        if replica.in_sync is None or self._follower_id not in replica.in_sync.followers:
            # It is one in metadata that this node has not seen yet, or was one in metadata it has not seen.
            raise Refused(Code.UNKNOWN_LEADER_EPOCH, f"node {self._follower_id} is no replica of it")
        if replica is not entry.replica:
            if entry.replica is not None:
                self._keys.pop(entry.replica, None)
                self._context.waiting.unwatch(entry.replica, self)
            entry.replica = replica
            self._keys[replica] = key
            self._context.waiting.watch(replica, self)
        return replica

    def _note(self, key: Key) -> None:
        """Take the follower's word for how far it is, if its log is no other than this one."""
        entry = self._entries[key]
        asked = entry.asked
        try:
            replica = self._replica(key, entry)
            parting = diverging(replica.log, asked.fetch_offset, asked.last_fetched_epoch)
        except Refused:
            return  # it is sent when its answer is planned
        if self._broker_epoch == ANY_EPOCH:
            return
        if 0 <= asked.log_start_offset <= replica.log.end_offset:
            self._context.replicas.follower_starts_at(replica, self._follower_id, asked.log_start_offset)
        if parting is None:
            self._context.replicas.follower_fetched(replica, self._follower_id, asked.fetch_offset, self._broker_epoch)

    def _plan(self, request: FetchRequest) -> list[_Part]:
        """What an answer would hold now."""
        parts: list[_Part] = []
        room = min(request.max_bytes, self._context.fetching.config.fetch_max_bytes)
        is_first = True
        for key in list(self._news):
            entry = self._entries[key]
            given: Slice | Diverging | None = None
            replica: Replica | None = None
            code = Code.NONE
            try:
                replica = self._replica(key, entry)
                has_more = not entry.is_out and entry.asked.fetch_offset < replica.log.end_offset
                if has_more and room <= 0 and not is_first:
                    continue  # first thing in the next answer
                if not entry.is_out:
                    given, is_held_back = self._given(key, entry, replica, room, is_first=is_first)
                    if given is None and has_more and not is_first and not is_held_back:
                        continue  # its next batch is larger than the room that is left
            except Refused as refusal:
                code = refusal.code
            except (Corrupt, OSError) as problem:
                assert replica is not None  # finding it raises neither
                code = self._context.replicas.read_failed(replica, problem)
            if isinstance(given, Slice):
                room -= given.length
                is_first = False
            # To one that is still busy with what it was given, a watermark is sent when it says how far it is.
            if given is not None or code or (not entry.is_out and self._is_news(entry, replica)):
                parts.append(_Part(key, code, replica, given))
            else:
                del self._news[key]
        return parts

    def _given(
        self, key: Key, entry: _Entry, replica: Replica, room: int, *, is_first: bool
    ) -> tuple[Slice | Diverging | None, bool]:
        """What a partition gives to an answer with this much room, and whether a throttle holds its records back."""
        asked, throttle = entry.asked, self._context.fetching.leader_throttle
        position, room = (asked.fetch_offset, asked.last_fetched_epoch), min(asked.max_bytes, room)
        if not throttle.covers(replica):
            return replica.read_for_follower(*position, room, at_least_one=is_first), False
        now_ms = self._context.clock.monotonic_ms()
        allowed = room_for_follower(throttle, replica, self._follower_id, now_ms)
        if allowed < 0:
            given = replica.read_for_follower(*position, 0, at_least_one=False)  # it may have to cut off its end
            is_held_back = given is None and asked.fetch_offset < replica.log.end_offset
            if is_held_back:
                self._hold_back(key, now_ms)
            return given, is_held_back
        given = replica.read_for_follower(*position, min(room, allowed), at_least_one=is_first)
        if isinstance(given, Slice):  # counted for those in sync too, as in Kafka: they use up what there is
            throttle.record(given.length, now_ms)
            self._context.metrics.throttled_bytes[LEADER] += given.length
        return given, False

    def _is_news(self, entry: _Entry, replica: Replica | None) -> bool:
        return replica is not None and entry.sent_bounds != (replica.high_watermark, replica.log.start_offset)

    def _read(self, parts: list[_Part]) -> None:
        contents: list[Outgoing | Unread | None] = [
            self._context.replicas.read_cached(part.given) if isinstance(part.given, Slice) else b"" for part in parts
        ]
        for part in parts:
            self._news.pop(part.key, None)
            entry = self._entries[part.key]
            entry.is_out = isinstance(part.given, Slice)
        if None in contents:
            self._context.start(self._read_cold(self._unpark(), parts, contents))
        else:
            self._answer([self._part(*pair) for pair in zip(parts, contents, strict=True)])

    async def _read_cold(self, parked: _Parked, parts: list[_Part], contents: list[Outgoing | Unread | None]) -> None:
        """Some of it is not in memory: wait for the disk without holding up anyone else."""
        try:
            for index, part in enumerate(parts):
                if contents[index] is None and isinstance(part.given, Slice):
                    contents[index] = await self._context.replicas.wait_for_read(part.given)
            answers = [self._part(*pair) for pair in zip(parts, contents, strict=True)]
        except Exception:
            parked.call.answer(None)
            raise
        self._send(parked, answers)

    def _answer(self, answers: list[FetchAnswer]) -> None:
        self._send(self._unpark(), answers)

    def _send(self, parked: _Parked, answers: list[FetchAnswer]) -> None:
        header = parked.call.header
        leaders = [answer.leader for answer in answers if answer.leader is not None]
        nodes = endpoints_of(self._context.metadata.image, leaders, parked.call.caller.listener)
        parked.call.answer(wire.encode(header.version, header.correlation_id, 0, self.session_id, answers, nodes))

    def _part(self, part: _Part, content: Outgoing | Unread | None) -> FetchAnswer:
        (topic, partition), code, replica, given = part
        records: Outgoing = b"" if content is None or isinstance(content, Unread) else content
        entry = self._entries.get(part.key)
        if replica is not None and isinstance(given, Slice):
            code = self._context.replicas.check_read(replica, given, content or b"")
        if code:
            self._context.metrics.refused(FETCH, code)
            if entry is not None:
                entry.sent_bounds, entry.is_out = None, False
            start_offset = -1 if replica is None else replica.log.start_offset
            leader = current_leader(self._context.metadata.image, topic, partition) if code in LEADER_CHANGED else None
            return FetchAnswer(topic, partition, code, -1, -1, start_offset, leader=leader)
        assert replica is not None  # or there would be a code
        bounds = (replica.high_watermark, replica.log.start_offset)
        if entry is not None:
            entry.sent_bounds = bounds
            if entry.is_out and not records:  # compacted while it was being read: looked at again
                entry.is_out = False
                self._news[part.key] = None
        parting = EpochEnd(*given) if isinstance(given, Diverging) else None
        horizon = replica.log.horizon.offset if records else NOTHING_GONE
        return FetchAnswer(
            *(topic, partition, 0, bounds[0], bounds[0], bounds[1], records),
            diverging=parting,
            tombstone_horizon=horizon,
        )
