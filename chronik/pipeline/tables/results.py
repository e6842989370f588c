"""What a job has found, as a folder of tables: all of them, or no folder.

They are written beside it, and the whole is renamed when the last one is there: a disk that is full midway, or a kill,
leaves nothing that reads as a result with some tables missing.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from chronik.pipeline.problems import JobCannotRun
from chronik.pipeline.tables.kinds import check_shared, for_spark

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

BEING_WRITTEN = ".being-written"


def refuse_what_is_there(folder: str) -> None:
    """Before hours of work, not after. Raises JobCannotRun."""
    place = _place(folder)
    if place.exists() and (not place.is_dir() or any(place.iterdir())):
        raise JobCannotRun(f"there is something in {folder}", "name another folder for --out")


def write_tables(tables: Mapping[str, DataFrame], folder: str) -> None:
    """Each in a folder of its own. Raises JobCannotRun and Spark's errors."""
    place = _place(folder)
    beside = place.with_name(place.name + BEING_WRITTEN)
    _remove(beside)  # of one that was killed
    try:
        for name, table in tables.items():
            table.write.parquet(for_spark(beside / name))
            check_shared(beside / name)
        refuse_what_is_there(folder)
        if place.exists():
            place.rmdir()  # an empty one: else this would go into it
        os.rename(beside, place)
    finally:
        _remove(beside)


def _remove(folder: Path) -> None:
    if folder.exists():
        shutil.rmtree(folder)


def _place(folder: str) -> Path:
    """Raises JobCannotRun for another file system."""
    if "://" in folder:
        raise JobCannotRun(f"{folder}: results can only go into a folder that this machine has or mounts")
    return Path(folder).absolute()
