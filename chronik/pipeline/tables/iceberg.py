"""Iceberg tables without Maven: Spark writes the files, the `pyiceberg` package commits them.

The folder has the table's `data` and `metadata`, and the catalog that says which metadata is the present one:
`catalog.db`, SQLite. Which batch of a writer was the last is a property of the table, set in the same commit that adds
the batch's files; snapshots may be expired without it being forgotten.
"""

from __future__ import annotations

import shutil
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from chronik.pipeline.problems import JobCannotRun
from chronik.pipeline.tables.evolve import evolved
from chronik.pipeline.tables.kinds import Staged, TableBatch, batch_of, check_folder, is_empty, write_files
from chronik.pipeline.transforms.ingest import PARTITIONED_BY

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

CATALOG = "catalog.db"
CATALOG_NAME = "chronik"
NAME = "chronik.records"
COMMITS_TRIED = 10
SNAPSHOTS_KEPT = 100
_BATCH = "chronik.batch."
# Spark leaves out of the files what it makes folders of; Iceberg wants the columns there. So folders are of copies.
_FOLDER = "by_"
_PROPERTIES = {
    "format-version": "2",
    # Tried again blindly, a batch that another has committed in the meantime would be there twice.
    "commit.retry.num-retries": "0",
    # Else each commit would make the next ones slower, and none of their small files would ever go.
    "commit.manifest-merge.enabled": "true",
    "write.metadata.delete-after-commit.enabled": "true",
    "write.metadata.previous-versions-max": "20",
}
# pyiceberg makes Python's times of a file's smallest and largest, which fails where a time is of no year that it has.
_NO_BOUNDS_OF_TIME = {"write.metadata.metrics.column.timestamp": "counts"}


def check_installed() -> None:
    """Raises JobCannotRun without the packages that it needs."""
    try:
        import pyiceberg.catalog.sql
        import pyiceberg.io.pyarrow  # noqa: F401
    except ImportError as problem:
        raise JobCannotRun(
            f"Iceberg tables need {problem.name}, which is not installed", "pip install 'chronik[iceberg]'"
        ) from problem


class IcebergTable:
    """An Iceberg table in a folder that this machine and Spark's share."""

    def __init__(self, path: Path, snapshots_kept: int = SNAPSHOTS_KEPT) -> None:
        """Raises JobCannotRun where something else is."""
        check_installed()
        self.path = path.resolve()
        if odd := sorted(set("%#?;") & set(str(self.path))):
            raise JobCannotRun(f"{path}: an Iceberg table cannot have a {odd[0]} in its path", "give another folder")
        check_folder(path)
        self._snapshots_kept = snapshots_kept
        self._opened: Any = None
        if not (path / CATALOG).is_file() and not is_empty(path):
            raise JobCannotRun(f"{path} is not empty, and no Iceberg table of ingest", "give another folder")
        with self._problems():
            self._catalog()  # before any file: killed within its first batch, it is known again by this

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_opened": None}  # each process opens it by itself

    def schema(self) -> StructType | None:
        table = self._table()
        return None if table is None else _columns(table)

    def topics(self) -> Collection[str]:
        table = self._table()
        if table is None:
            return ()
        if [field.name for field in table.spec().fields] != list(PARTITIONED_BY):
            raise JobCannotRun(
                f"{self.path} is not partitioned by {' and '.join(PARTITIONED_BY)}: it is no table of ingest"
            )
        if table.current_snapshot() is None:
            return ()
        return sorted({str(each["partition"]["topic"]) for each in table.inspect.partitions().to_pylist()})

    def files(self) -> list[Path]:
        """Those of the last snapshot. Raises JobCannotRun where they do not say by themselves which rows there are."""
        table = self._table()
        tasks = [] if table is None else list(table.scan().plan_files())
        if any(task.delete_files for task in tasks):
            raise JobCannotRun(f"{self.path} has rows that were deleted: its files alone do not say its rows")
        return sorted(Path(task.file.file_path.removeprefix("file://")) for task in tasks)

    def last_batch(self, writer: str) -> int | None:
        table = self._table()
        return None if table is None else _last(table, writer)

    def stage(self, rows: DataFrame, batch: TableBatch) -> Staged:
        copies = {_FOLDER + name: rows[name] for name in PARTITIONED_BY}
        staged = write_files(rows.withColumns(copies), self.path / "data" / batch.folder_name(), batch, tuple(copies))
        return replace(staged, files=tuple(
            replace(each, partition_values={
                name.removeprefix(_FOLDER): value for name, value in each.partition_values.items()
            }) for each in staged.files
        ))  # fmt: skip

    def commit(self, staged: Staged, schema: StructType) -> None:
        """What could not be committed stays where no reader looks, until `clean`: the commit may have been done."""
        from pyiceberg.exceptions import CommitFailedException

        with self._problems():
            for left in reversed(range(COMMITS_TRIED)):
                try:
                    add_batch(self._table() or self._create(schema), staged, schema)
                    break
                except CommitFailedException:  # another commit was faster, perhaps of another writer
                    if not left:
                        raise
            self._expire()

    def clean(self, writer: str) -> None:
        """Batches above the last are not in the table. Those below stay: they are, or an old snapshot has them."""
        last = self.last_batch(writer)
        if (self.path / "data").is_dir():
            for folder in (self.path / "data").iterdir():
                number = batch_of(folder.name, writer)
                if number is not None and (last is None or number > last):
                    shutil.rmtree(folder)

    def compact(self) -> int:
        raise JobCannotRun(
            "pyiceberg cannot join the files of a table", "let Spark or Trino do it, or use --format delta"
        )

    def _table(self) -> Any:
        """As it is now; None while there is none."""
        from pyiceberg.exceptions import NoSuchTableError

        with self._problems():
            if self._opened is not None:
                return self._opened.refresh()
            try:
                self._opened = self._catalog().load_table(NAME)
            except NoSuchTableError:
                return None
        return self._opened

    def _expire(self) -> None:
        """Each commit writes down all snapshots again. The rows of those that go are in the later ones, too."""
        from pyiceberg.exceptions import CommitFailedException

        table = self._table()
        snapshots = table.snapshots()
        if len(snapshots) >= 2 * self._snapshots_kept:
            oldest = datetime.fromtimestamp(snapshots[-self._snapshots_kept].timestamp_ms / 1000, UTC)
            with suppress(CommitFailedException):  # another commit is under way; there will be another time
                table.maintenance.expire_snapshots().older_than(oldest).commit()

    def _catalog(self) -> Any:
        from pyiceberg.catalog.sql import SqlCatalog

        return SqlCatalog(CATALOG_NAME, uri=f"sqlite:///{self.path / CATALOG}", warehouse=f"file://{self.path}")

    def _create(self, schema: StructType) -> Any:
        catalog = self._catalog()
        catalog.create_namespace_if_not_exists(CATALOG_NAME)
        with (
            catalog.create_table_transaction(
                NAME, _arrow(schema), location=f"file://{self.path}", properties=_PROPERTIES
            ) as change,
            change.update_spec() as spec,
        ):
            for name in PARTITIONED_BY:
                spec.add_identity(name)
        self._opened = catalog.load_table(NAME)
        return self._opened

    @contextmanager
    def _problems(self) -> Iterator[None]:
        from pyiceberg.exceptions import CommitFailedException, NoSuchTableError, ValidationError
        from sqlalchemy.exc import SQLAlchemyError

        try:
            yield
        except (
            CommitFailedException,
            NoSuchTableError,
            SQLAlchemyError,
            TypeError,
            ValidationError,
            ValueError,
        ) as problem:
            raise JobCannotRun(f"{self.path}: {problem}") from problem


def _columns(table: Any) -> StructType:
    from pyspark.sql.pandas.types import from_arrow_schema

    return from_arrow_schema(table.schema().as_arrow())


def _last(table: Any, writer: str) -> int | None:
    found = table.properties.get(_BATCH + writer)
    return None if found is None else int(found)


def add_batch(table: Any, staged: Staged, schema: StructType) -> None:
    """In one commit: new columns, the files, and that they are there. Refused if the table has changed since."""
    batch = staged.batch
    last = _last(table, batch.writer)
    if last is not None and last >= batch.number:
        shutil.rmtree(staged.folder, ignore_errors=True)
        raise JobCannotRun(f"{staged.folder.parent.parent}: another job has written batch {batch.number}")
    noted = {_BATCH + batch.writer: str(batch.number)}
    known = _columns(table)
    with table.transaction() as change:
        if evolved(known, schema) != known:
            with change.update_schema() as columns:
                columns.union_by_name(_arrow(schema))
        change.set_properties(noted)
        if any(each.partition_values.get("date", "") is None for each in staged.files):
            change.set_properties(_NO_BOUNDS_OF_TIME)
        if staged.files:
            paths = [f"file://{each.path}" for each in staged.files]
            change.add_files(paths, snapshot_properties=noted, check_duplicate_files=False)


def _arrow(schema: StructType) -> Any:
    from pyspark.sql.pandas.types import to_arrow_schema

    return to_arrow_schema(schema, timezone="UTC")
