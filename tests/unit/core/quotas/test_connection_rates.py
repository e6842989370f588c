"""How fast connections may come."""

from __future__ import annotations

from chronik.core.config.sections.quotas import QuotasConfig
from chronik.core.quotas.connection_rates import NODE, ConnectionRates
from chronik.core.quotas.limits import QuotaLimits


def rates(limit: float | None = None, hosts_max: int = 100) -> ConnectionRates:
    limits = QuotaLimits()
    if limit is not None:
        limits.set((("ip", None),), "connection_creation_rate", limit)
    return ConnectionRates(limits, QuotasConfig(quota_window_num=2), hosts_max=hosts_max)


def test_an_address_opens_as_many_as_its_quota_says() -> None:
    some = rates(3)
    assert [some.allows("10.0.0.1", 0) for _ in range(5)] == [True, True, True, False, False]
    assert some.allows("10.0.0.2", 0)
    assert some.allows("10.0.0.1", 2000)  # those that were refused do not count


def test_without_a_quota_nothing_is_remembered() -> None:
    free = rates()
    assert all(free.allows(f"10.0.0.{number}", 0) for number in range(100))
    assert len(free) == 0


def test_addresses_are_bounded_and_forgotten() -> None:
    some = rates(5, hosts_max=10)
    for number in range(1000):
        some.allows(f"2001:db8::{number:x}", 0)
    assert len(some) == 11
    for number in range(10):
        some.allows(f"10.0.0.{number}", 9000)
    assert len(some) <= 11


def test_a_listener_and_the_whole_node_let_connections_wait() -> None:
    some = rates()
    limits = {NODE: 4, "CLIENTS": 2}
    assert [some.wait_ms("CLIENTS", limits, 0) for _ in range(3)] == [0, 0, 500]
    assert some.wait_ms("OTHER", limits, 0) == 0
    assert some.wait_ms("OTHER", limits, 0) == 250
    assert max(some.wait_ms("OTHER", limits, 0) for _ in range(100)) == 1000  # never longer than a window
    assert some.wait_ms("OTHER", {}, 0) == 0
