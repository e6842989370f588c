"""Micro-batches into a table and its quarantine, each once."""

from __future__ import annotations

import shutil
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.sql.types import DataType, StructType

from chronik.pipeline.problems import JobCannotRun
from chronik.pipeline.tables.evolve import OtherSchema, evolved
from chronik.pipeline.tables.kinds import Table, TableBatch, to_read
from chronik.pipeline.tables.writers import Counts, Writer
from chronik.pipeline.transforms.ingest import (
    bad_schema,
    inferred_json,
    judged,
    quarantine_schema,
    rows_of_quarantine,
    rows_to_stage,
    table_schema,
    text_of_values,
)
from chronik.pipeline.values import infer
from chronik.pipeline.values.forms import Form, Kind

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

LINES_LOOKED_AT = 1000  # of CSV, to infer what it is
COMPACT_EVERY = 20  # batches
_SAID_BY = {
    "kind": "--value",
    "schema": "--schema",
    "avro": "--schema",
    "schema_id": "--schema-id",
    "delimiter": "--delimiter",
    "is_inferred": "--schema or --infer",
    "quarantine": "--quarantine",
}


@dataclass
class Filling:
    """What is done with each micro-batch. A batch that is in the table is passed over.

    With Spark Connect it is a copy of this object that does it, in a process of the server: what it has done is in the
    writer's note.
    """

    table: Table
    quarantine: Table
    form: Form
    writer: Writer
    is_compacted: bool = False
    counts: Counts = field(default_factory=Counts)
    problem: BaseException | None = field(default=None, repr=False)
    _said: dict[str, object] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self._said = {**self.form.said(), "quarantine": str(self.quarantine.path)}

    def check(self) -> None:
        """Raises JobCannotRun if what is known now does not fit the table that is there."""
        self._begun(None)
        self.form = self._form_with(self.form.schema)
        if self.form.kind == Kind.RAW or self.form.schema is not None:
            self._schema()

    def write(self, records: DataFrame, number: int) -> None:
        """For foreachBatch. What it raises comes back from Spark as text only, so it is kept."""
        try:
            self._write(records, number)
        except BaseException as problem:
            self.problem = problem
            raise

    def _write(self, records: DataFrame, number: int) -> None:
        self.writer.check_shared()
        batch = TableBatch(self.writer.name, number)
        last = self.table.last_batch(batch.writer)
        if last is not None and last >= number:
            self.counts.skipped += 1
            self.writer.note(last, self.counts)
            return
        checked, begun = self.form, self._begun(number)
        if begun is not None:
            self.form = self.form.with_schema(begun)
        elif self.form.is_inferred:
            found = self._inferred(records)
            if found is None and self.form.schema is None:
                if records.isEmpty():  # as when it has only the marks of transactions
                    return
                raise JobCannotRun(
                    "no schema can be inferred: none of the values can be read", "give it: --schema FILE"
                )
            self.form = self._form_with(found)
        schema = self._schema()
        staged = self.table.stage(rows_to_stage(judged(records, self.form), self.form), batch)
        try:
            self.writer.claim(staged.topics(), number)
        except JobCannotRun:
            self.table.clean(batch.writer)
            raise
        # The quarantine first: when a batch is in the table, nothing of it is missing anywhere.
        if staged.bad is not None:
            self._set_apart(records.sparkSession, staged.bad, batch)
            shutil.rmtree(staged.bad)
        self.table.commit(staged, schema)
        self.counts.rows += staged.rows
        self.counts.batches += 1
        self.writer.note(number, self.counts)
        if begun is not None and not self.form.is_inferred:
            self.form = checked
        if self.is_compacted and self.counts.batches % COMPACT_EVERY == 0:
            self.counts.compacted += self.compact()
            self.writer.note(number, self.counts)

    def _set_apart(self, spark: SparkSession, bad: Path, batch: TableBatch) -> None:
        """Staged bad rows into the quarantine."""
        if self._is_set_apart(batch):
            return
        rows = spark.read.schema(bad_schema()).parquet(to_read(bad))
        staged = self.quarantine.stage(rows_of_quarantine(rows), batch)
        schema = None if self.form.schema is None else self.form.schema.jsonValue()
        self.writer.begin(batch.number, {"said": self._said, "schema": schema})
        try:
            self.quarantine.commit(staged, quarantine_schema())
        except (JobCannotRun, OSError):
            if not self._is_set_apart(batch):
                self.writer.begin(batch.number, None)
            raise
        self.counts.quarantined += staged.rows

    def _is_set_apart(self, batch: TableBatch) -> bool:
        last = self.quarantine.last_batch(batch.writer)
        return last is not None and last >= batch.number

    def _begun(self, number: int | None) -> StructType | None:
        """The columns that this batch was judged by when its bad records were set apart, and the rest was not written.

        By others, a record could be in both tables, or in none. Raises JobCannotRun where they would be others.
        """
        begun = self.writer.begun()
        if begun is None:
            return None
        if differing := [name for name, value in self._said.items() if begun["said"].get(name) != value]:
            raise JobCannotRun(
                f"a batch is half done: its bad records are in {begun['said']['quarantine']}, and the others are not in"
                f" {self.table.path} yet. It was begun with another {_SAID_BY[differing[0]]}",
                "run it once more as it was run then; after that, change what you like",
            )
        is_known = begun["batch"] == number and begun["schema"] is not None
        return StructType.fromJson(begun["schema"]) if is_known else None

    def compact(self) -> int:
        """Joins small files, and says how many have gone into larger ones."""
        return self.table.compact() + self.quarantine.compact()

    def _inferred(self, records: DataFrame) -> StructType | None:
        if self.form.kind == Kind.CSV:
            if self.form.schema is not None:
                return self.form.schema
            lines = [row[0] for row in text_of_values(records).limit(LINES_LOOKED_AT).collect()]
            return infer.of_lines(lines, self.form.delimiter)
        row = inferred_json(records).first()
        return infer.of_variants(None if row is None else row[0], DataType.fromDDL)

    def _form_with(self, wanted: StructType | None) -> Form:
        """The form with all columns: those that the table has, and those that are wanted."""
        if self.form.kind == Kind.RAW:
            return self.form
        known = self.form.schema if self.form.is_inferred else None
        if known is None and (table := self.table.schema()) is not None:
            kind = table["value"].dataType if "value" in table.names else None
            if not isinstance(kind, StructType):
                raise JobCannotRun(f"{self.table.path} is not a table of {self.form.kind} values", "give another table")
            known = kind
        if known is None or wanted is None:
            return self.form if known is None and wanted is None else self.form.with_schema(known or wanted)
        try:
            # An inferred type that does not fit gives way: such values go into quarantine one by one.
            return self.form.with_schema(evolved(known, wanted, is_lenient=self.form.is_inferred))
        except OtherSchema as problem:
            raise JobCannotRun(f"{self.table.path}: {problem}", "give another table, or change the schema") from problem

    def _schema(self) -> StructType:
        """Of the table as it will be. Raises JobCannotRun where that cannot be."""
        wanted = table_schema(self.form)
        for table, schema in ((self.table, wanted), (self.quarantine, quarantine_schema())):
            known = table.schema()
            try:
                if known is not None:
                    evolved(known, schema)
            except OtherSchema as problem:
                raise JobCannotRun(f"{table.path}: {problem}", "give another table, or change the schema") from problem
        known = self.table.schema()
        return wanted if known is None else evolved(known, wanted)
