"""compare in a real session: histories and audits as one table over versions and settings."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed: pip install 'chronik[spark]'")

from chronik.pipeline.jobs.compare import CompareSettings, run
from chronik.pipeline.problems import JobCannotRun, plain_errors
from chronik.pipeline.progress import ProgressBar
from chronik.verify.history import RunHistory
from chronik.verify.settings import VerifyAcks
from chronik.verify.settings import VerifySettings as Wish

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.timeout(300)  # the first test of a run waits for Java


def report(run: int, wish: Wish, verdict: str = "pass", consumed: int = 5000, rate: int = 10_000) -> dict[str, Any]:
    """As `Result.to_json` has it, as far as it matters here."""
    return {
        "run": run,
        "started_at": f"2026-11-16T07:{run:02}:00Z",
        "verdict": verdict,
        "cause": None if verdict == "pass" else "client limit or timeout",
        "produced": 5000,
        "acknowledged": 5000,
        "consumed": consumed,
        "lost": 0,
        "duplicated": 0,
        "reordered": 0,
        "produced_per_second": rate,
        "consumed_per_second": 2 * rate,
        "replication": 3,
        "settings": wish.to_json(),
        "versions": {"chronik": "0.1.0", "client": "3.0.12", "cluster": "chronik 0.1.0"},
    }


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    folder = tmp_path_factory.mktemp("kept")
    history = RunHistory(folder / "history.sqlite3")
    for acks, rates in ((VerifyAcks.LEADER, (10_000, 12_000, 50_000)), (VerifyAcks.ALL, (8_000,))):
        wish = Wish("127.0.0.1:9092", acks=acks)
        for rate in rates:
            number = history.begin("2026-11-16T07:00:00Z", wish)
            history.finish(number, report(number, wish, rate=rate))
    history.close()
    late = folder / "run.json"
    late.write_text(json.dumps(report(9, Wish("127.0.0.1:9092", acks=VerifyAcks.ALL), "partial", 3819)))
    audit = folder / "audit.json"
    audit.write_text(
        json.dumps({"expected": 5000, "found": 4998, "lost": 2, "duplicated": 1, "reordered": 0, "verdict": "lost"})
    )
    return [str(folder / "history.sqlite3"), str(late), str(audit)]


def test_runs_with_the_same_settings_are_one_row(spark: SparkSession, files: list[str]) -> None:
    """Runs with the same settings are one row and what is the same in all is told once."""
    bar = ProgressBar()

    found = run(spark, CompareSettings(files[:2]), bar)

    assert (bar.step, bar.rows) == ("comparing", 5)
    assert found.runs == 5
    assert found.by == ["acks", "idempotent"]
    assert found.same["client"] == "kafka-python"
    assert found.same["version"] == "chronik 0.1.0"
    by_acks = {row["acks"]: row for row in found.rows}
    assert (by_acks["1"]["runs"], by_acks["1"]["passed"], by_acks["1"]["produced_per_second"]) == (3, 3, 12_000)
    assert (by_acks["all"]["runs"], by_acks["all"]["passed"]) == (2, 1)
    assert by_acks["all"]["arrived"] == 5000 + 3819
    assert by_acks["all"]["causes"] == ["client limit or timeout"]
    assert [row["acks"] for row in found.rows] == ["all", "1"]  # the worst first


def test_audits_stand_beside_runs_and_what_lost_something_comes_first(
    spark: SparkSession, files: list[str], tmp_path: Path
) -> None:
    found = run(spark, CompareSettings(files, ["kind"], str(tmp_path / "out")))

    assert [(row["kind"], row["runs"], row["passed"], row["lost"]) for row in found.rows] == [
        ("audit", 1, 0, 2),
        ("verify", 5, 4, 0),
    ]
    assert spark.read.parquet(f"{tmp_path}/out/runs").count() == 6


def test_what_runs_cannot_be_told_apart_by_is_said(spark: SparkSession, files: list[str]) -> None:
    with pytest.raises(JobCannotRun, match="distinguished by colour"):
        run(spark, CompareSettings(files, ["colour"]))


def test_a_file_of_something_else_is_named(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "other.json"
    path.write_text("[1, 2]")

    with pytest.raises(JobCannotRun, match=r"other\.json"), plain_errors():
        run(spark, CompareSettings([str(path)]))
