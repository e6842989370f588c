"""Names of topics."""

from __future__ import annotations

import pytest

from chronik.core.machines.metadata.names import collision_key, is_internal, problem_with


@pytest.mark.parametrize("name", ["a", "A-b_c.d", "0", "__consumer_offsets", "x" * 249, "..."])
def test_a_legal_name_has_no_problem(name: str) -> None:
    assert problem_with(name) is None


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("", "empty string"),
        (".", "'.' is not allowed"),
        ("..", "'..' is not allowed"),
        ("x" * 250, "longer than the max allowed length 249"),
        ("a b", "ASCII alphanumerics"),
        ("ä", "ASCII alphanumerics"),
        ("a/b", "ASCII alphanumerics"),
        ("a\n", "ASCII alphanumerics"),
    ],
)
def test_an_illegal_name_is_told_why(name: str, words: str) -> None:
    assert words in (problem_with(name) or "")


def test_names_that_differ_in_dot_and_underscore_have_the_same_key() -> None:
    assert collision_key("a.b_c") == collision_key("a_b.c") == "a_b_c"
    assert collision_key("abc") is None


def test_the_nodes_own_topics_are_internal() -> None:
    assert is_internal("__consumer_offsets")
    assert is_internal("__transaction_state")
    assert not is_internal("orders")
