"""How fast connections may be opened (KIP-612): by one address (the quota `connection_creation_rate` of an ip), and on
a listener or the whole node (`max.connection.creation.rate`).

Rates of addresses are kept for a bounded number of them, and dropped when nothing came for a while.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import islice

from chronik.core.config.definitions import INT_MAX
from chronik.core.config.sections.quotas import QuotasConfig
from chronik.core.quotas.limits import QuotaLimits
from chronik.core.quotas.windows import RateWindows

HOSTS_MAX = 10_000
NODE = ""  # no listener has this name


class ConnectionRates:
    """`limits` are those of the metadata image."""

    def __init__(self, limits: QuotaLimits, config: QuotasConfig, *, hosts_max: int = HOSTS_MAX) -> None:
        self._limits = limits
        self._config = config
        self._hosts_max = hosts_max
        self._hosts: dict[str, RateWindows] = {}  # the one that was used longest ago in front
        self._listeners: dict[str, RateWindows] = {}

    def allows(self, host: str, now_ms: int) -> bool:
        """Whether this address may open one more now; if so it is counted."""
        limit = self._limits.connection_rate_of(host)
        if limit is None:
            return True
        rate = self._of_host(host, now_ms)
        rate.record(1, now_ms)
        if rate.wait_ms(limit, now_ms):
            rate.take_back(1)
            return False
        return True

    def wait_ms(self, listener: str, limits: Mapping[str, int], now_ms: int) -> int:
        """For how long a new connection of a listener is not served yet; `limits` by listener, and that of the `NODE`.
        It is counted, and waits no longer than a window lasts, as in Kafka."""
        wait_ms = 0
        for name in (listener, NODE):
            limit = limits.get(name, INT_MAX)
            if limit < INT_MAX:
                rate = self._listeners.get(name)
                if rate is None:
                    rate = self._listeners[name] = self._windows()
                rate.record(1, now_ms)
                wait_ms = max(wait_ms, rate.wait_ms(limit, now_ms))
        return min(wait_ms, self._config.quota_window_size_seconds * 1000)

    def __len__(self) -> int:
        return len(self._hosts)

    def _of_host(self, host: str, now_ms: int) -> RateWindows:
        hosts = self._hosts
        found = hosts.pop(host, None)
        if found is None:
            for oldest in list(islice(hosts, 2)):
                if now_ms - hosts[oldest].used_at_ms >= hosts[oldest].kept_ms:
                    del hosts[oldest]
            if len(hosts) >= self._hosts_max:
                host = ""  # these share one: more addresses than that come only from many machines at once
                found = hosts.pop(host, None)
        hosts[host] = found if found is not None else self._windows()
        return hosts[host]

    def _windows(self) -> RateWindows:
        return RateWindows(self._config.quota_window_num, self._config.quota_window_size_seconds * 1000)
