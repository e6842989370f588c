"""What a job's bar says, without a terminal and without Spark."""

from __future__ import annotations

import json
import uuid

import pytest

from chronik.pipeline.progress import ProgressBar, lag_of, progress
from chronik.pipeline.topics.client import ReadPartition
from chronik.pipeline.topics.plan import ReadOffsets


def offsets(**ends: int) -> str:
    numbered = {ReadPartition("t", number): end for number, end in enumerate(ends.values())}
    return json.dumps(ReadOffsets(numbered, {"t": uuid.UUID(int=7)}).to_json())


def test_the_bar_says_rows_rate_lag_and_partitions() -> None:
    bar = ProgressBar()

    bar.show(rows=120_000, partitions=1)
    bar.show(lag=3_000)

    assert bar.words(elapsed_s=10) == "120,000 rows · 12,000 a second · 3,000 to go · 1 partition"


def test_the_bar_says_which_part_of_a_job_it_is_at() -> None:
    bar = ProgressBar()

    bar.show(step="reading the trace")
    bar.show(step="drawing the page", rows=10)

    assert bar.words(elapsed_s=10) == "drawing the page · 10 rows · 1 a second"


def test_nothing_known_is_nothing_said() -> None:
    assert ProgressBar().words(elapsed_s=1) == ""


def test_lag_is_what_the_topic_has_and_the_query_has_not_read() -> None:
    source = {"endOffset": offsets(a=10, b=5), "latestOffset": offsets(a=15, b=5, c=2)}

    assert lag_of(source) == (7, 3)


def test_without_a_latest_offset_nothing_is_said_to_lag() -> None:
    assert lag_of({"endOffset": offsets(a=10), "latestOffset": None}) == (0, 1)


def test_nothing_is_drawn_where_nobody_looks(capsys: pytest.CaptureFixture[str]) -> None:
    with progress(None, "ingest") as bar:
        bar.show(rows=1)

    assert capsys.readouterr() == ("", "")
