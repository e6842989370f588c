"""A driver without Spark, to be killed: packs each micro-batch and commits it in one transaction, from a number on.

    python -m tests.spark.exactly_once_driver BOOTSTRAP TOPIC WRITER FIRST LAST

Each number is printed when its micro-batch is committed, as Spark notes it in its checkpoint.
"""

from __future__ import annotations

import sys
from typing import Any

import pyarrow as pa

from chronik.pipeline.exactly_once import commit_batch, pack_task
from chronik.pipeline.sink import WriteTask
from chronik.pipeline.topics.options import WriteOptions, write_options
from tests.spark.support import options

PARTITIONS = 3
ROWS = 30  # of a task
TASKS = 2


def values(micro_batch: int) -> list[bytes]:
    return [b"%d %d %d" % (micro_batch, task, row) for task in range(TASKS) for row in range(ROWS)]


def packed(micro_batch: int, said: WriteOptions, writer: str) -> list[Any]:
    messages = []
    for task in range(TASKS):
        columns: dict[str, Any] = {
            "value": [b"%d %d %d" % (micro_batch, task, row) for row in range(ROWS)],
            "partition": pa.array([row % PARTITIONS for row in range(ROWS)], pa.int32()),
        }
        # Small chunks: several batches for each partition.
        table = pa.table(columns)
        messages.append(
            pack_task(iter(table.to_batches()), said, WriteTask(writer, task, micro_batch), chunk_bytes=200)
        )
    return messages


def main(bootstrap: str, topic: str, writer: str, first: int, last: int) -> None:
    said = write_options({**options(bootstrap), "topic": topic, "exactlyOnce": "true"})
    for micro_batch in range(first, last):
        commit_batch(packed(micro_batch, said, writer), said, micro_batch)
        sys.stdout.write(f"{micro_batch}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4]), int(sys.argv[5]))
