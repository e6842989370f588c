"""Fetch (1), versions 4-18. From 7 with incremental sessions (KIP-227), from 11 from followers too (KIP-392), from 13
by topic id. Followers' own fetches are answered by `follower_fetch`, those of the metadata log by `quorum_fetch`.

Three steps: *plan* which bytes of which files each partition gives, within the limits and in turn; *park* when that
is less than the client wants to wait for; *read* and answer. A waiting fetch is planned anew when a watermark of its
partitions moves. Records are whole batches exactly as they were produced; the first batch comes even when it is
larger than the limits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

from chronik.api import authorization, follower_fetch, quorum_fetch, throttling
from chronik.api.call import Call
from chronik.api.context import RequestContext
from chronik.api.leaders import LEADER_CHANGED, current_leader, endpoints_of
from chronik.api.quorum_topic import METADATA_TOPIC_ID
from chronik.api.refusals import trace_refusal
from chronik.api.topic_ids import topic_name
from chronik.core.access.operations import AclOperation, AclResourceType
from chronik.core.errors import Code, Corrupt, Refused
from chronik.core.fetch_sessions import FINAL_EPOCH, INITIAL_EPOCH, NO_SESSION, FetchSession, SessionPartition
from chronik.core.log.segment import Slice
from chronik.core.machines.metadata.names import METADATA_TOPIC
from chronik.core.ports import SENT_UNREAD_BYTES, FileSlice, Outgoing, Unread
from chronik.core.replica.replica import READ_COMMITTED, Replica
from chronik.wire import fetch as wire
from chronik.wire.fetch import FetchAnswer, FetchRequest
from chronik.wire.framing import RequestHeader
from chronik.wire.versions import FETCH

FOLLOWERS_FROM = 11  # consumers of this version know where else to go when a follower cannot help them
SESSION_IDS = 2**31 - 1
METADATA = (METADATA_TOPIC_ID, METADATA_TOPIC)
KEPT_BYTES = 1024 * 1024  # of records in one answer; the rest is read when it leaves
RACK_AWARE = ("org.apache.kafka.common.replica.RackAwareReplicaSelector",)


class Part(NamedTuple):
    """What one partition will give: an error, or a slice of its log, or nothing yet."""

    asked: SessionPartition
    code: Code
    replica: Replica | None
    slice: Slice | None
    preferred: int = -1  # the replica to read from instead
    reason: str | None = None  # for the code, if there was one
    aborted: list[tuple[int, int]] | None = None  # transactions: producer id and first offset; None: not asked for


class Plan(NamedTuple):
    """What an answer would hold now. `is_final`: waiting adds nothing, there is an error or more than fits already."""

    parts: list[Part]
    size_bytes: int
    is_final: bool


def start(call: Call, context: RequestContext) -> Callable[[], None] | None:
    """Answer with what there is, now or when there is enough. Returns what to call if the client is gone before."""
    header = call.header
    request = wire.parse(call.frame, header.body, header.version)
    call.release_frame()
    if request.replica_id >= 0 or request.cluster_id is not None:
        if any(asked.topic in METADATA for asked in request.partitions):
            return quorum_fetch.begin(call, request, context)
        if request.replica_id >= 0:
            return follower_fetch.begin(call, request, context)
    try:
        session, partitions = _partitions(request, header, context)
    except Refused as refusal:
        context.metrics.refused(FETCH, refusal.code)
        trace_refusal(context, "fetch", call.caller, refusal.code, refusal.message)
        call.answer(wire.encode(header.version, header.correlation_id, refusal.code, NO_SESSION, []))
        return None
    fetch = _Fetch(call, request, session, partitions, context)
    fetch.wake()
    return fetch.abandon


def _partitions(
    request: FetchRequest, header: RequestHeader, context: RequestContext
) -> tuple[FetchSession | None, Iterable[SessionPartition]]:
    """The partitions this request is about, those of its session included, the one to serve first in front."""
    now_ms = context.clock.monotonic_ms()
    has_ids = header.version >= wire.TOPIC_IDS_FROM
    session: FetchSession | None = None
    if request.session_epoch in (INITIAL_EPOCH, FINAL_EPOCH):
        if request.session_id != NO_SESSION:
            context.fetching.sessions.close(request.session_id)
        if request.session_epoch == INITIAL_EPOCH and request.partitions:
            session = context.fetching.sessions.create(1 + context.chance.below(SESSION_IDS), now_ms, has_ids=has_ids)
    else:
        session = context.fetching.sessions.resume(request.session_id, request.session_epoch, now_ms, has_ids=has_ids)
    if session is None:
        asked = [
            SessionPartition((p.topic, p.partition), p.fetch_offset, p.max_bytes, p.leader_epoch)
            for p in request.partitions
        ]
        # Correlation ids count up, so each request begins with another partition: none is starved by those before it.
        first = header.correlation_id % len(asked) if asked else 0
        return None, asked[first:] + asked[:first]
    for asked_of in request.partitions:
        session.put(
            (asked_of.topic, asked_of.partition), asked_of.fetch_offset, asked_of.max_bytes, asked_of.leader_epoch
        )
    for key in request.forgotten:
        session.forget(key)
    return session, session.partitions.values()


class _Fetch:
    """One fetch from plan to answer."""

    __slots__ = (
        "_call",
        "_context",
        "_deadline",
        "_gate",
        "_is_done",
        "_is_late",
        "_max_bytes",
        "_observer",
        "_parked_at",
        "_partitions",
        "_request",
        "_session",
    )

    def __init__(
        self,
        call: Call,
        request: FetchRequest,
        session: FetchSession | None,
        partitions: Iterable[SessionPartition],
        context: RequestContext,
    ) -> None:
        self._call = call
        self._request = request
        self._session = session
        self._partitions = partitions
        self._context = context
        self._gate = authorization.gate_of(context, call.caller, "fetch")
        self._max_bytes = min(request.max_bytes, context.fetching.config.fetch_max_bytes)
        if context.quotas.limits.is_in_use:
            self._max_bytes = throttling.fetch_bytes_max(call, context, self._max_bytes)
        self._deadline: object | None = None
        self._parked_at: list[Replica] = []
        self._is_done = False
        self._is_late = False  # max_wait_ms is over
        self._observer = context.observation.observer.fetch(request, call.caller)  # mostly none

    def wake(self) -> None:
        """Answer if there is enough; else wait, if that has not begun yet."""
        if self._is_done:
            return
        try:
            self._attempt()
        except Exception:
            self.leave()
            self._call.answer(None)  # a fault: the caller logs it, and the client must not wait for ever
            raise

    def _attempt(self) -> None:
        plan = self._plan()
        request = self._request
        is_enough = plan.size_bytes >= request.min_bytes or plan.is_final or not plan.parts
        if is_enough or self._is_late or request.max_wait_ms <= 0:
            self.leave()
            self._read(plan)
        elif self._deadline is None:
            if self._observer is not None:
                self._observer.waits(plan.parts)
            self._parked_at = [part.replica for part in plan.parts if part.replica is not None]
            self._context.waiting.when_readable(self._parked_at, self)
            self._deadline = self._context.waiting.after_ms(request.max_wait_ms, self._time_is_up)

    def _time_is_up(self) -> None:
        self._is_late = True
        self.wake()

    def _plan(self) -> Plan:
        parts: list[Part] = []
        request, size_bytes, is_final = self._request, 0, False
        for asked in self._partitions:
            replica: Replica | None = None
            part_slice: Slice | None = None
            code, preferred, reason, aborted = Code.NONE, -1, None, None
            try:
                replica = self._replica(asked)
                room = min(asked.max_bytes, self._max_bytes - size_bytes)
                if request.rack_id and replica.in_sync is not None:
                    preferred = preferred_replica(self._context, replica, asked.fetch_offset, request.rack_id)
                if preferred >= 0:
                    is_final = True
                elif room > 0 or size_bytes == 0:
                    part_slice = replica.read(
                        asked.fetch_offset, room, request.isolation_level, at_least_one=size_bytes == 0
                    )
                aborted = self._aborted(replica, part_slice)
                end_offset = asked.fetch_offset if part_slice is None else part_slice.next_offset
                is_final = is_final or end_offset < replica.readable_bound(request.isolation_level)
            except Refused as refusal:
                code, is_final, reason = refusal.code, True, refusal.message
            except (Corrupt, OSError) as problem:
                assert replica is not None  # finding it raises neither
                code, is_final, part_slice = self._context.replicas.read_failed(replica, problem), True, None
            if part_slice is not None:
                size_bytes += part_slice.length
            parts.append(Part(asked, code, replica, part_slice, preferred, reason, aborted))
        return Plan(parts, size_bytes, is_final)

    def _replica(self, asked: SessionPartition) -> Replica:
        topic, partition = asked.key
        topic = topic_name(self._context.metadata.image, topic)
        if self._gate is not None:
            self._gate.need(AclOperation.READ, AclResourceType.TOPIC, topic)
        replicas = self._context.replicas
        is_patient = self._call.header.version >= FOLLOWERS_FROM
        replica = replicas.readable(topic, partition) if is_patient else replicas.leader(topic, partition)
        replica.check_epoch(asked.leader_epoch)
        return replica

    def leave(self) -> None:
        """Wait no longer."""
        self._is_done = True
        if self._deadline is not None:
            self._context.waiting.cancel(self._deadline)
            self._context.waiting.stop_reading(self._parked_at, self)
            if self._observer is not None:
                self._observer.ended()

    def abandon(self) -> None:
        """The client is gone."""
        if self._observer is not None and not self._is_done:
            self._observer.dropped()
        self.leave()

    def _read(self, plan: Plan) -> None:
        contents: list[Outgoing | Unread] = []
        for part in plan.parts:
            content = b"" if part.slice is None else self._context.replicas.read_cached(part.slice)
            if content is None:
                self._context.start(self._read_cold(plan))
                return
            contents.append(content)
        self._send(plan, contents)

    async def _read_cold(self, plan: Plan) -> None:
        """Some of it is not in memory: wait for the disk without holding up anyone else. Only a few do so at a time,
        and have their answers in memory."""
        try:
            async with self._context.fetching.cold_reads:
                contents: list[Outgoing | Unread] = []
                for part in plan.parts:
                    content = b"" if part.slice is None else self._context.replicas.read_cached(part.slice)
                    if content is None and part.slice is not None:
                        content = await self._context.replicas.wait_for_read(part.slice)
                    contents.append(content or b"")
                self._send(plan, contents)
        except Exception:
            self._call.answer(None)
            raise

    def _send(self, plan: Plan, contents: list[Outgoing | Unread]) -> None:
        session = self._session
        throttle_ms = 0
        if self._context.quotas.limits.is_in_use:
            throttle_ms, is_withheld = throttling.with_fetch(self._call, self._context, plan.size_bytes)
            if is_withheld:
                self._send_nothing(throttle_ms)
                return
        answers: list[FetchAnswer] = []
        # A client that takes its time is not to keep records in memory, nor is an answer of very many partitions.
        kept_bytes = KEPT_BYTES if self._context.fetching.is_slow(self._call.caller.connection_id) else 0
        for part, content in zip(plan.parts, contents, strict=True):
            answer = self._partition_answer(part, content, SENT_UNREAD_BYTES if kept_bytes < KEPT_BYTES else 1)
            if not isinstance(answer.records, FileSlice):
                kept_bytes += len(answer.records)
            if session is None or session.is_news(
                part.asked.key, answer.error_code, answer.high_watermark, answer.start_offset, bool(answer.records)
            ):
                answers.append(answer)
        session_id = NO_SESSION if session is None else session.session_id
        leaders = [answer.leader for answer in answers if answer.leader is not None]
        listener = self._call.caller.listener
        nodes = endpoints_of(self._context.metadata.image, leaders, listener) if leaders else ()
        header = self._call.header
        self._call.answer(
            wire.encode(header.version, header.correlation_id, 0, session_id, answers, nodes, throttle_ms)
        )

    def _send_nothing(self, throttle_ms: int) -> None:
        """Over its quota: it asks again when it has waited, for all that it asked for now (KIP-219). A session that it
        has not heard of yet is none."""
        session_id = NO_SESSION if self._session is None else self._session.session_id
        if session_id != NO_SESSION and self._request.session_epoch == INITIAL_EPOCH:
            self._context.fetching.sessions.close(session_id)
            session_id = NO_SESSION
        header = self._call.header
        self._call.answer(
            wire.encode(header.version, header.correlation_id, 0, session_id, [], throttle_ms=throttle_ms)
        )

    def _partition_answer(self, part: Part, content: Outgoing | Unread, unread_from_bytes: int) -> FetchAnswer:
        topic, partition = part.asked.key
        replica = part.replica
        code = part.code
        if replica is not None and part.slice is not None:
            code = self._context.replicas.check_read(replica, part.slice, content)
        if isinstance(content, Unread):
            content = b""  # what that means is in the code
        if code:
            self._context.metrics.refused(FETCH, code)
            if self._observer is not None:
                trace_refusal(
                    self._context,
                    "fetch",
                    self._call.caller,
                    code,
                    _reason(self._context, part, code),
                    topic,
                    partition,
                )
        elif self._observer is not None:
            self._observer.answered(part, len(content))
        if replica is None or code not in (Code.NONE, Code.OFFSET_OUT_OF_RANGE):
            leader = current_leader(self._context.metadata.image, topic, partition) if code in LEADER_CHANGED else None
            return FetchAnswer(topic, partition, code, -1, -1, -1, leader=leader)
        records: Outgoing = b"" if code else content
        if part.slice is not None and len(records) >= unread_from_bytes:
            # What was read to be checked is let go again.
            records = FileSlice(part.slice.file, part.slice.position, part.slice.length)
        return FetchAnswer(
            topic,
            partition,
            code,
            replica.high_watermark,
            replica.last_stable_offset,
            replica.log.start_offset,
            records,
            part.preferred,
            aborted=part.aborted,
        )

    def _aborted(self, replica: Replica, part_slice: Slice | None) -> list[tuple[int, int]] | None:
        """Which transactions with records in the slice were aborted, for those that want to know. Asked when it is
        planned: compaction may take away both, and the slice can still be read."""
        if self._request.isolation_level != READ_COMMITTED:
            return None
        if part_slice is None:
            return []
        found = replica.log.aborted_between(part_slice.start_offset, part_slice.next_offset)
        return [(entry.producer_id, entry.first_offset) for entry in found]


def _reason(context: RequestContext, part: Part, code: Code) -> str | None:
    """What the trace says of a refusal."""
    asked, replica = part.asked, part.replica
    if part.reason is not None:
        return part.reason
    if code is Code.OFFSET_OUT_OF_RANGE and replica is not None:
        return (
            f"asked for offset {asked.fetch_offset}, and has {replica.log.start_offset} up to {replica.log.end_offset}"
        )
    if code is Code.KAFKA_STORAGE_ERROR:
        return None if replica is None else replica.offline
    if code in (Code.UNKNOWN_TOPIC_ID, Code.UNKNOWN_TOPIC_OR_PARTITION):
        return "there is no such topic or partition here"
    leader = current_leader(context.metadata.image, *asked.key)
    if leader is None:
        return None
    if code in (Code.FENCED_LEADER_EPOCH, Code.UNKNOWN_LEADER_EPOCH):
        return f"asked with leader epoch {asked.leader_epoch}, and it is {leader.leader_epoch}"
    return f"node {leader.leader_id} leads it" if leader.leader_id >= 0 else "no node leads it"


def preferred_replica(context: RequestContext, replica: Replica, fetch_offset: int, rack: str) -> int:
    """Which follower a consumer of this rack should read from, as Kafka's RackAwareReplicaSelector has it; -1: here."""
    if context.fetching.config.replica_selector_class not in RACK_AWARE or replica.in_sync is None:
        return -1
    brokers = context.metadata.image.brokers
    own = brokers.get(replica.node_id)
    if own is not None and own.rack == rack:
        return -1
    near = [
        (follower.durable_end_offset, -node_id)
        for node_id, follower in replica.in_sync.followers.items()
        if node_id in replica.in_sync.in_sync
        and replica.log.start_offset <= fetch_offset <= follower.durable_end_offset
        and node_id in brokers
        and brokers[node_id].rack == rack
        and not brokers[node_id].is_fenced
    ]
    return -max(near)[1] if near else -1
