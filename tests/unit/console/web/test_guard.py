"""What a browser may send."""

from __future__ import annotations

import pytest

from chronik.console.web.guard import CONTENT_SECURITY_POLICY, Token, refusal

TOKEN = Token()


@pytest.mark.parametrize(
    ("headers", "given", "is_read_only", "is_refused"),
    [
        ({"host": "localhost:9640", "origin": "http://localhost:9640"}, TOKEN.value, False, False),
        ({"host": "localhost:9640"}, TOKEN.value, False, False),
        ({"host": "localhost:9640", "sec-fetch-site": "same-origin"}, TOKEN.value, False, False),
        ({"host": "localhost:9640"}, "", False, True),
        ({"host": "localhost:9640"}, TOKEN.value[:-1], False, True),
        ({"host": "localhost:9640"}, "tökén", False, True),
        ({"host": "localhost:9640", "origin": "http://evil.example"}, TOKEN.value, False, True),
        ({"host": "localhost:9640", "origin": "null"}, TOKEN.value, False, True),
        ({"host": "localhost:9640", "sec-fetch-site": "cross-site"}, TOKEN.value, False, True),
        ({"host": "localhost:9640"}, TOKEN.value, True, True),
    ],
    ids=range(10),  # a token is another one in each process, and the name of a test is not
)
def test_only_our_own_forms_change_anything(
    headers: dict[str, str], given: str, is_read_only: bool, is_refused: bool
) -> None:
    assert (refusal(headers, TOKEN, given, is_read_only) is not None) is is_refused


def test_two_processes_have_different_tokens() -> None:
    assert not Token().fits(TOKEN.value)


def test_the_policy_allows_no_script_but_files_of_ours() -> None:
    rules = dict(rule.split(" ", 1) for rule in CONTENT_SECURITY_POLICY.split("; "))

    assert rules["script-src"] == rules["style-src"] == rules["connect-src"] == "'self'"
    assert rules["default-src"] == "'none'"
    assert "unsafe" not in CONTENT_SECURITY_POLICY
