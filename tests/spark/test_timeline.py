"""How offsets moved: a line of the timeline is told by one node at a time."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed: pip install 'chronik[spark]'")

from chronik.pipeline.transforms import diagnose, trace
from chronik.trace.events import AnyEvent, FetchAnswered, PartitionSeen, WatermarkMoved
from chronik.trace.lines import to_lines

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.timeout(300)  # the first test of a run waits for Java

SECOND_US = 1_000_000


def seen(second: int, node: int, epoch: int, end: int) -> PartitionSeen:
    return PartitionSeen(
        second * SECOND_US + node, node, "orders", 0, epoch, 0, end, end, end, end, (1, 2), 1, (), 100, is_traced=True
    )


def test_a_leader_that_was_cut_off_does_not_pull_the_line_of_its_successor_down(spark: SparkSession) -> None:
    """Seen: one partition's next offset went down and up again, by turns of two nodes."""
    events: list[AnyEvent] = [
        seen(1, 1, 3, 10),
        seen(2, 1, 3, 20),
        seen(3, 2, 4, 30),
        seen(3, 1, 3, 20),
        seen(4, 1, 3, 20),  # it still believes that it leads, and is the only one to say something
        seen(5, 1, 3, 20),
        seen(5, 2, 4, 50),
        WatermarkMoved(6 * SECOND_US, 2, "orders", 0, 50, 60, 60, is_leader=True),
        # A follower gives what it has.
        FetchAnswered(
            7 * SECOND_US,
            1,
            "orders",
            0,
            "app",
            "10.0.0.7",
            1,
            None,
            0,
            1_000,
            1,
            500,
            False,
            20,
            20,
            20,
            20,
            9,
            False,
            5,
        ),
    ]
    told = to_lines(sorted(events, key=lambda event: event.at_us))
    records = spark.createDataFrame([(0, 17, bytearray(told))], "partition int, offset long, value binary")

    rows = diagnose.timeline(trace.events_of(trace.lines_of_records(records)), SECOND_US).orderBy("from_us").collect()

    assert [(row.from_us // SECOND_US, row.next_offset, row.watermark) for row in rows] == [
        (1, 10, 10),
        (2, 20, 20),
        (3, 30, 30),
        (4, None, None),
        (5, 50, 50),
        (6, 60, 60),
        (7, None, None),
    ]
