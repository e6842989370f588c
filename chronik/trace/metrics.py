"""Numbers a node counts as it goes. Plain integers: the exposition is made when it is asked for."""

from __future__ import annotations

from chronik.wire.versions import APIS


class Metrics:
    """What this process has done since it started."""

    __slots__ = ("bytes_in", "bytes_out", "faults", "produced_batches", "refusals", "requests")

    def __init__(self) -> None:
        self.requests: dict[int, int] = dict.fromkeys(APIS, 0)
        self.faults = 0  # requests answered UNKNOWN_SERVER_ERROR: bugs, each of them
        self.refusals: dict[str, int] = {}
        self.produced_batches = 0
        self.bytes_in = 0
        self.bytes_out = 0
