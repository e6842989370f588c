"""How many connections a node takes: in all (`max.connections`), on one listener, from one address
(`max.connections.per.ip`), and never more than it has descriptors for; and how fast they may come
(`core.quotas.connection_rates`).

Other nodes are not shut out by a flood of clients. A connection over a limit is let in on probation: there is room for
a few, and a new one pushes the oldest out. Its first request has to say that it is another node, at once; else it is
closed before anything it asks is done. When nodes need more than is free, the client that was silent longest goes.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from typing import NamedTuple, Protocol

from chronik.core.config.definitions import INT_MAX
from chronik.core.config.node import NodeConfig
from chronik.core.config.sections.connections import ConnectionsConfig
from chronik.core.quotas.connection_rates import NODE as ALL_LISTENERS
from chronik.core.quotas.connection_rates import ConnectionRates

log = logging.getLogger(__name__)

UNLIMITED = 2**31 - 1
PROBATION_MAX = 32
PROBATION_S = 1.0  # as long as a link to another node may take to be up
TOLD_AGAIN_S = 60.0


class ConnectionLimits(NamedTuple):
    """As the settings say."""

    open_max: int = UNLIMITED
    per_host_max: int = UNLIMITED
    per_host: Mapping[str, int] = {}  # for some addresses, instead
    per_listener: Mapping[str, int] = {}  # as many on each of these
    rates: Mapping[str, int] = {}  # how many in a second, by listener; "" is the whole node
    spared: frozenset[str] = frozenset()  # listeners for nodes alone, for which limits of the whole node do not count

    @classmethod
    def of(cls, config: NodeConfig, now: ConnectionsConfig) -> ConnectionLimits:
        """`now`: as they were altered while the node runs. Those of single listeners are read at the start."""
        names = [point.name for point in config.listeners.all]
        opened = {name: config.limit_of(name, "max.connections") for name in names}
        rates = {name: config.limit_of(name, "max.connection.creation.rate") for name in names}
        rates[ALL_LISTENERS] = now.max_connection_creation_rate
        return cls(
            now.max_connections,
            now.max_connections_per_ip,
            now.connection_overrides,
            {name: limit for name, limit in opened.items() if limit is not None},
            {name: rate for name, rate in rates.items() if rate is not None and rate < INT_MAX},
            # Where nodes have a listener of their own, a flood of clients on another does not shut them out, as in
            # Kafka.
            config.listeners.node_listeners if len(names) > 1 else frozenset(),
        )

    def of_host(self, host: str) -> int:
        return self.per_host.get(host, self.per_host_max)


class Guest(Protocol):
    """A connection, as far as it is counted."""

    used_at: float
    host: str

    @property
    def listener(self) -> str: ...

    def abort(self) -> None: ...


class ConnectionQuotas:
    """Counts clients, other nodes, and connections on probation."""

    def __init__(
        self,
        limits: Callable[[], ConnectionLimits] = ConnectionLimits,
        connections_max: int = UNLIMITED,
        rates: ConnectionRates | None = None,
        now_ms: Callable[[], int] = lambda: 0,
    ) -> None:
        self._limits = limits
        self._rates = rates
        self._now_ms = now_ms
        self._connections_max = connections_max  # what the process has descriptors for
        self._probation_max = min(PROBATION_MAX, connections_max // 4)
        self._clients: dict[Guest, None] = {}
        self._by_host: dict[str, int] = {}  # clients only
        self._by_listener: dict[str, int] = {}  # the same
        self._nodes: dict[Guest, None] = {}
        self._probation: dict[Guest, None] = {}  # the oldest first
        self._told_at = -TOLD_AGAIN_S
        self._refused_when_told = 0
        self.refused_total = 0
        self.delayed_total = 0  # that were not served at once, as too many came

    @property
    def open_max(self) -> int:
        """As many connections of clients may be open."""
        return min(self._limits().open_max, self._connections_max - self._probation_max)

    @property
    def nodes_open(self) -> int:
        return len(self._nodes)

    def takes(self, guest: Guest) -> bool:
        """Whether a connection may stay as any client's; else it is on probation, or was closed."""
        reason = self._reason_against(guest.host, guest.listener)
        if reason is None:
            self._clients[guest] = None
            self._by_host[guest.host] = self._by_host.get(guest.host, 0) + 1
            self._by_listener[guest.listener] = self._by_listener.get(guest.listener, 0) + 1
            return True
        self._tell(guest.host, reason)
        self._probation[guest] = None
        while len(self._probation) > self._probation_max:
            self.refuse(next(iter(self._probation)))
        if guest in self._probation:
            asyncio.get_running_loop().call_later(PROBATION_S, self._end_probation, guest)
        return False

    def wait_ms(self, guest: Guest) -> int:
        """For how long a connection that was taken is not served yet, as too many come at once."""
        limits = self._limits()
        if self._rates is None or not limits.rates:
            return 0
        rates = limits.rates
        if guest.listener in limits.spared:
            rates = {name: rate for name, rate in rates.items() if name}
        wait_ms = self._rates.wait_ms(guest.listener, rates, self._now_ms())
        if wait_ms:
            self.delayed_total += 1
        return wait_ms

    def _reason_against(self, host: str, listener: str) -> str | None:
        limits = self._limits()
        clients, nodes = len(self._clients), len(self._nodes)
        here = self._by_listener.get(listener, 0)
        if here >= limits.per_listener.get(listener, UNLIMITED):
            return f"{listener} has {here} connections (listener.name.{listener.lower()}.max.connections)"
        if clients >= limits.open_max and listener not in limits.spared:
            return f"there are {clients} connections (max.connections)"
        if clients + nodes + self._probation_max >= self._connections_max:
            return f"there are {clients + nodes} connections, and file descriptors for no more"
        if self._by_host.get(host, 0) >= limits.of_host(host):
            return f"{host} has {self._by_host[host]} connections (max.connections.per.ip)"
        if self._rates is not None and not self._rates.allows(host, self._now_ms()):
            return f"{host} opens connections too fast (its quota connection_creation_rate)"
        return None

    def _end_probation(self, guest: Guest) -> None:
        if guest in self._probation:
            self.refuse(guest)

    def refuse(self, guest: Guest) -> None:
        """It is on probation, and no node."""
        del self._probation[guest]
        self.refused_total += 1
        guest.abort()

    def is_node(self, guest: Guest) -> None:
        """It has said that it is another node. If there is no room left, a client makes some."""
        self._forget(guest)
        self._nodes[guest] = None
        if len(self._clients) + len(self._nodes) + self._probation_max > self._connections_max and self._clients:
            idle = min(self._clients, key=lambda each: each.used_at)
            log.warning("closing the connection of %s, which was silent longest: a node needs the room", idle.host)
            self._forget(idle)
            self.refused_total += 1
            idle.abort()

    def left(self, guest: Guest) -> None:
        self._forget(guest)

    def _forget(self, guest: Guest) -> None:
        if guest in self._clients:
            del self._clients[guest]
            count = self._by_host[guest.host] - 1
            if count:
                self._by_host[guest.host] = count
            else:
                del self._by_host[guest.host]
            self._by_listener[guest.listener] -= 1
        self._nodes.pop(guest, None)
        self._probation.pop(guest, None)

    def _tell(self, host: str, reason: str) -> None:
        """One line when it begins, and one a minute while it goes on: a flood is not to fill the log as well."""
        now = asyncio.get_running_loop().time()
        if now - self._told_at < TOLD_AGAIN_S:
            return
        more = self.refused_total - self._refused_when_told
        since = f"; {more} since this was last said" if more else ""
        log.warning("turning connections away, the last from %s: %s%s", host, reason, since)
        self._told_at, self._refused_when_told = now, self.refused_total
