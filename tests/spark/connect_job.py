"""`format("chronik")` in a session of Spark Connect: `python connect_job.py REMOTE BOOTSTRAP FROM TO CHECKPOINT`.

Prints how many records a batch has read, and writes them twice: as a batch, and as a stream."""

from __future__ import annotations

import json
import sys

from chronik.pipeline.session import open_session


def run(remote: str, bootstrap: str, source: str, target: str, checkpoint: str) -> int:
    spark = open_session("test", remote=remote)
    there = {"kafka.bootstrap.servers": bootstrap}
    read = spark.read.format("chronik").options(**there, subscribe=source).load()
    count = read.count()
    read.select("key", "value").write.format("chronik").options(**there, topic=target).mode("append").save()
    stream = spark.readStream.format("chronik").options(**there, subscribe=source, startingOffsets="earliest").load()
    query = (
        stream.select("key", "value")
        .writeStream.format("chronik")
        .options(**there, topic=target, checkpointLocation=checkpoint)
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    spark.stop()
    return count


if __name__ == "__main__":
    sys.stdout.write(json.dumps(run(*sys.argv[1:])))
