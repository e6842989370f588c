"""Numbers a node counts as it goes. Plain integers: the exposition is made when it is asked for."""

from __future__ import annotations

from chronik.core.errors import Code
from chronik.wire.versions import EVERY_API

LEADER, FOLLOWER = "leader", "follower"


class Metrics:
    """What this process has done since it started. No number ever goes back."""

    __slots__ = (
        "bytes_in",
        "bytes_out",
        "certificate_expires_s",
        "duplicate_batches",
        "faults",
        "produced_batches",
        "refusals",
        "requests",
        "throttled_bytes",
        "throttled_waits",
    )

    def __init__(self) -> None:
        self.requests: dict[int, int] = dict.fromkeys(EVERY_API, 0)
        self.faults = 0  # what went wrong other than by refusal or a failing disk: bugs, each of them
        self.refusals: dict[tuple[int, Code], int] = {}  # by request and reason
        self.certificate_expires_s: float | None = None  # this node's own, by the wall clock
        self.produced_batches = 0
        self.duplicate_batches = 0  # retries of what was in the log already
        self.bytes_in = 0
        self.bytes_out = 0
        # By what this node was to the replica, LEADER or FOLLOWER.
        self.throttled_bytes = {LEADER: 0, FOLLOWER: 0}  # given to, or fetched for, throttled replicas
        self.throttled_waits = {LEADER: 0, FOLLOWER: 0}  # times that such a replica was held back

    def refused(self, api_key: int, code: Code) -> None:
        """A request, or one partition of a produce or fetch, got this code instead of what it asked for."""
        self.refusals[api_key, code] = self.refusals.get((api_key, code), 0) + 1
