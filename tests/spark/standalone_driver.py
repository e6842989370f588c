"""A driver as a user writes it, in a process of its own: all of the pipeline on a cluster, told as JSON.

`python standalone_driver.py MASTER BOOTSTRAP SOURCE TARGET FOLDER`
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

from chronik.pipeline.jobs import audit, ingest
from chronik.pipeline.session import open_session


def main(master: str, bootstrap: str, source: str, target: str, folder: Path) -> None:
    small = {"spark.executor.memory": "512m", "spark.sql.shuffle.partitions": "2"}
    spark = open_session("driver", master, "512m", small)
    kafka = {"kafka.bootstrap.servers": bootstrap}
    stream = spark.readStream.format("chronik").options(**kafka, subscribe=source, startingOffsets="earliest").load()
    writer = stream.writeStream.format("chronik").options(**kafka, topic=target, checkpointLocation=f"{folder}/stream")
    writer.trigger(availableNow=True).start().awaitTermination()
    written = spark.read.format("chronik").options(**kafka, subscribe=target, minPartitions="4").load()

    table = folder / "table"
    filled = ingest.run(spark, ingest.Settings({**kafka, "subscribe": target, "startingOffsets": "earliest"}, table))
    found = audit.run(spark, audit.Settings(kafka=kafka, topics=(target,), received=(str(table),)))
    # An executor has a folder of its own.
    places = spark.sparkContext.parallelize(range(8), 8).map(lambda _: os.getcwd()).distinct().count()
    told = {"rows": written.count(), "executors": places, "filled": filled.rows, "found": found.totals}
    sys.stdout.write(json.dumps(told) + "\n")


if __name__ == "__main__":
    given = sys.argv[1:]
    main(given[0], given[1], given[2], given[3], Path(given[4]))
