"""Commits of Iceberg tables: each batch once, with all its files and columns. Without Spark, read by pyiceberg."""

from __future__ import annotations

import os
import subprocess
import sys
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed: pip install 'chronik[spark]'")
pytest.importorskip("pyarrow", reason="pyarrow is not installed: pip install 'chronik[spark]'")
pytest.importorskip("pyiceberg", reason="pyiceberg is not installed: pip install 'chronik[iceberg]'")

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import CommitFailedException
from pyiceberg.table import StaticTable
from pyspark.sql.types import DateType, LongType, StringType, StructField, StructType

from chronik.pipeline.problems import JobCannotRun
from chronik.pipeline.tables.iceberg import IcebergTable, add_batch
from chronik.pipeline.tables.kinds import Staged, TableBatch, staged_in

DAY = date(2026, 11, 16)
SCHEMA = StructType(
    [StructField("topic", StringType()), StructField("date", DateType()), StructField("offset", LongType())]
)
WIDER = StructType([*SCHEMA.fields, StructField("more", StringType())])


def staged(path: Path, batch: TableBatch, offsets: range, topic: str = "t", **more: list[str]) -> Staged:
    """As Spark would have written it."""
    folder = path / "data" / batch.folder_name()
    folder.mkdir(parents=True)
    if offsets:
        rows = {"topic": [topic] * len(offsets), "date": [DAY] * len(offsets), "offset": list(offsets)}
        pq.write_table(pa.table({**rows, **more}), folder / "part.parquet")
    return staged_in(folder, batch)


def opened(path: Path) -> Any:
    return SqlCatalog("chronik", uri=f"sqlite:///{path}/catalog.db").load_table("chronik.records")


def offsets_in(path: Path) -> list[int]:
    return sorted(opened(path).scan().to_arrow()["offset"].to_pylist())


def test_a_batch_is_in_the_table_with_its_number_and_partition(tmp_path: Path) -> None:
    table = IcebergTable(tmp_path)
    before = (table.schema(), table.topics(), table.last_batch("w"))
    topic = "a-name-longer-than-the-16-characters-that-statistics-keep"

    table.commit(staged(tmp_path, TableBatch("w", 0), range(3), topic), SCHEMA)

    assert before == (None, (), None)
    assert (table.schema(), table.topics(), table.last_batch("w")) == (SCHEMA, [topic], 0)
    assert offsets_in(tmp_path) == [0, 1, 2]
    assert len(StaticTable.from_metadata(opened(tmp_path).metadata_location).scan().to_arrow()) == 3
    assert [tuple(task.file.partition) for task in opened(tmp_path).scan().plan_files()] == [
        (topic, (DAY - date(1970, 1, 1)).days)
    ]
    assert len(list(opened(tmp_path).scan(row_filter="date = '2026-11-17'").plan_files())) == 0


def test_a_batch_that_is_there_is_refused_also_when_its_snapshot_has_expired(tmp_path: Path) -> None:
    table = IcebergTable(tmp_path)
    for number in range(3):
        table.commit(staged(tmp_path, TableBatch("w", number), range(number * 2, number * 2 + 2)), SCHEMA)
    table.commit(staged(tmp_path, TableBatch("other", 0), range(6, 7)), SCHEMA)
    opened(tmp_path).maintenance.expire_snapshots().older_than(datetime.now(UTC) + timedelta(days=1)).commit()

    with pytest.raises(JobCannotRun, match="another job has written batch 2"):
        IcebergTable(tmp_path).commit(staged(tmp_path, TableBatch("w", 2), range(4, 6)), SCHEMA)

    assert len(opened(tmp_path).snapshots()) == 1
    assert offsets_in(tmp_path) == list(range(7))
    assert (table.last_batch("w"), table.last_batch("other"), table.last_batch("nobody")) == (2, 0, None)


def test_a_commit_to_a_table_that_has_changed_is_not_tried_again_blindly(tmp_path: Path) -> None:
    IcebergTable(tmp_path).commit(staged(tmp_path, TableBatch("w", 0), range(1)), SCHEMA)
    as_it_was = opened(tmp_path)
    IcebergTable(tmp_path).commit(staged(tmp_path, TableBatch("w", 1), range(1, 2)), SCHEMA)

    with pytest.raises(CommitFailedException):
        add_batch(as_it_was, staged(tmp_path, TableBatch("w", 1), range(1, 2)), SCHEMA)

    assert offsets_in(tmp_path) == [0, 1]


class Overtaken(IcebergTable):
    """Just when it has looked at the table, somebody else commits."""

    def __init__(self, path: Path, by: TableBatch) -> None:
        super().__init__(path)
        self.by: TableBatch | None = by

    def _table(self) -> Any:
        found = super()._table()
        if self.by is not None:
            other, self.by = self.by, None
            IcebergTable(self.path).commit(staged(self.path, other, range(5, 6)), SCHEMA)
        return found


def test_overtaken_by_another_writer_a_batch_is_still_written(tmp_path: Path) -> None:
    IcebergTable(tmp_path).commit(staged(tmp_path, TableBatch("w", 0), range(1)), SCHEMA)

    Overtaken(tmp_path, by=TableBatch("other", 0)).commit(staged(tmp_path, TableBatch("w", 1), range(1, 2)), SCHEMA)

    assert offsets_in(tmp_path) == [0, 1, 5]


def test_overtaken_by_the_same_batch_it_is_not_written_twice(tmp_path: Path) -> None:
    IcebergTable(tmp_path).commit(staged(tmp_path, TableBatch("w", 0), range(1)), SCHEMA)

    with pytest.raises(JobCannotRun, match="another job has written batch 1"):
        Overtaken(tmp_path, by=TableBatch("w", 1)).commit(staged(tmp_path, TableBatch("w", 1), range(5, 6)), SCHEMA)

    assert offsets_in(tmp_path) == [0, 5]


def test_made_by_somebody_else_in_the_meantime_the_table_is_filled(tmp_path: Path) -> None:
    Overtaken(tmp_path, by=TableBatch("other", 0)).commit(staged(tmp_path, TableBatch("w", 0), range(1)), SCHEMA)

    assert offsets_in(tmp_path) == [0, 5]


def test_new_columns_come_with_the_batch_that_has_them(tmp_path: Path) -> None:
    table = IcebergTable(tmp_path)
    table.commit(staged(tmp_path, TableBatch("w", 0), range(1)), SCHEMA)

    table.commit(staged(tmp_path, TableBatch("w", 1), range(1, 2), more=["m"]), WIDER)

    assert table.schema() == WIDER
    rows = opened(tmp_path).scan().to_arrow().sort_by("offset").to_pylist()
    assert [(row["offset"], row["more"]) for row in rows] == [(0, None), (1, "m")]


def test_a_batch_without_rows_is_noted(tmp_path: Path) -> None:
    table = IcebergTable(tmp_path)

    table.commit(staged(tmp_path, TableBatch("w", 0), range(0)), SCHEMA)

    assert table.last_batch("w") == 0
    assert (table.topics(), offsets_in(tmp_path)) == ((), [])


def test_what_attempts_left_behind_is_removed_and_nothing_of_the_table(tmp_path: Path) -> None:
    table = IcebergTable(tmp_path)
    table.commit(staged(tmp_path, TableBatch("w", 0), range(2)), SCHEMA)
    left = staged(tmp_path, TableBatch("w", 1), range(2, 4))
    others = staged(tmp_path, TableBatch("other", 1), range(2, 4))

    IcebergTable(tmp_path).clean("w")

    assert (left.folder.exists(), others.folder.exists()) == (False, True)
    assert offsets_in(tmp_path) == [0, 1]


def test_killed_within_the_first_batch_it_goes_on(tmp_path: Path) -> None:
    IcebergTable(tmp_path)
    left = staged(tmp_path, TableBatch("w", 0), range(2))

    table = IcebergTable(tmp_path)
    table.clean("w")
    table.commit(staged(tmp_path, TableBatch("w", 0), range(2)), SCHEMA)

    assert not left.folder.exists()
    assert offsets_in(tmp_path) == [0, 1]


def test_of_many_snapshots_the_last_ones_are_kept(tmp_path: Path) -> None:
    table = IcebergTable(tmp_path, snapshots_kept=2)
    kept = []
    for number in range(5):
        table.commit(staged(tmp_path, TableBatch("w", number), range(number, number + 1)), SCHEMA)
        kept.append(len(opened(tmp_path).snapshots()))

    assert kept == [1, 2, 3, 2, 3]
    assert offsets_in(tmp_path) == list(range(5))
    assert table.last_batch("w") == 4


def test_a_folder_of_something_else_is_refused(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    (tmp_path / "damaged").mkdir()
    (tmp_path / "damaged" / "catalog.db").write_text("no database" * 100)

    with pytest.raises(JobCannotRun, match="is not empty, and no Iceberg table"):
        IcebergTable(tmp_path)
    with pytest.raises(JobCannotRun, match=r"cannot have a \? in its path"):
        IcebergTable(tmp_path / "what?")
    with pytest.raises(JobCannotRun, match="file is not a database"):
        IcebergTable(tmp_path / "damaged")
    assert not (tmp_path / "what?").exists()


def test_without_the_package_it_says_how_to_get_it(tmp_path: Path) -> None:
    missing = "raise ModuleNotFoundError('No module named pyiceberg', name='pyiceberg')"
    (tmp_path / "pyiceberg.py").write_text(missing)
    program = (
        "from chronik.pipeline.tables.iceberg import check_installed\n"
        "from chronik.pipeline.problems import JobCannotRun\n"
        "try: check_installed()\nexcept JobCannotRun as problem: print(problem.message, '|', problem.hint)"
    )
    paths = os.pathsep.join([str(tmp_path), *filter(None, sys.path)])

    said = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        env=os.environ | {"PYTHONPATH": paths},
        check=True,
    )

    assert said.stdout.strip() == (
        "Iceberg tables need pyiceberg, which is not installed | pip install 'chronik[iceberg]'"
    )
