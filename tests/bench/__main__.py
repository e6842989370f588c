"""The command line of the bench; `chronik bench` is the same.

chronik bench run [ROW ...] [--rounds N] [--minutes M] [--quick]    measure, print, keep in bench-results/
chronik bench show [RESULT]                           the newest if none is named
chronik bench compare BEFORE AFTER                    two results beside each other
chronik bench report [RESULT] [--out PAGE]            one page with pictures
chronik bench publish [RESULT ...]                    rewrite the figures of docs/benchmarks.md and README.md
chronik bench kafka [--nodes 3]                       an Apache Kafka to try things against, until Ctrl-C
chronik bench rows                                    what there is to measure
"""

from __future__ import annotations

import argparse
import json
import math
import shutil
import sys
import tempfile
import time
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from tests.bench import compare, page, report, results
from tests.bench.results import Result
from tests.bench.row import Row
from tests.bench.rows import ROWS, NoSuchRow, rows_named
from tests.bench.runner import count_of_steps, run
from tests.bench.scale import SCALES, Scale
from tests.bench.systems.chronik import Chronik
from tests.bench.systems.kafka.jars import NoKafka
from tests.bench.systems.kafka.kafka import Kafka
from tests.bench.systems.system import System, bootstrap

EXIT_FAILED, EXIT_BAD_INPUT, EXIT_INTERRUPTED = 1, 2, 130
COMMANDS = ("run", "show", "compare", "report", "publish", "kafka", "rows")


class BadInput(Exception):
    """Told in one line, and exit code 2."""


def main(arguments: list[str]) -> int:
    asked = _parser().parse_args(_with_command(arguments))
    try:
        code: int = asked.does(asked)
        return code
    except (BadInput, NoSuchRow) as problem:
        print(f"error: {problem}", file=sys.stderr)
        return EXIT_BAD_INPUT
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED


def _with_command(arguments: list[str]) -> list[str]:
    """Rows alone are to be run."""
    is_plain = not arguments or arguments[0] in (*COMMANDS, "-h", "--help")
    return arguments if is_plain else ["run", *arguments]


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("chronik bench", description="Measure Chronik against Apache Kafka.")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    command = commands.add_parser("run", help="measure rows, print the figures and keep them in bench-results/")
    command.add_argument("rows", nargs="*", metavar="ROW", help="B1 to B12 or names (`chronik bench rows`); else all")
    command.add_argument("--rounds", type=int, help="how often each case is run (5; quick: 1)")
    command.add_argument(
        "--minutes", type=float, default=math.inf, help="begin no round that would end later than that"
    )
    command.add_argument("--quick", action="store_const", dest="scale", const="quick", default="full", help="do less")
    command.add_argument("--scale", choices=sorted(SCALES), help="how much to do")
    command.add_argument("--peer", choices=("kafka", "none"), default="kafka", help="whom to measure beside Chronik")
    command.add_argument("--out", type=Path, help="the result file; else one in bench-results/")
    command.set_defaults(does=_run)
    command = commands.add_parser("show", help="print a result again")
    command.add_argument("result", nargs="?", type=Path, help="else the newest")
    command.add_argument("--json", action="store_true", help="as JSON: the result file itself")
    command.set_defaults(does=_show)
    command = commands.add_parser("compare", help="two results beside each other")
    command.add_argument("before", type=Path)
    command.add_argument("after", type=Path)
    command.add_argument("--json", action="store_true", help="as JSON")
    command.set_defaults(does=_compare)
    command = commands.add_parser("report", help="one page with pictures, that needs nothing else")
    command.add_argument("result", nargs="?", type=Path, help="else the newest")
    command.add_argument("--out", type=Path, help="the page; else beside the result")
    command.set_defaults(does=_report)
    command = commands.add_parser("publish", help="rewrite the figures of docs/benchmarks.md and README.md")
    command.add_argument("results", nargs="*", type=Path, help="of different rows; else the newest")
    command.set_defaults(does=_publish)
    command = commands.add_parser("kafka", help="run Apache Kafka until Ctrl-C, as the bench runs it")
    command.add_argument("--nodes", type=int, choices=(1, 3), default=1)
    command.set_defaults(does=_kafka)
    command = commands.add_parser("rows", help="list what there is to measure")
    command.set_defaults(does=_list_rows)
    return parser


def _run(asked: argparse.Namespace) -> int:
    if asked.rounds is not None and asked.rounds < 1:
        raise BadInput("--rounds must be 1 or more")
    scale = SCALES[asked.scale]
    rows = rows_named(asked.rows)
    if scale.is_quick and not asked.rows:
        rows = [row for row in rows if row.has_peer]
    systems, left_out = systems_for(rows, asked.peer)
    return measure(rows, systems, left_out, scale, asked.rounds or scale.rounds, asked.minutes * 60, asked.out)


def systems_for(rows: list[Row], peer: str) -> tuple[list[System], list[str]]:
    """Chronik, and the peer where a row wants one and it can be had; and why not."""
    systems: list[System] = [Chronik()]
    if peer == "none":
        return systems, ["Apache Kafka: not asked for"]
    if any(row.has_peer for row in rows):
        try:
            systems.append(Kafka())
        except NoKafka as problem:
            print(f"{problem}: the rows are measured without their peer", file=sys.stderr)
            return systems, [f"Apache Kafka: {problem}"]
    return systems, []


def measure(
    rows: list[Row],
    systems: list[System],
    left_out: list[str],
    scale: Scale,
    rounds: int,
    limit_s: float,
    out: Path | None,
) -> int:
    # Not in /tmp, which is in memory on many machines: syncing there costs nothing.
    results.RESULTS_DIR.mkdir(parents=True, exist_ok=True)
    scratch = Path(tempfile.mkdtemp(prefix="scratch-", dir=results.RESULTS_DIR))
    result = results.new_result(scale.name, rounds, scratch, {system.name: system.version for system in systems})
    result.left_out = left_out
    path = out or results.result_path(result)
    console, started = Console(), time.monotonic()
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, TimeElapsedColumn(), TimeRemainingColumn(), console=console, transient=True) as progress:
        bar = progress.add_task("", total=count_of_steps(rows, systems, scale, rounds))
        done = -1

        def announce(what: str) -> None:
            nonlocal done
            done += 1
            progress.update(bar, description=what, completed=done)
            if not console.is_terminal:  # a log file shows no bar
                print(f"{time.monotonic() - started:7.1f} s  {what}", file=sys.stderr, flush=True)

        try:
            run(result, rows, systems, scale, scratch, announce, limit_s)
        finally:
            # An hour of rounds is not lost with the last of them.
            if result.measured:
                result.save(path)
            shutil.rmtree(scratch, ignore_errors=True)
    report.show(result, console)
    result.save(path)
    console.print(f"kept in {path}, with pictures in {write_page(path, result)}", soft_wrap=True)
    return EXIT_FAILED if result.failures else 0


def write_page(path: Path, result: Result, out: Path | None = None) -> Path:
    """The page of a result, beside it unless said otherwise."""
    out = out or path.with_suffix(".html")
    out.write_text(page.page(result), encoding="utf-8")
    return out


def _loaded(path: Path | None) -> tuple[Path, Result]:
    path = path or results.newest()
    if path is None:
        raise BadInput("no result yet: run `make bench`")
    try:
        return path, results.load(path)
    except OSError as problem:
        raise BadInput(f"no result at {path}: {problem.strerror}") from problem
    except ValueError as problem:
        raise BadInput(str(problem)) from problem


def _show(asked: argparse.Namespace) -> int:
    path, result = _loaded(asked.result)
    if asked.json:
        print(path.read_text(encoding="utf-8"), end="")
    else:
        report.show(result, Console())
    return 0


def _compare(asked: argparse.Namespace) -> int:
    before, after = _loaded(asked.before)[1], _loaded(asked.after)[1]
    if asked.json:
        print(json.dumps(compare.as_json(before, after), indent=2))
    else:
        compare.show(before, after, Console())
    return 0


def _report(asked: argparse.Namespace) -> int:
    path, result = _loaded(asked.result)
    print(f"written to {write_page(path, result, asked.out)}")
    return 0


def _publish(asked: argparse.Namespace) -> int:
    found = [_loaded(path) for path in asked.results or [None]]
    report.publish([result for _, result in found])
    pages = " and ".join(str(page.relative_to(results.ROOT)) for page in (report.PAGE, report.README))
    print(f"{pages} now have the figures of {', '.join(path.name for path, _ in found)}")
    return 0


def _kafka(asked: argparse.Namespace) -> int:
    try:
        system = Kafka()
    except NoKafka as problem:
        raise BadInput(str(problem)) from problem
    with tempfile.TemporaryDirectory(prefix="chronik-bench-") as folder:
        if asked.nodes == 1:
            server = system.server(Path(folder), {})
            try:
                server.spawn()
                server.wait_until_ready()
                _wait_until_interrupted(bootstrap(server), system.version)
                server.stop()
            finally:
                server.kill()
        else:
            cluster = system.cluster(Path(folder), {})
            try:
                cluster.start()
                _wait_until_interrupted(cluster.bootstrap, system.version)
                cluster.stop()
            finally:
                cluster.kill()
    return 0


def _wait_until_interrupted(address: str, version: str) -> None:
    print(f"ready: Apache Kafka {version} at {address} (Ctrl-C ends it)", flush=True)
    try:
        while True:
            time.sleep(3600)
    except KeyboardInterrupt:
        print("stopping", flush=True)


def _list_rows(asked: argparse.Namespace) -> int:
    for row in ROWS:
        print(f"{row.code:4} {row.name:20} {row.title}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
