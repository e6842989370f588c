"""report in a real session, and its page in a real browser where there is one."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed: pip install 'chronik[spark]'")

from chronik.pipeline.jobs import diagnose
from chronik.pipeline.jobs.report import ReportOutcome, ReportSettings, run
from chronik.pipeline.problems import JobCannotRun
from chronik.pipeline.progress import ProgressBar
from chronik.trace.lines import to_lines
from tests.spark import faults
from tests.unit.pipeline.report_findings import AUDIT, RUN

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.timeout(300)  # the first test of a run waits for Java

DEMO = Path(__file__).parents[2] / "demo" / "seed_run.py"
BROWSER = "CHRONIK_CHROMIUM"
"""Set in the environment: where Chromium is, if not in the path."""


@pytest.fixture(scope="module")
def bar() -> ProgressBar:
    return ProgressBar()


@pytest.fixture(scope="module")
def made(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory, bar: ProgressBar) -> ReportOutcome:
    """Of a trace in which a follower stopped, with an audit and a run."""
    folder = tmp_path_factory.mktemp("report")
    stopped = next(each for each in faults.told() if each.name == "follower stops")
    trace = folder / "trace.ndjson"
    trace.write_bytes(to_lines(faults.as_written(stopped.events)))
    return run(
        lambda: spark,
        ReportSettings(
            str(folder / "pages" / "report.html"),
            "A test",
            diagnose.DiagnoseSettings(files=[str(trace)]),
            AUDIT,
            [RUN],
            ["a trace"],
        ),
        bar,
    )


def test_the_page_has_the_verdict_the_stall_and_a_plot_of_every_kind(made: ReportOutcome) -> None:
    text = Path(made.path).read_text(encoding="utf-8")

    assert made.level == "bad"
    assert made.headline.startswith("Nothing is lost, but it stalled for")
    assert made.headline in text
    for part in ("Offsets over time", "Gap and lag", "Throughput", "How long answers took", "Balance", "What stalled"):
        assert f"<h2>{part}</h2>" in text
    assert "follower 3 has nothing above it" in text


def test_the_bar_says_what_it_is_at_and_how_many_events_were_read(made: ReportOutcome, bar: ProgressBar) -> None:
    assert bar.step == "drawing the page"
    assert bar.rows
    assert bar.spark is None


def test_without_a_trace_no_session_is_opened(tmp_path: Path) -> None:
    def nobody() -> Any:
        raise AssertionError("Spark was started for nothing")

    found = run(nobody, ReportSettings(str(tmp_path / "report.html"), audit={**AUDIT, "lost": 2, "found": 4998}))

    assert (found.level, found.headline) == ("bad", "2 records of 5,000 are lost")


def test_what_is_no_audit_is_refused_and_nothing_is_written(tmp_path: Path) -> None:
    with pytest.raises(JobCannotRun, match="no audit"):
        run(lambda: None, ReportSettings(str(tmp_path / "report.html"), audit={"found": 1}))

    assert list(tmp_path.iterdir()) == []


def test_a_browser_shows_it_offline_in_light_and_dark(made: ReportOutcome, tmp_path: Path) -> None:
    playwright = pytest.importorskip(
        "playwright.sync_api", reason="playwright is not installed: pip install playwright"
    )
    chromium = os.environ.get(BROWSER) or shutil.which("chromium") or shutil.which("google-chrome")
    if chromium is None:
        pytest.skip(f"there is no Chromium: apt install chromium, or set {BROWSER}")
    problems: list[str] = []
    asked: list[str] = []
    with playwright.sync_playwright() as started:
        browser = started.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        for scheme in ("light", "dark"):
            page = browser.new_page(viewport={"width": 1280, "height": 900}, color_scheme=scheme)
            page.on("pageerror", lambda problem: problems.append(str(problem)))
            page.on("request", lambda request: asked.append(request.url))
            page.goto(f"file://{made.path}")
            charts = page.locator(".chart svg")
            assert charts.count() >= 8
            assert all(charts.nth(number).bounding_box()["width"] > 200 for number in range(charts.count()))
            page.locator(".chart").first.hover()
            assert "watermark" in page.locator(".chart .tip").first.inner_text()
            assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
            page.screenshot(path=str(tmp_path / f"{scheme}.png"), full_page=True)
        narrow = browser.new_page(viewport={"width": 390, "height": 800})
        narrow.goto(f"file://{made.path}")
        assert narrow.evaluate("document.documentElement.scrollWidth <= innerWidth")
        browser.close()
    assert problems == []
    assert set(asked) == {f"file://{made.path}"}


def test_the_demo_ends_with_the_audit_the_page_and_the_verdict(spark: SparkSession, tmp_path: Path) -> None:
    command = [sys.executable, str(DEMO), "--out", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=280, check=False)

    assert done.returncode == 0, done.stdout + done.stderr
    assert "audit on Spark: 15,000 of 15,000 found; 0 lost, 0 duplicated, 0 reordered, 0 unexpected" in done.stdout
    assert done.stdout.splitlines()[-1] == "verdict: All 15,000 acknowledged records are there, and nothing stalled"
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "Audit: all 15,000 acknowledged records are there, none is lost" in page
    assert page.count('class="chart"') >= 12
