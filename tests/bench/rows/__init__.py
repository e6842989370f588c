"""All rows, in the order they are measured and shown."""

from __future__ import annotations

from tests.bench.row import Row
from tests.bench.rows import cluster, failover, latency, many_partitions, memory, one_record, start, throughput, trace

ROWS: tuple[Row, ...] = (
    start.ROW,
    memory.ROW,
    throughput.ROW,
    one_record.ROW,
    latency.ROW,
    many_partitions.ROW,
    cluster.COST,
    cluster.THROUGHPUT,
    cluster.WATERMARK,
    failover.ROW,
    failover.FAST_ROW,
    trace.ROW,
)
