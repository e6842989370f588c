"""Plain Parquet that every reader sees right: a folder of files, without a log that it would have to know.

The files of a batch are written under `_staging`, which readers pass over for its first character. Then a note says
which files go where; when it is there the batch counts as written, and the files are moved. A job that finds the note
of a batch that is not moved to its end moves the rest. So no record is ever there twice; for a moment a reader may see
a part of a batch.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from chronik.pipeline.problems import JobCannotRun
from chronik.pipeline.tables.kinds import STAGING, Staged, TableBatch, batch_of, check_folder, is_empty, write_files

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

NOTES = "_chronik"


class ParquetTable:
    """Parquet files under topic=.../date=..."""

    def __init__(self, path: Path) -> None:
        """Raises JobCannotRun where something else is."""
        check_folder(path)
        self.path = path.resolve()
        if not (path / NOTES).is_dir() and not is_empty(path):
            raise JobCannotRun(f"{path} is not empty, and was not filled by ingest", "give another folder")

    def schema(self) -> StructType | None:
        from pyspark.sql.types import StructType

        noted = self._read("schema")
        return None if noted is None else StructType.fromJson(noted)

    def topics(self) -> Collection[str]:
        return sorted(unquote(each.name.removeprefix("topic=")) for each in self.path.glob("topic=*"))

    def last_batch(self, writer: str) -> int | None:
        noted = self._read(f"writer-{writer}")
        if noted is None:
            return None
        self._move(writer, noted)
        return int(noted["batch"])

    def stage(self, rows: DataFrame, batch: TableBatch) -> Staged:
        return write_files(rows, self.path / STAGING / batch.folder_name(), batch)

    def commit(self, staged: Staged, schema: StructType) -> None:
        moves: list[list[str]] = []
        for number, file in enumerate(staged.files):
            if not file.path.exists():
                raise JobCannotRun(f"{file.path} is gone before it was moved into the table", "start the job again")
            source = file.path.relative_to(self.path)
            place = file.path.relative_to(staged.folder).parent
            moves.append([str(source), str(place / f"{staged.folder.name}-{number:05d}.parquet")])
        noted = {"batch": staged.batch.number, "moves": moves}
        try:
            self._write("schema", json.loads(schema.json()))
            self._write(f"writer-{staged.batch.writer}", noted)
        except OSError:
            shutil.rmtree(staged.folder, ignore_errors=True)
            raise
        self._move(staged.batch.writer, noted)
        shutil.rmtree(staged.folder, ignore_errors=True)

    def clean(self, writer: str) -> None:
        """What others have staged stays: they may be about to commit it."""
        self.last_batch(writer)  # moves what is left to move
        if (self.path / STAGING).is_dir():
            for folder in (self.path / STAGING).iterdir():
                if batch_of(folder.name, writer) is not None:
                    shutil.rmtree(folder)

    def compact(self) -> int:
        raise JobCannotRun(
            "plain Parquet cannot be compacted without readers seeing records twice", "use --format delta for that"
        )

    def _move(self, writer: str, noted: dict[str, Any]) -> None:
        """What has been moved before is in its place. Raises JobCannotRun for what is nowhere.

        The note then forgets it: a program that removes old files from the table is not to hear that they are missing.
        """
        for source, place in noted["moves"]:
            if (self.path / source).exists():
                (self.path / place).parent.mkdir(parents=True, exist_ok=True)
                os.replace(self.path / source, self.path / place)
            elif not (self.path / place).exists():
                raise JobCannotRun(
                    f"{self.path / source} is gone before it was moved into the table: records are missing",
                    "to fill the table anew, remove it and the checkpoint",
                )
        if noted["moves"]:
            self._write(f"writer-{writer}", {**noted, "moves": []})

    def _read(self, name: str) -> Any:
        try:
            return json.loads((self.path / NOTES / f"{name}.json").read_text(encoding="utf-8"))
        except FileNotFoundError:
            return None
        except ValueError as problem:
            raise JobCannotRun(f"{self.path / NOTES / name}.json is damaged: {problem}") from problem

    def _write(self, name: str, content: object) -> None:
        """Whole or not at all: under another name first."""
        (self.path / NOTES).mkdir(exist_ok=True)
        new = self.path / NOTES / f"{name}.new"
        with open(new, "w", encoding="utf-8") as file:
            json.dump(content, file)
            file.flush()
            os.fsync(file.fileno())
        os.replace(new, self.path / NOTES / f"{name}.json")
