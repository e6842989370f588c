"""Topics to Iceberg tables, read back by plain pyiceberg, which knows nothing of us."""

from __future__ import annotations

import os
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from chronik.testing import RunningNode
from tests.clients.support import needs
from tests.spark.support import Sent, new_topic, send, simple

pytest.importorskip("pyspark", reason="pyspark is not installed: pip install 'chronik[spark]'")
pytest.importorskip("deltalake", reason="deltalake is not installed: pip install 'chronik[spark]'")
pytest.importorskip("numba", reason="numba is not installed: pip install 'chronik[spark]'")
pytest.importorskip("pyiceberg", reason="pyiceberg is not installed: pip install 'chronik[iceberg]'")

from pyiceberg.catalog.sql import SqlCatalog

from chronik.pipeline.jobs.ingest import Format
from chronik.pipeline.problems import JobCannotRun
from chronik.pipeline.tables.iceberg import IcebergTable
from chronik.pipeline.tables.kinds import TableBatch
from chronik.pipeline.transforms.ingest import judged, rows_to_stage, table_schema
from chronik.pipeline.values.forms import Form, Kind, read_form
from tests.spark.test_ingest import DAY_MS, Ingest, command, places, send_json
from tests.spark.test_ingest_kills import RUN_S_MAX, has_ended, kill_driver, started

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.timeout(300)  # the first test of a run waits for Java
ICEBERG: dict[str, Any] = {"format": Format.ICEBERG}


@pytest.fixture
def ingest(spark: SparkSession, chronik_node: RunningNode, tmp_path: Path) -> Ingest:
    folder = tmp_path / "my tables = ö"  # a name like any other
    folder.mkdir()
    return Ingest(spark, chronik_node.bootstrap, folder)


def opened(path: Path) -> Any:
    return SqlCatalog("chronik", uri=f"sqlite:///{path}/catalog.db").load_table("chronik.records")


def iceberg(path: Path, **scan: str) -> list[dict[str, Any]]:
    found = opened(path).scan(**scan).to_arrow()
    return found.sort_by([(name, "ascending") for name in ("topic", "partition", "offset")]).to_pylist()


def test_an_iceberg_table_has_what_the_topic_has(ingest: Ingest) -> None:
    name = f"longer-than-what-iceberg-keeps-of-a-text.{os.urandom(4).hex()}"
    topic = new_topic(ingest.bootstrap, 2, name)
    day = 1_700_000_000_000
    sent = [
        Sent(0, b"k", b"\xff\x00", day, (("h", b"1"), ("h", None))),
        Sent(0, None, None, day + DAY_MS),
        Sent(1, b"", b"", day + 1),
    ]
    send(ingest.bootstrap, topic, sent)

    outcome = ingest(topic, **ICEBERG)

    rows = iceberg(ingest.table)
    assert (outcome.rows, outcome.quarantined, outcome.batches) == (3, 0, 1)
    assert places(rows) == [(0, 0), (0, 1), (1, 0)]
    assert [(row["key"], row["value"]) for row in rows] == [(each.key, each.value) for each in sent]
    assert [(header["key"], header["value"]) for header in rows[0]["headers"]] == [("h", b"1"), ("h", None)]
    assert [row["timestamp"].timestamp() * 1000 for row in rows] == [day, day + DAY_MS, day + 1]
    assert [field.name for field in opened(ingest.table).spec().fields] == ["topic", "date"]
    assert {(row["topic"], str(row["date"])) for row in rows} == {(topic, "2023-11-14"), (topic, "2023-11-15")}
    of_one_day = opened(ingest.table).scan(row_filter=f"topic = '{topic}' and date = '2023-11-15'")
    assert len(list(of_one_day.plan_files())) == 1
    assert of_one_day.to_arrow()["offset"].to_pylist() == [1]


def test_batches_are_added_and_done_again_they_are_passed_over(ingest: Ingest) -> None:
    topic = new_topic(ingest.bootstrap)
    send_json(ingest.bootstrap, topic, {"id": 1}, "bad", {"id": 2}, {"id": 3})
    form = read_form(Kind.JSON, ingest.schema("id bigint"))
    first = ingest(topic, form, rows=2, **ICEBERG)
    opened(ingest.table).maintenance.expire_snapshots().older_than(datetime.now(UTC) + timedelta(days=1)).commit()

    ingest.forget_last_commit()
    again = ingest(topic, form, **ICEBERG)

    assert (first.rows, first.quarantined, first.batches) == (3, 1, 2)
    assert (again.rows, again.quarantined, again.skipped) == (0, 0, 1)
    assert [row["offset"] for row in iceberg(ingest.table)] == [0, 2, 3]
    bad = iceberg(Path(first.quarantine))
    assert [(row["offset"], row["value"], row["reason"]) for row in bad] == [
        (1, b'"bad"', "JSON that is not of the schema")
    ]


def test_of_two_attempts_at_a_batch_one_is_in_the_table(ingest: Ingest) -> None:
    topic = new_topic(ingest.bootstrap)
    send(ingest.bootstrap, topic, simple(10))
    source = {"kafka.bootstrap.servers": ingest.bootstrap, "subscribe": topic, "includeHeaders": "true"}
    rows = rows_to_stage(judged(ingest.spark.read.format("chronik").options(**source).load(), Form()), Form())
    slow, quick = IcebergTable(ingest.table), IcebergTable(ingest.table)
    batch = TableBatch("w", 7)

    given_up = slow.stage(rows, batch)
    staged = slow.stage(rows, batch)
    quick.commit(quick.stage(rows, batch), table_schema(Form()))
    with pytest.raises(JobCannotRun, match="another job has written batch 7"):
        slow.commit(staged, table_schema(Form()))
    next_one = quick.stage(rows, TableBatch("w", 8))
    quick.clean("w")

    assert slow.last_batch("w") == 7
    assert slow.topics() == [topic]
    assert [row["offset"] for row in iceberg(ingest.table)] == list(range(10))
    assert (given_up.folder.exists(), staged.folder.exists(), next_one.folder.exists()) == (True, False, False)


def test_new_columns_come_and_none_changes(ingest: Ingest) -> None:
    topic = new_topic(ingest.bootstrap)
    send_json(ingest.bootstrap, topic, {"id": 1, "who": {"name": "a"}, "list": [{"x": 1}]})
    send(ingest.bootstrap, topic, [Sent(0, None, None)])
    form = read_form(Kind.JSON, is_inferred=True)
    ingest(topic, form, **ICEBERG)
    send_json(ingest.bootstrap, topic, {"id": 2, "who": {"age": 7}, "list": [{"y": 2.5}], "odd.name": "o"})

    ingest(topic, form, **ICEBERG)
    with pytest.raises(JobCannotRun, match=r"the table has column id as bigint, not string"):
        ingest(topic, read_form(Kind.JSON, ingest.schema("id string")), **ICEBERG)

    assert [row["value"] for row in iceberg(ingest.table)] == [
        {"id": 1, "list": [{"x": 1, "y": None}], "who": {"name": "a", "age": None}, "odd.name": None},
        None,
        {"id": 2, "list": [{"x": None, "y": 2.5}], "who": {"name": None, "age": 7}, "odd.name": "o"},
    ]


def test_what_an_iceberg_table_cannot_be_is_said_before_anything_is_written(ingest: Ingest) -> None:
    topic = new_topic(ingest.bootstrap)
    send(ingest.bootstrap, topic, simple(1))
    ingest(topic, table=ingest.folder / "delta")

    with pytest.raises(JobCannotRun, match="is not empty, and no Iceberg table"):
        ingest(topic, table=ingest.folder / "delta", **ICEBERG)
    with pytest.raises(JobCannotRun, match="cannot have a # in its path"):
        ingest(topic, table=ingest.folder / "a#b", **ICEBERG)
    with pytest.raises(JobCannotRun, match="only tables of Delta can be compacted"):
        ingest(topic, is_compacted=True, **ICEBERG)

    assert not ingest.table.exists()


@pytest.mark.timeout(120 + 2 * RUN_S_MAX)
def test_killed_within_a_batch_and_started_again_the_table_equals_the_topic(
    chronik_node: RunningNode, tmp_path: Path
) -> None:
    needs("spark")
    topic = new_topic(chronik_node.bootstrap)
    send(chronik_node.bootstrap, topic, simple(3000))
    table = tmp_path / "table"
    said = [topic, "--to", str(table), "--format", "iceberg", "--once", "--batch-rows", "600"]
    said += ["--bootstrap", chronik_node.bootstrap, "--master", "local[2]", "--driver-memory", "1g"]

    with started(said, tmp_path / "log") as process:
        deadline = time.monotonic() + RUN_S_MAX
        # The third batch has files, and may be in the table or not.
        while len(list(table.glob("data/*"))) < 3:
            assert time.monotonic() < deadline
            assert not has_ended(process, within_s=0.01), (tmp_path / "log").read_text()
        kill_driver(process)
    before = [row["offset"] for row in iceberg(table)]
    code, said_on_stderr = command(*said)

    assert code == 0, said_on_stderr
    assert before in (list(range(1200)), list(range(1800)))
    assert [(row["offset"], row["value"]) for row in iceberg(table)] == [(n, b"%d" % n) for n in range(3000)]
    in_table = {task.file.file_path.removeprefix("file://") for task in opened(table).scan().plan_files()}
    assert in_table == {str(path) for path in table.rglob("*.parquet")}


def test_without_pyiceberg_the_command_says_how_to_get_it(tmp_path: Path) -> None:
    (tmp_path / "pyiceberg").mkdir()
    missing = "raise ModuleNotFoundError(\"No module named 'pyiceberg'\", name='pyiceberg')"
    (tmp_path / "pyiceberg" / "__init__.py").write_text(missing)

    said = command("t", "--to", str(tmp_path / "t"), "--format", "iceberg", PYTHONPATH=str(tmp_path))

    assert said[0] == 2
    assert "Iceberg tables need pyiceberg, which is not installed" in said[1]
    assert "pip install 'chronik[iceberg]'" in said[1]
    assert not (tmp_path / "t").exists()
