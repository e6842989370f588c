"""The run that Chronik began with: 5,000 numbered messages to 3 partitions through a real client, and where each went.

Three nodes, replication factor 3, kafka-python, one bootstrap address, acks=1, max_poll_records=500, 60 seconds; each
of the nodes is the only bootstrap address in turn. `make demo` runs it: `chronik verify` three times, and the whole
report of the last. Ends with exit code 1 when a message is missing or came twice.
"""

from __future__ import annotations

import argparse
import sys
import time
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from chronik.testing import cluster
from chronik.verify.errors import CannotRun
from chronik.verify.history import History
from chronik.verify.report import render
from chronik.verify.run import verify
from chronik.verify.settings import Settings


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=3)
    parser.add_argument("--messages", type=int, default=5000)
    parser.add_argument("--partitions", type=int, default=3)
    parser.add_argument("--timeout", type=float, default=60.0, metavar="S", help="for consuming")
    options = parser.parse_args()
    console = Console()
    reports: list[dict[str, Any]] = []
    begin = time.monotonic()
    with cluster(nodes=options.nodes) as started:
        console.print(
            f"{options.nodes} nodes in {time.monotonic() - begin:.1f} s: {started.bootstrap}", highlight=False
        )
        for node_id, node in started.nodes.items():
            report = run_once(node.bootstrap, options)
            reports.append(report)
            said = f"{report['consumed']:,} of {report['produced']:,} consumed in {report['seconds']:.1f} s"
            style = "green" if report["verdict"] == "pass" else "red"
            console.print(f"through node {node_id} only: {said}: {report['verdict']}", style=style, highlight=False)
    console.print()
    console.print(render(next((report for report in reports if report["verdict"] != "pass"), reports[-1])))
    return 0 if all(report["verdict"] == "pass" for report in reports) else 1


def run_once(bootstrap: str, options: argparse.Namespace) -> dict[str, Any]:
    """Make the topic, produce, consume, all through this one address, with bars that show how far it is."""
    settings = Settings(
        bootstrap=bootstrap, messages=options.messages, partitions=options.partitions, timeout_s=options.timeout
    )
    host, _, port = bootstrap.rpartition(":")
    columns = (TextColumn("{task.description:<10}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        bars = {phase: progress.add_task(phase, total=options.messages) for phase in ("produce", "consume")}

        def show(phase: str, done: int, total: int) -> None:
            progress.update(bars[phase], completed=done, total=total)

        return verify(settings, [(host, int(port))], History(None), show).to_json()


if __name__ == "__main__":
    try:
        sys.exit(main())
    except CannotRun as problem:
        sys.exit(f"{problem}")
    except KeyboardInterrupt:
        sys.exit("stopped")
