"""What a job has found, as a folder of tables: all of them, or no folder.

They are written beside it, and the whole is renamed when the last one is there: a disk that is full midway, or a kill,
leaves nothing that reads as a result with some tables missing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from chronik.pipeline.problems import JobCannotRun

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

BEING_WRITTEN = ".being-written"


def refuse_what_is_there(spark: SparkSession, folder: str) -> None:
    """Before hours of work, not after. Raises JobCannotRun."""
    files, place = _place(spark, folder)
    if files.exists(place) and (not files.getFileStatus(place).isDirectory() or len(files.listStatus(place))):
        raise JobCannotRun(f"there is something in {folder}", "name another folder for --out")


def write_tables(spark: SparkSession, tables: Mapping[str, DataFrame], folder: str) -> None:
    """Each in a folder of its own. Raises JobCannotRun and Spark's errors."""
    folder = folder.rstrip("/")
    files, place = _place(spark, folder)
    _, beside = _place(spark, folder + BEING_WRITTEN)
    files.delete(beside, True)  # of one that was killed
    try:
        for name, table in tables.items():
            table.write.parquet(f"{folder}{BEING_WRITTEN}/{name}")
        refuse_what_is_there(spark, folder)
        files.delete(place, False)  # an empty one: else this would go into it
        if not files.rename(beside, place):
            raise JobCannotRun(f"{folder}{BEING_WRITTEN} cannot be renamed to {folder}")
    finally:
        files.delete(beside, True)


def _place(spark: SparkSession, folder: str) -> tuple[Any, Any]:
    """Of Hadoop's: a path, and the file system that Spark would take for it."""
    java: Any = spark.sparkContext._jvm
    place = java.org.apache.hadoop.fs.Path(folder)
    return place.getFileSystem(spark.sparkContext._jsc.hadoopConfiguration()), place
