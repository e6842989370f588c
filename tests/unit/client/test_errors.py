"""The one error of the command line."""

from __future__ import annotations

from chronik.client.errors import ChronikError, RefusedByNode


def test_an_error_is_one_line_of_what_is_wrong_and_what_to_do() -> None:
    assert str(ChronikError("port 9092 is in use", "stop what uses it")) == "port 9092 is in use; stop what uses it"
    assert str(ChronikError("nothing deleted")) == "nothing deleted"


def test_a_refusal_keeps_kafkas_number() -> None:
    assert RefusedByNode(36, "topic exists").code == 36
