"""A run's report for people, made of its JSON, so that one from the history looks as it did on the day."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.measure import Measurement
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from chronik.verify.fates import Fate
from chronik.verify.history import KeptRun
from chronik.verify.verdict import percent

Report = dict[str, Any]

_MARKS = {"pass": ("✔ PASS", "bold green"), "partial": ("◐ PARTIAL", "bold yellow"), "fail": ("✘ FAIL", "bold red")}
_BAR_CELLS_MAX = 16
_WITH_CELLS_MIN = 24
_EIGHTHS = " ▏▎▍▌▋▊▉█"
# Joining a group and finding the leaders takes time before there is anything to count by the second.
_LATE_FIRST_S = 0.5


@dataclass(frozen=True)
class ReportBar:
    """As wide as there is room for; the largest fills it."""

    count: int
    largest: int
    style: str

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield Text(bar(self.count, self.largest, min(options.max_width, _BAR_CELLS_MAX)), self.style)

    def __rich_measure__(self, console: Console, options: ConsoleOptions) -> Measurement:
        return Measurement(0, _BAR_CELLS_MAX)


def bar(count: int, largest: int, cells: int) -> str:
    """In eighths of a cell."""
    eighths = round(8 * cells * count / largest) if largest else 0
    whole, rest = divmod(eighths, 8)
    return "█" * whole + (_EIGHTHS[rest] if rest else "")


def render(report: Report) -> RenderableType:
    """The whole report."""
    parts: list[RenderableType] = [Text(), _heading(report), Text(), _verdict(report), Text(), _figures(report)]
    parts += [Text(), _partitions(report)]
    if report["fates"]:
        parts += [Text(), _fates(report)]
    if report["stalls"]:
        parts += [Text(), _stalls(report)]
    if report["evidence"] or report["advice"]:
        parts += [Text(), _evidence(report)]
    parts += [Text(), _closing(report), Text()]
    return Padding(Group(*parts), (0, 0, 0, 1), expand=False)


def _heading(report: Report) -> Text:
    settings, versions = report["settings"], report["versions"]
    line = Text()
    line.append(f"chronik verify · run {report['run']}", style="bold")
    line.append(f"   {settings['bootstrap']} · {versions['cluster']}\n", style="dim")
    details = [
        f"{settings['client']} {versions['client']}",
        f"acks={settings['acks']}" + (" idempotent" if settings["is_idempotent"] else ""),
        _topology(report),
        f"max_poll_records {settings['max_poll_records']:,}",
        f"{settings['value_bytes']:,} B",
        f"{settings['timeout_s']:g} s",
    ]
    line.append(" · ".join(details), style="dim")
    if settings.get("note"):
        line.append(f"\n{settings['note']}", style="italic")
    return line


def _topology(report: Report) -> str:
    partitions = len(report["partitions"])
    text = f"{partitions} partition{'s' if partitions != 1 else ''}"
    return text if report["replication"] is None else f"{text} × {report['replication']}"


def _verdict(report: Report) -> Text:
    mark, style = _MARKS[report["verdict"]]
    line = Text()
    line.append(f" {mark} ", style=f"{style} reverse")
    line.append(f"  {report['summary']}", style=style)
    if report["cause"] is not None:
        line.append("\n\ncause  ", style="dim")
        line.append(report["cause"], style="bold")
    return line


def _figures(report: Report) -> RenderableType:
    table = Table.grid(padding=(0, 2))
    for justify in ("left", "left", "right", "right", "right", "left"):
        table.add_column(justify=justify, no_wrap=True)
    wanted = report["settings"]["messages"]
    rows = (
        ("produced", report["produced"], None, ""),
        ("acknowledged", report["acknowledged"], "produce", _promise(report)),
        ("consumed", report["consumed"], "consume", _first(report)),
    )
    for name, count, phase, remark in rows:
        seconds = "" if phase is None else f"{report[f'{phase}_seconds']:,.2f} s"
        rate = "" if phase is None else f"{report[f'{phase}d_per_second']:,} a second"
        style = "" if count >= wanted else "yellow"
        table.add_row(
            "",
            Text(name, "dim"),
            Text(f"{count:,}", style),
            Text(seconds, "dim"),
            Text(rate, "dim"),
            Text(remark, "dim"),
        )
    line = Text("  ")
    for name in ("missing", "lost", "duplicated", "reordered", "gaps", "stalls"):
        count = len(report[name]) if isinstance(report[name], list) else report[name]
        shown = _lost(report) if name == "lost" else f"{count:,}"
        bad = "bold red" if name in ("missing", "lost") else "yellow"
        line.append(f"{name} ", style="dim")
        line.append(f"{shown}   ", style=bad if shown != "0" else "green")
    return Group(table, Text(), line)


def _lost(report: Report) -> str:
    """At least so many, and at most so many where that is not known."""
    open_count = sum(each["count"] for each in report["fates"] if each["fate"] == Fate.LOST_OR_NOT_VISIBLE)
    least = report["lost"]
    return f"{least:,} to {least + open_count:,}" if open_count else f"{least:,}"


def _promise(report: Report) -> str:
    return "by the client alone: acks=0 has no response" if report["settings"]["acks"] == "0" else ""


def _first(report: Report) -> str:
    first_s = report["first_message_seconds"]
    return "" if first_s is None or first_s < _LATE_FIRST_S else f"the first one after {first_s:.1f} s"


def _partitions(report: Report) -> Table:
    table = _table(
        ("partition", "right"),
        ("consumed", "right"),
        ("share", "right"),
        ("", "left"),
        ("deviation", "right"),
        ("offsets", "right"),
        ("gaps", "right"),
        ("twice", "right"),
        ("reordered", "right"),
    )
    largest = max((part["consumed"] for part in report["partitions"]), default=0)
    for part in report["partitions"]:
        is_short = part["consumed"] < part["acknowledged"]
        table.add_row(
            str(part["partition"]),
            Text(f"{part['consumed']:,}", "yellow" if is_short else ""),
            f"{100 * part['share']:.1f} %",
            ReportBar(part["consumed"], largest, "yellow" if is_short else "green"),
            signed_percent(part["deviation"]),
            _offsets(part),
            *(_flagged(part[name]) for name in ("gaps", "duplicated", "reordered")),
        )
    table.caption = f"imbalance {100 * report['imbalance']:.1f} %"
    table.caption_justify = "left"
    table.caption_style = "dim"
    return table


def signed_percent(fraction: float) -> str:
    """Nothing has no sign."""
    tenths = round(1000 * fraction)
    return f"{tenths / 10:+.1f} %" if tenths else "0.0 %"


def _offsets(part: Report) -> str:
    return "-" if part["first_offset"] is None else f"{part['first_offset']:,} to {part['last_offset']:,}"


def _flagged(count: int) -> Text:
    return Text(f"{count:,}", "yellow" if count else "dim")


def _fates(report: Report) -> Table:
    table = _table(("where the missing ones are", "left"), ("", "right"), ("by partition", "left"), ("first", "left"))
    for each in report["fates"]:
        style = "red" if each["fate"] in (Fate.LOST, Fate.GONE) else "yellow"
        spread = ", ".join(f"{partition}: {count:,}" for partition, count in each["by_partition"].items())
        is_placed = each["first_offset"] >= 0
        first = f"number {each['first_number']:,}"
        first += f", partition {each['first_partition']} offset {each['first_offset']:,}" if is_placed else ""
        table.add_row(Text(each["fate"], style), f"{each['count']:,}", spread or "-", first)
    return table


def _stalls(report: Report) -> Table:
    table = _table(("stall", "left"), ("at", "right"), ("for", "right"), ("after", "right"))
    for stall in report["stalls"]:
        came = "acknowledged" if stall["phase"] == "produce" else "consumed"
        table.add_row(
            f"nothing {came}", f"{stall['at_s']:.1f} s", f"{stall['seconds']:.1f} s", f"{stall['after']:,} messages"
        )
    return table


def _evidence(report: Report) -> Table:
    table = Table.grid(padding=(0, 1))
    table.add_column(style="dim")
    table.add_column(style="dim")
    table.add_column(overflow="fold")
    for position, line in enumerate(report["evidence"]):
        name = ("evidence" if report["cause"] else "remarks") if position == 0 else ""
        table.add_row(name, "·", Text(line))
    if report["advice"]:
        table.add_row("what to do", "·", Text(report["advice"]))
    return table


def _closing(report: Report) -> Text:
    line = Text(style="dim")
    line.append(f"{report['seconds']:,.1f} s in all")
    if not report["topic_kept"]:
        line.append(f" · topic {report['topic']} deleted again (--keep keeps it)")
        return line
    line.append(f" · topic {report['topic']} kept")
    placed = next((each for each in report["fates"] if each["first_offset"] >= 0), None)
    if placed is not None and report["versions"]["cluster"].startswith("chronik"):
        where = f"chronik where {report['topic']} {placed['first_partition']} {placed['first_offset']}"
        line.append(f"\nits story: {where} --bootstrap {report['settings']['bootstrap']}")
    return line


def history_table(runs: Sequence[KeptRun]) -> Table:
    """All runs, oldest first: what was done and changed, and how many were consumed."""
    is_any_lost = any(kept.report is not None and _lost(kept.report) != "0" for kept in runs)
    columns = [
        ("run", "right"),
        ("when", "left"),
        ("with", "left"),
        ("consumed", "right"),
        ("of", "right"),
        ("", "right"),
    ]
    table = _table(*columns, *([("lost", "right")] if is_any_lost else []), ("verdict", "left"))
    table.columns[1].no_wrap = True
    table.columns[2].min_width = _WITH_CELLS_MIN
    for kept in runs:
        *cells, lost, verdict = _history_row(kept)
        table.add_row(*cells, *([lost] if is_any_lost else []), verdict)
    return table


def _history_row(kept: KeptRun) -> Iterator[RenderableType]:
    settings, report = kept.settings, kept.report
    yield str(kept.run)
    yield datetime.fromisoformat(kept.started_at).strftime("%m-%d %H:%M")
    version = f" {report['versions']['client']}" if report is not None else ""
    what = Text(f"{settings['client']}{version}, acks={settings['acks']}")
    if report is not None:
        what.append(f", {_topology(report)}, {report['versions']['cluster']}", style="dim")
    if settings["note"]:
        what.append(f"\n{settings['note']}", style="italic")
    yield what
    if report is None:
        yield from ("-", f"{settings['messages']:,}", "-", "-", Text("stopped", "dim"))
        return
    yield f"{report['consumed']:,}"
    yield f"{settings['messages']:,}"
    yield percent(report["consumed"], settings["messages"])
    lost = _lost(report)
    yield Text(lost, "bold red" if lost != "0" else "dim")
    mark, style = _MARKS[report["verdict"]]
    verdict = Text(mark.lower(), style)
    if report["cause"]:
        verdict.append(f": {report['cause']}", style="not bold")
    yield verdict


_FIGURES = (
    "produced",
    "acknowledged",
    "consumed",
    "missing",
    "lost",
    "duplicated",
    "reordered",
    "gaps",
    "imbalance",
    "seconds",
    "produced_per_second",
    "consumed_per_second",
)


def changes(before: Report, after: Report) -> dict[str, tuple[Any, Any]]:
    """What differs between two runs: settings and versions first, then figures, verdict and cause."""
    differing: dict[str, tuple[Any, Any]] = {}
    for room in ("settings", "versions"):
        for name in {**before[room], **after[room]}:
            old, new = before[room].get(name), after[room].get(name)
            if old != new and name not in ("is_idempotent", "bootstrap"):
                differing[name if room == "settings" else f"{name} version"] = (old, new)
    for name in (*_FIGURES, "verdict", "cause"):
        if before.get(name) != after.get(name):
            differing[name] = (before.get(name), after.get(name))
    old_stalls, new_stalls = len(before["stalls"]), len(after["stalls"])
    if old_stalls != new_stalls:
        differing["stalls"] = (old_stalls, new_stalls)
    return differing


def comparison_table(before: Report, after: Report) -> RenderableType:
    """Two runs beside each other: only what differs."""
    differing = changes(before, after)
    if not differing:
        return Text(f" run {after['run']} is as run {before['run']} was in everything", "dim")
    table = _table(("", "left"), (f"run {before['run']}", "right"), (f"run {after['run']}", "right"), ("", "right"))
    for name, (old, new) in differing.items():
        if _cell(old) != _cell(new):  # not what only further digits would show
            table.add_row(name.replace("_", " "), _cell(old), _cell(new), _difference(old, new))
    return Padding(table, (0, 0, 1, 1), expand=False)


def _cell(value: Any) -> str:
    if isinstance(value, bool) or value is None or value == "":
        return {True: "yes", False: "no"}.get(value, "-")
    return f"{value:,}" if isinstance(value, int) else f"{value:,.2f}" if isinstance(value, float) else str(value)


def _difference(old: Any, new: Any) -> Text:
    is_number = all(isinstance(value, int | float) and not isinstance(value, bool) for value in (old, new))
    if not is_number or not old:
        return Text()
    return Text(signed_percent(new / old - 1), "dim")


def _table(*columns: tuple[str, str]) -> Table:
    table = Table(box=SIMPLE_HEAD, show_edge=False, pad_edge=False, header_style="bold", padding=(0, 1, 0, 0))
    for name, justify in columns:
        is_numeric = justify == "right"
        table.add_column(name, justify=justify, overflow="fold", no_wrap=is_numeric)  # type: ignore[arg-type]
    return table
