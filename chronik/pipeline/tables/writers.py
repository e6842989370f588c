"""Which job fills a table: a note beside Spark's checkpoint, so that a restart is the same writer.

It also says which topics are its own: of those that the table has from another job, all records would be there twice.
And it counts what a run has done: with Spark Connect, batches are written in a process of the server, and the process
that started the run learns it from here.
"""

from __future__ import annotations

import json
import os
import uuid
from collections.abc import Collection
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from chronik.pipeline.problems import JobCannotRun
from chronik.pipeline.tables.kinds import Table

NOTE = "chronik-ingest.json"


@dataclass
class Counts:
    """What a run has done; a restart begins to count anew."""

    rows: int = 0
    quarantined: int = 0
    batches: int = 0
    skipped: int = 0
    """Batches that were in the table already, since the run before died before it could note that."""
    compacted: int = 0


class Writer:
    """The job that this checkpoint belongs to."""

    def __init__(self, checkpoint: Path, table: Table) -> None:
        """Raises JobCannotRun where the checkpoint does not go with the table."""
        self._path = checkpoint / NOTE
        self._table = table
        place = str(table.path)
        noted: dict[str, Any] = {"writer": f"ingest-{uuid.uuid4().hex[:12]}", "table": place, "batch": -1, "topics": {}}
        if self._path.exists():
            noted = _read(self._path)
            if noted["table"] != place:
                raise JobCannotRun(
                    f"the checkpoint {checkpoint} is for the table {noted['table']}", "give another --checkpoint"
                )
        elif any((checkpoint / "offsets").glob("*")):
            raise JobCannotRun(f"{checkpoint} is the checkpoint of something else", "give another --checkpoint")
        self.name: str = noted["writer"]
        last = self._last()
        if noted["batch"] > last:
            raise JobCannotRun(
                f"the checkpoint {checkpoint} has read further than the table {place} has: records would be missing",
                "to fill the table anew, remove both",
            )
        if "topics" not in noted:  # of an older version, which did not keep them: all that are there may be its own
            noted["topics"] = {} if last < 0 else dict.fromkeys(table.topics(), last)
        self._noted = noted | {"counts": asdict(Counts())}
        self._write()

    def check_shared(self) -> None:
        """Raises JobCannotRun where this process does not see the note: it may run on another machine."""
        if not self._path.exists() or _read(self._path)["writer"] != self.name:
            raise JobCannotRun(
                f"the process that writes batches does not see {self._path}",
                "table, quarantine and checkpoint must be on a file system that Spark's machines and this one share",
            )

    def counts(self) -> Counts:
        """Of this run, up to the last batch that was noted, by whatever process."""
        return Counts(**_read(self._path)["counts"])

    def check(self, topics: Collection[str]) -> None:
        """Raises JobCannotRun for a topic that the table has from another writer."""
        if not (new := self._new(topics)):
            return
        if both := sorted(new & set(self._table.topics())):
            raise JobCannotRun(
                f"{self._table.path} has records of {', '.join(both)} already, from a job with another checkpoint",
                "give that job's --checkpoint, or another table",
            )

    def claim(self, topics: Collection[str], batch: int) -> None:
        """To be called before the commit: a topic is this job's from the batch on that is in the table. Raises as
        `check`."""
        self.check(topics)
        if new := self._new(topics):
            self._noted["topics"] |= dict.fromkeys(new, batch)
            self._write()

    def note(self, batch: int, counts: Counts) -> None:
        """That it is in the table, and what the run has done with it."""
        self._noted |= {"batch": batch, "counts": asdict(counts)}
        self._write()

    def begun(self) -> dict[str, Any] | None:
        """How a batch is being judged whose bad records may be set apart already; None once it is in the table."""
        begun: dict[str, Any] | None = self._noted.get("begun")
        return None if begun is None or begun["batch"] <= self._last() else begun

    def begin(self, batch: int, how: dict[str, Any] | None) -> None:
        """To be called before its bad records are set apart; None takes that back."""
        self._noted["begun"] = None if how is None else {**how, "batch": batch}
        self._write()

    def _new(self, topics: Collection[str]) -> set[str]:
        """Those that are not its own. A job that died between claim and commit has none of its records in the table."""
        last = self._last()
        return {each for each in topics if self._noted["topics"].get(each, last + 1) > last}

    def _last(self) -> int:
        last = self._table.last_batch(self.name)
        return -1 if last is None else last

    def _write(self) -> None:
        """All or nothing, and there after a power cut: without it, records would be read twice or not at all."""
        new = self._path.with_suffix(".new")
        with new.open("w", encoding="utf-8") as file:
            file.write(json.dumps(self._noted))
            file.flush()
            os.fsync(file.fileno())
        os.replace(new, self._path)
        folder = os.open(self._path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def _read(path: Path) -> dict[str, Any]:
    """Raises JobCannotRun where it does not say what it should."""
    try:
        noted = json.loads(path.read_text(encoding="utf-8"))
    except ValueError:
        noted = None
    kinds = {"writer": str, "table": str, "batch": int}
    if not isinstance(noted, dict) or not all(isinstance(noted.get(key), kind) for key, kind in kinds.items()):
        raise JobCannotRun(
            f"{path} is damaged: which batches are in the table is not known",
            "put it back from a copy; or remove the checkpoint and the table, and fill it anew",
        )
    return noted
