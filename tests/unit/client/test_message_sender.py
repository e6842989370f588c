"""The generated load of `chronik produce`."""

from __future__ import annotations

import pytest

from chronik.client.message_sender import generated


@pytest.mark.parametrize("size", [1, 2, 5, 8, 100, 1000])
def test_every_generated_message_has_the_size_asked_for(size: int) -> None:
    assert {len(value) for value in generated(12, size)} == {size}


def test_generated_messages_are_numbered() -> None:
    assert [int(value.split()[0]) for value in generated(3, 20)] == [0, 1, 2]


def test_a_size_too_small_for_the_number_keeps_its_last_digits() -> None:
    assert list(generated(11, 1))[-1] == b"0"
