"""Jobs for kafka-python: a client that looks for the new leader as soon as the old one is gone, as Kafka's own does."""

from __future__ import annotations

import logging
import os
import signal
import time

from kafka import KafkaProducer

TIMEOUT_S = 60.0
RETRIES = 1_000


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
