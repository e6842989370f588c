"""Contents and names as a page may show them."""

from __future__ import annotations

import pytest

from chronik.console.words import command, content, listed, numbers, plain, plain_lines, span, time_of


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("orders", "orders"),
        ("größe 件", "größe 件"),
        ("a\u202egpj.exe", "a\\u202egpj.exe"),
        ("a\u2066b\u2069", "a\\u2066b\\u2069"),
        ("a\x00b\x1b[31m", "a\\x00b\\x1b[31m"),
        ("a\nb", "a\\nb"),
        ("a\ud800b", "a\\ud800b"),
        ("zero\u200bwidth", "zero\\u200bwidth"),
    ],
)
def test_what_hides_or_turns_text_around_is_written_as_an_escape(text: str, shown: str) -> None:
    assert plain(text) == shown


def test_blocks_keep_their_line_ends_and_nothing_else() -> None:
    assert plain_lines("a\n\tb\r\x07\u202e") == "a\n\tb\\r\\x07\\u202e"


@pytest.mark.parametrize(
    ("found", "kind", "text"),
    [
        (None, "null", ""),
        (b"", "empty", ""),
        (b"hello", "text", "hello"),
        (b'{"a": [1]}', "json", '{\n  "a": [\n    1\n  ]\n}'),
        (b"{no json", "text", "{no json"),
        (b"\xff\x00", "binary", "ff 00"),
        (b"[" * 100_000, "text", "[" * 100_000),
    ],
)
def test_contents_are_shown_as_what_they_are(found: bytes | None, kind: str, text: str) -> None:
    shown = content(found, 128 * 1024, is_indented=True)

    assert (shown.kind, shown.text, shown.is_cut) == (kind, text, False)


def test_ten_megabytes_are_cut_and_their_size_is_told() -> None:
    shown = content(b"x" * 10_000_000, 1_000)

    assert (len(shown.text), shown.size_bytes, shown.is_cut) == (1_000, 10_000_000, True)
    assert len(content(b"\xff" * 10_000_000, 1_000).text) < 1_000


def test_a_character_that_is_cut_in_two_does_not_make_text_binary() -> None:
    shown = content("ä".encode() * 100, 11)

    assert (shown.kind, shown.text, shown.is_cut) == ("text", "ä" * 5, True)


def test_a_command_can_be_pasted_whatever_the_name_is() -> None:
    said = command("group", "describe", "$(rm -rf ~)\u202e", bootstrap="a:1,b:2")

    assert said == "chronik group describe '$(rm -rf ~)\\u202e' --bootstrap a:1,b:2"


def test_numbers_and_times_are_short() -> None:
    assert numbers([5, 0, 1, 2, 3]) == "0-3, 5"
    assert time_of(1_700_000_000_123) == "2023-11-14 22:13:20.123Z"
    assert time_of(10**18) is None
    assert [span(5), span(600), span(9000)] == ["5 s", "10 min", "2.5 h"]
    assert listed(["a", "b", "c"], 2) == "a, b and 1 more"
