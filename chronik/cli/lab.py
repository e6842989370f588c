"""`chronik lab`: a gallery of faults, each in a real cluster, to see what it looks like and that it is named."""

from __future__ import annotations

import shutil
import tempfile
import time
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import typer

from chronik.cli.options import AsJson, example
from chronik.cli.output import console, count, print_json, print_line, print_note, print_table
from chronik.client import suggest
from chronik.client.errors import ChronikError
from chronik.lab.gallery import GALLERY, Exhibit
from chronik.lab.loads import TOPIC
from chronik.shell.interrupts import Interrupts
from chronik.trace.verdicts import Verdict

if TYPE_CHECKING:
    from chronik.lab.run import LabRun

EXAMPLE = example("chronik lab", "chronik lab follower-stops-fetching", "chronik lab fetch-hangs --until-named --json")
LOOK_EVERY_S = 1.0
EXIT_NOT_NAMED = 1


def lab(
    fault: Annotated[str | None, typer.Argument(metavar="[FAULT]", help="Leave it out to see which there are.")] = None,
    data_dir: Annotated[
        str | None,
        typer.Option("--data-dir", metavar="DIR", help="Kept afterwards.", show_default="a temporary one, removed"),
    ] = None,
    port: Annotated[
        int | None,
        typer.Option("--port", min=0, max=65_000, metavar="P", help="Of node 1; 0: free ones.", show_default="9092"),
    ] = None,
    seconds: Annotated[float | None, typer.Option("--seconds", min=1, metavar="S", help="End after so long.")] = None,
    until_named: Annotated[bool, typer.Option("--until-named", help="End as soon as it has been named.")] = False,
    load: Annotated[bool, typer.Option("--load/--no-load", help="Run clients that show the fault.")] = True,
    as_json: AsJson = False,
) -> None:
    """Start a cluster with one fault built in, and see that it is found. Without a fault: list them."""
    from chronik.lab.run import LabRun  # with it come the stall rules, which few commands need

    if fault is None:
        _print_gallery(as_json)
        return
    exhibit = GALLERY.get(fault)
    if exhibit is None:
        raise suggest.unknown("fault", fault, GALLERY, "`chronik lab` lists them")
    if until_named and exhibit.cause is None and seconds is None:
        raise ChronikError("nothing is wrong here, so nothing will ever be named", "say --seconds")
    interrupts = Interrupts()
    interrupts.listen()  # from before there is anything that would be left over
    directory = data_dir or tempfile.mkdtemp(prefix="chronik-lab-")
    run = LabRun(exhibit, directory, port, load)
    try:
        _introduce(exhibit, as_json)
        run.open(interrupts)
        try:
            _stay(run, interrupts, seconds, until_named, as_json)
        finally:
            run.close()
    finally:
        if data_dir is None:
            shutil.rmtree(directory, ignore_errors=True)
    raise typer.Exit(_conclude(run, as_json))


def _print_gallery(as_json: bool) -> None:
    rows = [(each.name, each.what, None if each.cause is None else str(each.cause)) for each in GALLERY.values()]
    if as_json:
        print_json([{"fault": name, "what": what, "cause": cause} for name, what, cause in rows])
    else:
        print_table(["fault", "what is wrong", "what it is to be called"], rows)


def _introduce(exhibit: Exhibit, as_json: bool) -> None:
    if not as_json:
        print_line(exhibit.what)
        print_line(f"What users see: {exhibit.seen}")
        print_note("starting three nodes")


def _stay(run: LabRun, interrupts: Interrupts, seconds: float | None, until_named: bool, as_json: bool) -> None:
    if not as_json:
        _say_where(run)
    shown: list[tuple[Any, ...]] = []
    while not interrupts.is_ending and (seconds is None or run.seconds < seconds):
        time.sleep(LOOK_EVERY_S)
        problem = run.try_look()
        if problem is not None:
            print_note(problem)
        if gone := run.ended():
            raise ChronikError(f"node {gone[0]} has ended", f"its log is in {run.data_dir}")
        if not as_json:
            shown = _say_news(run, shown)
        if until_named and run.named_after_s is not None:
            break


def _say_where(run: LabRun) -> None:
    first = run.cluster.bootstrap.split(",")[0]
    print_line(f"ready: {run.cluster.bootstrap} (data and logs in {run.data_dir})")
    if run.is_loaded:
        print_line(f"clients write to topic {TOPIC}, and read it in a group. Look at it from another terminal:")
    else:
        print_line("no clients run. From another terminal:")
    for command in ("watch", "stalls", f"topic describe {TOPIC}", "verify"):
        options = f" {run.exhibit.verify_options}" if command == "verify" and run.exhibit.verify_options else ""
        print_line(f"  chronik {command} --bootstrap {first}{options}")
    print_note("Ctrl-C ends it")


def _say_news(run: LabRun, shown: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """What stalls, each time that is something else than a moment ago."""
    now = [
        (verdict.cause, verdict.topic, verdict.partition, verdict.group, verdict.client_id) for verdict in run.verdicts
    ]
    if now != shown:
        print_line()
        _print_counts(run)
        for verdict in run.verdicts:
            _print_verdict(verdict)
        if not run.verdicts:
            print_line("nothing stalls any more")
    return now


def _print_counts(run: LabRun) -> None:
    if run.is_loaded:
        counts = run.counts
        print_line(
            f"after {run.seconds:.0f} s: {count(counts.sent)} sent, {count(counts.acknowledged)} acknowledged,"
            f" {count(counts.failed)} failed, {count(counts.consumed)} consumed"
        )


def _print_verdict(verdict: Verdict) -> None:
    from rich.text import Text

    paper = console()
    paper.print(Text(f"{verdict.cause}: ", style="bold red").append(verdict.summary, style="not bold default"))
    for line in verdict.evidence:
        paper.print(Text(f"  - {line}"))
    paper.print(Text(f"  {verdict.advice}", style="dim"))


def _conclude(run: LabRun, as_json: bool) -> int:
    exhibit = run.exhibit
    if as_json:
        print_json(
            {
                "fault": exhibit.name,
                "expected": exhibit.cause,
                "is_right": run.is_right,
                "named_after_s": None if run.named_after_s is None else round(run.named_after_s, 1),
                "verdicts": msgspec.to_builtins(run.verdicts),
                "others": msgspec.to_builtins(run.others),
                "seconds": round(run.seconds, 1),
                "counts": vars(run.counts),
            }
        )
    else:
        print_line()
        print_line(_conclusion(run))
    return 0 if run.is_right or not run.is_loaded else EXIT_NOT_NAMED


def _conclusion(run: LabRun) -> str:
    wrong = ", ".join(str(each.cause) for each in run.others)
    if run.exhibit.cause is None:
        return (
            f"nothing is wrong, and yet it was called: {wrong}"
            if wrong
            else "nothing is wrong, and nothing was called so"
        )
    if run.named_after_s is None:
        return f"not named in {run.seconds:.0f} s: it is '{run.exhibit.cause}'" + (
            f", and was called {wrong}" if wrong else ""
        )
    return f"named rightly after {run.named_after_s:.0f} s: {run.exhibit.cause}" + (f"; also: {wrong}" if wrong else "")
