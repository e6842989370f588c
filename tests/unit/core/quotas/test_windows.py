"""Rates over windows, and buckets of tokens."""

from __future__ import annotations

from chronik.core.quotas.windows import RateWindows, TokenBucket


def test_who_took_nothing_lately_may_take_all_windows_but_one_at_once() -> None:
    rate = RateWindows(11, 1000)
    rate.record(10_000, 5)
    assert rate.wait_ms(1000, 5) == 0
    rate.record(1000, 5)
    assert rate.wait_ms(1000, 5) == 1000


def test_after_the_wait_the_rate_is_not_above_the_limit() -> None:
    rate = RateWindows(3, 1000)
    rate.record(7_000, 0)
    wait_ms = rate.wait_ms(1000, 0)
    assert wait_ms == 5000
    assert rate.wait_ms(1000, wait_ms) == 0


def test_what_is_older_than_all_windows_is_forgotten() -> None:
    rate = RateWindows(3, 1000)
    rate.record(1_000_000, 0)
    assert rate.wait_ms(1000, 2999) > 0
    assert rate.wait_ms(1000, 3000) == 0
    assert rate.is_empty(3000)


def test_what_was_taken_back_was_never_taken() -> None:
    rate = RateWindows(2, 1000)
    rate.record(500, 0)
    rate.record(5000, 10)
    rate.take_back(5000)
    assert rate.wait_ms(1000, 10) == 0


def test_a_client_that_waits_as_asked_stays_within_its_rate() -> None:
    rate, limit, now_ms, total = RateWindows(4, 1000), 1000.0, 0, 0
    for number in range(500):
        amount = 100 + number * 7919 % 900
        rate.record(amount, now_ms)
        total += amount
        now_ms += 5 + rate.wait_ms(limit, now_ms)
    assert 0.9 < total * 1000 / now_ms / limit < 1.05


def test_a_limit_of_nothing_lets_nothing_through() -> None:
    rate = RateWindows(2, 1000)
    rate.record(1, 0)
    assert rate.wait_ms(0, 0) == 2000


def test_a_bucket_is_full_at_first_and_fills_at_its_rate() -> None:
    bucket = TokenBucket(11, 1000)
    assert bucket.wait_ms(2, 0) == 0
    bucket.take(22, 2, 0)
    assert bucket.wait_ms(2, 0) == 0  # empty, and not below
    bucket.take(1, 2, 0)
    assert bucket.wait_ms(2, 0) == 500
    assert bucket.wait_ms(2, 499) == 1
    assert bucket.wait_ms(2, 500) == 0


def test_a_bucket_holds_no_more_than_comes_in_all_windows() -> None:
    bucket = TokenBucket(2, 1000)
    bucket.take(1, 1, 0)
    bucket.take(3, 1, 1_000_000)
    assert bucket.wait_ms(1, 1_000_000) == 1000
