"""Fetch (1) of the metadata log by another node of the quorum (KIP-595).

A follower's fetch says how far its log is on disk; the leader answers with records, or where the logs part, or which
snapshot to fetch instead. When there is nothing to say it waits, and is stepped again when the log grows, the watermark
moves or another node leads. It also says how far the follower has applied the log (KIP-1166).
"""

from __future__ import annotations

from collections.abc import Callable

from chronik.api.call import Call
from chronik.api.context import QuorumDesk, RequestContext
from chronik.api.quorum_topic import (
    METADATA_TOPIC_ID,
    PARTITION,
    check_sender,
    id_of,
    leader_of,
    quorum_of,
    remembered,
)
from chronik.core.errors import Code, Corrupt, Refused
from chronik.core.ports import Outgoing
from chronik.core.raft.messages import NO_NODE, Fetch, LastAnswer, LogPoint, RaftFetchAnswer
from chronik.wire import fetch as wire
from chronik.wire import follower_fetch
from chronik.wire.fetch import NOT_SENT, EpochEnd, FetchPartition, FetchRequest
from chronik.wire.leaders import CurrentLeader
from chronik.wire.versions import FETCH, node_name

FETCH_BYTES_MAX = 1024 * 1024
NO_SESSION, NO_SESSION_EPOCH = 0, -1
NO_ANSWER = LastAnswer(-1, -1, -1)


def begin(call: Call, request: FetchRequest, context: RequestContext) -> Callable[[], None] | None:
    """Answer now, or when there is news. Returns what to call if the other node is gone before that."""
    try:
        check_sender(request.cluster_id, request.replica_id, call.caller, context)
        fetch = _QuorumFetch(call, request, context, quorum_of(context))
        return fetch.begin()
    except Refused as refused:
        context.metrics.refused(FETCH, refused.code)
        call.answer(wire.encode(call.header.version, call.header.correlation_id, refused.code, NO_SESSION, []))
        return None


class _QuorumFetch:
    """One fetch, from its first step to its answer."""

    def __init__(self, call: Call, request: FetchRequest, context: RequestContext, quorum: QuorumDesk) -> None:
        if len(request.partitions) != 1 or request.partitions[0].partition != PARTITION:
            raise Refused(Code.INVALID_REQUEST, "a fetch of the metadata log is of its one partition and nothing else")
        self._call = call
        self._request = request
        self._asked = request.partitions[0]
        self._context = context
        self._quorum = quorum
        self._deadline: object | None = None
        # The last answer to the follower. Its own fetch may be what moves the watermark: then it hears of that at once.
        self._sender = remembered(request.replica_id, quorum)
        last_answer = quorum.last_answers.get(self._sender, NO_ANSWER)
        self._known_watermark = last_answer.high_watermark
        # A node asks again on a connection when it has its answer: then it followed, whatever it may do by now.
        is_next = last_answer.connection_id == call.caller.connection_id
        self._is_done = False
        if self._sender != NO_NODE and self._asked.high_watermark != NOT_SENT:
            quorum.applied.note(self._sender, self._asked.high_watermark)
        last_epoch = max(self._asked.last_fetched_epoch, 0)
        point = LogPoint(last_epoch, self._asked.fetch_offset)
        followed_ms = last_answer.at_ms if is_next else NO_ANSWER.at_ms
        self._fetch = Fetch(self._sender, self._asked.leader_epoch, point, quorum.now_ms(), followed_ms)

    def begin(self) -> Callable[[], None]:
        self._step(is_late=self._request.max_wait_ms <= 0)
        if not self._is_done:
            self._quorum.when_news(self._wake)
            self._deadline = self._context.waiting.after_ms(self._request.max_wait_ms, self._time_is_up)
        return self.leave

    def leave(self) -> None:
        """Wait no longer."""
        self._is_done = True
        self._quorum.stop_reading(self._wake)
        if self._deadline is not None:
            self._context.waiting.cancel(self._deadline)
            self._deadline = None

    def _wake(self, *, is_late: bool = False) -> None:
        if not self._is_done:
            try:
                self._step(is_late=is_late)
            except Refused:  # this node takes no part any more: let the follower ask another
                self.leave()
                self._call.answer(None)

    def _time_is_up(self) -> None:
        self._deadline = None
        self._wake(is_late=True)

    def _step(self, *, is_late: bool) -> None:
        answer = self._quorum.step(self._fetch)
        records: Outgoing = b""
        if answer.is_sound:
            has_more = self._quorum.replica.log.end_offset > self._fetch.log_end.end_offset
            if not (is_late or has_more or answer.high_watermark > self._known_watermark):
                return
            if has_more:
                records = self._records()
        self.leave()
        self._send(answer, records)

    def _records(self) -> bytes:
        """What follows in the log, safe or not."""
        log = self._quorum.replica.log
        bytes_max = min(self._asked.max_bytes, FETCH_BYTES_MAX)
        try:
            plan = log.read(self._fetch.log_end.end_offset, log.end_offset, bytes_max, at_least_one=True)
            if plan is None:
                return b""
            content = plan.file.read(plan.position, plan.length)
            log.check_slice(plan, content)
        except (Corrupt, OSError) as problem:
            self._context.replicas.read_failed(self._quorum.replica, problem)
            raise Refused(Code.KAFKA_STORAGE_ERROR, str(problem)) from problem
        return content

    def _send(self, answer: RaftFetchAnswer, records: Outgoing) -> None:
        if answer.is_sound and self._sender != NO_NODE:
            connection_id = self._call.caller.connection_id
            self._quorum.last_answers[self._sender] = LastAnswer(
                answer.high_watermark, connection_id, self._quorum.now_ms()
            )
        part = wire.FetchAnswer(
            self._asked.topic,
            PARTITION,
            answer.code,
            answer.high_watermark,
            answer.high_watermark,
            self._quorum.replica.log.start_offset,
            records,
            diverging=None if answer.diverging is None else EpochEnd(*answer.diverging),
            leader=CurrentLeader(id_of(answer.leader), answer.epoch),
            snapshot=None if answer.snapshot is None else EpochEnd(*answer.snapshot),
        )
        header = self._call.header
        self._call.answer(wire.encode(header.version, header.correlation_id, Code.NONE, NO_SESSION, [part]))


# --- the asking side


def frame_of(fetch: Fetch, cluster_id: str, max_wait_ms: int, high_watermark: int) -> bytes:
    part = FetchPartition(
        METADATA_TOPIC_ID,
        PARTITION,
        fetch.log_end.end_offset,
        FETCH_BYTES_MAX,
        fetch.epoch,
        fetch.log_end.epoch,
        high_watermark=high_watermark,
    )
    request = FetchRequest(
        replica_id=fetch.sender,
        max_wait_ms=max_wait_ms,
        min_bytes=1,
        max_bytes=FETCH_BYTES_MAX,
        isolation_level=0,
        session_id=NO_SESSION,
        session_epoch=NO_SESSION_EPOCH,
        partitions=[part],
        forgotten=[],
        cluster_id=cluster_id,
    )
    return follower_fetch.encode(0, node_name(fetch.sender), request)


def answer_of(frame: memoryview, fetch: Fetch, sender: int) -> tuple[RaftFetchAnswer, memoryview]:
    """The answer, and the records that came with it. Raises Refused, Malformed."""
    fetched = follower_fetch.parse(frame)
    if fetched.error is not Code.NONE:
        raise Refused(fetched.error)
    if len(fetched.partitions) != 1 or fetched.partitions[0].leader is None:
        raise Refused(Code.INVALID_REQUEST, "an answer without the partition that was asked for")
    part = fetched.partitions[0]
    assert part.leader is not None  # just looked
    answer = RaftFetchAnswer(
        sender,
        part.leader.leader_epoch,
        leader_of(part.leader.leader_id),
        fetch.log_end,
        part.error,
        part.high_watermark,
        None if part.diverging is None else LogPoint(*part.diverging),
        None if part.snapshot is None else LogPoint(*part.snapshot),
    )
    return answer, part.records
