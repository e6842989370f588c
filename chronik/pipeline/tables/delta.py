"""Delta tables without Maven: Spark writes the files, the `deltalake` package commits them.

A commit has (writer, batch) as Delta's application transaction: of two that commit the same batch at the same time,
one is refused. Files that were never committed are not part of the table, whatever lies in its folder.
"""

from __future__ import annotations

import datetime
import json
import math
import os
import shutil
from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING, Any

from chronik.pipeline.problems import JobCannotRun
from chronik.pipeline.tables.evolve import evolved
from chronik.pipeline.tables.kinds import Staged, StagedFile, TableBatch, batch_of, check_folder, is_empty, write_files
from chronik.pipeline.transforms.ingest import PARTITIONED_BY

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

LOG = "_delta_log"


class DeltaTable:
    """A Delta table in a folder that this machine and Spark's share."""

    def __init__(self, path: Path) -> None:
        """Raises JobCannotRun where something else is."""
        if "%" in str(path.resolve()):  # deltalake takes %20 for a space, and looks elsewhere
            raise JobCannotRun(f"{path}: a Delta table cannot have a % in its path", "give another folder")
        check_folder(path)
        self.path = path.resolve()
        self._opened: Any = None
        if not (path / LOG).is_dir() and not is_empty(path):
            raise JobCannotRun(f"{path} is not empty, and no Delta table", "give another folder")

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_opened": None}  # each process opens it by itself

    def schema(self) -> StructType | None:
        from pyspark.sql.types import StructType

        table = self._table()
        return None if table is None else StructType.fromJson(json.loads(table.schema().to_json()))

    def topics(self) -> Collection[str]:
        table = self._table()
        if table is None:
            return ()
        if missing := set(PARTITIONED_BY) - set(table.metadata().partition_columns):
            raise JobCannotRun(
                f"{self.path} is not partitioned by {' and '.join(sorted(missing))}: it is no table of ingest"
            )
        return sorted({str(each["topic"]) for each in table.partitions()})

    def last_batch(self, writer: str) -> int | None:
        table = self._table()
        return None if table is None else table.transaction_version(writer)

    def stage(self, rows: DataFrame, batch: TableBatch) -> Staged:
        return write_files(rows, self.path / batch.folder_name(), batch)

    def commit(self, staged: Staged, schema: StructType) -> None:
        """What could not be committed stays where no reader looks, until `clean`: the commit may have been done."""
        from deltalake import CommitProperties, Schema, Transaction
        from deltalake.exceptions import DeltaError

        wanted = Schema.from_json(schema.json())
        by = CommitProperties(app_transactions=[Transaction(staged.batch.writer, staged.batch.number)])
        try:
            table = self._table() or self._create(wanted)
            known = self.schema()
            if known is not None and evolved(known, schema) != known:
                table.alter.add_columns(wanted.fields)
            adds = [self._add(each) for each in staged.files]
            table.create_write_transaction(adds, "append", table.schema(), list(PARTITIONED_BY), commit_properties=by)
        except (DeltaError, OSError) as problem:
            # After a commit deltalake tidies its log, with a checkpoint now and then. If that fails the rows are there.
            if self._has(staged):
                return
            raise JobCannotRun(f"{self.path}: {problem}") from problem

    def clean(self, writer: str) -> None:
        """Batches above the last are not in the table. Those below stay: a reader may use an old version of it."""
        last = self.last_batch(writer)
        for folder in self.path.iterdir():
            number = batch_of(folder.name, writer)
            if number is not None and (last is None or number > last):
                shutil.rmtree(folder)

    def compact(self) -> int:
        """Files that went into larger ones stay for a week, for who reads at this moment; then they are removed."""
        from deltalake.exceptions import DeltaError

        table = self._table()
        if table is None:
            return 0
        try:
            done = table.optimize.compact()
            table.vacuum(dry_run=False)
        except DeltaError as problem:
            raise JobCannotRun(f"{self.path}: {problem}") from problem
        return int(done["numFilesRemoved"])

    def _table(self) -> Any:
        """As it is now; None while there is none."""
        from deltalake import DeltaTable as Opened
        from deltalake.exceptions import DeltaError

        try:
            if self._opened is not None:
                self._opened.update_incremental()
            elif Opened.is_deltatable(str(self.path)):
                self._opened = Opened(str(self.path))
        except DeltaError as problem:
            raise JobCannotRun(f"{self.path}: {problem}") from problem
        return self._opened

    def _has(self, staged: Staged) -> bool:
        """Whether these very files are in the table: another attempt may have committed the batch with its own."""
        import pyarrow as pa

        self._opened = None  # what it knows may be older than the log
        last = self.last_batch(staged.batch.writer)
        if last is None or last < staged.batch.number:
            return False
        there = set(pa.table(self._opened.get_add_actions()).column("path").to_pylist())
        return all(self._relative(each) in there for each in staged.files)

    def _create(self, schema: Any) -> Any:
        from deltalake import DeltaTable as Opened

        self._opened = Opened.create(str(self.path), schema, partition_by=list(PARTITIONED_BY), mode="ignore")
        return self._opened

    def _add(self, file: StagedFile) -> Any:
        from deltalake.transaction import AddAction

        return AddAction(
            path=self._relative(file),
            size=file.size,
            partition_values=file.partition_values,
            modification_time=file.path.stat().st_mtime_ns // 1_000_000,
            data_change=True,
            stats=json.dumps(statistics(file), allow_nan=False),
        )

    def _relative(self, file: StagedFile) -> str:
        return os.path.relpath(file.path, self.path)


def statistics(file: StagedFile) -> dict[str, Any]:
    """What readers skip files by. All plain columns are in it, or none is: deltalake takes a column that is left out
    while others are there for one without values, and finds nothing."""
    described: dict[str, Any] = {"numRecords": file.rows}
    ranges = file.ranges or {}
    shown = {name: (_shown(each.low), _shown(each.high), each.nulls) for name, each in ranges.items()}
    if not shown or any(_UNSAID in (low, high) for low, high, _ in shown.values()):
        return described
    return described | {
        "minValues": {name: low for name, (low, _, _) in shown.items() if low is not None},
        "maxValues": {name: high for name, (_, high, _) in shown.items() if high is not None},
        "nullCount": {name: nulls for name, (_, _, nulls) in shown.items()},
    }


_UNSAID = object()


def _shown(value: Any) -> Any:
    """A value as Delta writes it; _UNSAID where JSON has no word for it."""
    match value:
        case float() if not math.isfinite(value):
            return _UNSAID
        case datetime.datetime():
            return value.astimezone(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ") if value.year >= 1000 else _UNSAID
        case datetime.date():
            return value.isoformat()
    return value
