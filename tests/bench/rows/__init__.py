"""All rows, in the order they are measured and shown: those with codes by their codes, then the rest."""

from __future__ import annotations

from tests.bench.row import Row
from tests.bench.rows import (
    audit,
    cluster,
    connections,
    end_to_end,
    failover,
    latency,
    many_partitions,
    memory,
    one_record,
    secured,
    seed_run,
    spark_read,
    start,
    synced,
    throughput,
    trace,
)

ROWS: tuple[Row, ...] = (
    throughput.PRODUCE,
    throughput.CONSUME,
    throughput.NODE_CPU,
    end_to_end.ROW,
    cluster.THROUGHPUT,
    cluster.LATENCY,
    synced.ROW,
    one_record.ROW,
    start.ROW,
    memory.ROW,
    many_partitions.ROW,
    many_partitions.GROWTH,
    failover.ROW,
    seed_run.ROW,
    spark_read.ROW,
    audit.ROW,
    audit.GROWTH,
    connections.ROW,
    secured.ROW,
    latency.ROW,
    cluster.COST,
    cluster.WATERMARK,
    failover.FAST_ROW,
    trace.ROW,
)


class NoSuchRow(ValueError):
    """Somebody asked for a row that is not there; the message names those that are."""


def rows_named(names: list[str]) -> list[Row]:
    """Rows by name or code, in whatever case; all when none is named. Raises NoSuchRow."""
    wanted = {name.lower() for name in names}
    known = {row.name for row in ROWS} | {row.code.lower() for row in ROWS}
    if unknown := sorted(wanted - known):
        there = ", ".join(f"{row.code} {row.name}".strip() for row in ROWS)
        raise NoSuchRow(f"no row {', '.join(unknown)}; there are {there}")
    return [row for row in ROWS if not wanted or row.name in wanted or row.code.lower() in wanted]
