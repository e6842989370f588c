"""Messages sent through librdkafka, with what became of each: acknowledged at which offset, or not and why."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

from chronik.client.connecting import client_settings, plain_errors, reason
from chronik.client.delivery import Tally

if TYPE_CHECKING:
    from confluent_kafka import KafkaError, Message, Producer

NO_ACKS, ALL_ACKS = "0", "all"


class MessageTarget(NamedTuple):
    """Where all messages of a sender go, and the headers of each."""

    topic: str
    partition: int | None = None
    headers: tuple[tuple[str, bytes], ...] = ()


class MessageSender:
    """Hands messages to librdkafka and notes what becomes of each."""

    def __init__(
        self, bootstrap: str, destination: MessageTarget, acks: str, compression: str, timeout_s: float
    ) -> None:
        self.tally = Tally()
        self._has_offsets = acks != NO_ACKS
        self._timeout_s = timeout_s
        self._destination: dict[str, Any] = {"topic": destination.topic, "headers": list(destination.headers) or None}
        if destination.partition is not None:
            self._destination["partition"] = destination.partition
        settings = client_settings(bootstrap) | {
            "acks": acks,
            # A retry after a lost answer must not write twice; with fewer acks Kafka does not offer that.
            "enable.idempotence": acks == ALL_ACKS,
            "compression.type": compression,
            "linger.ms": 5,
            "message.timeout.ms": round(timeout_s * 1000),
            # Let the node decide what is too large: its limit is the topic's, the client's would only be a guess.
            "message.max.bytes": 1_000_000_000,
        }
        self._producer = _new_producer(bootstrap, settings)

    @property
    def waiting(self) -> int:
        """Messages that are neither acknowledged nor given up."""
        return len(self._producer)

    def send(self, position: int, key: bytes | None, value: bytes) -> None:
        """Blocks while the client's queue is full. What became of it is noted under this position."""
        self.tally.sent += 1
        self.tally.sent_bytes += len(value) + len(key or b"")
        while True:
            try:
                self._producer.produce(key=key, value=value, on_delivery=self._noting(position), **self._destination)
                break
            except BufferError:  # the client's queue is full: let it send
                self._producer.poll(0.1)
        self._producer.poll(0)

    def not_sent(self, position: int, why: str) -> None:
        self.tally.sent += 1
        self.tally.lost(position, why)

    def wait_until_settled(self, advance: Callable[[int], None]) -> None:
        """Until every message is acknowledged or given up, which librdkafka does after its own timeout."""
        before = self.waiting
        deadline = time.monotonic() + self._timeout_s + 5
        while self.waiting and time.monotonic() < deadline:
            self._producer.flush(0.2)
            advance(before - self.waiting)
            before = self.waiting
        unheard = self.tally.sent - self.tally.acknowledged - self.tally.failed
        for _ in range(unheard):
            self.tally.lost(0, "no answer")

    def _noting(self, position: int) -> Callable[[KafkaError | None, Message], None]:
        def note(error: KafkaError | None, message: Message) -> None:
            if error is not None:
                self.tally.lost(position, reason(error))
            else:
                offset = message.offset() if self._has_offsets else None
                self.tally.took(message.partition() or 0, offset)

        return note


def generated(count: int, size: int) -> Iterator[bytes]:
    """Numbered messages of one size, so that a reader can tell which are missing; a tiny size keeps the last digits."""
    filler = (b"chronik " * (size // 8 + 1))[:size]
    for number in range(count):
        label = b"%d " % number
        yield (label + filler)[:size] if len(label) <= size else (b"%d" % number)[-size:]


def _new_producer(bootstrap: str, settings: dict[str, Any]) -> Producer:
    from confluent_kafka import Producer

    with plain_errors(bootstrap):
        return Producer(settings)
