"""Settings: parsing, checking, and what is said about wrong ones."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from chronik.core.config.definitions import (
    BOOLEAN,
    DOUBLE,
    INT,
    LIST,
    LONG,
    SHORT,
    STRING,
    BadConfig,
    at_least,
    between,
    one_of,
    parse_known,
    setting,
    settings_of,
    some_of,
)


@dataclass(frozen=True, slots=True)
class Kitchen:
    """One setting of each type."""

    oven_temp_max: int = setting(INT, 200, "How hot.", at_least(0))
    oven_is_on: bool = setting(BOOLEAN, False, "Whether it is on.", dynamic=True)
    oven_share: float = setting(DOUBLE, 0.5, "How full.", between(0, 1))
    oven_mode: str = setting(STRING, "air", "How it heats.", one_of("air", "grill"))
    oven_racks: tuple[str, ...] = setting(LIST, ("low",), "Where things go.", some_of("low", "high"))
    oven_age_ms: int | None = setting(LONG, None, "How old.")
    oven_doors: int = setting(SHORT, 1, "How many.")
    not_a_setting: int = 3


TABLE = settings_of(Kitchen)


def test_a_setting_has_the_dotted_name_of_its_field() -> None:
    assert list(TABLE) == [
        "oven.age.ms",
        "oven.doors",
        "oven.is.on",
        "oven.mode",
        "oven.racks",
        "oven.share",
        "oven.temp.max",
    ]
    assert TABLE["oven.temp.max"].attribute == "oven_temp_max"
    assert TABLE["oven.is.on"].is_dynamic
    assert not TABLE["oven.doors"].is_dynamic


@pytest.mark.parametrize(
    ("key", "text", "value"),
    [
        ("oven.temp.max", " 7 ", 7),
        ("oven.is.on", "TRUE", True),
        ("oven.is.on", "false", False),
        ("oven.share", "0.25", 0.25),
        ("oven.mode", "grill", "grill"),
        ("oven.racks", "low, high,", ("low", "high")),
        ("oven.age.ms", "-1", -1),
        ("oven.age.ms", str(2**63 - 1), 2**63 - 1),
    ],
)
def test_text_becomes_a_value(key: str, text: str, value: object) -> None:
    assert TABLE[key].parse(text) == value


@pytest.mark.parametrize(
    ("key", "text", "words"),
    [
        ("oven.temp.max", "-1", "must be at least 0"),
        ("oven.temp.max", "warm", "must be a whole number"),
        ("oven.temp.max", str(2**31), "at most 32 bits"),
        ("oven.doors", str(2**15), "at most 16 bits"),
        ("oven.age.ms", str(2**63), "at most 64 bits"),
        ("oven.is.on", "yes", "must be true or false"),
        ("oven.share", "1.5", "must be between 0 and 1"),
        ("oven.share", "half", "must be a number"),
        ("oven.mode", "steam", "must be one of air, grill"),
        ("oven.racks", "low,top", "must be a list of low, high"),
        ("oven.racks", "", "must be a list of low, high"),
    ],
)
def test_a_bad_value_is_refused_with_what_is_allowed(key: str, text: str, words: str) -> None:
    with pytest.raises(BadConfig) as caught:
        TABLE[key].parse(text)

    assert caught.value.key == key
    assert words in caught.value.message
    assert f"'{text}'" in caught.value.message


def test_an_unknown_key_is_refused_with_the_nearest_name() -> None:
    with pytest.raises(BadConfig) as caught:
        parse_known(TABLE, "oven.temp.min", "7", "kitchen")

    assert caught.value.nearest == "oven.temp.max"
    assert caught.value.message == "Unknown kitchen config name: oven.temp.min; did you mean oven.temp.max?"


def test_a_key_that_is_like_no_other_gets_no_suggestion() -> None:
    with pytest.raises(BadConfig) as caught:
        parse_known(TABLE, "qqq", "7", "kitchen")

    assert caught.value.nearest is None
    assert caught.value.message == "Unknown kitchen config name: qqq"


def test_values_are_shown_as_kafka_writes_them() -> None:
    assert TABLE["oven.is.on"].show(True) == "true"
    assert TABLE["oven.racks"].show(("low", "high")) == "low,high"
    assert TABLE["oven.share"].show(0.5) == "0.5"
    assert TABLE["oven.temp.max"].show(7) == "7"
    assert TABLE["oven.age.ms"].show(None) is None
