"""Records whose time no calendar has: a producer took nanoseconds for milliseconds. The table stays open to all."""

from __future__ import annotations

from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from chronik.testing import RunningNode
from tests.spark.support import Sent, new_topic, options, send

pytest.importorskip("pyspark", reason="pyspark is not installed: pip install 'chronik[spark]'")
pytest.importorskip("deltalake", reason="deltalake is not installed: pip install 'chronik[spark]'")
pytest.importorskip("numba", reason="numba is not installed: pip install 'chronik[spark]'")

import deltalake
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset
import pyarrow.parquet as pq
from pyspark.sql import functions as F
from pyspark.sql.types import DateType, LongType, StringType, StructField, StructType

from chronik.pipeline.jobs.ingest import Format, IngestSettings, run
from chronik.pipeline.tables.delta import DeltaTable
from chronik.pipeline.tables.kinds import TableBatch, staged_in
from chronik.pipeline.tables.stored import read_table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.timeout(300)  # the first test of a run waits for Java

DAY = date(2023, 11, 14)
SECONDS = 1_700_000_000
# As milliseconds: a day like any other, the last one there is, microseconds, nanoseconds, before all years.
TIMES_MS = (SECONDS * 1000, 253_402_300_799_999, SECONDS * 10**6, SECONDS * 10**9, -70_000_000_000_000)
DAYS = {0: DAY, 1: date.max, 2: None, 3: None, 4: None}


def rows_of(path: Path, format_: Format, day: date | None = None) -> dict[int, date | None]:
    """Offset and date, by readers that know nothing of us; `day` asks for one partition."""
    columns = ["offset", "date"]
    if format_ == Format.ICEBERG:
        from pyiceberg.catalog.sql import SqlCatalog

        table = SqlCatalog("chronik", uri=f"sqlite:///{path}/catalog.db").load_table("chronik.records")
        asked: dict[str, Any] = {} if day is None else {"row_filter": f"date = '{day}'"}
        found = table.scan(selected_fields=tuple(columns), **asked).to_arrow()
    elif format_ == Format.DELTA:
        wanted = None if day is None else [("date", "=", day)]
        found = deltalake.DeltaTable(str(path)).to_pyarrow_table(filters=wanted, columns=columns)
    else:
        hive = pyarrow.dataset.partitioning(pa.schema([("topic", pa.string()), ("date", pa.date32())]), flavor="hive")
        only = None if day is None else pc.field("date") == day
        found = pyarrow.dataset.dataset(path, partitioning=hive).to_table(columns=columns, filter=only)
    assert len(set(found["offset"].to_pylist())) == len(found)
    return dict(zip(found["offset"].to_pylist(), found["date"].to_pylist(), strict=True))


@pytest.mark.parametrize("format_", list(Format))
def test_a_record_of_no_year_has_no_date_and_the_table_can_be_read(
    spark: SparkSession, chronik_node: RunningNode, tmp_path: Path, format_: Format
) -> None:
    if format_ == Format.ICEBERG:
        pytest.importorskip("pyiceberg", reason="pyiceberg is not installed: pip install 'chronik[iceberg]'")
    here, table = chronik_node.bootstrap, tmp_path / "table"
    topic = new_topic(here, message_timestamp_after_max_ms=str(2**63 - 1))  # it would refuse what is far ahead
    send(here, topic, [Sent(0, None, b"%d" % number, time) for number, time in enumerate(TIMES_MS)])

    source = options(here, topic, maxOffsetsPerTrigger="2")
    outcome = run(spark, IngestSettings(source, table, format=format_, is_compacted=format_ == Format.DELTA))

    assert (outcome.rows, outcome.batches) == (5, 3)
    assert rows_of(table, format_) == DAYS
    assert rows_of(table, format_, DAY) == {0: DAY}
    ours = read_table(spark, table, ("offset", "date", "timestamp"))
    assert {row[0]: row[1] for row in ours.select("offset", "date").collect()} == DAYS
    # The time is kept, as far as microseconds since 1970 go.
    times = {row[0]: row[1] for row in ours.select("offset", F.unix_millis("timestamp")).collect()}
    assert [times[number] for number in (0, 1, 2, 4)] == [TIMES_MS[number] for number in (0, 1, 2, 4)]
    assert times[3] == (2**63 - 1) // 1000


def test_a_delta_table_with_dates_after_the_year_9999_is_read(spark: SparkSession, tmp_path: Path) -> None:
    kinds = {"topic": StringType(), "date": DateType(), "offset": LongType()}
    schema = StructType([StructField(name, kind) for name, kind in kinds.items()])
    table = DeltaTable(tmp_path)
    for number, day in enumerate(("+55840-01-10", str(DAY), "__HIVE_DEFAULT_PARTITION__")):
        batch = TableBatch("w", number)
        place = tmp_path / batch.folder_name() / "topic=t" / f"date={day}"
        place.mkdir(parents=True)
        pq.write_table(pa.table({"offset": pa.array([number], pa.int64())}), place / "part-0.parquet")
        table.commit(staged_in(place.parent.parent, batch), schema)

    rows = read_table(spark, tmp_path).select("offset", F.col("date").cast("string").alias("day")).collect()

    assert {row.offset: row.day for row in rows} == {0: "+55840-01-10", 1: str(DAY), 2: None}
