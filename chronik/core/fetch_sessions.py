"""Incremental fetch sessions (KIP-227): a consumer names its partitions once and then only what changed.

The session remembers what was asked of each partition and what the last response said of it; an answer then leaves
out a partition that has no records and no news. Partitions that were given records go to the end of the line, so that
none is starved when answers are cut by size.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TypeAlias

from chronik.core.errors import Code, Refused

INITIAL_EPOCH = 0
FINAL_EPOCH = -1
NO_SESSION = 0
EVICT_AFTER_MS = 120_000

# Topic (a name, or from version 13 an id) and partition.
Key: TypeAlias = tuple[str | bytes, int]


class SessionPartition:
    """What a client asked of a partition and what the last response said."""

    __slots__ = ("fetch_offset", "key", "leader_epoch", "max_bytes", "sent")

    def __init__(self, key: Key, fetch_offset: int, max_bytes: int, leader_epoch: int) -> None:
        self.key = key
        self.fetch_offset = fetch_offset
        self.max_bytes = max_bytes
        self.leader_epoch = leader_epoch
        self.sent: tuple[int, int] | None = None  # high watermark and log start of the last answer that had it


class FetchSession:
    """One consumer's partitions, in the order in which they are next served."""

    __slots__ = ("epoch", "has_ids", "partitions", "session_id", "used_ms")

    def __init__(self, session_id: int, now_ms: int, has_ids: bool) -> None:
        self.session_id = session_id
        self.has_ids = has_ids  # its topics are ids, not names
        self.epoch = 1  # the one the next request must carry
        self.used_ms = now_ms
        self.partitions: OrderedDict[Key, SessionPartition] = OrderedDict()

    def put(self, key: Key, fetch_offset: int, max_bytes: int, leader_epoch: int) -> None:
        known = self.partitions.get(key)
        if known is None:
            self.partitions[key] = SessionPartition(key, fetch_offset, max_bytes, leader_epoch)
            return
        known.fetch_offset, known.max_bytes, known.leader_epoch = fetch_offset, max_bytes, leader_epoch

    def forget(self, key: Key) -> None:
        self.partitions.pop(key, None)

    def is_news(self, key: Key, error_code: int, high_watermark: int, start_offset: int, has_records: bool) -> bool:
        """Whether an answer must carry this partition; remembers that it does."""
        partition = self.partitions.get(key)
        if partition is None:
            return True
        if error_code:
            partition.sent = None  # once the error is over, that is news too
            return True
        sent = (high_watermark, start_offset)
        if not has_records and partition.sent == sent:
            return False
        partition.sent = sent
        if has_records:
            self.partitions.move_to_end(key)
        return True


class FetchSessions:
    """The sessions of a node, a bounded number of them."""

    def __init__(self, slots_max: int) -> None:
        self._slots_max = slots_max
        self._sessions: OrderedDict[int, FetchSession] = OrderedDict()  # least recently used first
        self.followers: dict[int, object] = {}  # what is remembered of each follower that fetches here, by node

    def __len__(self) -> int:
        return len(self._sessions)

    def create(self, session_id: int, now_ms: int, *, has_ids: bool = False) -> FetchSession | None:
        """A new session; None when there is no room: the client then goes on without one."""
        if session_id in self._sessions:
            return None
        if len(self._sessions) >= self._slots_max and not self._evict(now_ms):
            return None
        session = FetchSession(session_id, now_ms, has_ids)
        self._sessions[session_id] = session
        return session

    def _evict(self, now_ms: int) -> bool:
        for session_id, session in self._sessions.items():
            if now_ms - session.used_ms > EVICT_AFTER_MS:
                del self._sessions[session_id]
                return True
            return False
        return False

    def resume(self, session_id: int, epoch: int, now_ms: int, *, has_ids: bool = False) -> FetchSession:
        """The session a request goes on with. Raises Refused when it is gone or the request is out of step."""
        session = self._sessions.get(session_id)
        if session is None:
            raise Refused(Code.FETCH_SESSION_ID_NOT_FOUND)
        if session.epoch != epoch:
            raise Refused(Code.INVALID_FETCH_SESSION_EPOCH)
        if session.has_ids != has_ids:  # the client changed to a version that names topics otherwise (KIP-516)
            raise Refused(Code.FETCH_SESSION_TOPIC_ID_ERROR)
        session.epoch = 1 if epoch == 2**31 - 1 else epoch + 1
        session.used_ms = now_ms
        self._sessions.move_to_end(session_id)
        return session

    def close(self, session_id: int) -> None:
        self._sessions.pop(session_id, None)
