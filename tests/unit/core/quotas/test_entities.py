"""What a quota can be about, and which entities a filter finds: the checks of Kafka's controller."""

from __future__ import annotations

import pytest

from chronik.core.errors import Code, Refused
from chronik.core.quotas.entities import (
    NAME_BYTES_MAX,
    QuotaFilter,
    QuotaFilterPart,
    QuotaKey,
    QuotaMatch,
    check_entity,
    check_key,
    check_value,
)

EXACT, DEFAULT, SPECIFIED = QuotaMatch.EXACT, QuotaMatch.DEFAULT, QuotaMatch.SPECIFIED
ALICE, BOTH = (("user", "alice"),), (("client-id", "c"), ("user", "alice"))
ANYONE, ADDRESS = (("user", None),), (("ip", "10.0.0.1"),)


@pytest.mark.parametrize(
    ("pairs", "words"),
    [
        ((), "Invalid empty client quota entity"),
        ((("user", ""),), "Empty user not supported"),
        ((("user", "a"), ("user", "b")), "duplicate entity entry user"),
        ((("group", "a"),), "Unhandled client quota entity type: group"),
        ((("ip", "10.0.0.1"), ("user", "a")), "Invalid quota entity combination"),
        ((("ip", "not an address"),), "not an address is not a valid IP or resolvable host."),
        ((("user", "x" * (NAME_BYTES_MAX + 1)),), "at most"),
    ],
)
def test_what_cannot_have_a_quota_is_refused(pairs: tuple[tuple[str, str | None], ...], words: str) -> None:
    with pytest.raises(Refused, match=words) as refused:
        check_entity(pairs)
    assert refused.value.code is Code.INVALID_REQUEST


def test_the_order_of_its_parts_makes_no_other_entity() -> None:
    assert check_entity((("user", "alice"), ("client-id", "c"))) == BOTH


@pytest.mark.parametrize("entity", [ALICE, BOTH, ANYONE])
def test_a_client_has_no_connection_rate(entity: tuple[tuple[str, str | None], ...]) -> None:
    assert check_key(entity, "producer_byte_rate") is QuotaKey.PRODUCE
    with pytest.raises(Refused, match="Invalid configuration key connection_creation_rate"):
        check_key(entity, "connection_creation_rate")


def test_an_address_has_nothing_else() -> None:
    assert check_key(ADDRESS, "connection_creation_rate") is QuotaKey.CONNECTION_CREATION
    with pytest.raises(Refused, match="Invalid configuration key producer_byte_rate"):
        check_key(ADDRESS, "producer_byte_rate")


@pytest.mark.parametrize(
    ("key", "value", "words"),
    [
        (QuotaKey.PRODUCE, 0.0, "must be greater than 0"),
        (QuotaKey.REQUEST, -1.0, "must be greater than 0"),
        (QuotaKey.REQUEST, float("nan"), "must be greater than 0"),
        (QuotaKey.FETCH, 0.5, "cannot be a fractional value"),
        (QuotaKey.FETCH, 1e19, "too large for a LONG"),
        (QuotaKey.CONNECTION_CREATION, 2.0**31, "too large for a INT"),
    ],
)
def test_a_value_that_makes_no_sense_is_refused(key: QuotaKey, value: float, words: str) -> None:
    with pytest.raises(Refused, match=words):
        check_value(key, value)


def test_shares_of_time_and_changes_may_be_fractions() -> None:
    check_value(QuotaKey.REQUEST, 0.5)
    check_value(QuotaKey.CONTROLLER_MUTATION, 0.1)


@pytest.mark.parametrize(
    ("parts", "strict", "found"),
    [
        ((), False, [ALICE, BOTH, ANYONE, ADDRESS]),
        ((), True, []),
        ((("user", EXACT, "alice"),), False, [ALICE, BOTH]),
        ((("user", EXACT, "alice"),), True, [ALICE]),
        ((("user", DEFAULT, None),), False, [ANYONE]),
        ((("user", SPECIFIED, None),), False, [ALICE, BOTH, ANYONE]),
        ((("user", SPECIFIED, None),), True, [ALICE, ANYONE]),
        ((("user", SPECIFIED, None), ("client-id", EXACT, "c")), True, [BOTH]),
        ((("client-id", EXACT, "other"),), False, []),
        ((("ip", SPECIFIED, None),), True, [ADDRESS]),
    ],
)
def test_a_filter_finds_what_all_its_parts_match(
    parts: tuple[tuple[str, int, str | None], ...], strict: bool, found: list[object]
) -> None:
    wanted = QuotaFilter((QuotaFilterPart(*part) for part in parts), strict=strict)
    assert [entity for entity in (ALICE, BOTH, ANYONE, ADDRESS) if wanted.finds(entity)] == found


@pytest.mark.parametrize(
    ("parts", "code"),
    [
        ((("", EXACT, "a"),), Code.INVALID_REQUEST),
        ((("user", EXACT, None),), Code.INVALID_REQUEST),
        ((("user", DEFAULT, "a"),), Code.INVALID_REQUEST),
        ((("user", SPECIFIED, "a"),), Code.INVALID_REQUEST),
        ((("user", 9, None),), Code.INVALID_REQUEST),
        ((("user", EXACT, "a"), ("user", DEFAULT, None)), Code.INVALID_REQUEST),
        ((("ip", EXACT, "a"), ("user", DEFAULT, None)), Code.INVALID_REQUEST),
        ((("group", EXACT, "a"),), Code.UNSUPPORTED_VERSION),
    ],
)
def test_a_filter_that_says_nothing_sensible_is_refused(
    parts: tuple[tuple[str, int, str | None], ...], code: Code
) -> None:
    with pytest.raises(Refused) as refused:
        QuotaFilter((QuotaFilterPart(*part) for part in parts), strict=False)
    assert refused.value.code is code
