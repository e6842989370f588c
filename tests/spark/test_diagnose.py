"""diagnose in a real session: a stored trace gets the verdicts of the live finder, from files and from the topic."""

from __future__ import annotations

import json
import os
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed: pip install 'chronik[spark]'")

from chronik.lab.run import LabRun
from chronik.pipeline.jobs import diagnose, raising
from chronik.pipeline.jobs.diagnose import DiagnoseOutcome, DiagnoseSettings, run
from chronik.pipeline.judging import Key
from chronik.pipeline.problems import JobCannotRun
from chronik.pipeline.progress import ProgressBar
from chronik.trace.lines import to_lines
from chronik.trace.verdicts import Cause
from tests.cluster.lab_traces import record
from tests.cluster.test_lab import FAULTS as LAB_FAULTS
from tests.spark import faults
from tests.spark.support import new_topic, options, received

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.timeout(300)  # the first test of a run waits for Java

ALL = "CHRONIK_LAB_TRACES"
"""Set in the environment: every fault of the lab in a real cluster, not one."""
LABS = LAB_FAULTS if os.environ.get(ALL) else ["follower-stops-fetching"]
FACTS = ("cause", "topic", "partition", "group", "client_id", "host")


@pytest.fixture(scope="module")
def told() -> list[faults.Told]:
    return faults.told()


@pytest.fixture(scope="module")
def trace(told: list[faults.Told], tmp_path_factory: pytest.TempPathFactory) -> str:
    """All faults in one file, with lines in it that nobody can read."""
    path = tmp_path_factory.mktemp("trace") / "faults.ndjson"
    lines = [to_lines(faults.as_written(each.events)) for each in told]
    path.write_bytes(
        b"".join([*lines[:3], b'{"kind": "of_tomorrow", "at_us": 1763265600000000, "node": 1}\n', *lines[3:]])
    )
    with path.open("ab") as file:
        file.write(b"torn {\n")
    return str(path)


@pytest.fixture(scope="module")
def found(spark: SparkSession, trace: str, tmp_path_factory: pytest.TempPathFactory) -> DiagnoseOutcome:
    return run(spark, DiagnoseSettings(files=[trace], out=str(tmp_path_factory.mktemp("out") / "tables")))


def key_of(row: dict[str, Any]) -> Key:
    cause, topic, partition, group, client_id, host = (row[name] for name in FACTS)
    return cause, topic, partition, group, client_id, host


def test_every_fault_gets_the_verdict_of_the_live_finder(told: list[faults.Told], found: DiagnoseOutcome) -> None:
    for each in told:
        begin_us, end_us = each.events[0].at_us, each.events[-1].at_us + faults.SECOND_US
        rows = [row for row in found.stalls if begin_us <= row["named_us"] <= end_us]
        assert {key_of(row) for row in rows} == each.live, each.name
    named = {cause for each in told for cause, *_ in each.live}
    assert len(named) >= 6, "each fault here has a cause of its own"
    assert found.stalls_count == len(found.stalls)


def test_a_stall_that_lies_in_two_spans_of_the_job_is_one_stall(
    told: list[faults.Told], found: DiagnoseOutcome
) -> None:
    stopped = next(each for each in told if each.name == "follower stops")
    border_us = stopped.events[0].at_us + faults.BEFORE_BORDER_US

    rows = [row for row in found.stalls if row["cause"] == Cause.WATERMARK_STANDS_STILL]

    assert rows
    assert all(row["named_us"] < border_us < row["until_us"] for row in rows)
    assert max(Counter(key_of(row) for row in rows).values()) == 1
    assert all(row["evidence"] and row["advice"] for row in found.stalls)


def test_what_cannot_be_read_is_counted_and_left_out(told: list[faults.Told], found: DiagnoseOutcome) -> None:
    lines = sum(len(faults.as_written(each.events)) for each in told)

    assert found.totals["lines"] == lines + 2
    assert found.totals["events"] == lines + 1  # one of them is of a kind to come


def test_tables_have_what_went_in_and_out_and_who_was_refused(told: list[faults.Told], found: DiagnoseOutcome) -> None:
    events = [event for each in told for event in each.events]
    put = Counter[int]()
    given = Counter[int]()
    refused = Counter[str]()
    for event in events:
        fields = json.loads(to_lines([event]))
        if fields["kind"] == "produce_appended":
            put[fields["partition"]] += fields["to_offset"] - fields["base_offset"]
        if fields["kind"] == "fetch_answered":
            given[fields["partition"]] += fields["to_offset"] - fields["offset"]
        if fields["kind"] == "refused":
            refused[fields["error"]] += 1

    assert {row["partition"]: row["records_in"] for row in found.partitions} == put
    assert {row["partition"]: row["records_out"] for row in found.partitions} == given
    assert {row["error"]: row["times"] for row in found.refusals} == refused
    (group,) = found.rebalances
    changes = [json.loads(to_lines([event])) for event in events]
    generations = {each["generation"] for each in changes if each["kind"] == "group_changed"}
    assert group["rebalances"] == len(generations) - 1
    assert group["restless_us"] > 0


def test_all_tables_are_written_and_never_over_others(spark: SparkSession, found: DiagnoseOutcome, trace: str) -> None:
    assert found.out is not None
    names = sorted(each.name for each in Path(found.out).iterdir())
    assert names == sorted(["partitions", "rebalances", "refusals", "stalls", "timeline", "totals", "whole_timeline"])
    stalls = spark.read.parquet(f"{found.out}/stalls")
    assert stalls.count() == found.stalls_count
    rows = spark.read.parquet(f"{found.out}/timeline").where("watermark > next_offset").count()
    assert rows == 0

    with pytest.raises(JobCannotRun, match="there is something in"):
        run(spark, DiagnoseSettings(files=[trace], out=found.out))


def test_the_bar_says_how_many_events_were_read(spark: SparkSession, trace: str, found: DiagnoseOutcome) -> None:
    bar = ProgressBar()

    with diagnose.diagnosed(spark, DiagnoseSettings(files=[trace]), bar):
        assert (bar.step, bar.rows) == ("asking the rules", found.totals["events"])


def test_only_what_was_asked_for_is_judged(spark: SparkSession, told: list[faults.Told], trace: str) -> None:
    hanging = next(each for each in told if each.name == "fetch hangs")
    begin_us, end_us = hanging.events[0].at_us, hanging.events[-1].at_us + faults.SECOND_US

    with diagnose.diagnosed(spark, DiagnoseSettings(files=[trace], since_us=begin_us, until_us=end_us)) as only:
        assert {key_of(row) for row in diagnose.head(only.stalls)} == hanging.live
        steps = diagnose.head(only.timeline)
    assert min(row["from_us"] for row in steps) >= begin_us - only.step_us
    assert max(row["from_us"] for row in steps) < end_us


def test_a_trace_without_events_is_no_healthy_one(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "empty.ndjson"
    path.write_text("\n")

    with pytest.raises(JobCannotRun, match="no events"):
        run(spark, DiagnoseSettings(files=[str(path)]))


@pytest.mark.timeout(900)  # a cluster, its clients and Spark share the machine; what is cut off breaks the session
@pytest.mark.parametrize("name", LABS)
def test_a_fault_of_the_lab_is_called_the_same_as_live(spark: SparkSession, tmp_path: Path, name: str) -> None:
    """From the trace topic of the real cluster, while it runs; and as a stream, twice over the same checkpoint."""
    stored: list[list[dict[str, Any]]] = []
    raised: list[dict[str, Any]] = []

    def look(lab: LabRun, until_us: int) -> None:
        # By the name that our own programs have: one of the faults tells others untruths about the cluster.
        patient = {"kafka.client.id": "chronik-cli", "kafka.request.timeout.ms": "60000"}
        kafka = options(lab.cluster.bootstrap) | patient
        stored.append(stalls_of(spark, DiagnoseSettings(kafka, until_us=until_us)))
        if name == LABS[0]:
            raised.extend(follow(spark, kafka, lab.cluster.bootstrap, tmp_path))

    live = record(name, tmp_path, look)
    exported = stalls_of(spark, DiagnoseSettings(files=[live.write(tmp_path / "trace.ndjson")], until_us=live.until_us))

    assert live.causes
    assert Counter(key_of(row) for row in exported) == Counter(stall.key for stall in live.stalls())
    for rows in (*stored, exported):
        assert {Cause(row["cause"]) for row in rows} == live.causes
        blamed = {(Cause(row["cause"]), row["topic"], row["client_id"], row["node"]) for row in rows}
        assert live.blamed <= blamed
    if name == LABS[0]:
        assert {Cause(each["verdict"]["cause"]) for each in raised} >= live.causes  # it goes on after them
        began = [each for each in raised if each["kind"] == "stall_began"]
        assert max(Counter(each["verdict"]["partition"] for each in began).values()) == 1


def stalls_of(spark: SparkSession, settings: DiagnoseSettings) -> list[dict[str, Any]]:
    with diagnose.diagnosed(spark, settings) as found:
        return diagnose.head(found.stalls)


def follow(spark: SparkSession, kafka: dict[str, str], bootstrap: str, folder: Path) -> list[dict[str, Any]]:
    topic = new_topic(bootstrap)
    wish = raising.RaiseSettings(kafka, topic, str(folder / "checkpoint"), from_beginning=True, is_once=True)
    for _ in range(2):
        raising.start(spark, wish).awaitTermination()
    return [json.loads(message.value()) for message in received(bootstrap, topic, 1)]
