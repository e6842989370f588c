"""A program that opens transactions, says so, and does nothing more, so that it can be killed in the middle of them.

    python -m tests.cluster.abandoning BOOTSTRAP TOPIC NAME COUNT TIMEOUT_MS

Each has a record in every partition and an offset of the group `NAME`; its transactional id is NAME-NUMBER.
"""

from __future__ import annotations

import sys
import threading

from confluent_kafka import Consumer, Producer, TopicPartition

from tests.cluster.support import PARTITIONS, WAIT_S

OPEN = "all are open"


def main() -> None:
    bootstrap, topic, name, count, timeout_ms = sys.argv[1:]
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": name})
    kept = []
    for number in range(int(count)):
        settings = {"transactional.id": f"{name}-{number}", "transaction.timeout.ms": int(timeout_ms), "linger.ms": 0}
        producer = Producer({"bootstrap.servers": bootstrap, "log_level": 0, **settings})
        producer.init_transactions(WAIT_S)
        kept.append(producer)
    for number, producer in enumerate(kept):
        producer.begin_transaction()
        for partition in range(PARTITIONS):
            producer.produce(topic, b"abandoned by %d" % number, partition=partition)
        offsets = [TopicPartition(topic, number % PARTITIONS, 1)]
        producer.send_offsets_to_transaction(offsets, consumer.consumer_group_metadata(), WAIT_S)
        assert producer.flush(WAIT_S) == 0, "records that nothing answered"
    sys.stdout.write(f"{OPEN}\n")
    sys.stdout.flush()
    threading.Event().wait()


if __name__ == "__main__":
    main()
