"""Messages carry their number and their run."""

from __future__ import annotations

import pytest

from chronik.verify.messages import FOREIGN, Messages
from chronik.verify.settings import VALUE_BYTES_MIN


@pytest.mark.parametrize("number", [0, 7, 4_711, 9_999_999_999])
def test_a_message_has_its_number(number: int) -> None:
    messages = Messages("3f9a1c2e", 100)

    assert messages.number(messages.value(number)) == number


@pytest.mark.parametrize("value_bytes", [VALUE_BYTES_MIN, 41, 100, 1_000])
def test_a_message_has_the_size_that_was_asked_for(value_bytes: int) -> None:
    messages = Messages("3f9a1c2e", value_bytes)

    assert len(messages.value(4_711)) == value_bytes
    assert messages.number(messages.value(4_711)) == 4_711


def test_a_message_can_be_read_by_people() -> None:
    assert Messages("3f9a1c2e", 40).value(4_711).startswith(b"verify 3f9a1c2e number 0000004711")


@pytest.mark.parametrize(
    "value", [None, b"", b"verify 3f9a1c2e number 00000", b"verify 3f9a1c2e number 000000471x", b"hello"]
)
def test_what_others_wrote_has_no_number(value: bytes | None) -> None:
    assert Messages("3f9a1c2e", 100).number(value) == FOREIGN


def test_a_message_of_another_run_has_no_number() -> None:
    assert Messages("3f9a1c2e", 100).number(Messages("00000000", 100).value(1)) == FOREIGN
