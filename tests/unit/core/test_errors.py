"""What a refusal says to the client."""

from __future__ import annotations

from chronik.core.errors import Code, Refused


def test_a_refusal_quotes_a_long_name_only_so_far_as_an_answer_has_room() -> None:
    refusal = Refused(Code.INVALID_TOPIC_EXCEPTION, "x" * 40_000)
    assert refusal.message == "x" * 1000 + "..."


def test_a_refusal_without_words_has_no_message() -> None:
    refusal = Refused(Code.UNKNOWN_TOPIC_OR_PARTITION)
    assert (refusal.message, str(refusal)) == (None, "UNKNOWN_TOPIC_OR_PARTITION")
