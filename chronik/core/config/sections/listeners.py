"""Where clients and other nodes reach this node."""

from __future__ import annotations

from dataclasses import dataclass

from chronik.core.config.addresses import all_listeners, client_listener
from chronik.core.config.definitions import LIST, STRING, Section, setting


@dataclass(frozen=True, slots=True)
class ListenersConfig(Section):
    """Where clients and other nodes reach this node."""

    listeners: str = setting(STRING, "PLAINTEXT://127.0.0.1:9092", "Where clients are listened for.", shown=LIST)
    advertised_listeners: str | None = setting(
        STRING, None, "The address clients are told; that of listeners if not set.", shown=LIST
    )

    @property
    def address(self) -> tuple[str, int]:
        """Host and port to listen on."""
        return client_listener("listeners", self.listeners)

    @property
    def advertised_address(self) -> tuple[str, int]:
        """Host and port that clients are told. 0.0.0.0 is no address to go to, so it becomes localhost."""
        if self.advertised_listeners:
            return client_listener("advertised.listeners", self.advertised_listeners)
        host, port = self.address
        return ("localhost" if host in ("", "0.0.0.0", "::") else host), port

    @property
    def ports(self) -> list[int]:
        """All ports that are listened on."""
        return [port for _, port in all_listeners("listeners", self.listeners)]

    def check(self) -> None:
        _ = self.address, self.advertised_address
