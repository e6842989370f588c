"""Whose name a caller of the HTTP port has to use.

A web page can have its own name resolve to an address of this node, and then read what is served here from the browser
of a person who may reach it (DNS rebinding). The browser still sends the page's name as Host. So only names that are
this node's are answered; addresses always are, since no page can have one for a name.
"""

from __future__ import annotations

import ipaddress
import json
from typing import TYPE_CHECKING, Any, TypeAlias

from chronik.core.config.node import NodeConfig

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send

ANY = "*"
MISDIRECTED = 421
Headers: TypeAlias = list[tuple[bytes, bytes]]


def own_names(config: NodeConfig, machine: str) -> frozenset[str]:
    """The names under which this node is known: as configured, as advertised, as its machine is called."""
    hosts = [config.address[0], config.advertised_address[0], machine, "localhost"]
    if config.http.http_host_and_port is not None:
        hosts.append(config.http.http_host_and_port[0])
    if config.node_id in config.voters:
        hosts.append(config.voters[config.node_id][0])
    return frozenset(_plain(host) for host in (*hosts, *config.http.http_allowed_hosts) if host)


def is_answered(host: str, names: frozenset[str]) -> bool:
    """Whether a request with this Host is answered. None at all is no browser's."""
    if not host or ANY in names:
        return True
    if host.startswith("["):
        name = host[1:].partition("]")[0]
    else:
        name = host if host.count(":") > 1 else host.partition(":")[0]
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return _plain(name) in names
    return True


def _plain(name: str) -> str:
    return name.strip().lower().removesuffix(".")


class HostCheck:
    """Stands before the application."""

    def __init__(self, app: ASGIApp, names: frozenset[str]) -> None:
        self._app = app
        self._names = names

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        host = next((value for name, value in scope.get("headers", ()) if name == b"host"), b"").decode("latin-1")
        if is_answered(host, self._names):
            await self._app(scope, receive, send)
            return
        reason = f"this node does not go by the name in Host ({host[:100]!r}); http.allowed.hosts adds names"
        body = json.dumps({"error": reason}).encode() + b"\n"
        headers: Headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
        start: dict[str, Any] = {"type": "http.response.start", "status": MISDIRECTED, "headers": headers}
        await send(start)
        await send({"type": "http.response.body", "body": body})
