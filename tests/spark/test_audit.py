"""The audit in a real session: planted faults are found exactly, each offset, and none more."""

from __future__ import annotations

import json
import os
import random
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed: pip install 'chronik[spark]'")
pytest.importorskip("pyarrow", reason="pyarrow is not installed: pip install 'chronik[spark]'")
pytest.importorskip("deltalake", reason="deltalake is not installed: pip install 'chronik[spark]'")
pytest.importorskip("numba", reason="numba is not installed: pip install 'chronik[spark]'")

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import write_deltalake
from pyarrow import csv
from pyspark.sql.types import StructType

from chronik.client.connecting import parse_addresses
from chronik.pipeline import schemas
from chronik.pipeline import sweep as s
from chronik.pipeline.inputs import read_table
from chronik.pipeline.jobs.audit import AuditOutcome, AuditSettings, NotAccountedFor, check_all_accounted_for, run
from chronik.pipeline.jobs.ingest import TABLES
from chronik.pipeline.problems import JobCannotRun
from chronik.pipeline.sweep import Sides
from chronik.pipeline.topics.client import NoSuchTopic
from chronik.pipeline.transforms import audit, runs
from chronik.pipeline.transforms.log import log_of, numbered, parts, sequence_findings, sequences
from chronik.testing import RunningNode
from chronik.trace.events import AnyEvent, Committed, FetchAnswered
from chronik.trace.lines import to_lines
from chronik.verify.books import Books
from chronik.verify.history import RunHistory
from chronik.verify.result import VerifyResult
from chronik.verify.run import verify
from chronik.verify.settings import VerifySettings as VerifySettings
from tests.spark.commands import run_command
from tests.spark.one_by_one import Run, one_by_one
from tests.spark.planted import Planted, plant
from tests.spark.support import delete_records, new_topic, send, simple

pytestmark = pytest.mark.timeout(600)  # the first test of a run waits for Java

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

RECORDS = int(os.environ.get("CHRONIK_AUDIT_RECORDS", "60000"))
"""Of the planted run; 10,000,000 has been done."""


def offsets_of(found: AuditOutcome, folder: str | Path, finding: str) -> dict[int, set[int]]:
    """All offsets of one finding, by partition, from the table that was written."""
    table = pq.read_table(Path(folder) / "findings").to_pylist()
    offsets: dict[int, set[int]] = {}
    for row in table:
        if row["finding"] == finding:
            run_of = set(range(row["start_offset"], row["end_offset"]))
            assert not run_of & offsets.setdefault(row["partition"], set()), "an offset is told of twice"
            offsets[row["partition"]] |= run_of
    assert sum(map(len, offsets.values())) == found.totals[finding]
    return offsets


def test_planted_losses_duplicates_and_reorderings_are_found_each_and_none_more(
    spark: SparkSession, tmp_path: Path
) -> None:
    planted: Planted = plant(tmp_path, records=RECORDS, partitions=3, share=0.0001 if RECORDS > 1_000_000 else 0.002)
    out = tmp_path / "tables"

    found = run(spark, AuditSettings(ledgers=[str(planted.ledger)], received=[str(planted.received)], out=str(out)))

    for finding in ("lost", "duplicated", "reordered", "unexpected"):
        assert offsets_of(found, out, finding) == getattr(planted, finding), finding
    assert found.totals["expected"] == RECORDS
    assert found.totals["found"] == RECORDS - found.totals["lost"]
    assert (found.totals["explained"], found.totals["unknown"]) == (0, 0)
    assert found.is_order_known


def test_every_offset_is_accounted_for_over_the_borders_of_chunks(spark: SparkSession) -> None:
    chance = random.Random(11)
    by_partition = {partition: some_runs(chance) for partition in range(24)}
    rows = [
        ("t", partition, run.layer, run.start, run.end, None if run.position < 0 else run.position, f"{run.producer}")
        for partition, runs in by_partition.items()
        for run in runs
    ]
    columns = (
        "topic string, partition int, layer int, start_offset long, end_offset long, position long, producer string"
    )
    layers = spark.createDataFrame(rows, columns)

    for sides in (Sides(True, True, True), Sides(False, True, True)):
        found = audit.accounts(layers, sides, chunk_offsets=16).collect()

        for partition, each in by_partition.items():
            said = {
                offset: (row.outcome, row.is_expected, row.is_duplicated, row.is_reordered, row.times)
                for row in found
                if row.partition == partition
                for offset in range(row.start_offset, row.end_offset)
            }
            expected = {
                offset: (audit.OUTCOMES[one.outcome], one.is_expected, one.is_duplicated, one.is_reordered, one.times)
                for offset, one in one_by_one(each, sides).items()
            }
            assert said == expected, each


def some_runs(chance: random.Random) -> list[Run]:
    runs = [Run(s.RANGE, 0, 40)]
    counted = {s.LEDGER: 0, s.RECEIVED: 0}
    layers = [s.LEDGER, s.LEDGER, s.RECORD, s.RECEIVED, s.RECEIVED, s.SERVED, *range(s.MARKER, s.LAYERS)]
    for _ in range(chance.randrange(14)):
        layer, start = chance.choice(layers), chance.randrange(39)
        end = chance.randrange(start + 1, 41)
        if layer in counted:
            producer = chance.randrange(2) if layer == s.LEDGER else s.NONE
            runs.append(Run(layer, start, end, counted[layer], producer))
            counted[layer] += end - start
        else:
            runs.append(Run(layer, start, end))
    return runs


def test_an_audit_that_leaves_an_offset_out_does_not_pass_for_one(spark: SparkSession) -> None:
    counts = dict.fromkeys(schemas.PARTITIONS.names, 0)
    whole = {**counts, "topic": "t", "partition": 0, "end_offset": 10, "found": 6, "explained": 4, "explained_open": 4}
    cases = [(whole, 10), (whole, 11), ({**whole, "found": 5}, 10), ({**whole, "explained_open": 3}, 10)]
    said = []

    for row, total in cases:
        try:
            check_all_accounted_for(spark.createDataFrame([row], schemas.PARTITIONS), total)
            said.append("")
        except NotAccountedFor as problem:
            said.append(str(problem))

    assert said == [
        "",
        "10 offsets are accounted for, and there are 11",
        "t-0-not every offset is accounted for",
        "t-0-reasons do not add up",
    ]


def test_transactions_are_told_by_the_marker_that_ends_them(spark: SparkSession) -> None:
    def batch(start: int, end: int, producer: int, marker: str | None = None, is_in: bool = True) -> dict[str, Any]:
        return {
            "topic": "t", "partition": 0, "start_offset": start, "end_offset": end, "producer_id": producer,
            "producer_epoch": 0, "sequence": -1, "is_transactional": is_in, "is_control": marker is not None,
            "marker": marker,
        }  # fmt: skip

    batches = [batch(0, 2, 1), batch(2, 4, 2), batch(4, 5, 1, "commit"), batch(5, 7, 1), batch(7, 8, -1, is_in=False)]
    batches += [batch(8, 9, 2, "abort"), batch(9, 10, 1, "abort"), batch(10, 12, 2)]
    frame = spark.createDataFrame(batches, StructType([each for each in schemas.BATCHES if each.name in batches[0]]))

    found = log_of(frame).orderBy("start_offset").collect()

    assert [(row.start_offset, row.state) for row in found] == [
        (0, "record"), (2, "aborted"), (4, "marker"), (5, "aborted"),
        (7, "record"), (8, "marker"), (9, "marker"), (10, "open"),
    ]  # fmt: skip


def test_producers_that_do_not_count_on_and_on_are_found_by_their_own_numbers(spark: SparkSession) -> None:
    def batches(producer: int, *sequences: tuple[int, int]) -> list[tuple[Any, ...]]:
        rows, at = [], producer * 1000
        for sequence, size in sequences:
            rows.append(("t", 0, at, at + size, "record", producer, 0, sequence))
            at += size
        return rows

    top = (1 << 31) - 2
    rows = batches(1, (0, 5), (5, 5), (10, 1)) + batches(2, (0, 5), (8, 2)) + batches(3, (0, 5), (0, 5), (5, 1))
    rows += batches(4, (0, 2), (4, 2), (2, 2)) + batches(5, (top, 2), (0, 3)) + batches(6, (top, 2), (1, 3))
    log = spark.createDataFrame(rows, schemas.LOG)
    bounds = spark.createDataFrame([("t", 0, 0, 7000, False)], schemas.BOUNDS)
    compacted = spark.createDataFrame([("t", 0, 0, 7000, True)], schemas.BOUNDS)
    counted = numbered(log, bounds)

    found = {row.producer_id: row for row in sequences(counted, parts(counted), bounds).collect()}
    said = sequence_findings(parts(counted), bounds).orderBy("producer_id").collect()
    explained = sequence_findings(parts(counted), compacted).where("finding = 'explained'").count()

    names = ("expected", "found", "lost", "duplicated", "reordered")
    assert {producer: tuple(row[name] for name in names) for producer, row in found.items()} == {
        1: (11, 11, 0, 0, 0),
        2: (10, 7, 3, 0, 0),
        3: (6, 6, 0, 5, 0),
        4: (6, 6, 0, 0, 2),
        5: (5, 5, 0, 0, 0),
        6: (6, 5, 1, 0, 0),
    }
    assert [(row.producer_id, row.finding, row.start_sequence, row.end_sequence) for row in said] == [
        (2, "lost", 5, 8),
        (3, "duplicated", 0, 5),
        (4, "reordered", 2, 4),
        (6, "lost", 1 << 31, (1 << 31) + 1),
    ]
    assert explained == 2


def test_what_was_deleted_while_the_log_was_read_is_not_missed_by_its_numbers(spark: SparkSession) -> None:
    read = [(0, 200, 0), (200, 300, 200), (690, 720, 690), (720, 800, 720), (800, 900, 850)]
    rows = [("t", 0, start, end, "record", 1, 0, sequence) for start, end, sequence in read]
    rows += [("t", 1, 0, 5, "record", 1, 0, 0), ("t", 1, 5, 9, "record", 1, 0, 7)]
    log = spark.createDataFrame(rows, schemas.LOG)
    bounds = spark.createDataFrame([("t", 0, 700, 900, False), ("t", 1, 0, 9, False)], schemas.BOUNDS)

    counted = numbered(log, bounds)
    found = sequences(counted, parts(counted), bounds).orderBy("partition").collect()
    said = sequence_findings(parts(counted), bounds).orderBy("partition").collect()

    assert [(row.expected, row.lost, row.first_offset) for row in found] == [(250, 50, 700), (11, 2, 0)]
    assert [(row.partition, row.finding, row.start_sequence, row.end_sequence) for row in said] == [
        (0, "lost", 800, 850),
        (1, "lost", 5, 7),
    ]


def test_the_seed_run_is_found_to_the_last_message(
    spark: SparkSession, chronik_node: RunningNode, tmp_path: Path
) -> None:
    books = Books(tmp_path / "ledger.jsonl", tmp_path / "received.jsonl")
    topic = new_topic(chronik_node.bootstrap, 3)
    result = seed_run(chronik_node.bootstrap, books, 5_000, topic)
    options = {"kafka.bootstrap.servers": chronik_node.bootstrap}

    found = run(
        spark,
        AuditSettings(
            kafka=options,
            topics=[topic],
            ledgers=[str(books.ledger)],
            received=[str(books.received)],
            groups=[str(result.group)],
        ),
    )
    by_topic_alone = run(spark, AuditSettings(kafka=options, topics=[topic]))

    for outcome in (found, by_topic_alone):
        assert {name: count for name, count in outcome.totals.items() if count} == {"expected": 5_000, "found": 5_000}
        assert outcome.findings == []
        assert outcome.partitions_count == 3
        assert outcome.lost == 0
    assert found.is_order_known
    assert [row["expected"] for row in found.producers] == [row["expected"] for row in found.partitions]
    assert {row["group"] for row in found.committed} <= {result.group}


def seed_run(bootstrap: str, books: Books, messages: int, topic: str) -> VerifyResult:
    settings = VerifySettings(bootstrap=bootstrap, messages=messages, partitions=3, topic=topic, is_kept=True)
    history = RunHistory(None)
    try:
        return verify(settings, parse_addresses(bootstrap), history, lambda *_: None, books=books)
    finally:
        history.close()


def test_what_the_log_no_longer_has_is_explained_and_what_it_never_had_is_lost(
    spark: SparkSession, chronik_node: RunningNode, tmp_path: Path
) -> None:
    topic = new_topic(chronik_node.bootstrap, 2)
    send(chronik_node.bootstrap, topic, simple(100) + simple(50, 1, 100))
    delete_records(chronik_node.bootstrap, topic, 0, 30)
    ledger, received = tmp_path / "ledger.csv", tmp_path / "received.jsonl"
    ledger.write_text(f"topic,partition,start_offset,end_offset\n{topic},0,0,110\n{topic},1,0,40\nother,0,0,7\n")
    gone = (*range(20, 40), 98, 99)
    lines = [{"topic": topic, "partition": 0, "offset": each} for each in range(100) if each not in gone]
    received.write_text("".join(json.dumps(line) + "\n" for line in lines))
    kafka = {"kafka.bootstrap.servers": chronik_node.bootstrap}
    in_log = AuditSettings(kafka=kafka, topics=[topic], ledgers=[str(ledger)])
    all_three = replace(in_log, received=[str(received)])

    log = run(spark, in_log)
    patient = run(spark, replace(all_three, is_still_reading=True))

    assert runs_of(log, "lost") == [(0, 100, 110)]
    assert runs_of(log, "explained") == [(0, 0, 30)]
    assert log.explained_by["retention"] == 30
    assert runs_of(log, "unexpected") == [(1, 40, 50)]
    assert log.totals["found"] == 70 + 40
    assert runs_of(patient, "lost") == [(0, 30, 40), (0, 100, 110)]
    assert [row["is_in_log"] for row in patient.findings if row["finding"] == "lost"] == [True, False]
    assert patient.explained_by["retention"] == 10
    assert patient.explained_by["waiting"] == 2 + 40
    assert not patient.is_order_known


def runs_of(found: AuditOutcome, finding: str) -> list[tuple[int, int, int]]:
    rows = [row for row in found.findings if row["finding"] == finding]
    return sorted((row["partition"], row["start_offset"], row["end_offset"]) for row in rows)


def test_a_trace_says_to_whom_it_was_served_and_who_committed(spark: SparkSession, tmp_path: Path) -> None:
    def answered(at_us: int, offset: int, to_offset: int, client: str) -> FetchAnswered:
        return FetchAnswered(
            at_us, 1, "t", 0, client, "10.0.0.1", 7, "g", offset, 1, 1, 1, False, 9, 9, 9, to_offset, 1, False, 1
        )  # fmt: skip

    events: list[AnyEvent] = [
        answered(1_000_000, 0, 4, "a"),
        answered(2_000_000, 4, 6, "a"),
        answered(2_500_000, 6, 6, "a"),
    ]
    events += [answered(3_000_000, 2, 4, "b"), Committed(4_000_000, 1, "t", 0, "g", "a", "10.0.0.1", 6)]
    trace, received = tmp_path / "trace.ndjson", tmp_path / "received.csv"
    trace.write_bytes(to_lines(events))
    received.write_text("topic,partition,offset\n" + "".join(f"t,0,{offset}\n" for offset in (0, 1, 2, 5, 7)))

    found = run(spark, AuditSettings(received=[str(received)], trace_files=[str(trace)]))

    served = [(row["client_id"], row["start_offset"], row["end_offset"], row["answers"]) for row in found.served]
    assert served == [("a", 0, 6, 2), ("b", 2, 4, 1)]
    assert found.served[0]["first_at"].startswith("1970-01-01T00:00:01")
    assert [(row["group"], row["offset"]) for row in found.committed] == [("g", 6)]
    lost = [row for row in found.findings if row["finding"] == "lost"]
    assert [(row["start_offset"], row["end_offset"], row["is_served"], row["committed_by"]) for row in lost] == [
        (3, 5, True, ["g"]),
        (6, 7, False, []),
    ]
    assert found.totals["served"] == 6


def test_tables_of_every_kind_are_read_alike(spark: SparkSession, tmp_path: Path) -> None:
    rows = {"topic": ["007"] * 4 + ["t"] * 2, "partition": [0] * 6, "offset": [0, 1, 2, 2, 5, 6]}
    table = pa.table(rows, schema=pa.schema({"topic": pa.string(), "partition": pa.int32(), "offset": pa.int64()}))
    paths = [tmp_path / name for name in ("delta", "parquet", "rows.csv", "rows.jsonl")]
    write_deltalake(paths[0], table, partition_by=["topic"])
    pq.write_table(table, paths[0] / "topic=t" / "never-committed.parquet")
    pq.write_to_dataset(table, paths[1], partition_cols=["topic"])
    csv.write_csv(table, paths[2])
    paths[3].write_text("".join(json.dumps(row) + "\n" for row in table.to_pylist()))

    for path in paths:
        found = runs.runs_of(read_table(spark, str(path)), "position").orderBy("topic", "start_offset").collect()

        assert [(row.topic, row.partition, row.start_offset, row.end_offset) for row in found] == [
            ("007", 0, 0, 3),
            ("007", 0, 2, 3),
            ("t", 0, 5, 7),
        ], path.name


def test_a_quarantine_that_nothing_came_into_has_no_rows(spark: SparkSession, tmp_path: Path) -> None:
    received = tmp_path / "received.csv"
    received.write_text("topic,partition,offset\nt,0,0\nt,0,1\n")
    # As ingest leaves it where every record could be read.
    empty = [str(kind(tmp_path / name).path) for name, kind in TABLES.items()]

    found = run(spark, AuditSettings(ledgers=[str(received)], received=[str(received), *empty]))

    assert (found.totals["found"], found.totals["lost"]) == (2, 0)


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("there.jsonl", '{"topic": "t", "partition": 0}\n', "has no column offset"),
        ("there.csv", "topic,partition,offset\nt,0,seven\nt,0,1\n", "1 rows .* make no sense: no start_offset"),
        ("there.csv", "topic,partition,start_offset,end_offset\nt,0,5,5\n", "ends before it begins"),
        ("there.csv", "topic,partition,offset\nt,-1,0\n", "partition is negative"),
        ("there.parquet", "no parquet", "cannot be read as Parquet"),
        (None, "", "there is no "),
    ],
)
def test_bad_input_is_said_in_words(
    spark: SparkSession, tmp_path: Path, name: str | None, content: str, words: str
) -> None:
    path = tmp_path / (name or "nothing")
    if name is not None:
        path.write_text(content)

    with pytest.raises(JobCannotRun, match=words):
        run(spark, AuditSettings(received=[str(path)]))


def test_an_unknown_topic_is_said_in_words_and_a_ledger_alone_proves_nothing(
    spark: SparkSession, chronik_node: RunningNode
) -> None:
    with pytest.raises(NoSuchTopic, match="there is no topic 'nowhere'"):
        run(spark, AuditSettings(kafka={"kafka.bootstrap.servers": chronik_node.bootstrap}, topics=["nowhere"]))
    with pytest.raises(JobCannotRun, match="nothing to compare"):
        run(spark, AuditSettings(ledgers=["ledger.csv"]))


def test_the_command_ends_with_1_when_something_is_lost_and_tells_it_as_json(tmp_path: Path) -> None:
    ledger, received = tmp_path / "ledger.csv", tmp_path / "received.csv"
    ledger.write_text("topic,partition,start_offset,end_offset,producer\nt,0,0,10,p\n")
    received.write_text("topic,partition,offset\n" + "".join(f"t,0,{offset}\n" for offset in range(9)))
    given = ["--ledger", str(ledger), "--received", str(received)]

    done = run_command(tmp_path, "audit", *given, "--master", "local[2]", "--driver-memory", "512m", "--json")

    assert done.code == 1, done.err
    told = done.json
    names = ("expected", "found", "lost", "duplicated", "reordered", "unexpected", "explained")
    assert [told[name] for name in names] == [10, 9, 1, 0, 0, 0, 0]
    assert [(row["topic"], row["partition"], row["lost"]) for row in told["partitions"]] == [("t", 0, 1)]
    assert [(row["start_offset"], row["end_offset"]) for row in told["findings"]] == [(9, 10)]
