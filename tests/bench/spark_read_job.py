"""One topic read by our source and by Spark's own connector, in turn, in one session.

`python -m tests.bench.spark_read_job BOOTSTRAP TOPIC ROWS PASSES SCRATCH` prints figures of both ways as JSON.
"""

from __future__ import annotations

import json
import statistics
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from chronik.pipeline.session import open_session
from tests.bench.audit_job import cpu_s
from tests.clients.jvm import jars_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DRIVER_MEMORY = "2g"
SOURCE, CONNECTOR = "chronik", "kafka"

Read = Callable[[str, int], None]
"""Everything, by the format of this name; the number tells one time from another."""


class Reads:
    """Two ways to read a topic to its end. The rows go nowhere: only reading is measured."""

    def __init__(self, spark: SparkSession, options: Mapping[str, str], scratch: Path) -> None:
        self._spark = spark
        self._options = options
        self._scratch = scratch

    def batch(self, kind: str, number: int) -> None:
        self._spark.read.format(kind).options(**self._options).load().write.format("noop").mode("overwrite").save()

    def stream(self, kind: str, number: int) -> None:
        frame = self._spark.readStream.format(kind).options(startingOffsets="earliest", **self._options).load()
        writer = frame.writeStream.format("noop").trigger(availableNow=True)
        writer.option("checkpointLocation", str(self._scratch / f"{kind}-{number}")).start().awaitTermination()

    def count(self, kind: str) -> int:
        return self._spark.read.format(kind).options(**self._options).load().count()


def in_turn(read: Read, rows: int, passes: int) -> dict[str, float]:
    """Who comes first changes, so that a slow minute touches both. The first pass of each is not counted."""
    seconds: dict[str, list[float]] = {SOURCE: [], CONNECTOR: []}
    cpu: dict[str, list[float]] = {SOURCE: [], CONNECTOR: []}
    for number in range(passes + 1):
        order = (SOURCE, CONNECTOR) if number % 2 else (CONNECTOR, SOURCE)
        for kind in order:
            began, cpu_before_s = time.monotonic(), cpu_s()
            read(kind, number)
            if number:
                seconds[kind].append(time.monotonic() - began)
                cpu[kind].append(max(cpu_s() - cpu_before_s, 0.01))
    pairs = zip(seconds[CONNECTOR], seconds[SOURCE], strict=True)
    cpu_pairs = zip(cpu[CONNECTOR], cpu[SOURCE], strict=True)
    return {
        "source_s": rows / statistics.median(seconds[SOURCE]),
        "connector_s": rows / statistics.median(seconds[CONNECTOR]),
        "ratio": statistics.median(theirs / ours for theirs, ours in pairs),
        "cpu_ratio": statistics.median(theirs / ours for theirs, ours in cpu_pairs),
    }


def main(bootstrap: str, topic: str, rows: int, passes: int, scratch: Path) -> None:
    settings = {"spark.jars": ",".join(sorted(map(str, jars_of("connector").glob("*.jar"))))}
    spark = open_session("bench", "local[2]", DRIVER_MEMORY, settings, str(scratch))
    reads = Reads(spark, {"kafka.bootstrap.servers": bootstrap, "subscribe": topic}, scratch)
    for kind in (SOURCE, CONNECTOR):
        assert (found := reads.count(kind)) == rows, f"{kind} finds {found} of {rows} rows"
    ways = {"batch": reads.batch, "stream": reads.stream}
    figures = {way: in_turn(read, rows, passes) for way, read in ways.items()}
    spark.stop()
    sys.stdout.write(json.dumps(figures) + "\n")


if __name__ == "__main__":
    Path(sys.argv[5]).mkdir(parents=True)
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]), Path(sys.argv[5]))
