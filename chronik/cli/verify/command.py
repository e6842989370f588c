"""`chronik verify`: produce numbered messages with a real client, consume them, and say what became of each."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from chronik.cli.options import DEFAULT_BOOTSTRAP, AsJson, Bootstrap, example
from chronik.cli.output import console, print_json, print_line, print_note
from chronik.cli.verify import options as given
from chronik.client.connecting import check_reachable, parse_addresses
from chronik.client.errors import ChronikError
from chronik.shell.interrupts import Interrupts
from chronik.verify.books import Books
from chronik.verify.errors import RunCannotStart, Stopped
from chronik.verify.settings import ClientName, Spread, VerifyAcks, VerifySettings
from chronik.verify.transactional.plan import TransactionalSettings

if TYPE_CHECKING:
    from chronik.verify.history import KeptRun, RunHistory

EXIT_NOT_DELIVERED = 1
EXIT_INTERRUPTED = 130
LAST = "last"

app = typer.Typer(
    name="verify",
    invoke_without_command=True,
    epilog=example(
        "chronik verify",
        "chronik verify --messages 1000000 --acks all --client confluent --timeout 300",
        "chronik verify --timeout 120 --max-poll-records 5000 --compare last",
        "chronik verify --transactional --abort-rate 0.2 --client confluent",
        "chronik verify --copy --messages 10000",
        "chronik verify history",
    ),
)


@app.callback()
def verify(
    context: typer.Context,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    messages: given.Messages = 5_000,
    partitions: given.Partitions = 3,
    replication: given.Replication = None,
    acks: given.Acks = VerifyAcks.LEADER,
    client: given.Client = ClientName.KAFKA_PYTHON,
    timeout: given.Timeout = 60.0,
    max_poll_records: given.MaxPollRecords = 500,
    value_bytes: given.ValueBytes = 100,
    idempotent: given.Idempotent = None,
    send_timeout: given.SendTimeout = 60.0,
    topic: given.Topic = None,
    group: given.Group = None,
    assign: given.Assign = False,
    spread: given.Spread = Spread.EVEN,
    transactional: given.Transactional = False,
    copy: given.Copy = False,
    abort_rate: given.AbortRate = 0.1,
    transaction_size: given.TransactionSize = 100,
    keep: given.Keep = False,
    compare: given.Compare = None,
    note: given.Note = "",
    history_file: given.HistoryFile = None,
    ledger: given.LedgerFile = None,
    received: given.ReceivedFile = None,
    as_json: AsJson = False,
) -> None:
    """Send numbered messages, consume them, and say where each one is that did not arrive. Exit code 0: all did."""
    context.obj = (history_file, as_json)
    if context.invoked_subcommand is not None:
        return
    settings = VerifySettings(
        bootstrap=bootstrap,
        messages=messages,
        partitions=partitions,
        replication=replication,
        acks=acks,
        client=client,
        timeout_s=timeout,
        max_poll_records=max_poll_records,
        value_bytes=value_bytes,
        idempotent=idempotent,
        send_timeout_s=send_timeout,
        topic=topic,
        group=group,
        is_assigned=assign,
        spread=spread,
        is_kept=keep or ledger is not None,
        note=note,
    )
    if transactional or copy:
        if topic or group or assign or compare or ledger or received:
            hint = "leave --topic, --group, --assign, --compare, --ledger and --received away"
            raise ChronikError("a run in transactions makes its own topics, and is not kept in the history", hint)
        wanted = TransactionalSettings(transaction_size, abort_rate, is_copy=copy)
        raise typer.Exit(_run_in_transactions(settings, wanted, as_json))
    raise typer.Exit(_run(settings, Books(ledger, received), history_file, compare, as_json))


def _run(settings: VerifySettings, books: Books, history_file: Path | None, compare: str | None, as_json: bool) -> int:
    with _plain_errors():
        settings.check()
        check_reachable(settings.bootstrap)
        history = _open_history(history_file)
        try:
            before = None if compare is None else _to_compare_with(history, compare)
            report = _carry_out(settings, books, history, is_bar_wanted=not as_json)
        finally:
            history.close()
    differing = None if before is None else before.report
    if as_json:
        from chronik.verify.report import changes

        extra = {} if differing is None else {"compared_with": differing["run"], "changes": changes(differing, report)}
        print_json(report | extra)
    else:
        from chronik.verify.report import comparison_table, render

        console().print(render(report))
        if differing is not None:
            console().print(comparison_table(differing, report))
    return 0 if report["verdict"] == "pass" else EXIT_NOT_DELIVERED


def _run_in_transactions(settings: VerifySettings, wanted: TransactionalSettings, as_json: bool) -> int:
    from chronik.verify.transactional.run import verify_transactions

    with _plain_errors():
        check_reachable(settings.bootstrap)
        interrupts = Interrupts()
        interrupts.listen()
        addresses = parse_addresses(settings.bootstrap)
        try:
            report = verify_transactions(settings, wanted, addresses, lambda: interrupts.is_ending, print_note)
        except (Stopped, KeyboardInterrupt):
            print_note("stopped; nothing is said about a run that was not finished")
            return EXIT_INTERRUPTED
    if as_json:
        print_json(report)
    else:
        for line in transactional_lines(report):
            print_line(line)
    return 0 if report["verdict"] == "pass" else EXIT_NOT_DELIVERED


def transactional_lines(report: dict[str, Any]) -> Iterator[str]:
    yield f"{report['verdict'].upper()}  {report['summary']}"
    yield (
        f"{report['client']}, {report['messages']:,} messages in {report['transactions']:,} transactions: "
        f"{report['committed']:,} committed, {report['aborted']:,} aborted, {report['in_doubt']:,} in doubt"
    )
    if (copies := report["copies"]) is not None:
        yield f"copied in {copies['committed']:,} transactions, after {copies['aborted']:,} that were aborted"
    yield (
        f"missing {report['missing']:,}   aborted and read {report['aborted_read']:,}   torn {report['torn']:,}   "
        f"duplicated {report['duplicated']:,}   reordered {report['reordered']:,}   {report['seconds']:.1f} s"
    )
    for line in report["evidence"]:
        yield f"evidence    {line}"
    if report["topic_kept"]:
        yield f"kept        {', '.join(report['topics'])}"


def _carry_out(settings: VerifySettings, books: Books, history: RunHistory, is_bar_wanted: bool) -> dict[str, object]:
    from chronik.verify.run import verify as carry_out

    interrupts = Interrupts()
    interrupts.listen()
    notes: list[str] = []
    try:
        with _bars(settings.messages, is_bar_wanted) as on_progress:
            addresses = parse_addresses(settings.bootstrap)
            return carry_out(
                settings, addresses, history, on_progress, lambda: interrupts.is_ending, books, notes.append
            ).to_json()
    except (Stopped, KeyboardInterrupt):
        print_note("stopped; nothing is said about a run that was not finished")
        raise typer.Exit(EXIT_INTERRUPTED) from None
    finally:  # when the bars are gone
        for note in notes:
            print_note(note)


@app.command(
    "history", epilog=example("chronik verify history", "chronik verify history 7", "chronik verify history --json")
)
def show_history(
    context: typer.Context,
    run: Annotated[int | None, typer.Argument(metavar="[RUN]", help="This one, with its whole report.")] = None,
    limit: Annotated[int, typer.Option(min=1, metavar="N", help="The newest so many.")] = 30,
    history_file: given.HistoryFile = None,
    as_json: AsJson = False,
) -> None:
    """List the runs that were done, or show one of them again."""
    given_file, given_json = context.obj
    is_json = as_json or given_json
    with _plain_errors():
        history = _open_history(history_file or given_file)
        if run is not None:
            _show_one(_earlier(history, str(run)), is_json)
            return
        runs = history.runs(limit)
    if is_json:
        print_json([_as_json(kept) for kept in runs])
    elif runs:
        from chronik.verify.report import history_table

        console().print(history_table(runs))
    else:
        print_line("no runs yet; do one with `chronik verify`")


def _show_one(kept: KeptRun, is_json: bool) -> None:
    if is_json:
        print_json(_as_json(kept))
    elif kept.report is None:
        print_line(f"run {kept.run} was stopped before it was finished")
    else:
        from chronik.verify.report import render

        console().print(render(kept.report))


def _as_json(kept: KeptRun) -> dict[str, object]:
    unfinished = {"run": kept.run, "started_at": kept.started_at, "settings": kept.settings, "verdict": None}
    return kept.report or unfinished


def _open_history(path: Path | None) -> RunHistory:
    """The user's own, where runs can be kept; one that was asked for must be usable."""
    from chronik.verify.history import RunHistory, default_path

    if path is not None:
        return RunHistory(path)
    try:
        return RunHistory(default_path())
    except RunCannotStart as problem:
        print_note(f"this run is not kept: {problem.message}")
        return RunHistory(None)


def _earlier(history: RunHistory, name: str) -> KeptRun:
    if name == LAST:
        finished = [kept for kept in history.runs() if kept.report is not None]
        if not finished:
            raise ChronikError("there is no run yet to compare with", "leave --compare away this time")
        return finished[-1]
    kept = history.run(int(name)) if name.isdecimal() and len(name) < 19 else None
    if kept is None:
        raise ChronikError(f"there is no run {name}", "see `chronik verify history`")
    return kept


def _to_compare_with(history: RunHistory, name: str) -> KeptRun:
    kept = _earlier(history, name)
    if kept.report is None:
        raise ChronikError(
            f"run {kept.run} was stopped before it was finished: there is nothing to compare with",
            "see `chronik verify history` for the others, or give --compare last",
        )
    return kept


@contextmanager
def _plain_errors() -> Iterator[None]:
    try:
        yield
    except RunCannotStart as problem:
        raise ChronikError(problem.message, problem.hint) from problem


@contextmanager
def _bars(messages: int, is_wanted: bool) -> Iterator[Callable[[str, int, int], None]]:
    """One bar for each phase; nothing where there is no terminal."""
    if not (is_wanted and sys.stderr.isatty()):
        yield lambda phase, done, total: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (
        TextColumn("{task.description:<9}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[rate]}"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        tasks = {
            phase: progress.add_task(phase, total=messages, start=False, rate="") for phase in ("produce", "consume")
        }

        def on_progress(phase: str, done: int, total: int) -> None:
            task = tasks[phase]
            progress.start_task(task)
            elapsed_s = progress.tasks[task].elapsed
            rate = f"{done / elapsed_s:,.0f} a second" if elapsed_s else ""
            progress.update(task, completed=done, total=total, rate=rate)

        yield on_progress
