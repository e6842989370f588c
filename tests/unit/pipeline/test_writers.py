"""Which topics are whose in a table: nobody adds those of another, and everybody goes on with his own."""

from __future__ import annotations

import json
import pickle
from pathlib import Path

import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed: pip install 'chronik[spark]'")
pytest.importorskip("pyarrow", reason="pyarrow is not installed: pip install 'chronik[spark]'")

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql.types import LongType, StructField, StructType

from chronik.pipeline.problems import JobCannotRun
from chronik.pipeline.tables.kinds import STAGING, TableBatch, staged_in
from chronik.pipeline.tables.parquet import ParquetTable
from chronik.pipeline.tables.writers import NOTE, Counts, Writer


class Job:
    """One that fills the table, with a checkpoint of its own. Made again it is the same, started again."""

    def __init__(self, folder: Path, name: str) -> None:
        self.table = ParquetTable(folder / "table")
        self.checkpoint = folder / name
        self.checkpoint.mkdir(exist_ok=True)
        self.writer = Writer(self.checkpoint, self.table)

    def fills(self, number: int, topic: str) -> None:
        self.writer.claim([topic], number)
        self.commits(number, topic)
        self.writer.note(number, Counts())

    def commits(self, number: int, topic: str) -> None:
        batch = TableBatch(self.writer.name, number)
        folder = self.table.path / STAGING / batch.folder_name()
        (folder / f"topic={topic}").mkdir(parents=True)
        pq.write_table(pa.table({"offset": [number]}), folder / f"topic={topic}" / "part-0.parquet")
        self.table.commit(staged_in(folder, batch), StructType([StructField("offset", LongType())]))


def test_started_again_a_job_goes_on_with_its_topics_and_takes_in_new_ones(tmp_path: Path) -> None:
    Job(tmp_path, "a").fills(0, "orders")
    Job(tmp_path, "a").fills(1, "payments")
    again = Job(tmp_path, "a")

    again.writer.check(["orders", "payments", "parcels"])
    again.fills(2, "orders")

    assert again.table.last_batch(again.writer.name) == 2


def test_a_job_does_not_take_in_a_topic_that_another_has_filled(tmp_path: Path) -> None:
    Job(tmp_path, "a").fills(0, "orders")
    new = Job(tmp_path, "b")

    with pytest.raises(JobCannotRun, match=r"has records of orders already, from a job with another checkpoint"):
        new.writer.check(["orders", "payments"])
    new.fills(0, "payments")
    for known in (new, Job(tmp_path, "b")):
        with pytest.raises(JobCannotRun, match=r"has records of orders already"):
            known.writer.claim(["orders", "payments"], 1)

    Job(tmp_path, "b").fills(1, "payments")


def test_a_job_killed_before_it_noted_its_first_batch_knows_that_it_is_its_own(tmp_path: Path) -> None:
    """Killed before it noted its first batch of a topic a job knows that it is its own."""
    job = Job(tmp_path, "a")
    job.fills(0, "payments")
    job.writer.claim(["orders"], 1)
    job.commits(1, "orders")

    Job(tmp_path, "a").fills(2, "orders")


def test_killed_before_its_first_batch_of_a_topic_was_there_a_job_does_not_own_it(tmp_path: Path) -> None:
    job = Job(tmp_path, "a")
    job.fills(0, "payments")
    job.writer.claim(["orders"], 1)
    Job(tmp_path, "b").fills(0, "orders")

    with pytest.raises(JobCannotRun, match="has records of orders already"):
        Job(tmp_path, "a").writer.check(["orders"])


def test_a_checkpoint_that_does_not_say_its_topics_goes_on(tmp_path: Path) -> None:
    job = Job(tmp_path, "a")
    job.fills(0, "orders")
    noted = json.loads((job.checkpoint / NOTE).read_text())
    del noted["topics"]
    (job.checkpoint / NOTE).write_text(json.dumps(noted))

    Job(tmp_path, "a").fills(1, "orders")
    Job(tmp_path, "b").fills(0, "payments")

    with pytest.raises(JobCannotRun, match="has records of payments already"):
        Job(tmp_path, "a").writer.check(["orders", "payments"])


@pytest.mark.parametrize(
    "content", ["", "{", "[1]", "null", '{"writer": "w"}', '{"writer": 1, "table": "t", "batch": 0}']
)
def test_a_damaged_note_is_said_and_nothing_is_read_into_it(tmp_path: Path, content: str) -> None:
    Job(tmp_path, "job").fills(0, "t")
    (tmp_path / "job" / NOTE).write_text(content, encoding="utf-8")

    with pytest.raises(JobCannotRun, match="is damaged: which batches are in the table is not known"):
        Job(tmp_path, "job")

    assert (tmp_path / "job" / NOTE).read_text(encoding="utf-8") == content


def test_what_a_copy_in_another_process_has_done_is_counted_here(tmp_path: Path) -> None:
    job = Job(tmp_path, "checkpoint")
    copy = pickle.loads(pickle.dumps(job.writer))

    copy.note(0, Counts(rows=5, quarantined=2, batches=1))

    assert job.writer.counts() == Counts(rows=5, quarantined=2, batches=1)
    job.commits(0, "orders")
    assert Job(tmp_path, "checkpoint").writer.counts() == Counts()  # a restart counts anew


def test_a_process_that_does_not_see_the_checkpoint_writes_nothing(tmp_path: Path) -> None:
    job = Job(tmp_path, "checkpoint")
    job.writer.check_shared()

    for spoil in (
        lambda note: note.write_text(json.dumps({**json.loads(note.read_text()), "writer": "x"})),
        Path.unlink,
    ):
        spoil(job.checkpoint / NOTE)
        with pytest.raises(
            JobCannotRun, match=r"does not see .*chronik-ingest\.json; .* must be on a file system that"
        ):
            job.writer.check_shared()
