"""compare: the histories of many runs of verify, and audits, as one table over versions and settings."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from chronik.pipeline.jobs.diagnose import ROWS_MAX, head
from chronik.pipeline.problems import JobCannotRun
from chronik.pipeline.progress import ProgressBar
from chronik.pipeline.tables.results import refuse_what_is_there, write_tables
from chronik.pipeline.transforms import compare

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

KEPT = "source string, report string"
BATCH_ROWS = 500


@dataclass(frozen=True)
class CompareSettings:
    """Which files, and what runs are distinguished by."""

    files: Sequence[str]
    by: Sequence[str] = ()
    out: str | None = None


@dataclass(frozen=True)
class CompareOutcome:
    """The comparison, its first rows; what is the same in all of them; and how many runs there are."""

    by: list[str]
    rows: list[dict[str, Any]]
    same: dict[str, Any]
    runs: int
    out: str | None


def run(spark: SparkSession, settings: CompareSettings, bar: ProgressBar | None = None) -> CompareOutcome:
    """Raises JobCannotRun."""
    bar = bar or ProgressBar()
    by = list(settings.by or compare.BY)
    if unknown := [name for name in by if name not in (*compare.BY, "note", "source")]:
        raise JobCannotRun(
            f"runs cannot be distinguished by {unknown[0]}", f"there are {', '.join((*compare.BY, 'note', 'source'))}"
        )
    if settings.out is not None:
        refuse_what_is_there(settings.out)
    bar.show(step=f"reading {len(settings.files):,} file{'' if len(settings.files) == 1 else 's'}")
    runs = compare.runs(read(spark, settings.files)).persist()
    try:
        count = runs.count()
        bar.show(rows=count, step="comparing")
        compared = compare.comparison(runs, by)
        if settings.out is not None:
            write_tables({"runs": runs.coalesce(1), "comparison": compared.coalesce(1)}, settings.out)
        rows = head(compared, ROWS_MAX)
    finally:
        runs.unpersist()
    if not rows:
        raise JobCannotRun("there are no finished runs in these files", "`chronik verify` makes one, and keeps it")
    same = _same(rows, by)
    return CompareOutcome([name for name in by if name not in same], rows, same, count, settings.out)


def _same(rows: Sequence[dict[str, Any]], by: Sequence[str]) -> dict[str, Any]:
    """What does not tell these rows apart. An audit does not know most of it, and has nothing there."""
    known = {name: [row[name] for row in rows if row[name] is not None] for name in by}
    return {
        name: values[0] if values else None
        for name, values in known.items()
        if len(rows) > 1 and all(value == values[0] for value in values)
    }


def read(spark: SparkSession, files: Sequence[str]) -> DataFrame:
    """Each file by a task of its own, some hundred runs at once: a history may be long."""

    def kept(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from itertools import islice

        import pyarrow as pa

        from chronik.pipeline.kept_runs import kept_in

        for batch in batches:
            for path in batch.column(0).to_pylist():
                found = kept_in(path)
                while rows := list(islice(found, BATCH_ROWS)):
                    yield pa.RecordBatch.from_pydict(
                        {"source": [row.source for row in rows], "report": [row.report for row in rows]}
                    )

    paths = spark.createDataFrame([(path,) for path in files], "path string").repartition(len(files))
    return paths.mapInArrow(kept, KEPT)
