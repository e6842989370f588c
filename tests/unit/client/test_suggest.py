"""'Did you mean …?'"""

from __future__ import annotations

from chronik.client.suggest import nearest, unknown, unknown_topic_config


def test_the_nearest_name_is_found() -> None:
    assert nearest("ordres", ["orders", "payments"]) == "orders"
    assert nearest("RETENTION_MS", ["retention.bytes", "retention.ms"]) == "retention.ms"


def test_nothing_near_is_no_suggestion() -> None:
    assert nearest("zzz", ["orders"]) is None
    assert nearest("orders", []) is None


def test_an_unknown_name_is_an_error_with_the_nearest_or_with_what_else_to_do() -> None:
    assert str(unknown("topic", "ordres", ["orders"], "create it")) == "no topic ordres; did you mean orders?"
    assert str(unknown("topic", "zzz", ["orders"], "create it")) == "no topic zzz; create it"
    assert str(unknown("topic", "zzz", [])) == "no topic zzz"


def test_the_first_wrong_topic_config_is_named() -> None:
    error = unknown_topic_config({"retention.ms": "1", "retention.byte": "2"})

    assert str(error) == "no topic config retention.byte; did you mean retention.bytes?"


def test_right_topic_configs_are_no_error() -> None:
    assert unknown_topic_config({"retention.ms": "1", "cleanup.policy": None}) is None
