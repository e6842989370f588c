"""Tables and spans of time back to topics, as they were."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from chronik.testing import RunningNode
from tests.spark.commands import run_commands
from tests.spark.support import Sent, new_topic, options, received, send, simple

pytest.importorskip("pyspark", reason="pyspark is not installed: pip install 'chronik[spark]'")
pytest.importorskip("deltalake", reason="deltalake is not installed: pip install 'chronik[spark]'")
pytest.importorskip("numba", reason="numba is not installed: pip install 'chronik[spark]'")

import deltalake
import pyarrow as pa
import pyarrow.parquet as pq

from chronik.pipeline.jobs import ingest
from chronik.pipeline.jobs.ingest import Format
from chronik.pipeline.jobs.replay import ReplayOutcome, ReplaySettings, run
from chronik.pipeline.problems import JobCannotRun, plain_errors
from chronik.pipeline.progress import ProgressBar
from chronik.pipeline.sink import WriteTask, write_rows, write_tails
from chronik.pipeline.topics.options import write_options
from chronik.pipeline.values.forms import Form, Kind, read_form

pytestmark = pytest.mark.timeout(300)  # the first test of a run waits for Java

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

START_MS = 1_700_000_000_000


def fill(
    spark: SparkSession, bootstrap: str, topic: str, table: Path, form: Form | None = None, **more: Any
) -> ingest.IngestOutcome:
    return ingest.run(spark, ingest.IngestSettings(options(bootstrap, topic), table, form or Form(), **more))


class Watched(ProgressBar):
    """A bar that remembers what it was shown."""

    def __init__(self) -> None:
        super().__init__()
        self.rows_seen: list[int] = []

    def show(self, **said: Any) -> None:
        super().show(**said)
        if "rows" in said:
            self.rows_seen.append(said["rows"])


def replay(spark: SparkSession, bootstrap: str, to: str, bar: ProgressBar | None = None, **more: Any) -> ReplayOutcome:
    with plain_errors():
        return run(spark, ReplaySettings(options(bootstrap), to, **more), bar)


def as_sent(bootstrap: str, topic: str, count: int) -> list[Sent]:
    """By partition and offset."""
    messages = sorted(received(bootstrap, topic, count), key=lambda each: (each.partition(), each.offset()))
    return [
        Sent(each.partition(), each.key(), each.value(), each.timestamp()[1], tuple(each.headers() or ()))
        for each in messages
    ]


def varied(count: int, partitions: int) -> list[Sent]:
    """Keys that say nothing about partitions, times that go back and forth, headers, nulls."""
    return [
        Sent(
            number % partitions,
            None if number % 5 == 0 else b"key %d" % (number % 7),
            None if number % 11 == 0 else b"%d" % number,
            START_MS + (number * 7919) % 1000,
            (("number", b"%d" % number), ("null", None)) if number % 2 else (),
        )
        for number in range(count)
    ]


@pytest.mark.parametrize("format_", list(Format))
def test_a_table_comes_back_as_the_topic_it_was(
    spark: SparkSession, chronik_node: RunningNode, tmp_path: Path, format_: Format
) -> None:
    if format_ == Format.ICEBERG:
        pytest.importorskip("pyiceberg", reason="pyiceberg is not installed: pip install 'chronik[iceberg]'")
    here = chronik_node.bootstrap
    source, target = new_topic(here, 3), new_topic(here, 3)
    send(here, source, varied(300, 3))
    table = tmp_path / "my tables = ö" / "table"  # a name like any other
    fill(spark, here, source, table, format=format_)

    outcome = replay(spark, here, target, table=table)

    assert outcome.rows == 300
    assert as_sent(here, target, 300) == as_sent(here, source, 300)


def test_a_span_of_time_is_replayed_and_nothing_else(spark: SparkSession, chronik_node: RunningNode) -> None:
    here = chronik_node.bootstrap
    source, target = new_topic(here, 2), new_topic(here, 2)
    send(here, source, varied(200, 2))
    since, until = START_MS + 300, START_MS + 600

    replay(spark, here, target, from_topic=source, since_ms=since, until_ms=until)

    wanted = [each for each in as_sent(here, source, 200) if since <= each.timestamp_ms < until]
    assert 0 < len(wanted) < 200
    assert as_sent(here, target, len(wanted)) == wanted


def test_with_a_rate_records_come_in_the_order_of_time_and_not_faster(
    spark: SparkSession, chronik_node: RunningNode
) -> None:
    here = chronik_node.bootstrap
    source, target = new_topic(here, 2), new_topic(here)
    send(here, source, [Sent(number % 2, None, b"%d" % number, START_MS + number) for number in range(100)])

    begin = time.monotonic()
    bar = Watched()
    replay(spark, here, target, bar=bar, from_topic=source, rate=50, keeps_partition=False)

    assert time.monotonic() - begin >= 2.0
    assert bar.rows_seen == sorted(bar.rows_seen)
    assert any(0 < rows < 100 for rows in bar.rows_seen)
    assert bar.rows_seen[-1] == 100
    assert [int(each.value or b"") for each in as_sent(here, target, 100)] == list(range(100))


def test_a_rate_is_kept_by_the_sink(chronik_node: RunningNode) -> None:
    topic = new_topic(chronik_node.bootstrap)
    said = write_options({**options(chronik_node.bootstrap), "topic": topic, "rowsPerSecond": "200"})
    rows = [pa.record_batch({"value": [str(number) for number in range(300)]})]

    begin = time.monotonic()
    written = write_rows(iter(rows), said, WriteTask("rate", 0, 0))
    write_tails([written], said)

    assert written.rows == 300
    assert 1.5 <= time.monotonic() - begin < 20
    assert [int(each.value()) for each in received(chronik_node.bootstrap, topic, 300)] == list(range(300))


def test_a_replay_that_is_run_again_under_its_id_writes_nothing_twice(
    spark: SparkSession, chronik_node: RunningNode, tmp_path: Path
) -> None:
    here = chronik_node.bootstrap
    source, target = new_topic(here, 2), new_topic(here, 2)
    send(here, source, varied(200, 2))
    fill(spark, here, source, tmp_path / "table")

    for _ in range(2):
        replay(spark, here, target, table=tmp_path / "table", run_id="same")

    assert as_sent(here, target, 200) == as_sent(here, source, 200)


def test_run_again_on_other_cores_a_replay_writes_nothing_twice(chronik_node: RunningNode, tmp_path: Path) -> None:
    here = chronik_node.bootstrap
    placed, plain = new_topic(here, 4), new_topic(here)
    for name in ("placed", "plain"):
        (tmp_path / name).mkdir()
    values, partitions = [b"%d" % number for number in range(40)], pa.array([0, 1, 2, 3] * 10, pa.int32())
    rows = pa.table({"value": values, "partition": partitions, "offset": list(range(40))})
    pq.write_table(rows, tmp_path / "placed" / "0.parquet")
    for number in range(4):
        pq.write_table(pa.table({"value": [b"%d" % number]}), tmp_path / "plain" / f"{number}.parquet")

    def commands(cores: int) -> dict[str, list[str]]:
        said = ["--run-id", "same", "--json", "--bootstrap", here, "--master", f"local[{cores}]"]
        return {
            f"{name} {cores}": ["replay", "--table", str(tmp_path / name), "--to", to, *said]
            for name, to in (("placed", placed), ("plain", plain))
        }

    done = run_commands(tmp_path, commands(1) | commands(3))

    assert [each.code for each in done.values()] == [0] * 4, done
    assert sorted(int(each.value()) for each in received(here, placed, 40)) == list(range(40))
    assert sorted(int(each.value()) for each in received(here, plain, 4)) == list(range(4))


def test_values_that_were_read_by_a_schema_go_out_as_json(
    spark: SparkSession, chronik_node: RunningNode, tmp_path: Path
) -> None:
    here = chronik_node.bootstrap
    source, target = new_topic(here), new_topic(here)
    send(here, source, [Sent(0, None, b'{ "id": 1, "name": "a" }'), Sent(0, None, None)])
    (tmp_path / "schema").write_text("id bigint, name string")
    fill(spark, here, source, tmp_path / "table", read_form(Kind.JSON, tmp_path / "schema"))

    replay(spark, here, target, table=tmp_path / "table", keeps_timestamp=False)

    back = as_sent(here, target, 2)
    assert [each.value for each in back] == [b'{"id":1,"name":"a"}', None]
    assert all(each.timestamp_ms > START_MS + 1000 for each in back)


def test_what_was_never_committed_is_not_replayed(
    spark: SparkSession, chronik_node: RunningNode, tmp_path: Path
) -> None:
    here = chronik_node.bootstrap
    first, second, target = new_topic(here), new_topic(here), new_topic(here)
    table = tmp_path / "table"
    send(here, first, simple(10))
    send(here, second, simple(10, first=10))
    fill(spark, here, first, table)
    files = deltalake.DeltaTable(str(table)).file_uris()
    fill(spark, here, second, table, checkpoint=tmp_path / "second")
    left = Path(str(files[0]).removeprefix("file://"))
    (left.parent / "left.parquet").write_bytes(left.read_bytes())

    outcome = replay(spark, here, target, table=table, only_topics=(first,))

    assert outcome.rows == 10
    assert [each.value for each in as_sent(here, target, 10)] == [b"%d" % number for number in range(10)]


def test_bad_input_is_refused_before_anything_is_written(
    spark: SparkSession, chronik_node: RunningNode, tmp_path: Path
) -> None:
    here = chronik_node.bootstrap
    wide, narrow = new_topic(here, 3), new_topic(here)
    send(here, wide, [Sent(2, None, b"v")])
    fill(spark, here, wide, tmp_path / "table")
    (tmp_path / "empty").mkdir()

    for more in ({"from_topic": wide}, {"table": tmp_path / "table"}):
        with pytest.raises(JobCannotRun, match="has 1 partitions, and there are records of partition 2"):
            replay(spark, here, narrow, **more)
    with pytest.raises(JobCannotRun, match="there is no topic 'nowhere'"):
        replay(spark, here, "nowhere", from_topic=wide)
    with pytest.raises(JobCannotRun, match="there is no topic 'nowhere'"):
        replay(spark, here, narrow, from_topic="nowhere")
    with pytest.raises(JobCannotRun, match="into itself"):
        replay(spark, here, narrow, from_topic=narrow)
    with pytest.raises(JobCannotRun, match="is no table"):
        replay(spark, here, narrow, table=tmp_path / "empty")
    deltalake.write_deltalake(str(tmp_path / "other"), pa.table({"x": [1]}))
    with pytest.raises(JobCannotRun, match="no column 'value'"):
        replay(spark, here, narrow, table=tmp_path / "other")
