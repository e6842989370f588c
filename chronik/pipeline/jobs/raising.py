"""diagnose --follow: the trace topic as a stream, to a topic that gets a record when something stalls or goes on."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from chronik.core.machines.metadata.names import TRACE_TOPIC
from chronik.pipeline.judging import EVERY_US
from chronik.pipeline.session import is_connect

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming import StreamingQuery

RECORDS_MAX = 2_000  # of the trace topic in a micro-batch, each of some hundred events: they are judged in one process
TRIGGER = "2 seconds"


@dataclass(frozen=True)
class RaiseSettings:
    """From where to where."""

    kafka: Mapping[str, str]
    to: str
    checkpoint: str
    from_beginning: bool = False
    is_once: bool = False  # what is there now, and end
    every_us: int = EVERY_US


def start(spark: SparkSession, settings: RaiseSettings) -> StreamingQuery:
    """A query that runs until it is stopped. Started again with the same checkpoint, it goes on where it was.

    Raises CannotRun.
    """
    from chronik.pipeline.topics.holdings import check_traced
    from chronik.pipeline.transforms.raising import raised

    check_traced(settings.kafka)
    records = (
        spark.readStream.format("chronik")
        .options(**settings.kafka)
        .option("subscribe", TRACE_TOPIC)
        .option("startingOffsets", "earliest" if settings.from_beginning else "latest")
        .option("maxOffsetsPerTrigger", str(RECORDS_MAX))
        # What retention took before it was read is a hole in the trace, and holes are what the rules expect.
        .option("failOnDataLoss", "false")
        .load()
    )
    writer = (
        raised(records, settings.every_us)
        .writeStream.format("chronik")
        .options(**settings.kafka)
        .option("topic", settings.to)
        .option("checkpointLocation", _checkpoint(spark, settings.checkpoint))
        .outputMode("append")
    )
    trigger = {"availableNow": True} if settings.is_once else {"processingTime": TRIGGER}
    return writer.trigger(**trigger).start()


def _checkpoint(spark: SparkSession, folder: str) -> str:
    """A server of Spark Connect has another working directory."""
    return os.path.abspath(folder) if is_connect(spark) and "://" not in folder else folder
