"""Values of records: read as they were meant, and set apart where a part of them would be left out."""

from __future__ import annotations

import dataclasses
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed: pip install 'chronik[spark]'")
pytest.importorskip("deltalake", reason="deltalake is not installed: pip install 'chronik[spark]'")
pytest.importorskip("numba", reason="numba is not installed: pip install 'chronik[spark]'")

from chronik.pipeline.problems import JobCannotRun
from chronik.pipeline.tables.delta import DeltaTable
from chronik.pipeline.tables.filling import Filling
from chronik.pipeline.tables.kinds import Staged
from chronik.pipeline.tables.writers import Writer
from chronik.pipeline.transforms.ingest import judged, rows_to_stage
from chronik.pipeline.values.forms import Form, Kind, read_form
from tests.spark.support import Sent, new_topic, options, send
from tests.spark.test_ingest import Ingest, delta, ingest

__all__ = ["ingest"]

pytestmark = pytest.mark.timeout(300)  # the first test of a run waits for Java

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType


def test_csv_is_read_in_the_order_of_the_schema_that_was_given_and_not_of_the_table(ingest: Ingest) -> None:
    topic = new_topic(ingest.bootstrap)
    for schema, line in (
        ("a int, b int", b"1,2"),
        ("b int, a int", b"4,3"),
        ("a int, x int, b int", b"5,6,7"),
        ("b int", b"8"),
    ):
        send(ingest.bootstrap, topic, [Sent(0, None, line)])
        ingest(topic, read_form(Kind.CSV, ingest.schema(schema)))

    assert [row["value"] for row in delta(ingest.table)] == [
        {"a": 1, "b": 2, "x": None},
        {"a": 3, "b": 4, "x": None},
        {"a": 5, "b": 7, "x": 6},
        {"a": None, "b": 8, "x": None},
    ]


def test_a_record_of_more_than_one_value_is_in_quarantine(ingest: Ingest) -> None:
    topic = new_topic(ingest.bootstrap)
    good = [
        b'{"id": 1}',
        b' {"id": 2}\r\n',
        b'{"id": 3, "more": [1, {"x": "]"}], "x": NaN}',
        b"{'id': 4}",
        b'{"id": 5, "x": Infinity}',
    ]
    more = [b"garbage", b'{"id": 2}', b', {"id": 2}', b"]", b", 1] x", b"}", b"\x00", b"] }"]
    more += [b", {}] }", b', {"is_end": true}] }', b'], "values": [{"id": 2}', b", null", b",", b"\n]}\n"]
    bad = [b'{"id": 1}' + each for each in more] + [b'{"id": 1, "x": NaN} 5', b'{"id": [1], "x": NaN}, 1] }']
    send(ingest.bootstrap, topic, [Sent(0, None, value) for value in (*good, *bad)])

    outcome = ingest(topic, read_form(Kind.JSON, ingest.schema("id string, x double")))

    assert [row["value"]["id"] for row in delta(ingest.table)] == ["1", "2", "3", "4", "5"]
    found = delta(Path(outcome.quarantine))
    assert [(row["value"], row["reason"]) for row in found] == [(value, "more than one JSON value") for value in bad]


def test_a_batch_with_bad_records_is_read_once_and_its_json_too(ingest: Ingest) -> None:
    topic, passes = new_topic(ingest.bootstrap), ingest.folder / "passes"
    passes.mkdir()
    values = [b'{"id": 1}', b"x", b'{"id": 2} y', None, b"null"]
    send(ingest.bootstrap, topic, [Sent(0, None, value) for value in values])
    source = {**options(ingest.bootstrap, topic), "includeHeaders": "true"}
    records = ingest.spark.read.format("chronik").options(**source).load()

    def noted(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        (passes / uuid.uuid4().hex).touch()
        yield from batches

    form = read_form(Kind.JSON, ingest.schema("id bigint"))
    table, quarantine = DeltaTable(ingest.table), DeltaTable(ingest.folder / "quarantine")
    checkpoint = ingest.folder / "checkpoint"
    checkpoint.mkdir()

    filling = Filling(table, quarantine, form, Writer(checkpoint, table))
    filling.write(records.mapInArrow(noted, records.schema), 0)

    assert len(list(passes.iterdir())) == 1
    assert [row["value"] for row in delta(ingest.table)] == [{"id": 1}, None]
    assert {row["value"]: row["reason"] for row in delta(quarantine.path)} == {
        b"x": "not JSON",
        b'{"id": 2} y': "more than one JSON value",
        b"null": "JSON that is not of the schema",
    }
    assert len([each for each in table.path.iterdir() if each.is_dir()]) == 2  # the log, and the good rows of the batch
    plan = rows_to_stage(judged(records, form), form)._jdf.queryExecution().optimizedPlan().toString()
    assert plan.count("from_json(StructField(values_") == 1, plan


def test_a_record_of_more_than_one_line_of_csv_is_in_quarantine(ingest: Ingest) -> None:
    topic = new_topic(ingest.bootstrap)
    good = [b"1;a", b"2;b\r\n", b'3;"c\nd"', b'4;"e\\"\n;"\n', b'"5";f']
    bad = [b"6;a\nb", b'7;"a"\n8', b"\n9;a", b"10;a\rb"]
    send(ingest.bootstrap, topic, [Sent(0, None, value) for value in (*good, *bad)])

    outcome = ingest(topic, read_form(Kind.CSV, ingest.schema("id string, name string"), delimiter=";"))

    values = [row["value"] for row in delta(ingest.table)]
    assert [value["id"] for value in values] == ["1", "2", "3", "4", "5"]
    assert [value["name"] for value in values[:3]] == ["a", "b", "c\nd"]
    found = delta(Path(outcome.quarantine))
    assert [(row["value"], row["reason"]) for row in found] == [(value, "more than one line of CSV") for value in bad]


class Killed(BaseException):
    """Between the quarantine and the table."""


class KilledTable(DeltaTable):
    def commit(self, staged: Staged, schema: StructType) -> None:
        raise Killed


@pytest.mark.parametrize("is_inferred", [False, True])
def test_a_batch_that_is_half_done_is_finished_as_it_was_begun(ingest: Ingest, is_inferred: bool) -> None:
    topic = new_topic(ingest.bootstrap)
    send(ingest.bootstrap, topic, [Sent(0, None, b"1,a"), Sent(0, None, b"x,y,z"), Sent(0, None, b"3,c")])
    first = ingest.schema("id string, name string")
    form = read_form(Kind.CSV, None if is_inferred else first, is_inferred=is_inferred)
    quarantine = DeltaTable(ingest.folder / "table-quarantine")
    checkpoint = ingest.folder / "checkpoint"
    checkpoint.mkdir()
    records = (
        ingest.spark.read.format("chronik").options(**options(ingest.bootstrap, topic), includeHeaders="true").load()
    )

    def filling(form: Form, table: DeltaTable) -> Filling:
        made = Filling(table, quarantine, form, Writer(checkpoint, table))
        made.check()
        return made

    with pytest.raises(Killed):
        filling(form, KilledTable(ingest.table)).write(records, 0)
    other = ingest.folder / "other"
    other.write_text("id string, name string, more string")
    with pytest.raises(JobCannotRun, match=r"a batch is half done: .* begun with another --schema"):
        filling(read_form(Kind.CSV, other), DeltaTable(ingest.table))
    with pytest.raises(JobCannotRun, match=r"a batch is half done: .* begun with another --delimiter"):
        filling(dataclasses.replace(form, delimiter=";"), DeltaTable(ingest.table))
    filling(form, DeltaTable(ingest.table)).write(records, 0)
    again = filling(read_form(Kind.CSV, other), DeltaTable(ingest.table)) if not is_inferred else None

    assert [row["offset"] for row in delta(ingest.table)] == [0, 2]
    assert [row["offset"] for row in delta(quarantine.path)] == [1]
    assert is_inferred or (again is not None and again.form.line == ("id", "name", "more"))
