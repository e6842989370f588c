"""The run that Chronik began with: 5,000 numbered messages to 3 partitions through a real client, and where each went.

Three nodes, replication factor 3, kafka-python, one bootstrap address, acks=1, max_poll_records=500, 60 seconds; each
of the nodes is the only bootstrap address in turn. `make demo` runs it: `chronik verify` three times and the whole
report of the last; then, on Spark, the audit of all that was acknowledged and consumed, the diagnosis of the trace, and
a page with all of it. Ends with exit code 1 when a message is missing or came twice, or something stalled.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from chronik.pipeline.session import SparkNotReady, open_session
from chronik.testing import RunningCluster, cluster
from chronik.verify.books import Books
from chronik.verify.errors import RunCannotStart
from chronik.verify.history import RunHistory
from chronik.verify.report import render
from chronik.verify.run import verify
from chronik.verify.settings import VerifySettings

OUT = Path(__file__).parent / "out"
DRIVER_MEMORY = "1g"
TOLD_WITHIN_S = 0.5  # what has happened is in the trace by then


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=3)
    parser.add_argument("--messages", type=int, default=5000)
    parser.add_argument("--partitions", type=int, default=3)
    parser.add_argument("--timeout", type=float, default=60.0, metavar="S", help="for consuming")
    parser.add_argument("--out", type=Path, default=OUT, metavar="DIR", help="for the page, and what it is made of")
    parser.add_argument("--no-spark", action="store_true", help="leave out audit and page")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    console = Console()
    reports: list[dict[str, Any]] = []
    history = RunHistory(None)
    begin = time.monotonic()
    with cluster(nodes=options.nodes) as started:
        console.print(
            f"{options.nodes} nodes in {time.monotonic() - begin:.1f} s: {started.bootstrap}", highlight=False
        )
        for node_id, node in started.nodes.items():
            report = run_once(node.bootstrap, options, history, books_of(options.out, node_id))
            reports.append(report)
            said = f"{report['consumed']:,} of {report['produced']:,} consumed in {report['seconds']:.1f} s"
            style = "green" if report["verdict"] == "pass" else "red"
            console.print(f"through node {node_id} only: {said}: {report['verdict']}", style=style, highlight=False)
        console.print()
        console.print(render(next((report for report in reports if report["verdict"] != "pass"), reports[-1])))
        done_us = round((time.time() + TOLD_WITHIN_S) * 1e6)
        is_well = all(report["verdict"] == "pass" and is_each_once(report) for report in reports)
        if not options.no_spark:
            is_well = audited(console, started, reports, done_us, options.out) and is_well
    return 0 if is_well else 1


def books_of(folder: Path, node_id: int) -> Books:
    """Where a run writes down what was acknowledged, and what was consumed."""
    return Books(folder / f"acknowledged-{node_id}.jsonl", folder / f"consumed-{node_id}.jsonl")


def audited(
    console: Console, started: RunningCluster, reports: list[dict[str, Any]], done_us: int, folder: Path
) -> bool:
    """On Spark: what was acknowledged, the log, and what was consumed laid over one another, and the trace judged."""
    from chronik.pipeline.jobs import audit, diagnose, report

    console.print()
    kafka = {"kafka.bootstrap.servers": started.bootstrap}
    with console.status("on Spark: audit, diagnosis and report"):
        try:
            spark = open_session("chronik demo", memory=DRIVER_MEMORY)
        except SparkNotReady as problem:
            console.print(f"no audit and no page: {problem}", style="yellow", highlight=False)
            return True
        books = [books_of(folder, node_id) for node_id in started.nodes]
        audit_settings = audit.AuditSettings(
            kafka=kafka,
            topics=[each["topic"] for each in reports],
            ledgers=[str(each.ledger) for each in books],
            received=[str(each.received) for each in books],
        )
        try:
            found = audit.run(spark, audit_settings)
            page_settings = report.ReportSettings(
                str(folder / "report.html"),
                "The seed run, through each of three nodes",
                # What came after the runs is Spark's own reading.
                diagnose.DiagnoseSettings(kafka, topics=[each["topic"] for each in reports], until_us=done_us),
                found.to_json(),
                reports,
                ["three nodes on this machine", "the audit of three runs, and their trace"],
            )
            page = report.run(lambda: spark, page_settings)
        finally:
            spark.stop()
    totals = found.totals
    console.print(
        f"audit on Spark: {totals['found']:,} of {totals['expected']:,} found; {totals['lost']:,} lost, "
        f"{totals['duplicated']:,} duplicated, {totals['reordered']:,} reordered, {totals['unexpected']:,} unexpected",
        highlight=False,
        soft_wrap=True,
    )
    console.print(f"the report: {page.path}", highlight=False, soft_wrap=True)
    style = "green" if page.level == "good" else "red"
    console.print(f"verdict: {page.headline}", style=style, highlight=False, soft_wrap=True)
    return page.level in ("good", "poor") and is_each_once(totals)


def is_each_once(counts: Mapping[str, Any]) -> bool:
    """Of a run or of the audit: a retry that was written twice is a remark to them, and too much for the seed run."""
    return not counts["lost"] and not counts["duplicated"]


def run_once(bootstrap: str, options: argparse.Namespace, history: RunHistory, books: Books) -> dict[str, Any]:
    """Make the topic, produce, consume, all through this one address, with bars that show how far it is."""
    settings = VerifySettings(
        bootstrap=bootstrap,
        messages=options.messages,
        partitions=options.partitions,
        timeout_s=options.timeout,
        is_kept=True,  # the audit looks at what the topic holds
    )
    host, _, port = bootstrap.rpartition(":")
    columns = (TextColumn("{task.description:<10}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        bars = {phase: progress.add_task(phase, total=options.messages) for phase in ("produce", "consume")}

        def show(phase: str, done: int, total: int) -> None:
            progress.update(bars[phase], completed=done, total=total)

        return verify(settings, [(host, int(port))], history, show, books=books).to_json()


if __name__ == "__main__":
    try:
        sys.exit(main())
    except RunCannotStart as problem:
        sys.exit(f"{problem}")
    except KeyboardInterrupt:
        sys.exit("stopped")
