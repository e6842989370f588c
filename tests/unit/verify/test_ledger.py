"""What was sent, acknowledged and consumed is written down as it was told."""

from __future__ import annotations

from chronik.verify.ledger import UNKNOWN, DeliveredMessages, Ledger, LedgerPlace, ReceivedRecord, missing
from chronik.verify.messages import Messages

MESSAGES = Messages("3f9a1c2e", 60)


def a_ledger(messages: int = 4) -> Ledger:
    return Ledger(messages, lambda: 0.0)


def given(*numbers: int) -> DeliveredMessages:
    delivered = DeliveredMessages(MESSAGES, 10, lambda: 0.0)
    delivered.take([ReceivedRecord(MESSAGES.value(number), 0, at) for at, number in enumerate(numbers)])
    return delivered


def test_what_is_sent_waits_until_it_is_acknowledged_or_refused() -> None:
    ledger = a_ledger()
    for number in range(3):
        ledger.send(number, number)
    ledger.acknowledge(0, 0, 17)
    ledger.refuse(1, "NotLeaderForPartitionError")

    assert (ledger.sent, ledger.acknowledged, ledger.waiting) == (3, 1, 1)
    assert ledger.place(0) == LedgerPlace(0, 17)
    assert ledger.errors == {"NotLeaderForPartitionError": 1}


def test_an_acknowledgement_without_an_offset_keeps_the_partition_it_was_sent_to() -> None:
    ledger = a_ledger()
    ledger.send(2, 1)

    ledger.acknowledge(2, None, -1)

    assert ledger.is_acknowledged(2)
    assert ledger.place(2) == LedgerPlace(1, UNKNOWN)


def test_errors_are_counted_by_their_name() -> None:
    ledger = a_ledger()
    for number in range(3):
        ledger.send(number, None)
        ledger.refuse(number, "KafkaTimeoutError" if number else "MessageSizeTooLargeError")

    assert ledger.errors == {"MessageSizeTooLargeError": 1, "KafkaTimeoutError": 2}


def test_messages_of_others_are_kept_and_not_counted() -> None:
    delivered = DeliveredMessages(MESSAGES, 10, lambda: 0.0)

    delivered.take(
        [ReceivedRecord(b"not ours", 0, 0), ReceivedRecord(MESSAGES.value(3), 0, 1), ReceivedRecord(None, 0, 2)]
    )

    assert len(delivered) == 3
    assert delivered.distinct == 1
    assert delivered.has(3)


def test_a_message_given_twice_counts_once() -> None:
    assert given(1, 2, 2, 1).distinct == 2


def test_an_empty_poll_is_no_sign_of_life() -> None:
    delivered = DeliveredMessages(MESSAGES, 10, lambda: 0.0)

    delivered.take([])

    assert delivered.pulse.first_s is None


def test_missing_is_what_was_sent_and_not_given_whether_acknowledged_or_not() -> None:
    ledger = a_ledger(5)
    for number in range(4):  # the last one was never sent
        ledger.send(number, 0)
    ledger.acknowledge(0, 0, 0)
    ledger.acknowledge(1, 0, 1)

    assert list(missing(ledger, given(1, 3))) == [0, 2]
