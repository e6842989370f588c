"""One message, sent so that the answer is sure: it is at this offset on all in-sync replicas, or it was not taken."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from chronik.client.connecting import client_settings, plain_errors, reason
from chronik.client.errors import ChronikError

if TYPE_CHECKING:
    from confluent_kafka import KafkaError, Message

SEND_TIMEOUT_S = 15.0
ANY_PARTITION = -1  # librdkafka's RD_KAFKA_PARTITION_UA


@dataclass(frozen=True)
class NewMessage:
    key: bytes | None
    value: bytes | None
    """None: a tombstone."""
    headers: tuple[tuple[str, bytes | None], ...] = ()
    partition: int | None = None
    """None: chosen by the key."""


def send_one(bootstrap: str, topic: str, message: NewMessage, timeout_s: float = SEND_TIMEOUT_S) -> tuple[int, int]:
    """Its partition and offset. Raises ChronikError."""
    from confluent_kafka import Producer

    settings = client_settings(bootstrap) | {"acks": "all", "enable.idempotence": True, "linger.ms": 0}
    settings["message.timeout.ms"] = round(timeout_s * 1000)
    outcome: list[tuple[KafkaError | None, Message]] = []
    with plain_errors(bootstrap):
        producer = Producer(settings)
        producer.produce(
            topic,
            message.value,
            message.key,
            ANY_PARTITION if message.partition is None else message.partition,
            headers=list(message.headers),
            on_delivery=lambda error, sent: outcome.append((error, sent)),
        )
        producer.flush(timeout_s + 1)
    if not outcome:
        raise ChronikError(
            "not known whether the message was taken: no answer came", "look for it before sending again"
        )
    error, sent = outcome[0]
    if error is not None:
        raise ChronikError(f"the message was not taken: {reason(error)}")
    partition, offset = sent.partition(), sent.offset()
    assert partition is not None
    assert offset is not None  # it was acknowledged with acks=all
    return partition, offset
