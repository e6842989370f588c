"""Topics to tables: all of them, each record once, and what cannot be read set apart. Read back without Spark."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from chronik.testing import RunningNode
from tests.spark.support import Sent, new_topic, options, send, simple

pytest.importorskip("pyspark", reason="pyspark is not installed: pip install 'chronik[spark]'")
pytest.importorskip("deltalake", reason="deltalake is not installed: pip install 'chronik[spark]'")
pytest.importorskip("numba", reason="numba is not installed: pip install 'chronik[spark]'")

import deltalake
import pyarrow.dataset

from chronik.pipeline.jobs.ingest import Format, IngestOutcome, IngestSettings, run
from chronik.pipeline.problems import JobCannotRun, plain_errors
from chronik.pipeline.tables.delta import DeltaTable
from chronik.pipeline.tables.filling import Filling
from chronik.pipeline.tables.writers import Writer
from chronik.pipeline.topics.client import NoSuchTopic
from chronik.pipeline.values.forms import Form, Kind, read_form

pytestmark = pytest.mark.timeout(300)  # the first test of a run waits for Java

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DAY_MS = 86_400_000


class Ingest:
    """Runs of ingest in one session, into one folder."""

    def __init__(self, spark: SparkSession, bootstrap: str, folder: Path) -> None:
        self.spark = spark
        self.bootstrap = bootstrap
        self.folder = folder
        self.table = folder / "table"

    def __call__(self, topic: str, form: Form | None = None, rows: int = 1_000_000, **more: Any) -> IngestOutcome:
        source = options(self.bootstrap, topic, maxOffsetsPerTrigger=str(rows))
        settings = IngestSettings(source, more.pop("table", self.table), form or Form(), **more)
        with plain_errors():
            return run(self.spark, settings)

    def schema(self, text: str) -> Path:
        path = self.folder / "schema"
        path.write_text(text)
        return path

    def forget_last_commit(self) -> None:
        """As if the driver had died after the table had the batch, and before Spark had noted that it was done."""
        commits = self.folder / "table-checkpoint" / "commits"
        last = max(int(each.name) for each in commits.iterdir() if each.name.isdecimal())
        (commits / str(last)).unlink()
        (commits / f".{last}.crc").unlink(missing_ok=True)


@pytest.fixture
def ingest(spark: SparkSession, chronik_node: RunningNode, tmp_path: Path) -> Ingest:
    folder = tmp_path / "my [tables] = ö{*}"  # a name like any other
    folder.mkdir()
    return Ingest(spark, chronik_node.bootstrap, folder)


def delta(path: Path) -> list[dict[str, Any]]:
    """Rows in the order of topic, partition and offset, by a reader that knows nothing of us."""
    found = deltalake.DeltaTable(str(path)).to_pyarrow_table()
    return found.sort_by([(name, "ascending") for name in ("topic", "partition", "offset")]).to_pylist()


def places(rows: list[dict[str, Any]]) -> list[tuple[int, int]]:
    return [(row["partition"], row["offset"]) for row in rows]


def send_json(bootstrap: str, topic: str, *values: object) -> None:
    send(bootstrap, topic, [Sent(0, None, json.dumps(value).encode()) for value in values])


def test_a_raw_table_has_what_the_topic_has(ingest: Ingest) -> None:
    topic = new_topic(ingest.bootstrap, 2)
    day = 1_700_000_000_000
    send(
        ingest.bootstrap,
        topic,
        [
            Sent(0, b"k", b"\xff\x00", day, (("h", b"1"), ("h", None))),
            Sent(0, None, None, day + DAY_MS),
            Sent(1, b"", b"", day + 1),
        ],
    )

    outcome = ingest(topic)

    rows = delta(ingest.table)
    assert (outcome.rows, outcome.quarantined, outcome.batches) == (3, 0, 1)
    assert places(rows) == [(0, 0), (0, 1), (1, 0)]
    assert [(row["key"], row["value"]) for row in rows] == [(b"k", b"\xff\x00"), (None, None), (b"", b"")]
    assert [header["value"] for header in rows[0]["headers"]] == [b"1", None]
    assert [row["timestamp"].timestamp() * 1000 for row in rows] == [day, day + DAY_MS, day + 1]
    assert {(row["topic"], str(row["date"])) for row in rows} == {(topic, "2023-11-14"), (topic, "2023-11-15")}
    assert sorted(deltalake.DeltaTable(str(ingest.table)).metadata().partition_columns) == ["date", "topic"]


def test_a_second_run_adds_what_is_new_and_small_files_are_joined(ingest: Ingest) -> None:
    topic = new_topic(ingest.bootstrap)
    send(ingest.bootstrap, topic, simple(100))
    first = ingest(topic, rows=30)
    send(ingest.bootstrap, topic, simple(50, first=100))

    second = ingest(topic, is_compacted=True)
    third = ingest(topic)

    assert [(each.rows, each.batches) for each in (first, second, third)] == [(100, 4), (50, 1), (0, 0)]
    assert second.compacted == 5
    assert len(deltalake.DeltaTable(str(ingest.table)).file_uris()) == 1
    assert [int(row["value"]) for row in delta(ingest.table)] == list(range(150))


@pytest.mark.parametrize("format_", [Format.DELTA, Format.PARQUET])
def test_a_batch_that_is_done_again_is_passed_over(ingest: Ingest, format_: Format) -> None:
    topic = new_topic(ingest.bootstrap)
    send_json(ingest.bootstrap, topic, {"id": 1}, "bad", {"id": 2})
    form = read_form(Kind.JSON, ingest.schema("id bigint"))
    ingest(topic, form, format=format_)

    ingest.forget_last_commit()
    again = ingest(topic, form, format=format_)

    assert (again.rows, again.quarantined, again.skipped) == (0, 0, 1)
    for name, offsets in (("table", [0, 2]), ("table-quarantine", [1])):
        path = ingest.folder / name
        if format_ == Format.DELTA:
            assert [row["offset"] for row in delta(path)] == offsets
        else:  # as anybody reads a folder of Parquet
            found = pyarrow.dataset.dataset(path, partitioning="hive").to_table()
            assert sorted(found.column("offset").to_pylist()) == offsets


def test_what_is_not_json_of_the_schema_is_in_quarantine_with_its_reason(ingest: Ingest) -> None:
    topic = new_topic(ingest.bootstrap)
    values = [
        b'{"id": 1, "name": "a", "more": true}',
        b"{",
        b'{"id": "z"}',
        b"\xff\xfe",
        b'[{"id": 1}, {"id": 2}]',
        None,
        b'{"name": "b"}',
    ]
    send(ingest.bootstrap, topic, [Sent(0, b"k", value, headers=(("h", b"v"),)) for value in values])

    outcome = ingest(topic, read_form(Kind.JSON, ingest.schema("id bigint,\n name string\n")))

    assert (outcome.rows, outcome.quarantined) == (3, 4)
    assert {row["offset"]: row["value"] for row in delta(ingest.table)} == {
        0: {"id": 1, "name": "a"},
        5: None,
        6: {"id": None, "name": "b"},
    }
    bad = delta(Path(outcome.quarantine))
    assert {row["offset"]: row["reason"] for row in bad} == {
        1: "not JSON",
        2: "JSON that is not of the schema",
        3: "not UTF-8; not JSON",
        4: "JSON that is not of the schema",
    }
    assert [row["value"] for row in bad] == values[1:5]
    assert {(row["key"], row["headers"][0]["value"]) for row in bad} == {(b"k", b"v")}


def test_an_inferred_table_gets_the_columns_that_come_later(ingest: Ingest) -> None:
    topic = new_topic(ingest.bootstrap)
    form = read_form(Kind.JSON, is_inferred=True)
    send_json(ingest.bootstrap, topic, {"id": 1, "who": {"name": "a"}}, {"id": 2, "empty": None})
    ingest(topic, form)
    send_json(
        ingest.bootstrap,
        topic,
        {"id": 3, "price": 1.5, "who": {"name": "b", "age": 7}},
        {"id": "text", "price": 2},
        {"id": 4, "odd name": [{"x": 1}]},
        [1],
    )

    second = ingest(topic, form)

    rows = {row["offset"]: row["value"] for row in delta(ingest.table)}
    assert rows[0] == {"id": 1, "who": {"name": "a", "age": None}, "odd name": None, "price": None}
    assert (rows[2]["price"], rows[2]["who"]) == (1.5, {"name": "b", "age": 7})
    assert rows[4]["odd name"] == [{"x": 1}]
    assert sorted(rows) == [0, 1, 2, 4]
    assert {row["offset"] for row in delta(Path(second.quarantine))} == {3, 5}


def test_a_schema_may_grow_and_not_change(ingest: Ingest) -> None:
    topic = new_topic(ingest.bootstrap)
    send_json(ingest.bootstrap, topic, {"id": 1, "name": "a"})
    ingest(topic, read_form(Kind.JSON, ingest.schema("id bigint")))
    send_json(ingest.bootstrap, topic, {"id": 2, "name": "b"})

    ingest(topic, read_form(Kind.JSON, ingest.schema("name string, id int")))
    with pytest.raises(JobCannotRun, match=r"the table has column id as bigint, not string"):
        ingest(topic, read_form(Kind.JSON, ingest.schema("id string")))
    with pytest.raises(JobCannotRun, match=r"the table has column value as struct<.*>, not binary"):
        ingest(topic)

    assert [row["value"] for row in delta(ingest.table)] == [{"id": 1, "name": None}, {"id": 2, "name": "b"}]


def test_csv_with_a_schema_and_without(ingest: Ingest) -> None:
    topic = new_topic(ingest.bootstrap)
    lines = [b"1;a;2.5", b'2;"b;c";3', b"x;y;z", b"3;d"]
    send(ingest.bootstrap, topic, [Sent(0, None, line) for line in lines])

    told = ingest(topic, read_form(Kind.CSV, ingest.schema("id int, name string, price double"), delimiter=";"))
    found = ingest(topic, read_form(Kind.CSV, is_inferred=True, delimiter=";"), table=ingest.folder / "inferred")

    assert [row["value"] for row in delta(ingest.table)] == [
        {"id": 1, "name": "a", "price": 2.5},
        {"id": 2, "name": "b;c", "price": 3.0},
    ]
    assert {row["offset"]: row["reason"] for row in delta(Path(told.quarantine))} == dict.fromkeys(
        (2, 3), "CSV that is not of the schema"
    )
    assert [row["value"]["c1"] for row in delta(Path(found.table))] == ["a", "b;c", "y"]
    assert found.quarantined == 1


AVRO = {
    "type": "record",
    "name": "Order",
    "namespace": "shop",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "note", "type": ["null", "string"]},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "tags", "type": {"type": "array", "items": "string"}},
        {"name": "counts", "type": {"type": "map", "values": "int"}},
        {"name": "weight", "type": "float"},
    ],
}


def avro_by_java(spark: SparkSession, values: list[dict[str, object]]) -> list[bytes]:
    """Written by Apache's own library, from JSON as Avro has it."""
    java = spark.sparkContext._jvm
    assert java is not None
    avro = java.org.apache.avro
    schema = avro.Schema.Parser().parse(json.dumps(AVRO))
    written = []
    for value in values:
        decoder = avro.io.DecoderFactory.get().jsonDecoder(schema, json.dumps(value))
        record = avro.generic.GenericDatumReader(schema).read(None, decoder)
        stream = java.java.io.ByteArrayOutputStream()
        encoder = avro.io.EncoderFactory.get().binaryEncoder(stream, None)
        avro.generic.GenericDatumWriter(schema).write(record, encoder)
        encoder.flush()
        written.append(bytes(stream.toByteArray()))
    return written


def test_avro_as_java_writes_it(ingest: Ingest) -> None:
    topic = new_topic(ingest.bootstrap)
    full: dict[str, object] = {
        "id": -5,
        "note": {"string": "hö"},
        "at": 1000,
        "tags": ["a", "b"],
        "counts": {"x": 1},
        "weight": 0.5,
    }
    bare: dict[str, object] = {"id": 1 << 60, "note": None, "at": 0, "tags": [], "counts": {}, "weight": 1.0}
    values = [*avro_by_java(ingest.spark, [full, bare]), b"\x01", None]
    send(ingest.bootstrap, topic, [Sent(0, None, value) for value in values])

    outcome = ingest(topic, read_form(Kind.AVRO, ingest.schema(json.dumps(AVRO))))

    rows = {row["offset"]: row["value"] for row in delta(ingest.table)}
    assert (rows[0]["id"], rows[0]["note"], rows[0]["tags"]) == (-5, "hö", ["a", "b"])
    assert (rows[0]["counts"], rows[0]["weight"], rows[0]["at"].timestamp()) == ([("x", 1)], 0.5, 1.0)
    assert (rows[1]["id"], rows[1]["note"], rows[1]["counts"]) == (1 << 60, None, [])
    assert rows[3] is None
    assert [(row["offset"], row["reason"]) for row in delta(Path(outcome.quarantine))] == [(2, "Avro ends too early")]


def test_what_would_miss_records_or_have_them_twice_is_refused(ingest: Ingest) -> None:
    topic = new_topic(ingest.bootstrap)
    send(ingest.bootstrap, topic, simple(10))
    ingest(topic)

    with pytest.raises(JobCannotRun, match=r"has records of .* already, from a job with another checkpoint"):
        ingest(topic, checkpoint=ingest.folder / "other")
    with pytest.raises(JobCannotRun, match="is for the table"):
        ingest(topic, table=ingest.folder / "elsewhere", checkpoint=ingest.folder / "table-checkpoint")
    (ingest.folder / "table").rename(ingest.folder / "away")
    with pytest.raises(JobCannotRun, match="has read further than the table"):
        ingest(topic)

    assert [row["offset"] for row in delta(ingest.folder / "away")] == list(range(10))


def test_a_topic_that_another_job_has_filled_is_not_taken_in(ingest: Ingest) -> None:
    orders, payments = new_topic(ingest.bootstrap), new_topic(ingest.bootstrap)
    for topic in (orders, payments):
        send(ingest.bootstrap, topic, simple(10))
    ingest(orders)
    checkpoint = ingest.folder / "other"
    ingest(payments, checkpoint=checkpoint)

    with pytest.raises(JobCannotRun, match=f"has records of {orders} already, from a job with another checkpoint"):
        ingest(f"{payments},{orders}", checkpoint=checkpoint)
    # As when a pattern takes it in while the job runs.
    table = DeltaTable(ingest.table)
    writer = Writer(checkpoint, table)
    filling = Filling(table, DeltaTable(ingest.folder / "table-quarantine"), Form(), writer)
    source = {**options(ingest.bootstrap, orders), "includeHeaders": "true"}
    with pytest.raises(JobCannotRun, match=f"has records of {orders} already"):
        filling.write(ingest.spark.read.format("chronik").options(**source).load(), 1)
    send(ingest.bootstrap, payments, simple(5, first=10))
    again = ingest(payments, checkpoint=checkpoint)

    assert again.rows == 5
    rows = [(row["topic"], int(row["value"])) for row in delta(ingest.table)]
    assert rows == sorted([(orders, number) for number in range(10)] + [(payments, number) for number in range(15)])
    assert len(list(ingest.table.glob("ingest-*"))) == 3  # nothing of what was refused


def test_bad_input_is_refused_before_anything_is_written(ingest: Ingest) -> None:
    with pytest.raises(JobCannotRun, match="there is no topic 'nowhere'") as refused:
        ingest("nowhere")

    assert isinstance(refused.value.__cause__, NoSuchTopic)
    assert list(ingest.folder.iterdir()) == []
    topic = new_topic(ingest.bootstrap)
    send(ingest.bootstrap, topic, [Sent(0, None, b"5"), Sent(0, None, b"{")])
    with pytest.raises(JobCannotRun, match="no schema can be inferred"):
        ingest(topic, read_form(Kind.JSON, is_inferred=True))
    with pytest.raises(JobCannotRun, match="is not a schema"):
        read_form(Kind.JSON, ingest.schema("id bigint, name"))
    with pytest.raises(JobCannotRun, match="need a schema"):
        read_form(Kind.JSON)


def test_a_full_disk_is_said_to_be_full_and_what_was_whole_stays_whole(ingest: Ingest, small_disk: Path) -> None:
    topic = new_topic(ingest.bootstrap)
    send(ingest.bootstrap, topic, simple(100))
    table = small_disk / "table"
    checkpoint = ingest.folder / "checkpoint"
    ingest(topic, table=table, checkpoint=checkpoint)
    send(ingest.bootstrap, topic, [Sent(0, None, os.urandom(4000)) for _ in range(1000)])

    with pytest.raises(JobCannotRun, match="No space left on device"):
        ingest(topic, table=table, checkpoint=checkpoint)
    whole = [row["offset"] for row in delta(table)]
    subprocess.run(["mount", "-o", "remount,size=64m", str(small_disk)], check=True)
    ingest(topic, table=table, checkpoint=checkpoint)

    assert whole == list(range(100))
    assert [row["offset"] for row in delta(table)] == list(range(1100))


def command(*arguments: str, **environment: str) -> tuple[int, str]:
    done = subprocess.run(
        [sys.executable, "-m", "chronik", "pipeline", "ingest", *arguments],
        capture_output=True,
        text=True,
        env=os.environ | environment,
        check=False,
    )
    assert "Traceback" not in done.stderr
    return done.returncode, done.stderr


def test_without_java_or_pyspark_the_command_says_how_to_get_it(chronik_node: RunningNode, tmp_path: Path) -> None:
    (tmp_path / "pyspark").mkdir()
    missing = "raise ModuleNotFoundError(\"No module named 'pyspark'\", name='pyspark')"
    (tmp_path / "pyspark" / "__init__.py").write_text(missing)
    said = ["t", "--to", str(tmp_path / "t"), "--bootstrap", chronik_node.bootstrap]

    no_java = command(*said, JAVA_HOME=str(tmp_path))
    no_spark = command(*said, PYTHONPATH=str(tmp_path))

    assert no_java[0] == 2
    assert "Spark needs Java 17 or newer: `apt install" in no_java[1]
    assert no_spark[0] == 2
    assert "pip install 'chronik[spark]'" in no_spark[1]
    assert not (tmp_path / "t").exists()


def test_the_command_says_what_is_wrong_with_what_it_was_given(tmp_path: Path) -> None:
    to = str(tmp_path / "t")

    assert "which topics?" in command("--to", to)[1]
    assert "no Kafka node answers at 127.0.0.1:1" in command("t", "--to", to, "--bootstrap", "127.0.0.1:1")[1]
