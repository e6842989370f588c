"""Which quota counts for a client: the order of Kafka's ClientQuotaManager."""

from __future__ import annotations

import pytest

from chronik.core.quotas.entities import QuotaEntity, QuotaKey, entity_of
from chronik.core.quotas.limits import Limit, QuotaLimits

KEY = QuotaKey.PRODUCE
# From the one that counts first, and with whom its rate is shared.
ORDER: list[tuple[QuotaEntity, tuple[str, str]]] = [
    (entity_of((("user", "u"), ("client-id", "c"))), ("u", "c")),
    (entity_of((("user", "u"), ("client-id", None))), ("u", "c")),
    (entity_of((("user", "u"),)), ("u", "")),
    (entity_of((("user", None), ("client-id", "c"))), ("u", "c")),
    (entity_of((("user", None), ("client-id", None))), ("u", "c")),
    (entity_of((("user", None),)), ("u", "")),
    (entity_of((("client-id", "c"),)), ("", "c")),
    (entity_of((("client-id", None),)), ("", "c")),
]


@pytest.mark.parametrize("first", range(len(ORDER)))
def test_the_first_that_is_set_counts(first: int) -> None:
    limits = QuotaLimits()
    for number, (entity, _) in enumerate(ORDER[first:], first):
        limits.set(entity, KEY.value, float(number + 1))
    assert limits.limit_of(KEY, "u", "c") == Limit(first + 1.0, *ORDER[first][1])


def test_without_one_there_is_no_limit() -> None:
    limits = QuotaLimits()
    assert [limits.is_in_use] == [False]
    limits.set((("user", "other"),), KEY.value, 1.0)
    assert [limits.is_in_use] == [True]
    assert limits.limit_of(KEY, "u", "c") is None
    assert limits.limit_of(QuotaKey.FETCH, "other", "c") is None


def test_a_client_without_an_id_has_only_the_quotas_of_its_user() -> None:
    limits = QuotaLimits()
    limits.set((("client-id", None),), KEY.value, 1.0)
    assert limits.limit_of(KEY, "u", "") is None
    limits.set((("user", None),), KEY.value, 2.0)
    assert limits.limit_of(KEY, "u", "") == Limit(2.0, "u", "")


def test_what_is_removed_counts_no_more_and_the_next_does() -> None:
    limits = QuotaLimits()
    limits.set((("user", "u"),), KEY.value, 1.0)
    limits.set((("user", None),), KEY.value, 2.0)
    limits.set((("user", None),), QuotaKey.FETCH.value, 3.0)
    limits.remove((("user", "u"),), KEY.value)
    limits.remove((("user", "u"),), KEY.value)  # which is gone already
    assert limits.limit_of(KEY, "u", "c") == Limit(2.0, "u", "")
    limits.remove((("user", None),), KEY.value)
    assert not limits.has(KEY)
    assert limits.has(QuotaKey.FETCH)
    limits.remove((("user", None),), QuotaKey.FETCH.value)
    assert not limits.is_in_use


def test_a_copy_goes_its_own_way() -> None:
    limits = QuotaLimits()
    limits.set((("user", "u"),), KEY.value, 1.0)
    other = limits.copy()
    assert other == limits
    other.set((("user", "u"),), KEY.value, 2.0)
    assert limits.limit_of(KEY, "u", "c") == Limit(1.0, "u", "")
    limits.clear()
    assert not limits.is_in_use
    assert other.is_in_use


def test_an_address_has_its_own_rate_or_that_of_all_addresses() -> None:
    limits = QuotaLimits()
    assert limits.connection_rate_of("10.0.0.1") is None
    limits.set((("ip", None),), "connection_creation_rate", 5.0)
    limits.set((("ip", "10.0.0.1"),), "connection_creation_rate", 2.0)
    assert limits.connection_rate_of("10.0.0.1") == 2.0
    assert limits.connection_rate_of("10.0.0.2") == 5.0
