"""Jobs of a producer and a consumer that together measure how long a message takes at a steady rate.

Each message carries when it was handed to the producer, on the monotonic clock that all processes of a machine share.
"""

from __future__ import annotations

import os
import statistics
import struct
import time

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

TIMEOUT_S = 60.0
TICK_S = 0.001
_STAMP = struct.Struct(">q")
NOT_MEASURED = 0


def send_paced(
    bootstrap: str, topic: str, count: int, warm_up: int, messages_s: int, value_bytes: int, acks: str
) -> dict[str, float]:
    """So many a second, all the time the same; those of the warm-up carry no time."""
    # Without linger: what the client itself waits to fill a batch is not the node's.
    producer = Producer({"bootstrap.servers": bootstrap, "acks": acks, "linger.ms": 0})
    producer.list_topics(topic, timeout=TIMEOUT_S)
    padding = os.urandom(max(value_bytes - _STAMP.size, 0))
    started, sent = time.monotonic(), 0
    while sent < warm_up + count:
        due = min(int((time.monotonic() - started) * messages_s) + 1, warm_up + count)
        for number in range(sent, due):
            stamp = time.monotonic_ns() if number >= warm_up else NOT_MEASURED
            producer.produce(topic, _STAMP.pack(stamp) + padding, partition=0)
        sent = due
        producer.poll(0)
        time.sleep(TICK_S)
    seconds = time.monotonic() - started
    if left := producer.flush(TIMEOUT_S):
        raise RuntimeError(f"{left} messages were not acknowledged")
    return {"messages_s": sent / seconds}


def receive_paced(bootstrap: str, topic: str, count: int) -> dict[str, float]:
    """Until so many messages with a time have come."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "paced", "enable.auto.commit": False})
    consumer.assign([TopicPartition(topic, 0, 0)])
    latencies_ms: list[float] = []
    deadline = time.monotonic() + TIMEOUT_S
    while len(latencies_ms) < count:
        message = consumer.poll(1.0)
        if message is None:
            if time.monotonic() > deadline:
                raise RuntimeError(f"{count - len(latencies_ms)} messages did not come")
            continue
        now_ns = time.monotonic_ns()
        error = message.error()
        if error is not None:
            raise KafkaException(error)
        value = message.value()
        assert value is not None
        (stamp,) = _STAMP.unpack_from(value)
        if stamp != NOT_MEASURED:
            latencies_ms.append((now_ns - stamp) / 1e6)
    consumer.close()
    thousandths = statistics.quantiles(latencies_ms, n=1000, method="inclusive")
    return {"p50_ms": thousandths[499], "p99_ms": thousandths[989], "p999_ms": thousandths[998]}
