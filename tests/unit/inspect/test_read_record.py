"""What reading one offset says of it: only a record that came later shows that there is none."""

from __future__ import annotations

from typing import Any

import pytest
from confluent_kafka import KafkaError

from chronik.client.errors import ChronikError
from chronik.client.request import NoAnswer
from chronik.inspect.gather_record import remember
from chronik.inspect.read_record import RecordReading, reading_of

OFFSET = 42


class Message:
    def __init__(self, offset: int, error: int | None = None) -> None:
        self._offset = offset
        self._error = None if error is None else KafkaError(error)

    def error(self) -> KafkaError | None:
        return self._error

    def offset(self) -> int:
        return self._offset

    def timestamp(self) -> tuple[int, int]:
        return 1, 1_000

    def headers(self) -> None:
        return None

    def key(self) -> bytes:
        return b"k"

    def value(self) -> bytes:
        return b"v"


class Consumer:
    """Gives these, one a poll, and then nothing."""

    def __init__(self, *messages: Message) -> None:
        self._messages = list(messages)

    def poll(self, wait_s: float) -> Message | None:
        return self._messages.pop(0) if self._messages else None


def read(*messages: Message) -> RecordReading:
    return reading_of(Consumer(*messages), "orders", 0, OFFSET, timeout_s=0.01)


def test_a_record_at_the_offset_is_the_record() -> None:
    record = read(Message(OFFSET)).record

    assert record is not None
    assert (record.offset, record.key, record.value) == (OFFSET, b"k", b"v")


@pytest.mark.parametrize("later", [Message(OFFSET + 2), Message(OFFSET + 1, KafkaError._PARTITION_EOF)])
def test_a_later_record_or_a_later_end_shows_that_none_is_there(later: Message) -> None:
    assert read(later) == RecordReading(is_passed_over=True)


def test_nothing_in_time_is_no_knowledge() -> None:
    assert read() == RecordReading(problem="nothing came in 0.01 s")


def test_an_error_is_no_knowledge_and_is_named() -> None:
    told = read(Message(OFFSET, KafkaError.TOPIC_AUTHORIZATION_FAILED))

    assert (told.record, told.is_passed_over) == (None, False)
    assert "authorization failed" in str(told.problem)


def test_an_error_that_the_library_gets_over_is_waited_out() -> None:
    assert read(Message(-1, KafkaError._TRANSPORT), Message(OFFSET)).record is not None


def test_an_end_at_the_offset_itself_is_no_record_that_was_passed_over() -> None:
    told = read(Message(OFFSET, KafkaError._PARTITION_EOF))

    assert (told.is_passed_over, told.problem) == (False, "the log ends there now")


def test_nodes_that_do_not_tell_what_they_traced_are_one_line() -> None:
    def ask(**arguments: Any) -> Any:
        raise NoAnswer("localhost:9092 hung up, and is gone")

    with pytest.raises(ChronikError, match="hung up"):
        remember("orders", ask)
