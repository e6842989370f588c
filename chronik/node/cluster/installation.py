"""Puts a snapshot in the place of the metadata log: several files, so it can stop half way.

Until it is done nothing can be said of the log. If only something has run out, it is tried again before anything else;
after anything worse the next start makes the log whole.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from chronik.core.errors import Corrupt, shortage_of
from chronik.core.raft.messages import LogPoint
from chronik.core.raft.quorum_log import QuorumLog
from chronik.core.raft.quorum_replica import QuorumReplica
from chronik.node.replication.replicas import Replicas

log = logging.getLogger(__name__)


class Installation:
    """The one of a node, which is seldom under way."""

    def __init__(self, quorum_log: QuorumLog, replica: QuorumReplica, replicas: Replicas) -> None:
        self._log = quorum_log
        self._replica = replica
        self._replicas = replicas
        self._point: LogPoint | None = None

    @property
    def is_half_done(self) -> bool:
        return self._point is not None

    def begin(self, point: LogPoint, refill: Callable[[LogPoint], None]) -> None:
        """Put a snapshot that was fetched in the place of the log. Raises OSError, Corrupt."""
        log.info("a snapshot of the metadata up to offset %d takes the place of the log", point.end_offset)
        self._log.prepare(point)
        self._replicas.logs.announce_cuts([(self._replica.log, 0)])
        self._point = point
        self.finish(refill)

    def finish(self, refill: Callable[[LogPoint], None]) -> None:
        """Do what is left of it. `refill` has the image made from the snapshot. Raises OSError, Corrupt."""
        point = self._point
        assert point is not None  # it has begun
        try:
            self._log.install(point)
            self._replica.cut()
            refill(point)
        except (OSError, Corrupt) as problem:
            if shortage_of(problem) is None:
                self._replicas.partitions.take_offline(self._replica, f"a snapshot cannot take its place: {problem}")
            raise
        self._point = None
