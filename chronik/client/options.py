"""How a job reaches a cluster: addresses, how it is let in, limits."""

from __future__ import annotations

from dataclasses import dataclass

from chronik.client.security import PLAIN_CONNECTION, Security


@dataclass(frozen=True)
class ClientOptions:
    """How to reach the cluster."""

    bootstrap: tuple[tuple[str, int], ...]
    security: Security = PLAIN_CONNECTION
    client_id: str = "chronik-spark"
    timeout_ms: int = 60_000
    """How long to go on trying while leaders move or nodes are away."""
    fetch_bytes: int = 8 * 1024 * 1024
    is_committed_only: bool = False

    def __repr__(self) -> str:  # the password must not get into a log
        return f"ClientOptions({self.bootstrap}, {self.security.protocol})"
