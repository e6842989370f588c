"""Ctrl-C as a wish to end."""

from __future__ import annotations

import io
import os
import signal
from collections.abc import Iterator

import pytest

from chronik.shell.interrupts import ENDING, Interrupts


@pytest.fixture
def interrupts(hang_ups_count: None) -> Iterator[Interrupts]:
    before = {number: signal.getsignal(number) for number in ENDING}
    listening = Interrupts()
    listening.listen()
    yield listening
    for number, handler in before.items():
        signal.signal(number, handler)


class InterruptedTerminal(io.BytesIO):
    """Gives one line; then the user presses Ctrl-C while it is waited for the next."""

    def readline(self, size: int | None = -1, /) -> bytes:
        line = super().readline()
        if not line:
            os.kill(os.getpid(), signal.SIGINT)
        return line


@pytest.mark.parametrize("number", ENDING)
def test_the_first_signal_is_a_wish_and_the_second_ends_at_once(interrupts: Interrupts, number: int) -> None:
    os.kill(os.getpid(), number)
    assert interrupts.is_ending

    with pytest.raises(KeyboardInterrupt):
        os.kill(os.getpid(), number)


def test_waiting_for_a_line_is_broken_off(interrupts: Interrupts) -> None:
    terminal = InterruptedTerminal(b"typed\n")

    assert interrupts.read_line(terminal) == b"typed\n"
    assert interrupts.read_line(terminal) == b""
    assert interrupts.is_ending


def test_no_line_is_read_once_it_is_time_to_end(interrupts: Interrupts) -> None:
    os.kill(os.getpid(), signal.SIGINT)

    assert interrupts.read_line(io.BytesIO(b"more\n")) == b""


def test_lines_are_read_to_their_end_when_nobody_interrupts(interrupts: Interrupts) -> None:
    lines = io.BytesIO(b"a\nb")

    assert [interrupts.read_line(lines) for _ in range(3)] == [b"a\n", b"b", b""]
    assert not interrupts.is_ending


def test_a_closed_terminal_is_not_heard_by_one_that_is_to_outlive_it(interrupts: Interrupts) -> None:
    signal.signal(signal.SIGHUP, signal.SIG_IGN)  # as `nohup` does

    interrupts.listen()
    os.kill(os.getpid(), signal.SIGHUP)

    assert not interrupts.is_ending


def test_who_listens_for_a_while_leaves_everything_as_it_was() -> None:
    before = [signal.getsignal(number) for number in ENDING]

    with Interrupts().listening() as interrupts:
        os.kill(os.getpid(), signal.SIGTERM)
        assert interrupts.is_ending

    assert [signal.getsignal(number) for number in ENDING] == before
