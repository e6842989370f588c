"""Patterns of topic names."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chronik.core.machines.groups.pattern import BadPattern, Pattern


@pytest.mark.parametrize(
    ("regex", "fits", "does_not_fit"),
    [
        ("orders", ["orders"], ["order", "orders1", ""]),
        ("a.c", ["abc", "a.c"], ["ac", "abbc"]),
        (r"a\.c", ["a.c"], ["abc"]),
        ("a*", ["", "a", "aaaa"], ["b", "ab"]),
        ("a+", ["a", "aaaa"], ["", "b"]),
        ("ab?", ["a", "ab"], ["abb"]),
        ("a{2}", ["aa"], ["a", "aaa"]),
        ("a{2,}", ["aa", "aaaaa"], ["a"]),
        ("a{1,3}", ["a", "aaa"], ["", "aaaa"]),
        ("a{0}", [""], ["a"]),
        ("(ab)+", ["ab", "abab"], ["aba"]),
        ("(a|bc)*d", ["d", "abcd", "aad"], ["bd"]),
        ("a|", ["a", ""], ["b"]),
        ("[a-c]x", ["ax", "cx"], ["dx"]),
        ("[^a-c]x", ["dx"], ["ax"]),
        ("[]a]", ["]", "a"], ["b"]),
        ("[a-]", ["a", "-"], ["b"]),
        (r"[\d_]+", ["12_3"], ["a"]),
        (r"\w+-\d\d", ["orders-07"], ["orders-7"]),
        (r"\Qa.b*\E+", ["a.b*"], ["aab"]),
        ("^orders$", ["orders"], ["xorders"]),
        ("a$b", [], ["ab", "a$b"]),
        (r"\Aa\z", ["a"], ["b"]),
        ("(?i)Orders", ["orders", "ORDERS"], ["order"]),
        ("(?i)[A-C]", ["a", "C"], ["d"]),
        ("(?:ab)+?", ["abab"], ["a"]),
        ("(?P<name>x)y", ["xy"], ["x"]),
        ("(?<name>x)y", ["xy"], ["x"]),
    ],
)
def test_a_pattern_fits_whole_names(regex: str, fits: list[str], does_not_fit: list[str]) -> None:
    pattern = Pattern(regex)
    assert [name for name in fits if not pattern.matches(name)] == []
    assert [name for name in does_not_fit if pattern.matches(name)] == []


@pytest.mark.parametrize(
    "regex",
    ["(", ")", "a)", "[", "[a", "*", "+a", "a**", "a{", "a{x}", "a{3,2}", "a{2000}", "\\", r"\1", r"\b", r"\pL",
     "(?=a)", "(?!a)", "(?<=a)", "(?x", "(?P<n", "[b-a]", "[[:alpha:]]", "a" * 1_001,
     "(a{500}){500}", "(" * 60 + ")" * 60],
)  # fmt: skip
def test_what_cannot_be_read_is_said_so(regex: str) -> None:
    with pytest.raises(BadPattern):
        Pattern(regex)


def test_a_pattern_that_would_backtrack_for_ever_takes_no_time() -> None:
    name = "a" * 249
    for regex in ("(a+)+b", "(a*)*b", "(a|a)*b", ".*.*.*.*.*.*.*.*b", "(a|aa)+b"):
        assert not Pattern(regex).matches(name)
        assert Pattern(regex).matches(name + "b")


ATOMS = st.sampled_from(["a", "b", ".", "[ab]", "[^a]", "c"])
PIECES = st.recursive(
    ATOMS,
    lambda inner: st.one_of(
        st.tuples(inner, inner).map("".join),
        st.tuples(inner, inner).map(lambda pair: f"(?:{pair[0]}|{pair[1]})"),
        st.tuples(inner, st.sampled_from(["*", "+", "?", "{2}", "{1,2}", "{0,1}", "{1,}"])).map(
            lambda pair: f"(?:{pair[0]}){pair[1]}"
        ),
    ),
    max_leaves=6,
)


@given(PIECES, st.text("abc", max_size=6))
def test_it_agrees_with_python_on_what_both_can_read(regex: str, name: str) -> None:
    assert Pattern(regex).matches(name) == (re.fullmatch(regex, name) is not None)
