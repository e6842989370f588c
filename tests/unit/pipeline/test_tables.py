"""Tables that take each batch once: files by pyarrow, so that nothing here needs Java."""

from __future__ import annotations

import datetime
import decimal
import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed: pip install 'chronik[spark]'")
pytest.importorskip("deltalake", reason="deltalake is not installed: pip install 'chronik[spark]'")

import deltalake
import deltalake.exceptions
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset
import pyarrow.parquet as pq
from pyspark.sql.types import DateType, LongType, StringType, StructField, StructType

from chronik.pipeline.problems import JobCannotRun
from chronik.pipeline.tables.delta import LOG, DeltaTable
from chronik.pipeline.tables.kinds import STAGING, Staged, StagedFile, TableBatch, batch_of, staged_in
from chronik.pipeline.tables.parquet import NOTES, ParquetTable

WRITER = "ingest-0123456789ab"


def schema(*more: str) -> StructType:
    columns = {"topic": StringType(), "date": DateType(), "offset": LongType()} | dict.fromkeys(more, StringType())
    return StructType([StructField(name, kind, True) for name, kind in columns.items()])


def staged(table: DeltaTable | ParquetTable, number: int, offsets: list[int], topic: str = "t", **more: str) -> Staged:
    """As Spark would have written it."""
    batch = TableBatch(WRITER, number)
    root = table.path / STAGING if isinstance(table, ParquetTable) else table.path
    folder = root / batch.folder_name()
    place = folder / f"topic={topic}" / "date=2026-11-16"
    place.mkdir(parents=True)
    columns: dict[str, list[object]] = {name: [value] * len(offsets) for name, value in more.items()}
    pq.write_table(pa.table({"offset": pa.array(offsets, pa.int64()), **columns}), place / "part-0.parquet")
    return staged_in(folder, batch)


def read_delta(path: Path) -> list[int]:
    return sorted(deltalake.DeltaTable(str(path)).to_pyarrow_table().column("offset").to_pylist())


def read_parquet(path: Path) -> list[int]:
    return sorted(pyarrow.dataset.dataset(path, partitioning="hive").to_table().column("offset").to_pylist())


def test_a_folder_says_whose_batch_it_has() -> None:
    assert batch_of(TableBatch(WRITER, 12).folder_name(), WRITER) == 12
    assert batch_of(TableBatch(WRITER, 12).folder_name(), "ingest-other") is None
    assert batch_of("_delta_log", WRITER) is None


def test_a_reader_of_delta_sees_what_was_committed_and_nothing_else(tmp_path: Path) -> None:
    table = DeltaTable(tmp_path / "t")
    table.commit(staged(table, 0, [0, 1]), schema())

    staged(table, 1, [2, 3])

    assert read_delta(table.path) == [0, 1]
    assert (table.last_batch(WRITER), table.last_batch("another")) == (0, None)
    assert table.topics() == ["t"]


def test_files_that_were_never_committed_are_cleaned_up_and_the_others_stay(tmp_path: Path) -> None:
    table = DeltaTable(tmp_path / "t")
    table.commit(staged(table, 0, [0, 1]), schema())
    left = staged(table, 1, [2, 3])

    DeltaTable(tmp_path / "t").clean(WRITER)

    assert not left.folder.exists()
    assert read_delta(table.path) == [0, 1]


def test_of_two_that_commit_the_same_batch_one_is_refused(tmp_path: Path) -> None:
    first = DeltaTable(tmp_path / "t")
    first.commit(staged(first, 0, [0]), schema())
    late = deltalake.DeltaTable(str(first.path))  # it looked before the other had committed
    first.commit(staged(first, 1, [1]), schema())

    same = deltalake.CommitProperties(app_transactions=[deltalake.Transaction(WRITER, 1)])
    with pytest.raises(deltalake.exceptions.CommitFailedError, match="Concurrent transaction"):
        late.create_write_transaction([], "append", late.schema(), ["topic", "date"], commit_properties=same)

    assert read_delta(first.path) == [0, 1]


class Overtaken(DeltaTable):
    """When it is about to commit, somebody else commits the same batch."""

    def _add(self, file: StagedFile) -> Any:
        other = DeltaTable(self.path)
        other.commit(staged(other, 1, [5]), schema())
        return super()._add(file)


def test_overtaken_by_the_same_batch_delta_says_so(tmp_path: Path) -> None:
    table = DeltaTable(tmp_path / "t")
    table.commit(staged(table, 0, [0]), schema())

    with pytest.raises(JobCannotRun, match="Concurrent transaction"):
        Overtaken(table.path).commit(staged(table, 1, [1]), schema())

    assert read_delta(table.path) == [0, 5]


def test_a_checkpoint_of_the_log_that_fails_takes_no_rows_with_it(tmp_path: Path) -> None:
    table = DeltaTable(tmp_path / "t")
    table.commit(staged(table, 0, [0]), schema())
    log = deltalake.DeltaTable(str(table.path))
    log.alter.set_table_properties({"delta.checkpointInterval": "1"})
    (table.path / LOG / f"{log.version() + 1:020d}.checkpoint.parquet").mkdir()  # so that no file can be there

    table.commit(staged(table, 1, [1]), schema())
    table.commit(staged(table, 2, [2]), schema())
    DeltaTable(table.path).clean(WRITER)

    assert table.last_batch(WRITER) == 2
    assert read_delta(table.path) == [0, 1, 2]


def test_delta_gets_new_columns_and_old_rows_have_null_there(tmp_path: Path) -> None:
    table = DeltaTable(tmp_path / "t")
    table.commit(staged(table, 0, [0]), schema())

    table.commit(staged(table, 1, [1], colour="red"), schema("colour"))

    found = deltalake.DeltaTable(str(table.path)).to_pyarrow_table().sort_by("offset")
    assert found.column("colour").to_pylist() == [None, "red"]
    assert table.schema() == schema("colour")


def test_an_empty_batch_is_noted_too(tmp_path: Path) -> None:
    for table in (DeltaTable(tmp_path / "d"), ParquetTable(tmp_path / "p")):
        table.commit(staged(table, 0, []), schema())

        assert table.last_batch(WRITER) == 0
        assert table.topics() == []


def test_delta_says_how_many_rows_a_file_has_and_which_offsets(tmp_path: Path) -> None:
    table = DeltaTable(tmp_path / "t")

    table.commit(staged(table, 0, [5, 9, 7]), schema())

    actions = pa.table(deltalake.DeltaTable(str(table.path)).get_add_actions(flatten=True)).to_pylist()
    assert [(each["num_records"], each["min.offset"], each["max.offset"]) for each in actions] == [(3, 5, 9)]


def test_a_reader_of_parquet_sees_what_was_committed_and_nothing_else(tmp_path: Path) -> None:
    table = ParquetTable(tmp_path / "t")
    table.commit(staged(table, 0, [0, 1]), schema())

    left = staged(table, 1, [2, 3])

    assert read_parquet(table.path) == [0, 1]
    table.clean(WRITER)
    assert not left.folder.exists()
    assert (table.last_batch(WRITER), table.topics()) == (0, ["t"])
    assert table.schema() == schema()


def test_parquet_that_was_noted_and_not_moved_is_moved_by_who_comes_next(tmp_path: Path) -> None:
    table = ParquetTable(tmp_path / "t")
    table.commit(staged(table, 0, [0]), schema())
    # As one that died after its note, with one of two files moved.
    both = [staged(table, 1, [1], topic="a"), staged(table, 1, [2], topic="b")]
    moves = []
    for part in both:
        file = part.files[0].path
        moves.append(
            [str(file.relative_to(table.path)), f"{file.relative_to(part.folder).parent}/{part.folder.name}.parquet"]
        )
    (table.path / NOTES / f"writer-{WRITER}.json").write_text(json.dumps({"batch": 1, "moves": moves}))
    (table.path / moves[0][1]).parent.mkdir(parents=True)
    os.replace(table.path / moves[0][0], table.path / moves[0][1])

    again = ParquetTable(tmp_path / "t")
    again.clean(WRITER)

    assert again.last_batch(WRITER) == 1
    assert read_parquet(table.path) == [0, 1, 2]
    assert list((table.path / STAGING).iterdir()) == []


def test_what_another_job_has_staged_is_not_cleaned_up(tmp_path: Path) -> None:
    table = ParquetTable(tmp_path / "t")
    first = staged(table, 0, [0, 1])

    ParquetTable(tmp_path / "t").clean("ingest-of-others")
    table.commit(first, schema())

    assert read_parquet(table.path) == [0, 1]


def test_parquet_that_is_gone_before_it_was_noted_can_be_written_again(tmp_path: Path) -> None:
    table = ParquetTable(tmp_path / "t")
    lost = staged(table, 0, [0])
    shutil.rmtree(lost.folder)

    with pytest.raises(JobCannotRun, match="is gone before it was moved"):
        table.commit(lost, schema())

    assert table.last_batch(WRITER) is None


def test_parquet_that_is_gone_after_it_was_noted_is_missed(tmp_path: Path) -> None:
    table = ParquetTable(tmp_path / "t")
    table.commit(staged(table, 0, [0]), schema())
    moves = [[f"{STAGING}/x/topic=t/part-0.parquet", "topic=t/x.parquet"]]
    (table.path / NOTES / f"writer-{WRITER}.json").write_text(json.dumps({"batch": 1, "moves": moves}))

    with pytest.raises(JobCannotRun, match="records are missing"):
        table.last_batch(WRITER)


def test_parquet_that_somebody_removes_from_the_table_is_not_missed(tmp_path: Path) -> None:
    table = ParquetTable(tmp_path / "t")
    table.commit(staged(table, 0, [0]), schema())
    shutil.rmtree(table.path / "topic=t")

    assert table.last_batch(WRITER) == 0


@pytest.mark.parametrize("kind", [DeltaTable, ParquetTable])
def test_killed_within_the_first_batch_a_job_goes_on(tmp_path: Path, kind: type[DeltaTable | ParquetTable]) -> None:
    left = staged(kind(tmp_path), 0, [0, 1])

    table = kind(tmp_path)
    table.clean(WRITER)
    table.commit(staged(table, 0, [0, 1]), schema())

    assert not left.folder.exists()
    assert (read_delta if kind is DeltaTable else read_parquet)(tmp_path) == [0, 1]


def test_a_folder_with_something_else_is_no_table(tmp_path: Path) -> None:
    (tmp_path / "taken").mkdir()
    (tmp_path / "taken" / "letter.txt").write_text("dear")
    (tmp_path / "file").write_text("x")

    for kind in (DeltaTable, ParquetTable):
        with pytest.raises(JobCannotRun, match="is not empty"):
            kind(tmp_path / "taken")
        with pytest.raises(JobCannotRun, match="is a file"):
            kind(tmp_path / "file")


def test_a_path_that_deltalake_would_take_for_another_is_refused(tmp_path: Path) -> None:
    with pytest.raises(JobCannotRun, match="% in its path"):
        DeltaTable(tmp_path / "a%20b")


def test_a_delta_table_of_another_make_is_told_from_ours(tmp_path: Path) -> None:
    deltalake.write_deltalake(str(tmp_path / "t"), pa.table({"x": [1]}))

    with pytest.raises(JobCannotRun, match="not partitioned by date and topic"):
        DeltaTable(tmp_path / "t").topics()


def test_a_damaged_delta_log_is_said_to_be_one(tmp_path: Path) -> None:
    table = DeltaTable(tmp_path / "t")
    table.commit(staged(table, 0, [0]), schema())
    (table.path / "_delta_log" / "00000000000000000001.json").write_text('{"add": {')

    with pytest.raises(JobCannotRun, match=str(table.path)):
        DeltaTable(tmp_path / "t").last_batch(WRITER)


AT = datetime.datetime(2026, 11, 16, 1, 2, 3, 456789, tzinfo=datetime.UTC)
COLUMNS: dict[str, tuple[pa.DataType, list[Any]]] = {
    "offset": (pa.int64(), [5, 6, 7]),
    "partition": (pa.int32(), [0, 1, 2]),
    "key": (pa.binary(), [b"k", None, b"l"]),
    "timestamp": (pa.timestamp("us", "UTC"), [AT, AT + datetime.timedelta(microseconds=1), AT]),
    "reason": (pa.string(), ["bad", None, "worse"]),
    "nothing": (pa.string(), [None, None, None]),
    "price": (pa.float64(), [1.5, float("nan"), None]),
    "is_paid": (pa.bool_(), [True, False, None]),
    "day": (pa.date32(), [AT.date(), None, AT.date()]),
    "nested": (pa.struct({"x": pa.int64()}), [{"x": 1}, None, {"x": None}]),
    "headers": (pa.list_(pa.string()), [["a"], [], None]),
}


def delta_of(path: Path, columns: dict[str, tuple[pa.DataType, list[Any]]]) -> deltalake.DeltaTable:
    """A table of ingest with one file."""
    table = DeltaTable(path)
    folder = table.path / TableBatch(WRITER, 0).folder_name()
    place = folder / "topic=t" / "date=2026-11-16"
    place.mkdir(parents=True)
    rows = pa.table({name: pa.array(values, kind) for name, (kind, values) in columns.items()})
    pq.write_table(rows, place / "part-0.parquet", row_group_size=2)
    whole = rows.schema.append(pa.field("topic", pa.string())).append(pa.field("date", pa.date32()))
    as_spark = StructType.fromJson(json.loads(deltalake.Schema.from_arrow(whole).to_json()))
    table.commit(staged_in(folder, TableBatch(WRITER, 0)), as_spark)
    return deltalake.DeltaTable(str(path))


@pytest.mark.parametrize("name", [name for name, (kind, _) in COLUMNS.items() if not pa.types.is_nested(kind)])
def test_a_filter_on_any_column_finds_what_is_there(tmp_path: Path, name: str) -> None:
    """Readers skip files by the statistics of a commit; what goes wrong there looks like an empty table."""
    table = delta_of(tmp_path / "t", COLUMNS)
    values = COLUMNS[name][1]

    for value in {each for each in values if each is not None and each == each}:
        count = sum(each == value for each in values)
        assert len(table.to_pandas(filters=[(name, "=", value)])) == count
        assert table.to_pyarrow_dataset().to_table(filter=pc.field(name) == value).num_rows == count
    empty = sum(each is None for each in values)
    assert table.to_pyarrow_dataset().to_table(filter=pc.field(name).is_null()).num_rows == empty


def test_files_that_cannot_have_what_is_looked_for_are_skipped(tmp_path: Path) -> None:
    (action,) = pa.table(delta_of(tmp_path / "t", COLUMNS).get_add_actions(flatten=True)).to_pylist()

    assert (action["min.offset"], action["max.offset"], action["null_count.offset"]) == (5, 7, 0)
    assert (action["min.reason"], action["max.reason"], action["null_count.reason"]) == ("bad", "worse", 1)
    assert action["max.timestamp"] == AT + datetime.timedelta(microseconds=1)


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        (pa.decimal128(20, 2), [decimal.Decimal("1.5")]),  # no statistics of these
        (pa.timestamp("us", "UTC"), [2**62]),  # no date of Python's
        (pa.float64(), [float("inf")]),  # no number of JSON's
    ],
)
def test_a_file_that_does_not_tell_of_all_columns_tells_of_none(
    tmp_path: Path, kind: pa.DataType, values: list[Any]
) -> None:
    table = delta_of(tmp_path / "t", {"offset": (pa.int64(), [5]), "odd": (kind, values)})

    assert len(table.to_pyarrow_dataset().to_table(filter=pc.field("odd").is_valid())) == 1
    (action,) = pa.table(table.get_add_actions(flatten=True)).to_pylist()
    assert action["num_records"] == 1
    assert action.get("min.offset") is None
