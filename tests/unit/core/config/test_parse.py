"""Settings from text."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chronik.core.config.definitions import BadConfig
from chronik.core.config.parse import parse_properties, parse_toml


def test_properties_as_kafka_ships_them() -> None:
    text = """
# The id of the broker
node.id=1
! an old comment
listeners = PLAINTEXT://:9092,CONTROLLER://:9093
log.dirs: /tmp/kraft
num.partitions 3
  indented.key=  value with spaces  \nlong.value=one,\\
    two
empty=
alone
"""

    assert parse_properties(text) == {
        "node.id": "1",
        "listeners": "PLAINTEXT://:9092,CONTROLLER://:9093",
        "log.dirs": "/tmp/kraft",
        "num.partitions": "3",
        "indented.key": "value with spaces  ",
        "long.value": "one,two",
        "empty": "",
        "alone": "",
    }


def test_properties_undo_escapes() -> None:
    assert parse_properties(r"a\=b=c\td\u0041\:\\") == {"a=b": "c\tdA:\\"}


def test_a_continuation_at_the_end_of_the_file_is_kept() -> None:
    assert parse_properties("a=b\\") == {"a": "b"}


def test_a_malformed_escape_is_refused() -> None:
    with pytest.raises(BadConfig, match="Malformed"):
        parse_properties(r"a=\u12")


@given(st.text())
def test_any_text_gives_settings_or_a_refusal(text: str) -> None:
    try:
        settings = parse_properties(text)
    except BadConfig:
        return
    assert all(isinstance(key, str) and isinstance(value, str) for key, value in settings.items())


def test_toml_tables_and_dotted_keys_say_the_same() -> None:
    text = """
num.partitions = 3
"log.segment.bytes" = 1000
auto.create.topics.enable = false
[group.consumer]
assignors = ["range", "uniform"]
session.timeout.ms = 45000
"""

    assert parse_toml(text) == {
        "num.partitions": "3",
        "log.segment.bytes": "1000",
        "auto.create.topics.enable": "false",
        "group.consumer.assignors": "range,uniform",
        "group.consumer.session.timeout.ms": "45000",
    }


def test_toml_that_is_none_is_refused() -> None:
    with pytest.raises(BadConfig, match="Not valid TOML"):
        parse_toml("a = = b")
    with pytest.raises(BadConfig, match="Invalid value for when"):
        parse_toml("when = 2020-01-01")
