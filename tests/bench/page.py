"""A result as one HTML page that needs nothing else: pictures as SVG, all tables, the circumstances."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape

from tests.bench import plots, report
from tests.bench.plots import Standing
from tests.bench.ratios import OURS
from tests.bench.results import Ratio, Result
from tests.bench.row import Figure
from tests.bench.rows import ROWS

STYLE = """
:root { color-scheme: light dark; --ink: #1d2330; --paper: #fff; --pale: #e4e7ee; --ours: #2563eb; --theirs: #9aa3b2;
  --good: #15803d; --bad: #c2410c; }
@media (prefers-color-scheme: dark) { :root { --ink: #e5e9f2; --paper: #12151c; --pale: #2b3140; --ours: #6ea0ff;
  --theirs: #77808f; --good: #4ade80; --bad: #fb923c; } }
body { font: 15px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--paper); max-width: 60rem;
  margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.6rem; } h2 { font-size: 1.15rem; margin-top: 2.2rem; } p.note { opacity: .75; }
table { border-collapse: collapse; font-size: .88rem; margin: .5rem 0 1.5rem; font-variant-numeric: tabular-nums; }
th, td { border-bottom: 1px solid var(--pale); padding: .25rem .7rem; text-align: right; }
.word { text-align: left; }
.missed-goal { color: var(--bad); } .wide { overflow-x: auto; }
svg { max-width: 100%; height: auto; } svg text { font-size: 12px; fill: var(--ink); }
rect.s0, circle.s0 { fill: var(--ours); } rect.s1, circle.s1 { fill: var(--theirs); }
polyline { fill: none; stroke-width: 2; } polyline.s0 { stroke: var(--ours); } polyline.s1 { stroke: var(--theirs); }
line.grid { stroke: var(--pale); } line.peer { stroke: var(--theirs); stroke-width: 2; }
line.goal { stroke: var(--ink); stroke-width: 2; } circle.met { fill: var(--good); } circle.missed { fill: var(--bad); }
.key { display: inline-block; width: .8em; height: .8em; border-radius: 2px; margin: 0 .3em 0 1em; }
"""


def page(result: Result) -> str:
    systems = systems_of(result)
    parts = ["<h1>Chronik against Apache Kafka</h1>" if len(systems) > 1 else "<h1>Chronik, measured</h1>"]
    parts += [f"<p>{escape(report.goals_met(result))}</p>"]
    if (every := standings_of(result)) and len(systems) > 1:
        parts.append(
            _section(
                "Where each goal stands",
                "How many times better than Kafka the worst case of each row is, with costs turned round: right of the "
                "line at 1 x is better than Kafka. The tick is the first goal.",
                plots.standings(every),
            )
        )
    parts.append(_key(systems))
    parts += [_section(*each) for each in pictures(result, systems)]
    parts += ["<h2>All figures</h2>", *(_table(grid) for grid in report.grids(result))]
    parts += [f"<p>Not measured: {escape(each)}</p>" for each in result.failures]
    parts += [f"<p>Left out: {escape(each)}</p>" for each in result.left_out]
    parts.append(f'<p class="note">{escape(report.circumstances(result).replace("**", ""))}</p>')
    head = f'<meta charset="utf-8"><meta name="viewport" content="width=device-width"><style>{STYLE}</style>'
    body = f"<body>{''.join(parts)}</body>"
    return f'<!doctype html>\n<html lang="en"><head>{head}<title>Chronik bench</title></head>\n{body}</html>\n'


def systems_of(result: Result) -> list[str]:
    """Ours first."""
    return sorted({each.system for each in result.measured}, key=lambda system: (system != OURS, system))


def standings_of(result: Result) -> list[Standing]:
    """One for each goal against the peer: its worst line."""
    found = []
    for row in ROWS:
        for figure in row.figures:
            ratios = [each for each in result.ratios if (each.row, each.figure) == (row.name, figure.name)]
            if figure.ratio_goal is not None and ratios:
                found.append(_standing(f"{row.code} {row.name}, {figure.label}", figure, ratios))
    return found


def _standing(label: str, figure: Figure, ratios: list[Ratio]) -> Standing:
    goal = figure.ratio_goal
    assert goal is not None
    worst = (max if goal.is_upper else min)(ratios, key=lambda each: each.median)
    times, goal_times = worst.median, goal.bound
    if goal.is_upper:
        times, goal_times = (1 / times if times else 0.0), 1 / goal_times
    return Standing(label, times, goal_times, f"{worst.median:.2f} ({goal})", bool(worst.is_goal_met))


def pictures(result: Result, systems: list[str]) -> Iterator[tuple[str, str, str]]:
    """Title, words and picture of each."""
    for row, figure, title in (
        ("produce", "messages_s", "Throughput: produce, messages a second"),
        ("consume", "messages_s", "Throughput: consume, messages a second"),
        ("cluster-throughput", "messages_s", "Throughput: three nodes, messages a second"),
        ("synced", "messages_s", "Throughput: every acknowledged write synced, messages a second"),
        ("one-record", "requests_s", "One-record requests a second"),
        ("node-cpu", "node_cpu_gb", "CPU of the node: seconds for each GB"),
    ):
        groups = grouped(result, row, figure)
        if groups:
            yield title, "", plots.bars(groups, systems, digits=2 if figure == "node_cpu_gb" else 0)
    for row, title in (("end-to-end", "one node"), ("cluster-latency", "three nodes")):
        groups = {
            f"{line}, {label}": group
            for name, label in (("p50_ms", "p50"), ("p99_ms", "p99"), ("p999_ms", "p99.9"))
            for line, group in grouped(result, row, name).items()
        }
        if groups:
            yield (
                f"Latency percentiles, {title}: end to end at 5,000 messages a second, ms",
                "",
                plots.bars(groups, systems, digits=2),
            )
    watched = {each.system: each.points for each in result.series if each.row == "memory"}
    if watched:
        words = "From an idle start through what goes in and out, in the first round."
        yield "Memory over time", words, plots.curves(watched, systems, "seconds", "resident MB")
    for figure, label in (("start_s", "start, s"), ("memory_mb", "resident MB"), ("create_s", "create, s")):
        growing = growth_of(result, figure)
        if growing:
            yield f"Growth with partitions: {label}", "", plots.curves(growing, systems, "partitions", label)


def grouped(result: Result, row: str, figure: str) -> dict[str, dict[str, float]]:
    """Medians by line and system."""
    groups: dict[str, dict[str, float]] = {}
    for each in result.measured:
        if (each.row, each.figure) == (row, figure):
            groups.setdefault(each.line, {})[each.system] = each.median
    return groups


def growth_of(result: Result, figure: str) -> dict[str, list[plots.Point]]:
    """By system: the number of partitions, which the line's name ends with, and the figure."""
    growing: dict[str, list[plots.Point]] = {}
    for line, group in grouped(result, "many-partitions", figure).items():
        count = float(line.rpartition(" ")[2].replace(",", ""))
        for system, value in group.items():
            growing.setdefault(system, []).append((count, value))
    return growing


def _section(title: str, words: str, picture: str) -> str:
    note = f'<p class="note">{escape(words)}</p>' if words else ""
    return f'<h2>{escape(title)}</h2>{note}<div class="wide">{picture}</div>'


def _key(systems: list[str]) -> str:
    colours = ("--ours", "--theirs")
    keys = (
        f'<span class="key" style="background: var({colour})"></span>{escape(system)}'
        for system, colour in zip(systems, colours, strict=False)
    )
    return f"<p>{''.join(keys)}</p>"


def _table(grid: report.Grid) -> str:
    head = "".join(f"<th>{escape(heading)}</th>" for heading in grid.headings)
    body = "".join(
        f"<tr>{''.join(_table_cell(cell, is_word=at < grid.words) for at, cell in enumerate(line))}</tr>"
        for line in grid.lines
    )
    return f'<h2>{escape(grid.title)}</h2><div class="wide"><table><tr>{head}</tr>{body}</table></div>'


def _table_cell(cell: str, *, is_word: bool) -> str:
    kind = "word" if is_word else "missed-goal" if cell.endswith(report.NOT_MET) else "figure"
    return f'<td class="{kind}">{escape(cell)}</td>'
