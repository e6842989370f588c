"""Everything that waits for time hangs on one timer."""

from __future__ import annotations

import logging

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chronik.node.runtime.deadlines import COMPACT_FROM
from chronik.trace.metrics import Metrics
from tests.unit.node.fakes import FakeLoop, fake_deadlines


def test_actions_happen_at_their_time_and_in_its_order() -> None:
    loop, happened = FakeLoop(), []
    deadlines = fake_deadlines(loop)
    for delay_ms in (30, 10, 20, 10):
        deadlines.after_ms(delay_ms, lambda delay_ms=delay_ms: happened.append((delay_ms, loop.now)))  # type: ignore[misc]

    loop.advance(9)
    assert happened == []
    loop.advance(100)

    assert [delay_ms for delay_ms, _ in happened] == [10, 10, 20, 30]
    assert [round((at - 100) * 1000) for _, at in happened] == [10, 10, 20, 30]


def test_those_of_the_same_time_happen_in_the_order_they_were_asked_for() -> None:
    loop, happened = FakeLoop(), []
    deadlines = fake_deadlines(loop)
    for number in range(5):
        deadlines.after_ms(10, lambda number=number: happened.append(number))  # type: ignore[misc]

    loop.advance(10)

    assert happened == [0, 1, 2, 3, 4]


def test_the_loop_has_one_timer_however_many_wait() -> None:
    loop = FakeLoop()
    deadlines = fake_deadlines(loop)

    for delay_ms in range(1000, 0, -1):
        deadlines.after_ms(delay_ms, lambda: None)

    assert len(loop.live_timers()) == 1


def test_a_later_deadline_does_not_touch_the_timer() -> None:
    loop = FakeLoop()
    deadlines = fake_deadlines(loop)

    for delay_ms in range(1, 1000):
        deadlines.after_ms(delay_ms, lambda: None)

    assert loop.timers_made == 1


def test_a_cancelled_deadline_does_not_happen() -> None:
    loop, happened = FakeLoop(), []
    deadlines = fake_deadlines(loop)
    first = deadlines.after_ms(10, lambda: happened.append("first"))
    deadlines.after_ms(20, lambda: happened.append("second"))

    deadlines.cancel(first)
    deadlines.cancel(first)
    loop.advance(100)

    assert happened == ["second"]


def test_one_of_the_same_time_can_cancel_the_next(caplog: pytest.LogCaptureFixture) -> None:
    loop, happened = FakeLoop(), []
    deadlines = fake_deadlines(loop)
    deadlines.after_ms(10, lambda: deadlines.cancel(second))
    second = deadlines.after_ms(10, lambda: happened.append("second"))

    loop.advance(100)

    assert (happened, caplog.records) == ([], [])


def test_a_fault_in_one_action_does_not_take_the_others_with_it(caplog: pytest.LogCaptureFixture) -> None:
    loop, happened = FakeLoop(), []
    metrics = Metrics()
    deadlines = fake_deadlines(loop, metrics)

    def fail() -> None:
        raise RuntimeError("a bug")

    deadlines.after_ms(10, fail)
    deadlines.after_ms(10, lambda: happened.append("after"))
    with caplog.at_level(logging.ERROR):
        loop.advance(10)

    assert happened == ["after"]
    assert "a bug" in caplog.text
    assert metrics.faults == 1


def test_an_action_may_ask_for_another_deadline() -> None:
    loop, happened = FakeLoop(), []
    deadlines = fake_deadlines(loop)

    def again() -> None:
        happened.append(round((loop.now - 100) * 1000))
        if len(happened) < 3:
            deadlines.after_ms(10, again)

    deadlines.after_ms(10, again)
    loop.advance(1000)

    assert happened == [10, 20, 30]


def test_a_delay_below_zero_is_due_at_once() -> None:
    loop, happened = FakeLoop(), []
    deadlines = fake_deadlines(loop)
    deadlines.after_ms(-5000, lambda: happened.append("now"))

    loop.advance(0)

    assert happened == ["now"]


def test_cancelled_deadlines_do_not_pile_up() -> None:
    """A consumer's long poll mostly ends before its time: its deadline must not stay for ever."""
    loop = FakeLoop()
    deadlines = fake_deadlines(loop)

    for _ in range(20 * COMPACT_FROM):
        deadlines.cancel(deadlines.after_ms(3_600_000, lambda: None))

    assert len(deadlines._heap) <= 2 * COMPACT_FROM


@given(steps=st.lists(st.tuples(st.integers(0, 50), st.booleans()), max_size=40), late_ms=st.integers(0, 60))
def test_whatever_is_not_cancelled_happens_once_and_not_early(steps: list[tuple[int, bool]], late_ms: int) -> None:
    loop = FakeLoop()
    deadlines = fake_deadlines(loop)
    happened: list[int] = []
    for number, (delay_ms, is_cancelled) in enumerate(steps):
        deadline = deadlines.after_ms(delay_ms, lambda number=number: happened.append(number))  # type: ignore[misc]
        if is_cancelled:
            deadlines.cancel(deadline)

    loop.advance(late_ms)
    early = set(happened)
    loop.advance(1000)

    wanted = {number for number, (_, is_cancelled) in enumerate(steps) if not is_cancelled}
    assert sorted(happened) == sorted(wanted)
    assert early == {number for number in wanted if steps[number][0] <= late_ms}


def test_after_closing_nothing_happens() -> None:
    loop, happened = FakeLoop(), []
    deadlines = fake_deadlines(loop)
    deadlines.after_ms(10, lambda: happened.append("never"))

    deadlines.close()
    loop.advance(1000)

    assert happened == []
