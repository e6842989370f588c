"""The port for metrics, health and views."""

from __future__ import annotations

from dataclasses import dataclass

from chronik.core.config.addresses import host_and_port
from chronik.core.config.definitions import BOOLEAN, INT, LIST, STRING, Section, at_least, setting


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

    http_ssl_keystore_location: str | None = setting(
        STRING, None, "File with a private key, not encrypted, and its certificates, as PEM: then the port speaks TLS."
    )
    http_token_file: str | None = setting(
        STRING, None, "File with tokens, one a line, of at least 16 characters: callers need one of them (Bearer)."
    )
    http_basic_auth_enable: bool = setting(
        BOOLEAN, False, "Whether callers may log in as users of the cluster that have ALTER on it, with their password."
    )
    http_open_paths: tuple[str, ...] = setting(
        LIST, (), "Paths that need no token or login all the same, such as /metrics and /health."
    )

    @property
    def is_login_needed(self) -> bool:
        return self.http_token_file is not None or self.http_basic_auth_enable

    @property
    def http_scheme(self) -> str:
        return "http" if self.http_ssl_keystore_location is None else "https"

    @property
    def http_host_and_port(self) -> tuple[str, int] | None:
        return host_and_port("http.address", self.http_address) if self.http_address else None

    def check(self) -> None:
        _ = self.http_host_and_port
