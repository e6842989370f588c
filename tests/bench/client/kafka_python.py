"""Jobs for kafka-python: the seed run, and failover: it looks for the new leader as soon as the old one is gone."""

from __future__ import annotations

import logging
import os
import signal
import time

from kafka import KafkaConsumer, KafkaProducer

TIMEOUT_S = 60.0
RETRIES = 1_000
POLL_RECORDS_MAX = 500
POLL_MS = 1_000


def gap_after_kill(bootstrap: str, topic: str, pid: int, steady: int) -> dict[str, float]:
    """One message after the other with acks=all; then a node is killed. How long until the next one is acknowledged?"""
    logging.getLogger("kafka").setLevel(logging.CRITICAL)  # it tells of the node that is gone, which is the point
    producer = KafkaProducer(bootstrap_servers=bootstrap, acks="all", retries=RETRIES)
    try:
        for _ in range(steady):
            producer.send(topic, b"steady", partition=0).get(TIMEOUT_S)
        os.kill(pid, signal.SIGKILL)
        killed = time.monotonic()
        producer.send(topic, b"after", partition=0).get(TIMEOUT_S)
        return {"gap_s": time.monotonic() - killed}
    finally:
        producer.close()


def seed_run(bootstrap: str, topic: str, messages: int) -> dict[str, float]:
    """The run that all began with: so many messages in with acks=1, all of them out again, through one address."""
    started = time.monotonic()
    producer = KafkaProducer(bootstrap_servers=bootstrap, acks=1)
    sent = [producer.send(topic, f"message-{number}".encode()) for number in range(messages)]
    producer.flush(TIMEOUT_S)
    producer.close()
    acknowledged = sum(future.succeeded() for future in sent)
    consumer = KafkaConsumer(
        topic, bootstrap_servers=bootstrap, auto_offset_reset="earliest", max_poll_records=POLL_RECORDS_MAX
    )
    values: set[bytes] = set()
    while len(values) < messages and time.monotonic() < started + TIMEOUT_S:
        for records in consumer.poll(POLL_MS).values():
            values.update(record.value for record in records)
    seconds = time.monotonic() - started
    consumer.close()
    return {
        "seconds": seconds,
        "acknowledged_percent": 100 * acknowledged / messages,
        "consumed_percent": 100 * len(values) / messages,
    }
