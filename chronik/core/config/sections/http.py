"""The port for metrics, health and views."""

from __future__ import annotations

from dataclasses import dataclass

from chronik.core.config.addresses import host_and_port
from chronik.core.config.definitions import INT, LIST, STRING, Section, at_least, setting


@dataclass(frozen=True, slots=True)
class HttpConfig(Section):
    """The port for metrics, health and views."""

    http_address: str = setting(STRING, "127.0.0.1:9644", "Where metrics and health are served; empty for nowhere.")
    http_max_connections: int = setting(INT, 64, "Connections to the HTTP port at the same time.", at_least(1))
    http_allowed_hosts: tuple[str, ...] = setting(
        LIST,
        (),
        "Further names that callers of the HTTP port may use as Host; * for any. Its own and addresses are allowed.",
    )

    @property
    def http_host_and_port(self) -> tuple[str, int] | None:
        return host_and_port("http.address", self.http_address) if self.http_address else None

    def check(self) -> None:
        _ = self.http_host_and_port
