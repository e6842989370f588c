"""What clients took, how long they wait, and that what is remembered of them is bounded."""

from __future__ import annotations

from chronik.core.config.sections.quotas import QuotasConfig
from chronik.core.quotas.client_quotas import ClientQuotas, Decided
from chronik.core.quotas.entities import QuotaEntity, QuotaKey
from chronik.core.quotas.limits import QuotaLimits

CONFIG = QuotasConfig(quota_window_num=2, controller_quota_window_num=2)
ALICE: QuotaEntity = (("user", "alice"),)
EVERY_CLIENT: QuotaEntity = (("client-id", None),)


def quotas_of(key: QuotaKey, value: float, entity: QuotaEntity = ALICE, windows_max: int = 100) -> ClientQuotas:
    limits = QuotaLimits()
    limits.set(entity, key.value, value)
    return ClientQuotas(limits, CONFIG, windows_max=windows_max)


def test_a_client_over_its_rate_waits_and_another_does_not() -> None:
    quotas = quotas_of(QuotaKey.PRODUCE, 1000)
    assert quotas.record(QuotaKey.PRODUCE, "alice", "c", 1000, 0) == 0
    assert quotas.record(QuotaKey.PRODUCE, "alice", "d", 500, 0) == 500  # the user's, whatever the client id
    assert quotas.record(QuotaKey.PRODUCE, "bob", "c", 10**9, 0) == 0
    assert (quotas.throttled[QuotaKey.PRODUCE], quotas.throttled_ms[QuotaKey.PRODUCE]) == (1, 500)


def test_a_quota_that_changes_counts_at_once() -> None:
    quotas = quotas_of(QuotaKey.PRODUCE, 1000)
    quotas.record(QuotaKey.PRODUCE, "alice", "c", 1000, 0)
    quotas.limits.set(ALICE, "producer_byte_rate", 500)
    assert quotas.record(QuotaKey.PRODUCE, "alice", "c", 0, 0) == 1000
    quotas.limits.remove(ALICE, "producer_byte_rate")
    assert quotas.record(QuotaKey.PRODUCE, "alice", "c", 10**9, 0) == 0


def test_a_consumer_over_its_rate_gets_nothing_and_is_not_charged() -> None:
    quotas = quotas_of(QuotaKey.FETCH, 1000)
    assert quotas.give("alice", "c", 900, 0) == Decided(0)
    assert quotas.give("alice", "c", 600, 0) == Decided(500, is_withheld=True)
    assert quotas.give("alice", "c", 100, 0) == Decided(0)  # the 600 were not counted
    assert quotas.give("alice", "c", 600, 2000) == Decided(0)


def test_a_batch_larger_than_the_quota_ever_allows_comes_all_the_same() -> None:
    quotas = quotas_of(QuotaKey.FETCH, 1000)
    first = quotas.give("alice", "c", 5000, 0)
    assert first == Decided(4000)
    assert quotas.give("alice", "c", 5000, 1000).is_withheld
    assert not quotas.give("alice", "c", 5000, 10_000).is_withheld


def test_a_fetch_asks_for_no_more_than_all_windows_allow() -> None:
    assert quotas_of(QuotaKey.FETCH, 1000).fetch_bytes_max("alice", "c") == 1000
    assert quotas_of(QuotaKey.FETCH, 1000).fetch_bytes_max("bob", "c") is None


def test_time_is_a_share_of_the_nodes_and_no_wait_is_longer_than_a_window() -> None:
    quotas = quotas_of(QuotaKey.REQUEST, 10)  # a tenth of its time
    quotas.record_time("alice", "c", 100, 0)
    assert quotas.wait_ms(QuotaKey.REQUEST, "alice", "c", 0) == 0
    quotas.record_time("alice", "c", 50, 0)
    assert quotas.wait_ms(QuotaKey.REQUEST, "alice", "c", 0) == 500
    quotas.record_time("alice", "c", 60_000, 0)
    assert quotas.wait_ms(QuotaKey.REQUEST, "alice", "c", 0) == 1000


def test_changes_of_topics_are_refused_once_the_quota_is_used_up() -> None:
    quotas = quotas_of(QuotaKey.CONTROLLER_MUTATION, 1)
    first = quotas.mutation("alice", "c", is_strict=True)
    assert [first.takes(5, 0), first.takes(1, 0)] == [True, False]
    assert first.wait_ms == 3000
    second = quotas.mutation("alice", "c", is_strict=True)
    assert not second.takes(1, 2000)
    assert second.takes(1, 3000) is False  # it is refused as a whole
    assert quotas.mutation("alice", "c", is_strict=True).takes(1, 3000)


def test_an_old_client_is_not_refused_and_waits() -> None:
    quotas = quotas_of(QuotaKey.CONTROLLER_MUTATION, 1)
    old = quotas.mutation("alice", "c", is_strict=False)
    assert [old.takes(5, 0), old.takes(1, 0)] == [True, True]
    assert old.wait_ms == 4000


def test_without_a_quota_changes_are_free() -> None:
    free = quotas_of(QuotaKey.PRODUCE, 1).mutation("alice", "c", is_strict=True)
    assert free.takes(10**6, 0)
    assert free.wait_ms == 0


def test_ever_new_client_ids_take_no_more_memory_and_get_no_more() -> None:
    quotas = quotas_of(QuotaKey.PRODUCE, 1000, EVERY_CLIENT, windows_max=10)
    waits = [quotas.record(QuotaKey.PRODUCE, "u", f"client {number}", 1000, 0) for number in range(1000)]
    assert len(quotas) <= 11
    assert not any(waits[:10])
    assert all(waits[11:])  # they share one window


def test_a_client_that_takes_nothing_any_more_is_forgotten() -> None:
    quotas = quotas_of(QuotaKey.PRODUCE, 1000, EVERY_CLIENT, windows_max=10)
    for number in range(10):
        quotas.record(QuotaKey.PRODUCE, "u", f"client {number}", 1, 0)
    for number in range(6):
        quotas.record(QuotaKey.PRODUCE, "u", f"later {number}", 1, 5000)
    assert len(quotas) == 6


def test_long_names_that_begin_alike_share_a_window() -> None:
    quotas = quotas_of(QuotaKey.PRODUCE, 1000, EVERY_CLIENT)
    for number in range(50):
        quotas.record(QuotaKey.PRODUCE, "u", "x" * 30_000 + str(number), 1, 0)
    assert len(quotas) == 1
