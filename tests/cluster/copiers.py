"""Programs that copy a topic in transactions until they are ended: consume, produce, commit offsets, all or nothing.

    python -m tests.cluster.copiers CLIENT BOOTSTRAP SOURCE TARGET NAME

`NAME` is the transactional id and the group. Whatever fails, a session is given up and the next one begins where the
group stands: its producer has the same transactional id, so what the last one left open is over before the offsets are
read. The programs of Java, franz-go and kafkajs do the same, in tests/clients.
"""

from __future__ import annotations

import asyncio
import logging
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.clients.jvm import CLIENTS, jars_of, java_command

BATCH = 50
PARTITIONS = 3
POLL_S = 0.5
CALL_S = 20.0
STUCK_S = 45.0
# It is stuck after most kills of its coordinators; to begin anew too soon does no harm.
KAFKA_PYTHON_STUCK_S = 12.0
PYTHON = ("confluent", "kafka-python", "aiokafka")
OTHERS = ("java", "franz-go", "kafkajs")


def command_of(client: str, folder: Path) -> list[str] | None:
    """How a copier is started, up to its arguments; built first, if need be, in `folder`. None: it is not installed."""
    if client in PYTHON:
        return [sys.executable, "-m", "tests.cluster.copiers", client]
    if client == "java":
        jars = jars_of("client")
        if shutil.which("javac") is None or not jars.exists():
            return None
        source = CLIENTS / "java" / "Copier.java"
        subprocess.run(["javac", "-d", str(folder), "-cp", f"{jars}/*", str(source)], check=True)
        return java_command(jars, "Copier", folder=folder)
    if client == "franz-go":
        if shutil.which("go") is None:
            return None
        program = folder / "copier"
        subprocess.run(["go", "build", "-o", str(program), "./copier"], cwd=CLIENTS / "go", check=True)
        return [str(program)]
    if shutil.which("node") is None or not (CLIENTS / "node" / "node_modules").exists():
        return None
    return ["node", str(CLIENTS / "node" / "copier.js")]


def confluent(bootstrap: str, source: str, target: str, name: str) -> None:
    from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

    settings = {"bootstrap.servers": bootstrap, "reconnect.backoff.max.ms": 500, "log_level": 0}
    producer = Producer({**settings, "transactional.id": name, "transaction.timeout.ms": 60_000, "linger.ms": 0})
    consumer = Consumer(
        {**settings, "group.id": name, "isolation.level": "read_committed", "enable.auto.commit": False}
    )
    try:
        producer.init_transactions(CALL_S)
        places = [TopicPartition(source, partition) for partition in range(PARTITIONS)]
        for place in (stands := consumer.committed(places, timeout=CALL_S)):
            place.offset = max(place.offset, 0)
        consumer.assign(stands)
        while True:
            batch = consumer.consume(BATCH, POLL_S)
            # What stands behind one that could not be read must not be copied before it.
            for message in batch:
                if message.error():
                    raise KafkaException(message.error())
            if not batch:
                continue
            watchdog = threading.Timer(STUCK_S, _begin_anew)
            watchdog.start()
            producer.begin_transaction()
            ends: dict[int, int] = {}
            for message in batch:
                partition = message.partition() or 0
                producer.produce(target, message.value(), partition=partition)
                ends[partition] = (message.offset() or 0) + 1
            offsets = [TopicPartition(source, partition, end) for partition, end in ends.items()]
            producer.send_offsets_to_transaction(offsets, consumer.consumer_group_metadata(), CALL_S)
            producer.commit_transaction(CALL_S)
            watchdog.cancel()
    finally:
        watchdog.cancel()
        consumer.close()
        producer.purge()


def kafka_python(bootstrap: str, source: str, target: str, name: str) -> None:
    from kafka import KafkaConsumer, KafkaProducer, TopicPartition
    from kafka.structs import ConsumerGroupMetadata, OffsetAndMetadata

    settings = {
        "bootstrap_servers": bootstrap.split(","),
        "request_timeout_ms": 10_000,
        "reconnect_backoff_max_ms": 500,
    }
    producer = KafkaProducer(**settings, transactional_id=name, transaction_timeout_ms=60_000)
    consumer = KafkaConsumer(**settings, group_id=name, isolation_level="read_committed", enable_auto_commit=False)
    watchdog = threading.Timer(KAFKA_PYTHON_STUCK_S, _begin_anew)
    try:
        watchdog.start()
        producer.init_transactions()
        places = [TopicPartition(source, partition) for partition in range(PARTITIONS)]
        consumer.assign(places)
        for place in places:
            consumer.seek(place, consumer.committed(place) or 0)
        watchdog.cancel()
        while True:
            batch = consumer.poll(int(POLL_S * 1000), max_records=BATCH)
            if not batch:
                continue
            watchdog = threading.Timer(KAFKA_PYTHON_STUCK_S, _begin_anew)
            watchdog.start()
            producer.begin_transaction()
            sent = [
                producer.send(target, record.value, partition=place.partition)
                for place, records in batch.items()
                for record in records
            ]
            ends = {place: OffsetAndMetadata(records[-1].offset + 1, "", -1) for place, records in batch.items()}
            producer.send_offsets_to_transaction(ends, ConsumerGroupMetadata(name, -1, "", None))
            producer.commit_transaction()
            watchdog.cancel()
            assert all(one.succeeded() for one in sent), "committed, and a record failed"
    finally:
        watchdog.cancel()
        consumer.close()
        producer.close(1)


def _begin_anew() -> None:
    """For clients that wait for ever. kafka-python 3.0.12 loses a request whose coordinator refuses the connection, and
    librdkafka 2.16 was seen in `send_offsets_to_transaction` long after the timeout of the call."""
    _say("again: a transaction does not come to its end")
    os.execv(sys.executable, [sys.executable, "-m", "tests.cluster.copiers", *sys.argv[1:]])


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def aiokafka(bootstrap: str, source: str, target: str, name: str) -> None:
    asyncio.run(_aiokafka(bootstrap, source, target, name))


async def _aiokafka(bootstrap: str, source: str, target: str, name: str) -> None:
    from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition

    settings: dict[str, Any] = {"bootstrap_servers": bootstrap, "request_timeout_ms": 10_000}
    producer = AIOKafkaProducer(**settings, transactional_id=name, transaction_timeout_ms=60_000)
    consumer = AIOKafkaConsumer(**settings, group_id=name, isolation_level="read_committed", enable_auto_commit=False)
    try:
        await asyncio.wait_for(producer.start(), CALL_S)
        await asyncio.wait_for(consumer.start(), CALL_S)
        places = [TopicPartition(source, partition) for partition in range(PARTITIONS)]
        consumer.assign(places)
        for place in places:
            consumer.seek(place, await asyncio.wait_for(consumer.committed(place), CALL_S) or 0)
        while True:
            batch = await consumer.getmany(timeout_ms=int(POLL_S * 1000), max_records=BATCH)
            if not batch:
                continue
            await producer.begin_transaction()
            sent = [
                await producer.send(target, record.value, partition=place.partition)
                for place, records in batch.items()
                for record in records
            ]
            await asyncio.wait_for(asyncio.gather(*sent), CALL_S)
            ends = {place: records[-1].offset + 1 for place, records in batch.items()}
            await asyncio.wait_for(producer.send_offsets_to_transaction(ends, name), CALL_S)
            await asyncio.wait_for(producer.commit_transaction(), CALL_S)
    finally:
        await asyncio.wait_for(consumer.stop(), CALL_S)
        await asyncio.wait_for(producer.stop(), CALL_S)


SESSIONS: dict[str, Callable[[str, str, str, str], None]] = {
    "confluent": confluent,
    "kafka-python": kafka_python,
    "aiokafka": aiokafka,
}


def main() -> None:
    client, *arguments = sys.argv[1:]
    logging.basicConfig(level=os.environ.get("COPIER_LOG", "WARNING"), format="%(asctime)s %(name)s %(message)s")
    while True:
        try:
            SESSIONS[client](*arguments)
        except Exception as problem:  # whatever it is: the next session finds out what came of it
            _say(f"again: {problem!r}")


if __name__ == "__main__":
    main()
