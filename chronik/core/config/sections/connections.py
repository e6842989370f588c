"""What connections and their requests may take."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from chronik.core.config.addresses import are_overrides, parse_overrides
from chronik.core.config.definitions import INT, INT_MAX, LONG, STRING, BadConfig, Section, at_least, setting


@dataclass(frozen=True, slots=True)
class ConnectionsConfig(Section):
    """What connections and their requests may take."""

    socket_request_max_bytes: int = setting(INT, 100 * 1024**2, "The largest request that is read.", at_least(1))
    connections_max_idle_ms: int = setting(LONG, 600_000, "An idle connection is closed after this time; -1 for never.")
    max_connections: int = setting(
        INT,
        INT_MAX,
        "Connections of clients at the same time; never more than there are file descriptors for.",
        at_least(0),
        dynamic=True,
    )
    max_connections_per_ip: int = setting(
        INT, INT_MAX, "Connections of clients at the same time from one address.", at_least(0), dynamic=True
    )
    max_connections_per_ip_overrides: str = setting(
        STRING, "", "ADDRESS:NUMBER,... that stand before max.connections.per.ip.", are_overrides(), dynamic=True
    )
    max_connection_creation_rate: int = setting(
        INT,
        INT_MAX,
        "Connections of clients that may be opened in a second; more than that wait before they are served.",
        at_least(0),
        dynamic=True,
    )
    chronik_unfinished_request_timeout_ms: int = setting(
        LONG, 30_000, "A connection is closed when a request has begun and less than 1 kB of it came in this time.",
        at_least(1),
    )  # fmt: skip
    queued_max_request_bytes: int = setting(
        LONG,
        -1,
        "Bytes of clients' requests that were read and not answered yet; -1 for an eighth of the memory, at least"
        " socket.request.max.bytes and at most 1 GiB.",
        at_least(-1),
    )
    queued_max_requests: int = setting(
        INT, 500, "Requests of one connection under way before it is read no further.", at_least(1)
    )

    @property
    def connection_overrides(self) -> Mapping[str, int]:
        """How many connections each of these addresses may have."""
        return parse_overrides(self.max_connections_per_ip_overrides)

    def request_bytes_max(self, by_memory: int) -> int:
        """Bytes of requests under way, where the machine has memory for `by_memory`. The largest request has to fit."""
        given = self.queued_max_request_bytes
        return given if given >= 0 else max(by_memory, self.socket_request_max_bytes)

    def check(self) -> None:
        if 0 <= self.queued_max_request_bytes < self.socket_request_max_bytes:
            raise BadConfig(
                "queued.max.request.bytes",
                f"queued.max.request.bytes ({self.queued_max_request_bytes}) must be at least socket.request.max.bytes"
                f" ({self.socket_request_max_bytes}), or -1",
            )
