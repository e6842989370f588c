"""Tables that are filled batch by batch, each batch once: what the kinds of table have alike.

Spark writes a batch's files into a folder of their own, where no reader of the table looks (`stage`). Then one small
write makes all of them part of the table (`commit`), together with who wrote which batch. A batch that is done again,
because the process that did it died before it could note that, is recognised by this.
"""

from __future__ import annotations

import os
import re
import shutil
import uuid
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol
from urllib.parse import unquote

from chronik.pipeline.problems import JobCannotRun
from chronik.pipeline.transforms.ingest import IS_BAD, PARTITIONED_BY

if TYPE_CHECKING:
    from collections.abc import Collection

    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

# As Hive does, and Spark after it.
_NULL_IN_PATH = "__HIVE_DEFAULT_PARTITION__"
_ATTEMPT = re.compile(r"-[0-9]{10}-[0-9a-f]{8}$")  # the end of a batch's folder_name
STAGING = "_staging"


@dataclass(frozen=True)
class TableBatch:
    """Which batch of whose: `writer` is the same over all restarts of a job."""

    writer: str
    number: int

    def folder_name(self) -> str:
        """A new one each time: an attempt that still runs somewhere must not write into this one's."""
        return f"{self.writer}-{self.number:010d}-{uuid.uuid4().hex[:8]}"


def batch_of(folder_name: str, writer: str) -> int | None:
    """The number in a folder's name, if it is one of this writer's."""
    parts = folder_name.removeprefix(f"{writer}-").split("-")
    is_ours = folder_name.startswith(f"{writer}-") and len(parts) == 2 and parts[0].isdecimal()
    return int(parts[0]) if is_ours else None


class ColumnRange(NamedTuple):
    """The smallest and the largest value of a column, None where all are null, and how many are null."""

    low: Any
    high: Any
    nulls: int


@dataclass(frozen=True)
class StagedFile:
    path: Path
    partition_values: dict[str, str | None]
    size: int
    rows: int
    ranges: dict[str, ColumnRange] | None
    """Of every plain column; None where the file does not have all of them: a reader that knows some only may take the
    others for empty."""


@dataclass(frozen=True)
class Staged:
    """A batch whose files are written, and not part of the table yet."""

    batch: TableBatch
    folder: Path
    files: tuple[StagedFile, ...]
    bad: Path | None = None
    """A folder beside it, with the bad rows: they are for the quarantine. None where there are none."""

    @property
    def rows(self) -> int:
        return sum(each.rows for each in self.files)

    def topics(self) -> list[str]:
        return sorted({each.partition_values["topic"] or "" for each in self.files})


class Table(Protocol):
    """A folder that readers take for a table."""

    @property
    def path(self) -> Path: ...

    def schema(self) -> StructType | None:
        """None while there is no table."""

    def topics(self) -> Collection[str]:
        """Those that the table has records of."""

    def last_batch(self, writer: str) -> int | None:
        """The last batch of this writer that is in the table."""

    def stage(self, rows: DataFrame, batch: TableBatch) -> Staged: ...

    def commit(self, staged: Staged, schema: StructType) -> None:
        """All of it, or nothing. `schema` may have columns that the table has not yet."""

    def clean(self, writer: str) -> None:
        """Removes what earlier attempts of this writer left behind."""

    def compact(self) -> int:
        """Joins small files, and says how many have gone into larger ones."""


def write_files(rows: DataFrame, folder: Path, batch: TableBatch, by: tuple[str, ...] = PARTITIONED_BY) -> Staged:
    """Spark's part: folders for the values of the columns `by`, which the files then do not have.

    Rows that are marked as bad go into a folder of their own, in the same write. What is not written to its end is
    removed as far as that is possible.
    """
    is_split = IS_BAD in rows.columns
    try:
        rows.write.partitionBy(*((IS_BAD, *by) if is_split else by)).parquet(for_spark(folder))
        check_shared(folder)
        for left in (*folder.rglob(".*.crc"), folder / "_SUCCESS"):
            left.unlink(missing_ok=True)
        bad = _split(folder, folder.with_name(batch.folder_name())) if is_split else None
        return replace(staged_in(folder, batch), bad=bad)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise


def _split(folder: Path, apart: Path) -> Path | None:
    """Puts the bad rows' files into a folder of their own, and takes the others out of `is_bad=false`."""
    good, bad = folder / f"{IS_BAD}=false", folder / f"{IS_BAD}=true"
    if good.is_dir():
        for each in good.iterdir():
            os.rename(each, folder / each.name)
        good.rmdir()
    if not bad.is_dir():
        return None
    os.rename(bad, apart)
    return apart


def check_shared(folder: Path) -> None:
    """Raises JobCannotRun where Spark has written, and this machine does not see it."""
    if not folder.is_dir():
        raise JobCannotRun(
            f"Spark has written {folder}, and it is not there for this process",
            "all of Spark's machines and this one must share the file system that the folder is on",
        )


def for_spark(path: Path) -> str:
    """A local path, whatever file system Spark takes for its own. Not `as_uri`: Spark takes its %20 as it stands."""
    return f"file://{path.resolve()}"


def to_read(path: Path) -> str:
    """The same for reading, where Spark takes some characters for patterns."""
    return re.sub(r"([\\*?\[\]{}])", r"\\\1", for_spark(path))


def staged_in(folder: Path, batch: TableBatch) -> Staged:
    """What was written there."""
    files = [_staged_file(path, folder) for path in sorted(folder.rglob("*.parquet"))]
    return Staged(batch, folder, tuple(each for each in files if each.rows > 0))


def _staged_file(path: Path, folder: Path) -> StagedFile:
    import pyarrow.parquet as pq

    footer = pq.read_metadata(path)
    values = dict(part.split("=", 1) for part in path.relative_to(folder).parts[:-1])
    return StagedFile(
        path,
        {name: None if value == _NULL_IN_PATH else unquote(value) for name, value in values.items()},
        path.stat().st_size,
        footer.num_rows,
        _ranges(footer),
    )


def _ranges(footer: Any) -> dict[str, ColumnRange] | None:
    """By column, from the statistics of all row groups. Lists and structs have none, and bytes need none."""
    import pyarrow as pa

    ranges: dict[str, ColumnRange] = {}
    for column in footer.schema.to_arrow_schema():
        kind = column.type
        if pa.types.is_nested(kind) or pa.types.is_binary(kind):
            continue
        if not any(is_plain(kind) for is_plain in (_is_number, pa.types.is_string, _is_time, pa.types.is_boolean)):
            return None
        parts = [_statistics(footer.row_group(number), column.name) for number in range(footer.num_row_groups)]
        if any(part is None or not part.has_null_count for part in parts):
            return None
        valued = [part for part in parts if part.num_values > 0]
        if not all(part.has_min_max for part in valued):
            return None
        try:
            low = min((part.min for part in valued), default=None)
            high = max((part.max for part in valued), default=None)
        except (ValueError, OverflowError):  # a time that Python's calendar does not reach
            return None
        ranges[column.name] = ColumnRange(low, high, sum(part.null_count for part in parts))
    return ranges


def _statistics(group: Any, name: str) -> Any:
    """None where there are none."""
    columns = (group.column(number) for number in range(group.num_columns))
    return next((column.statistics for column in columns if column.path_in_schema == name), None)


def _is_number(kind: Any) -> bool:
    import pyarrow as pa

    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind))


def _is_time(kind: Any) -> bool:
    import pyarrow as pa

    return bool(pa.types.is_date32(kind) or (pa.types.is_timestamp(kind) and kind.tz is not None))


def check_folder(path: Path) -> None:
    """Raises JobCannotRun where no table can be."""
    if path.exists() and not path.is_dir():
        raise JobCannotRun(f"{path} is a file", "a table is a folder")
    path.mkdir(parents=True, exist_ok=True)
    if not os.access(path, os.W_OK):
        raise JobCannotRun(f"{path}: Permission denied")


def is_empty(path: Path) -> bool:
    """But for what an attempt at the first batch left behind, when it was killed."""
    return not path.exists() or all(each.name == STAGING or _ATTEMPT.search(each.name) for each in path.iterdir())
