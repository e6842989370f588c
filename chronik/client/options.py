"""How a program reaches a cluster: addresses, encryption, a name and password, limits."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class ClientOptions:
    """How to reach the cluster."""

    bootstrap: tuple[tuple[str, int], ...]
    security_protocol: str = "PLAINTEXT"
    ca_file: str | None = None
    certificate_file: str | None = None
    key_file: str | None = None
    username: str | None = None
    password: str | None = None
    client_id: str = "chronik-spark"
    timeout_ms: int = 60_000
    """How long to go on trying while leaders move or nodes are away."""
    fetch_bytes: int = 8 * 1024 * 1024
    is_committed_only: bool = False

    def __repr__(self) -> str:  # the password must not get into a log
        return f"ClientOptions({self.bootstrap}, {self.security_protocol})"
