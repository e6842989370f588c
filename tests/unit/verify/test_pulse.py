"""Five seconds without a message are a stall."""

from __future__ import annotations

from chronik.verify.pulse import Pulse, Stall


def test_messages_that_keep_coming_are_no_stall() -> None:
    pulse = Pulse("consume", 0.0)

    for second in range(1, 20):
        pulse.beat(float(second), 500)
    pulse.end(23.9)

    assert pulse.stalls == []
    assert pulse.count == 9_500
    assert pulse.first_s == 1.0


def test_five_seconds_of_silence_between_messages_are_a_stall_with_its_time() -> None:
    pulse = Pulse("consume", 10.0)
    pulse.beat(11.0, 300)

    pulse.beat(16.0, 200)

    assert pulse.stalls == [Stall("consume", 11.0, 5.0, 300)]


def test_waiting_for_the_first_message_can_be_a_stall() -> None:
    pulse = Pulse("produce", 2.0)

    pulse.beat(8.0)

    assert pulse.stalls == [Stall("produce", 2.0, 6.0, 0)]


def test_silence_until_the_end_is_a_stall() -> None:
    pulse = Pulse("consume", 0.0)
    pulse.beat(1.0, 3_819)

    pulse.end(60.0)

    assert pulse.stalls == [Stall("consume", 1.0, 59.0, 3_819)]
    assert pulse.quiet_s(60.0) == 59.0
